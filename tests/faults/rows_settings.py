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
    Row("rounds-zero", (*RUN, "--rounds", "0"), says="at least 1"),
    Row("rounds-fraction", (*RUN, "--rounds", "2.5"), says="is not a whole number"),
    Row(
        "years",
        (*RUN, "--rounds", "2147483647", "--trials", "2147483647"),
        says="on this machine|is free",
    ),
    Row("trials-beyond", (*RUN, "--trials", "1000000000000"), says="at most 2147483647"),
    Row("seed-negative", (*RUN, "--seed", "-1"), says="at least 0"),
    Row("devices-many", (*RUN, "--devices", "1000000000"), says="devices must be at most"),
    Row("set-without-value", (*RUN, "--set", "rate"), says="must be NAME=VALUE"),
    Row("set-twice", (*RUN, "--set", "rate=0.1", "--set", "rate=0.2"), says="gives rate twice"),
    Row("set-unknown", (*RUN, "--set", "speed=5"), says="has no setting"),
    Row("set-nan", (*RUN, "--set", "rate=nan"), says="must be finite"),
    Row("set-text", (*RUN, "--set", "rate=fast"), says="must be a number"),
    Row("set-list-for-number", (*RUN, "--set", "rate=0.1,0.2"), says="must be a number"),
    Row("set-memory", (*RUN, "--set", "clients=2000000000"), says="is free|larger than any memory"),
    Row("sweep-text", (*RUN, "--set", "share=low"), says="must be numbers with commas"),
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
    Row("run-name-parent", ("run", "../x"), says="experiment", prepare=files),
    Row("run-name-binary", ("run", "binary.py"), says="cannot be imported", prepare=files),
]
