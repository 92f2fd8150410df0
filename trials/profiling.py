"""A profiler trace of a run: `fedjax-admm run --profile`."""

from pathlib import Path

import jax
from jax.sharding import Mesh

from fedjax_admm.trials.engine import Trial, compile_trials

PROFILE = "profile"
"""Name of the trace's folder within the folder of a run."""


def write_trace(folder: Path, trial: Trial, key: jax.Array, mesh: Mesh, width: int) -> None:
    """Record one micro-batch per device with `jax.profiler`.

    The trace is taken after the run, in a program of its own: a trace of a whole run takes
    gigabytes and several times as long.

    Args:
      folder: receives the trace; it is made.
      trial: as in `monte_carlo`.
      key: as in `monte_carlo`.
      mesh: as in `monte_carlo`.
      width: trials per micro-batch.
    """
    trials = width * mesh.shape["trials"]
    program = compile_trials(trial, key, trials, batch=width, chunk=trials, mesh=mesh)
    program(0, trials)  # the first call has costs of its own
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0  # Python's calls say nothing about devices
    with jax.profiler.trace(folder, profiler_options=options):
        program(0, trials)
