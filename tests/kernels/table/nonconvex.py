"""Rows: nonconvex functions of one number."""

import fedjax_admm.kernels as kernels
from tests.kernels.table.row import Row
from tests.reference import kernels as reference

ROWS = [
    Row(
        "prox_mcp",
        reference.prox_mcp,
        kernels.mcp_value,
        (1.0, 3.0),
        steps=(0.5, 2.9, 4.0),
        kinks=(0.5, 3.0),
        convex=False,
        scaled=lambda s: (1.0, (s, 3.0)),
    ),
    Row(
        "prox_scad",
        reference.prox_scad,
        kernels.scad_value,
        (1.0, 3.5),
        steps=(1.0, 3.2, 6.0),
        kinks=(1.0, 2.0, 3.5),
        convex=False,
        scaled=lambda s: (1.0, (s, 3.5)),
    ),
]
