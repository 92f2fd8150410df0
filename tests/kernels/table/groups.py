"""Rows: groups of entries."""

import numpy as np

from tests.kernels.table.row import POINTS, valued

SEGMENTS = np.array([1, 0, 1, 3, 1, 0, -1])
WEIGHTS = np.array([0.7, 1.5, 1.0, 2.0])  # of segment 2, which is empty, too
LONG = np.concatenate([POINTS, POINTS[::-1], POINTS[:, :1] / 2], axis=1)
TIED = np.concatenate([POINTS, [[0.3, -0.3, 0.1], [-5.0, 5.0, 5.0], [-0.4, 0.4, 0.4]]])

ROWS = [
    valued("prox_group_l2", kinks=(0.4 / 3**0.5,), powers=(1,)),
    valued("prox_sparse_group", (0.5, 1.2), kinks=(0.2, 0.2 + 0.48 / 3**0.5), powers=(1, 0, 0)),
    valued(
        "prox_segments_l2",
        (WEIGHTS, SEGMENTS),
        points=LONG,
        kinks=(0.8, 0.6 / 3**0.5, 0.28 / 2**0.5),
        powers=(1, 0, 0),
        static={"count": 4},
    ),
    valued(
        "prox_sparse_segments",
        (0.3, 0.5, SEGMENTS),
        points=LONG,
        kinks=(0.12, 0.32),
        powers=(1, 0, 0, 0),
        static={"count": 4},
    ),
    valued(
        "prox_group_mcp",
        (1.0, 3.0),
        steps=(0.5, 2.9, 4.0),
        kinks=(0.5 / 3**0.5, 3**0.5),
        convex=False,
        powers=(0, 1, 0),
    ),
    valued(
        "prox_group_scad",
        (1.0, 3.5),
        steps=(1.0, 3.2, 6.0),
        kinks=tuple(np.array([1.0, 2.0, 3.5]) / 3**0.5),
        convex=False,
        powers=(0, 1, 0),
    ),
    valued("prox_group_l0", steps=(0.5, 0.02, 7.0), kinks=(3**-0.5,), convex=False, powers=(2,)),
    valued(
        "prox_group_l_half", steps=(1.0, 0.03, 8.0), kinks=(0.75**0.5,), convex=False, powers=(1.5,)
    ),
    valued(
        "prox_smoothed_group_mcp", (1.0, 3.0, 0.5), steps=(0.5, 4.0), convex=False, tolerance=1e-6
    ),
    valued(
        "prox_smoothed_group_scad", (1.0, 3.5, 0.5), steps=(1.0, 6.0), convex=False, tolerance=1e-6
    ),
    valued("prox_cube_l2", powers=(-1,)),
    valued("prox_group_huber", (1.2,), kinks=(1.4 * 1.2 / 3**0.5,), powers=(0, 1)),
    valued(
        "prox_l1_minus_l2",
        (1.0, 1.0),
        weighted=True,
        steps=(0.4, 2.5, 7.0),
        points=TIED,
        kinks=(0.4,),
        convex=False,
        powers=(1, 0, 0),
    ),
    valued(
        "prox_l1_minus_l2",
        (1.0, 0.5),
        weighted=True,
        steps=(0.4, 2.5, 7.0),
        points=TIED,
        kinks=(0.4, 0.2),
        convex=False,
        powers=(1, 0, 0),
    ),
    valued(
        "prox_l1_minus_l2", (1.0, 1.8), weighted=True, steps=(0.4, 2.5), points=TIED, convex=False
    ),
]
