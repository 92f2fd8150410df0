from fedjax_admm.trials.running._report import summary as summary
from fedjax_admm.trials.running._running import (
    NonFiniteError as NonFiniteError,
    Request as Request,
    free_folder as free_folder,
    resumed_x64 as resumed_x64,
    run_experiment as run_experiment,
    unfinished_folder as unfinished_folder,
)
