from fedjax_admm.trials.report._page import page_text as page_text
from fedjax_admm.trials.report._writing import write_report as write_report
