"""Mistakes in the options and settings of `run`, and in the names of experiments."""

from pathlib import Path

from tests.faults.row import Row


def files(folder: Path) -> None:
    """Leave files that hold no experiment, or that are none."""
    (folder / "sub").mkdir()
    (folder / "own.py").write_text("VALUE = 3\n")
    (folder / "binary.py").write_bytes(b"\x00\xff\xfe")


RUN = ("run", "consensus")

ROWS = [
    Row("rounds-beyond-int32", (*RUN, "--rounds", "2147483648"), says="at most 2147483647"),
    Row("rounds-zero", (*RUN, "--rounds", "0"), says="at least 1"),
    Row("rounds-fraction", (*RUN, "--rounds", "2.5"), says="is not a whole number"),
    Row("rounds-text", (*RUN, "--rounds", "ten"), says="is not a whole number"),
    Row(
        "years",
        (*RUN, "--rounds", "2147483647", "--trials", "2147483647"),
        says="on this machine|is free",
    ),
    Row("trials-beyond", (*RUN, "--trials", "1000000000000"), says="at most 2147483647"),
    Row("trials-zero", (*RUN, "--trials", "0"), says="at least 1"),
    Row("seed-negative", (*RUN, "--seed", "-1"), says="at least 0"),
    Row("batch-zero", (*RUN, "--batch", "0"), says="at least 1"),
    Row("batch-text", (*RUN, "--batch", "auto"), says="is not a whole number"),
    Row("devices-many", (*RUN, "--devices", "1000000000"), says="devices must be at most"),
    Row("devices-per-trial-huge", (*RUN, "--devices-per-trial", "1000000000000"), says="at most"),
    Row("memory-zero", (*RUN, "--memory", "0"), says="above 0 GiB"),
    Row("memory-text", (*RUN, "--memory", "all"), says="is not a number"),
    Row("set-without-value", (*RUN, "--set", "rate"), says="must be NAME=VALUE"),
    Row("set-twice", (*RUN, "--set", "rate=0.1", "--set", "rate=0.2"), says="gives rate twice"),
    Row("set-unknown", (*RUN, "--set", "speed=5"), says="has no setting"),
    Row("set-rounds", (*RUN, "--set", "rounds=5"), says="has no setting 'rounds'"),
    Row("set-nan", (*RUN, "--set", "rate=nan"), says="must be finite"),
    Row("set-text", (*RUN, "--set", "rate=fast"), says="must be a number"),
    Row("set-list-for-number", (*RUN, "--set", "rate=0.1,0.2"), says="must be a number"),
    Row("set-bool", (*RUN, "--set", "clients=True"), says="must be a whole number"),
    Row("set-fraction", (*RUN, "--set", "clients=2.5"), says="must be a whole number"),
    Row("set-memory", (*RUN, "--set", "clients=2000000000"), says="is free|larger than any memory"),
    Row("sweep-text", (*RUN, "--set", "share=low"), says="must be numbers with commas"),
    Row("sweep-gap", (*RUN, "--set", "share=0.1,,0.2"), says="must be numbers with commas"),
    Row("sweep-nan", (*RUN, "--set", "share=0.1,nan"), says="must be finite"),
    Row("sweep-twice", (*RUN, "--set", "share=0.1,0.4,0.1"), says="each number once"),
    Row(
        "sweep-equal-in-float32",
        (*RUN, "--set", "share=0.1,0.10000000001"),
        says="which is .* in float32",
    ),
    Row("sweep-overflows", (*RUN, "--set", "share=1e300"), says="largest number of float32"),
    Row(
        "sensors-more-than-memory",
        ("run", "fsmdm-outliers", "--quick", "--set", "clients=1000000000"),
        says="is free",
        small=False,
    ),
    Row(
        "samples-more-than-memory",
        ("run", "zcdp-tau", "--quick", "--set", "samples=1000000000"),
        says="is free|larger than any memory",
        small=False,
    ),
    Row("run-name-empty", ("run", ""), says="experiment", prepare=files),
    Row("run-name-dot", ("run", "."), says="no experiment", prepare=files),
    Row("run-name-parent", ("run", "../x"), says="experiment", prepare=files),
    Row("run-name-folder", ("run", "sub"), says="no experiment", prepare=files),
    Row("run-name-empty-variable", ("run", "own.py:"), says="no EXPERIMENT", prepare=files),
    Row("run-name-binary", ("run", "binary.py"), says="cannot be imported", prepare=files),
    Row("show-nothing", ("show",), says="Usage|Missing", usage=True),
    Row("list-something", ("list", "consensus"), says="Usage|unexpected", usage=True),
]
