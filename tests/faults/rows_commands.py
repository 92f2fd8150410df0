"""Mistakes in the words of a command."""

from tests.faults.row import Row

ROWS = [
    Row("no-command", (), says="Usage", usage=True),
    Row("unknown-command", ("fly",), says="No such command"),
    Row("rounds-huge", ("run", "consensus", "--rounds", "1e20"), says="rounds"),
    Row("rounds-negative", ("run", "consensus", "--rounds", "-3"), says="rounds"),
    Row("fresh", ("run", "nothing"), says="nothing", fresh=True),
]
