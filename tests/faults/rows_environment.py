"""Broken variables of the environment, and outputs that are closed, full or read by nobody."""

from pathlib import Path

from tests.faults.row import DONE, Row

LIST, SHOW, DOCTOR = ("list",), ("show", "consensus"), ("doctor",)
RUN = ("run", "consensus", "--trials", "2", "--rounds", "10", "--devices", "1", "--out", "run")
NEW = ("new", "kernel", "mine")
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
    "plain": {
        "COLUMNS": "abc",
        "LINES": "-3",
        "TERM": "dumb",
        "NO_COLOR": "1",
        "OMP_NUM_THREADS": "x",
        "PYTHONIOENCODING": "ascii",
        "LANG": "C",
        "LC_ALL": "C",
    },
    "coloured": {
        "FORCE_COLOR": "1",
        "LC_ALL": "xx_YY.nonsense",
        "TMPDIR": "/nonexistent",
        "MPLBACKEND": "module://matplotlib_inline.backend_inline",
    },
}
CACHES = {
    "cache-nowhere": {"XDG_CACHE_HOME": "file/below"},
    "caches-in-a-file": {"JAX_COMPILATION_CACHE_DIR": "file/below", "MPLCONFIGDIR": "file/below"},
    "no-home": {"HOME": None, "XDG_CACHE_HOME": None},
}
OUTPUTS = {"list": LIST, "help": ("--help",), "new": NEW}

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
    *(
        started(f"harmless-{name}", SHOW, "distance from the mean", set_, wanted=DONE)
        for name, set_ in HARMLESS.items()
    ),
    *(
        started(
            *(name, RUN, "Wrote run", set_ | {"FEDJAX_ADMM_NO_CACHE": None}),
            wanted=DONE,
            prepare=a_file,
            check=whole_run,
        )
        for name, set_ in CACHES.items()
    ),
    *(
        Row(f"unread-{name}", words, wanted=141, fresh=True, output="broken")
        for name, words in OUTPUTS.items()
    ),
    Row("full-list", LIST, "standard output: No space", 1, fresh=True, output="full"),
    Row("closed-run-is-whole", RUN, wanted=DONE, fresh=True, output="closed", check=whole_run),
    Row("unread-run-is-whole", RUN, wanted=141, fresh=True, output="broken", check=whole_run),
    Row("mute-run", RUN, "Wrote run", DONE, fresh=True, output="mute", check=whole_run),
    Row("mute-mistake", ("fly",), fresh=True, output="mute", usage=True),
    Row("full-mistake", ("fly",), "No such command", fresh=True, output="full"),
]
