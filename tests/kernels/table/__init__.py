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
