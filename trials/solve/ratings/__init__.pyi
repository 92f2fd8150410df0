from fedjax_admm.trials.solve.ratings._fit import (
    RatingsSettings as RatingsSettings,
    fit_ratings as fit_ratings,
    read_beta as read_beta,
    read_table as read_table,
)
from fedjax_admm.trials.solve.ratings._report import (
    summary as summary,
    write_results as write_results,
)
