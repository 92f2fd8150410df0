"""The table of the solvers: where each runs, what it needs of a problem, and its paper."""

import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from fedjax_admm.capabilities import OnGraph, OnStar, OnTree
from site_pages.docstrings import plain, purpose
from site_pages.names import Name

_TOPOLOGIES = {OnTree: "tree", OnGraph: "graph", OnStar: "star"}
_PAPER = re.compile(r'References?:\s(?P<authors>[^"]+?), "(?P<title>[^"]+)"', re.DOTALL)


class Row(NamedTuple):
    """A solver in the table."""

    name: Name
    topology: str
    needs: list[str]  # names of capabilities
    paper: str  # its title


def rows(names: Iterable[Name]) -> Iterator[Row]:
    """Yield the solvers among names: functions whose result has `step` and `requires`."""
    for name in names:
        made = inspect.get_annotations(name.value).get("return") if name.kind == "function" else 0
        if not (hasattr(made, "step") and hasattr(made, "requires")):
            continue
        asked = list(dict.fromkeys(_asked(name.value, made)))
        where = [_TOPOLOGIES[each] for each in asked if each in _TOPOLOGIES]
        others = [each.__name__ for each in asked if each not in _TOPOLOGIES]
        topology = where[0] if where else ("any" if name.folder == "wrappers" else "star")
        found = _PAPER.search(inspect.getdoc(sys.modules[name.home]) or "")
        title = " ".join(found["title"].split()) if found else ""
        yield Row(name, topology, [each for each in others if each != "Clients"], title)


def table(names: Iterable[Name]) -> Iterator[str]:
    """Yield the table of the solvers, by topology."""
    yield ".. list-table::\n   :header-rows: 1\n   :widths: 20 10 25 45\n   :class: glance\n"
    for head in ("solver", "topology", "needs of the problem", "paper"):
        yield f"   {'* -' if head == 'solver' else '  -'} {head}"
    for row in sorted(rows(names), key=lambda row: (row.topology, row.name.name)):
        needs = (f":py:class:`~fedjax_admm.capabilities.{each}`" for each in row.needs)
        yield f"   * - :py:obj:`~{row.name.full}`"
        yield f"     - {row.topology}"
        yield f"     - {', '.join(needs)}"
        yield f"     - {plain(row.paper)}"
    yield ""


def head(name: Name, row: Row) -> Iterator[str]:
    """Yield the lines at the head of a solver's page."""
    yield f"{purpose(sys.modules[name.home])}\n"
    needs = ", ".join(f":py:class:`~fedjax_admm.capabilities.{each}`" for each in row.needs)
    asked = f" It needs {needs} of the problem." if needs else ""
    yield f"**Topology**: {row.topology}.{asked}\n"


def _asked(build: Any, made: Any) -> Iterator[type]:
    """Yield what a solver needs at its defaults, or its class where it has none."""
    yield from made.requires
    try:
        solver = build()
    except TypeError:
        return
    for part in vars(solver).values():
        yield from getattr(part, "requires", ())
