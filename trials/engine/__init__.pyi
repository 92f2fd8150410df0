from fedjax_admm.trials.engine import hosts as hosts, memory as memory
from fedjax_admm.trials.engine._layout import (
    CACHE_BYTES as CACHE_BYTES,
    Layout as Layout,
    loop_bytes as loop_bytes,
)
from fedjax_admm.trials.engine._monte_carlo import (
    MonteCarlo as MonteCarlo,
    Plan as Plan,
    Seconds as Seconds,
    computed as computed,
    default_mesh as default_mesh,
    monte_carlo as monte_carlo,
    partitioned as partitioned,
    planned as planned,
)
from fedjax_admm.trials.engine._program import compile_trials as compile_trials
from fedjax_admm.trials.engine._trial import Trial as Trial
