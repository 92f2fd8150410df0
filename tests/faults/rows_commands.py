"""Mistakes in the words of a command."""

from tests.faults.prepared import finished
from tests.faults.row import DONE, Row

OPTIMISED = {"PYTHONOPTIMIZE": "2", "PYTHONWARNINGS": "error"}  # as `python -OO -W error` does

ROWS = [
    Row("no-command", (), says="Usage", usage=True),
    Row("unknown-command", ("fly",), says="No such command"),
    Row("rounds-huge", ("run", "consensus", "--rounds", "1e20"), says="rounds"),
    Row("rounds-negative", ("run", "consensus", "--rounds", "-3"), says="rounds"),
    Row("fresh", ("run", "nothing"), says="nothing", fresh=True),
    *(
        Row(
            f"optimised-{words[0]}",
            words,
            says,
            wanted=DONE,
            prepare=finished,
            environment=OPTIMISED,
            fresh=True,
        )
        for words, says in (
            (("compare", "out"), "minus that of"),
            (("run", "consensus", "--out", "new", "--trials", "2", "--devices", "1"), "Wrote"),
        )
    ),
]
