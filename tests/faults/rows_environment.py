"""Broken variables of the environment, and outputs that nobody reads."""

from pathlib import Path

from tests.faults.row import DONE, Row

LIST, SHOW, DOCTOR = ("list",), ("show", "consensus"), ("doctor",)
RUN = ("run", "consensus", "--trials", "2", "--rounds", "10", "--devices", "1", "--out", "run")
# As a user starts it: the tests' own settings of XLA would be read before.
PLAIN = {"XLA_FLAGS": None, "MPLBACKEND": None}


def whole_run(folder: Path) -> None:
    for name in ("config.json", "trials.npz", "summary.csv", "figure.png", "figure.pdf"):
        assert (folder / "run" / name).stat().st_size, name


def a_file(folder: Path) -> None:
    (folder / "file").write_text("kept")


def started(name, words, says, variables, **more):
    return Row(name, words, says, environment=PLAIN | variables, fresh=True, **more)


def later(name, words, says, variables, **more):
    """Return a row whose variables are read by the command itself."""
    return Row(name, words, says, environment=variables, **more)


LAUNCHERS = {
    "slurm-alone": ({"SLURM_STEP_NUM_TASKS": "2"}, "could not be joined at the coordinator"),
    "jax-address": ({"JAX_COORDINATOR_ADDRESS": "nowhere"}, "must be HOST:PORT, but it is"),
    "jax-process": (
        {"JAX_COORDINATOR_ADDRESS": "h:1", "JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": "9"},
        "JAX_PROCESS_ID must be at most 1",
    ),
}
HARMLESS = {
    "COLUMNS": "abc",
    "TERM": "dumb",
    "OMP_NUM_THREADS": "x",
    "PYTHONIOENCODING": "ascii",
    "LC_ALL": "C",
}
CACHES = {
    "cache-nowhere": {"XDG_CACHE_HOME": "file/below"},
    "no-home": {"HOME": None, "XDG_CACHE_HOME": None},
}

ROWS = [
    started(
        *("jax-x64", LIST, "JAX does not start .*(?i:JAX_ENABLE_X64)", {"JAX_ENABLE_X64": "maybe"}),
        small=False,
    ),
    *(later(f"launcher-{name}", RUN, told, set_) for name, (set_, told) in LAUNCHERS.items()),
    started("platform-missing", RUN, "JAX does not start on cuda", {"JAX_PLATFORMS": "cuda"}),
    later("data-nowhere", RUN, "FEDJAX_ADMM_DATA must be a folder", {"FEDJAX_ADMM_DATA": "/none"}),
    later(
        *("data-a-file", DOCTOR, "is a file; correct or unset it", {"FEDJAX_ADMM_DATA": "file"}),
        prepare=a_file,
    ),
    started("harmless", SHOW, "distance from the mean", HARMLESS, wanted=DONE),
    *(
        started(
            *(name, RUN, "Wrote run", set_ | {"FEDJAX_ADMM_NO_CACHE": None}),
            wanted=DONE,
            prepare=a_file,
            check=whole_run,
        )
        for name, set_ in CACHES.items()
    ),
    Row("unread-list", LIST, wanted=1, fresh=True, output="broken"),
    Row("unread-run-is-whole", RUN, wanted=1, fresh=True, output="broken", check=whole_run),
]
