"""The program of `docs/howto/batch-norm.md`, and a process that is killed in it."""

import re
from functools import cache
from pathlib import Path

from tests.core.checkpointed import die_at_the_third_file

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "batch-norm.md"


@cache
def program():
    """Return the names that the program defines, before it trains anything."""
    text = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[0]
    names = {}
    exec(compile(text[: text.index("for method in")], PAGE.name, "exec"), names)
    return names


def arguments(method):
    """Return what `train` gets for a method."""
    solvers = program()["fa"].solvers
    return (solvers.fed_admm, 0.2) if method == "fed_admm" else (getattr(solvers, method),)


def train_and_die(method, path, **options):
    """Train in a process that kills itself while it writes the third file."""
    die_at_the_third_file()
    program()["train"](*arguments(method), checkpoint=path, **options)
