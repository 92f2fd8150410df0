"""Rows: vectors, by sorting and by their norms."""

from tests.kernels.table.row import Row
from tests.reference import kernels as reference

ROWS = [
    Row(
        "project_l2_ball",
        reference.project_l2_ball,
        parameters=(1.5,),
        kinks=(1.5 / 3**0.5,),
        projection=True,
        scaled=lambda s: (1.0, (1.5 * s,)),
    ),
]
