"""The reference: a page for each room, and one for each name of the largest rooms."""

import inspect
from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import groupby

from site_pages.docstrings import plain, purpose
from site_pages.fields import constant_comment
from site_pages.kernels import bibtex, kernel_head
from site_pages.names import Name, public_names, rooms
from site_pages.solvers import Row, head, rows as solver_rows, table

KERNELS, SOLVERS = "fedjax_admm.kernels", "fedjax_admm.solvers"
# Rooms whose names have pages of their own: on one page, they would fill dozens of screens.
APART = {
    KERNELS: "kernels",
    SOLVERS: "solvers",
    "fedjax_admm.messages": "messages",
    "fedjax_admm.problems": "problems",
}
_SHORT = 80  # letters of a value that is shown


def reference_pages() -> Iterator[tuple[str, str]]:
    """Yield (path, reStructuredText) of the pages of the reference."""
    for room, names in groupby(public_names(), key=lambda name: name.room):
        names = list(names)
        solvers = {row.name: row for row in solver_rows(names)} if room == SOLVERS else {}
        for name in names if room in APART else ():
            page = _apart(name, solvers.get(name))
            yield f"reference/{APART[room]}/{name.name}.rst", page
        yield f"reference/{room}.rst", "\n".join(_room(room, names))
    yield "reference/index.rst", _index()


def _index() -> str:
    """Return the page with links to all rooms."""
    documented = {name.room for name in public_names()}
    return "\n".join(
        [
            *_title("Reference", "="),
            f"All {len(public_names())} public names, each in the room from which it is imported.",
            "",
            ".. toctree::",
            "   :maxdepth: 1",
            "",
            *(f"   {room}" for room in rooms() if room in documented),
            "   /generated/commands",
            "   /results",
            "",
        ]
    )


def _room(room: str, names: list[Name]) -> Iterator[str]:
    """Yield the lines of a room's page: a table of its names, then each name."""
    yield from _title(room, "=")
    yield f".. automodule:: {room}\n   :no-members:\n"
    if room == SOLVERS:
        yield from table(names)
    also = [name for name in public_names() if name.room != room and name.name in rooms()[room]]
    if also:
        links = ", ".join(f":py:obj:`~{name.full}`" for name in also)
        yield f"Also available here, and documented in their own rooms: {links}.\n"
    by_folder = sorted(names, key=lambda name: (name.folder, name.name))
    for folder, inside in groupby(by_folder, key=lambda name: name.folder):
        inside = list(inside)
        if folder:
            yield from _title(folder.replace("_", " ").capitalize(), "-")
            yield f".. automodule:: {room}.{folder}\n   :no-members:\n   :no-index:\n"
        yield from _glance(inside)
        if room not in APART:
            yield from (_entry(name) for name in inside)


def _glance(names: Iterable[Name]) -> Iterator[str]:
    """Yield a table of names with a line each."""
    yield ".. list-table::\n   :widths: 30 70\n   :class: glance\n"
    for name in names:
        yield f"   * - :py:obj:`~{name.full}`"
        yield f"     - {_constant(name) if name.kind == 'data' else purpose(name.value)}"
    yield ""


def _apart(name: Name, solver: Row | None) -> str:
    """Return the page of a name: with a kernel's formulas, or a solver's algorithm, and papers."""
    lines = [":orphan:", "", *_title(name.name, "=")]  # the table of the room leads to it
    if solver:
        lines += [*head(name, solver), _entry(name), *_title("The algorithm", "-")]
        lines.append(f".. automodule:: {name.home}\n   :no-members:\n   :no-index:\n")
        return "\n".join([*lines, *bibtex(inspect.getdoc(import_module(name.home)) or "")])
    if name.room == KERNELS:
        lines += kernel_head(name)
    return "\n".join([*lines, _entry(name), *bibtex(inspect.getdoc(name.value) or "")])


def _entry(name: Name) -> str:
    """Return the directive that documents a name."""
    if name.kind == "data":
        value = repr(name.value)
        shown = f"   :value: {value}\n" if len(value) <= _SHORT and "<" not in value else ""
        head = f".. py:data:: {name.name}\n   :module: {name.room}\n{shown}"
        return f"{head}\n   {_constant(name)}\n"
    members = "   :members:\n" if name.kind == "class" else ""
    return f".. auto{name.kind}:: {name.full}\n{members}\n"


def _constant(name: Name) -> str:
    """Return the comment of a constant."""
    return plain(" ".join(constant_comment(name.home, name.name).split()))


def _title(text: str, line: str) -> list[str]:
    return [text, line * len(text), ""]
