from fedjax_admm.trials.profiling._files import (
    PROFILE as PROFILE,
    write_profile as write_profile,
    written_profile as written_profile,
)
from fedjax_admm.trials.profiling._measurement import machine_rates as machine_rates
from fedjax_admm.trials.profiling._operations import work as work
