"""Rows: groups of entries."""

import fedjax_admm.kernels as kernels
from tests.kernels.table.row import Row
from tests.reference import kernels as reference

ROWS = [
    Row(
        "prox_group_l2",
        reference.prox_group_l2,
        kernels.safe_norm,
        kinks=(0.4 / 3**0.5,),
        scaled=lambda s: (s, ()),
    ),
]
