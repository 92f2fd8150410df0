from fedjax_admm.trials.engine import hosts as hosts, memory as memory
from fedjax_admm.trials.engine._chunks import (
    CHUNK_NAME as CHUNK_NAME,
    CHUNKS as CHUNKS,
    ChunkStore as ChunkStore,
)
from fedjax_admm.trials.engine._digest import code_digest as code_digest
from fedjax_admm.trials.engine._layout import (
    CACHE_BYTES as CACHE_BYTES,
    Layout as Layout,
    loop_bytes as loop_bytes,
)
from fedjax_admm.trials.engine._monte_carlo import (
    Begin as Begin,
    MonteCarlo as MonteCarlo,
    Seconds as Seconds,
    default_mesh as default_mesh,
    monte_carlo as monte_carlo,
    partitioned as partitioned,
)
from fedjax_admm.trials.engine._program import compile_trials as compile_trials
from fedjax_admm.trials.engine._trial import Trial as Trial
