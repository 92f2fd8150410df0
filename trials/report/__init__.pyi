from fedjax_admm.trials.report._report import write_report as write_report
