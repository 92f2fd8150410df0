"""The table of proximal maps and projections: one row for each kernel and kind of parameters."""

from tests.kernels.table import (
    calculus,
    chains,
    elementwise,
    folded_concave,
    groups,
    losses,
    matrices,
    nonconvex,
    sets,
    vectors,
)

ROWS = [
    row
    for area in (
        elementwise,
        folded_concave,
        nonconvex,
        groups,
        vectors,
        sets,
        matrices,
        losses,
        chains,
        calculus,
    )
    for row in area.ROWS
]

# One row of each kernel, and of each whose value is known.
FIRSTS = {row.name: row for row in reversed(ROWS)}
WITH_VALUE = list({row.name: row for row in reversed(ROWS) if row.value is not None}.values())
