"""What `fedjax-admm run --profile` leaves: a trace, and a table of what the machine reached."""

from pathlib import Path

import jax
from jax.sharding import Mesh

from fedjax_admm.trials import files
from fedjax_admm.trials.engine import MonteCarlo, Trial, compile_trials
from fedjax_admm.trials.profiling._operations import count_operations
from fedjax_admm.trials.profiling._rates import machine_rates
from fedjax_admm.trials.profiling._recording import recording, trace_file
from fedjax_admm.trials.profiling._report import Profile, as_json, table

PROFILE = "profile"
"""What the folder of a profile is called in the folder of a run."""
_TABLE, _NUMBERS = "profile.txt", "profile.json"


def write_profile(
    folder: Path, trial: Trial, key: jax.Array, mesh: Mesh, outcome: MonteCarlo, total: float
) -> None:
    """Write `profile.txt`, `profile.json` and a trace of one micro-batch per device.

    The trace is taken after the run, in a program of its own: a whole run would leave gigabytes,
    and would have run several times as long.

    Args:
      folder: where the files go; it is made.
      trial: as in `monte_carlo`.
      key: as in `monte_carlo`.
      mesh: as in `monte_carlo`.
      outcome: what `monte_carlo` returned.
      total: seconds of the whole run, figure included.

    Raises:
      InputError: the folder cannot be written.
    """
    width = outcome.layout.width
    few = width * mesh.shape["trials"]
    program = compile_trials(trial, key, few, batch=width, chunk=few, mesh=mesh)
    program(0, few)  # what happens at the first call only is not to be in the trace
    with recording(folder):
        program(0, few)
    profile = Profile(
        compile_seconds=outcome.seconds.compile,
        run_seconds=outcome.seconds.run,
        transfer_seconds=outcome.seconds.transfer,
        total_seconds=total,
        trials=outcome.computed,
        counts=count_operations(trial, key).times(outcome.computed),
        rates=machine_rates(*mesh.devices.flat),
        devices=mesh.size,
        device=mesh.devices.flat[0].device_kind,
        trace=trace_file(folder),
    )
    files.write_text(folder / _TABLE, table(profile) + "\n")
    files.write_json(folder / _NUMBERS, as_json(profile))


def written_profile(out: Path) -> str:
    """Return the table that `write_profile` has written for the run in a folder."""
    return (out / PROFILE / _TABLE).read_text().rstrip("\n")
