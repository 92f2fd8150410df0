from fedjax_admm.trials.running._configuration import Request as Request
from fedjax_admm.trials.running._folders import (
    holds_no_run as holds_no_run,
    resumed_x64 as resumed_x64,
    unfinished_folder as unfinished_folder,
)
from fedjax_admm.trials.running._report import summary as summary
from fedjax_admm.trials.running._running import run_experiment as run_experiment
