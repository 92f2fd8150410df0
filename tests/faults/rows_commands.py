"""Mistakes in the words of a command."""

from tests.faults.row import DONE, Row

OPTIMISED = {"PYTHONOPTIMIZE": "2", "PYTHONWARNINGS": "error"}  # as `python -OO -W error` does

ROWS = [
    Row("no-command", (), says="Usage", usage=True),
    Row("unknown-command", ("fly",), says="No such command"),
    Row("fresh", ("run", "nothing"), says="nothing", fresh=True),
    Row(
        "optimised",
        ("run", "consensus", "--out", "new", "--trials", "2", "--devices", "1"),
        "Wrote",
        wanted=DONE,
        environment=OPTIMISED,
        fresh=True,
    ),
]
