from fedjax_admm.trials.running._configuration import Request as Request
from fedjax_admm.trials.running._earlier import place_of as place_of
from fedjax_admm.trials.running._running import (
    run_experiment as run_experiment,
    run_locked as run_locked,
    summary as summary,
)
