from fedjax_admm.trials.solve.networked._fit import (
    check_settings as check_settings,
    fit_networked as fit_networked,
    rows_needed as rows_needed,
)
from fedjax_admm.trials.solve.networked._report import (
    summary as summary,
    write_results as write_results,
)
