"""The catalogue of kernels: `docs/kernels.md` and its pictures, from docstrings and the table.

The reference of the site has each kernel's formula, ties and derivatives, on a page of its own.

`python -m tests.kernels.catalogue` writes both anew. A section of the page is a folder of
`kernels/`; the picture of a map shows what it makes of the points of its first row in the table.
"""

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_admm.kernels as kernels
from tests.kernels import drawing
from tests.kernels.peers import PACKAGES, Peer
from tests.kernels.table import ROWS
from tests.kernels.table.row import Row

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "kernels.md"
PICTURES = DOCS / "kernels"
SECTIONS = {  # of the page, in order
    "elementwise": "Entry by entry",
    "groups": "Groups",
    "vectors": "Vectors",
    "sets": "Sets and cones",
    "matrices": "Matrices",
    "losses": "Losses of data",
    "chains": "Chains and images",
    "calculus": "Calculus: maps made of maps",
    "": "Families of this package, and tools",
}

HEAD = """# The kernels

<!-- written by `python -m tests.kernels.catalogue`: edit the docstrings, not this page -->

{package}

All functions can be traced, batched and differentiated. Maps of nonconvex functions return a global
minimiser at every step. Tests compare each map with an independent NumPy implementation, search for
better points, and evaluate the map at zero, at its kinks and at the ends of the range.

The picture of an elementwise map has the point on the horizontal axis and the result on the
vertical axis, at two steps; the darker line has the smaller step. The dotted line is the identity,
and the green line is the function that is minimised. In the other pictures of vectors, pale bars
are the point and dark bars are the result, for several vectors side by side. Pictures of matrices
have the matrix on the left and the result on the right, blue where positive and red where negative.

A name links to the kernel's page, which has its formulas, an example, ties, derivatives and papers.
"""


class Documented(NamedTuple):
    """A docstring, taken apart."""

    purpose: str
    body: str  # formula, ties, derivative
    reference: str


@cache
def folders() -> dict[str, str]:
    """Return the folder of `kernels/` of every public name, "" for what lies in the open."""
    stub = ast.parse((Path(kernels.__file__).parent / "__init__.pyi").read_text())
    found = {}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom) and node.module:
            place = node.module.removeprefix("fedjax_admm.kernels.").split(".")
            found |= {alias.name: place[0] if len(place) > 1 else "" for alias in node.names}
    return found


def documented(name: str) -> Documented:
    """Take the docstring of a public name apart."""
    text = inspect.getdoc(getattr(kernels, name)) or ""
    parts = [" ".join(part.split()) for part in text.split("\n\n")]
    sections = ("Args:", "Returns:", "Attributes:", "Reference:")
    purpose, *body = [part for part in parts if not part.startswith(sections)]
    references = [part for part in parts if part.startswith("Reference:")]
    return Documented(purpose, " ".join(body), " ".join(references))


def pictured() -> dict[str, Row]:
    """Return the first row of every map."""
    return {row.name: row for row in reversed(ROWS)}


def image(row: Row, points: np.ndarray, step: float) -> np.ndarray:
    """Return what a map makes of points, float64."""
    with jax.enable_x64(True):
        parameters = jax.tree.map(
            lambda part: (
                jnp.asarray(part, jnp.float64)
                if jnp.issubdtype(jnp.result_type(part), jnp.floating)
                else part
            ),
            row.parameters,
        )
        return np.asarray(jax.jit(row.prox)(jnp.asarray(points), step, *parameters))


def picture(row: Row) -> str:
    """Draw a map: a curve, entries before and after, or a matrix before and after."""
    step = row.steps[0]
    if folders()[row.name] == "elementwise":
        v = np.linspace(-4, 4, 321)
        steps = [0.0] if row.projection else [step, 2 * step]
        names = ["projection"] if row.projection else [f"map at step {s:g}" for s in steps]
        return drawing.curves(v, [image(row, v, s) for s in steps], names, _penalty(row, v))
    before = row.points
    after = image(row, before, step)
    if before.ndim == 2:
        shown = max(1, _BARS // before.shape[1])
        return drawing.entries(before[:shown], after[:shown])
    moved = np.abs(after - before).reshape(len(before), -1).max(1)
    most = int(np.argmax(np.where(np.isfinite(moved), moved, 0)))
    return drawing.matrices(before[most], after[most])


def _penalty(row: Row, points: np.ndarray) -> np.ndarray | None:
    """Return what the map minimises at points, float64; None of an indicator."""
    if row.projection or row.value is None:
        return None
    taken = (
        len(inspect.signature(row.value).parameters) - 1
    )  # some values know no weight, which is 1
    parameters = row.parameters[max(0, len(row.parameters) - taken) :]
    with jax.enable_x64(True):
        return np.asarray(row.value(jnp.asarray(points), *parameters))


_BARS = 16  # in one picture


def row_of(name: str, row: Row | None) -> str:
    """Tell one kernel in a row of a table: its picture, its name, its purpose."""
    seen = "" if row is None else f"![{name}: before and after](kernels/{name}.svg)"
    purpose = in_a_cell(documented(name).purpose)
    return f"| {seen} | {{func}}`~fedjax_admm.kernels.{name}` | {purpose} |"


def in_a_cell(text: str) -> str:
    """Return text for a cell of a table, where a bar would end it, in code too."""
    return text.replace("|", r"\|")


def peers_table(peer: Peer) -> Iterator[str]:
    """Tell what another package has, row by row."""
    yield f"### {peer.title}\n"
    yield "| there | here |\n|---|---|"
    for theirs, ours in peer.maps.items():
        yield f"| {', '.join(f'`{name}`' for name in theirs.split())} | {ours} |"
    yield ""


def page() -> str:
    """Return the whole page."""
    names = sorted(kernels.__all__)
    rows = pictured()
    about, _, cited = (inspect.getdoc(kernels) or "").partition("Cited by author and year:\n\n")
    lines = [HEAD.format(package=about.strip())]
    for folder, title in SECTIONS.items():
        inside = [name for name in names if folders()[name] == folder]
        maps = [name for name in inside if name in rows]
        others = [name for name in inside if name not in rows]
        lines.append(f"## {title}\n")
        if folder:
            lines.append(inspect.getdoc(import_module(f"fedjax_admm.kernels.{folder}")) or "")
            lines.append("")
        if maps:
            lines.append("| | map | what it is |\n|---|---|---|")
            lines += [row_of(name, rows[name]) for name in maps]
            lines.append("")
        if others:
            lines.append("| | values and helpers | |\n|---|---|---|")
            lines += [row_of(name, None) for name in others]
            lines.append("")
    lines.append(f"## Cited by author and year\n\n{cited}\n")
    lines.append("## Beside other packages\n")
    lines.append(
        "The tables list the proximal maps and projections of arrays that other packages export, "
        "and their names here (versions of November 2026). General polyhedra and denoisers are "
        "left out.\n"
    )
    for peer in PACKAGES:
        lines += peers_table(peer)
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Write the page and its pictures."""
    PAGE.write_text(page())
    PICTURES.mkdir(exist_ok=True)
    rows = pictured()
    for path in PICTURES.glob("*.svg"):
        if path.stem not in rows:
            path.unlink()
    for name, row in rows.items():
        (PICTURES / f"{name}.svg").write_text(picture(row))


if __name__ == "__main__":
    main()
