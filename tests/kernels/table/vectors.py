"""Rows: vectors, by sorting and by their norms."""

import numpy as np

from tests.kernels.table.row import POINTS, Row, valued

# Weights that fall, as sorted norms want them, and such as have no order.
FALLING = np.array([1.2, 0.7, 0.1])
UNEVEN = np.array([0.5, 2.0, 1.0])
# Vectors of five entries: with ties, in and out of order, away from 0.
LONGER = np.array(
    [
        [3.0, -1.0, 3.0, 0.5, -2.0],
        [0.0, 0.0, 0.0, 0.0, 0.0],
        [1.0, 2.0, 2.5, 4.0, 7.0],
        [5.0, 4.0, 1.0, 1.0, -6.0],
        [10.2, 10.0, 10.1, 9.0, 12.0],
        [0.1, -0.2, 0.15, -0.05, 0.01],
    ]
)
ONE = np.array(1.0)
GROUPS = np.stack([POINTS, 0.5 - POINTS[::-1], np.ones_like(POINTS)])

ROWS = [
    Row("project_l2_ball", (1.5,), kinks=(1.5 / 3**0.5,), powers=(0, 1)),
    *(
        Row("project_simplex", (mass,), kinks=(mass / 3,), points=points, powers=(0, 1))
        for mass, points in ((1.0, POINTS), (2.5, LONGER))
    ),
    Row("project_weighted_simplex", (UNEVEN, 1.5), powers=(0, 0, 1)),
    Row("project_sparse_simplex", static={"k": 2, "mass": 1.5}, points=LONGER, convex=False),
    Row("project_l1_ball", (1.5,), kinks=(0.5, 1.5), powers=(0, 1)),
    Row("project_l1_sphere", (1.5,), kinks=(0.5, 1.5), convex=False, powers=(0, 1)),
    Row("project_weighted_l1_ball", (UNEVEN, 1.5), kinks=(1.5 / 3.5,), powers=(0, 0, 1)),
    valued("prox_max", powers=(1,)),
    valued("prox_linf", kinks=(0.4 / 3,), powers=(1,)),
    *(
        valued(
            "prox_sum_largest", (1.0,), weighted=True, static={"k": k}, points=points, powers=(1, 0)
        )
        for k, points in ((2, POINTS), (3, LONGER), (3, POINTS))
    ),
    valued("prox_slope", (FALLING,), kinks=(0.4 * FALLING.mean(), 0.4 * FALLING[0]), powers=(1, 0)),
    Row("project_box_section", (-1.0, 1.0, UNEVEN, 0.5), powers=(0, 1, 1, 0, 1)),
    Row(
        "project_box_section",
        (np.array([-np.inf, -0.5, 0.2]), np.array([2.0, np.inf, 0.9]), -UNEVEN, 0.7),
    ),
    *(
        Row("project_top_k", static={"k": k}, points=points, convex=False, powers=(0,))
        for k, points in ((1, POINTS), (2, LONGER))
    ),
    Row("project_top_k_groups", static={"k": 2}, points=GROUPS, convex=False, powers=(0,)),
    *(
        Row(
            "project_isotonic",
            (weights,),
            static={"increasing": increasing},
            points=points,
            powers=(0, 0),
            convex=weights is ONE,
        )
        for weights, increasing, points in (
            (ONE, True, LONGER),
            (ONE, False, POINTS),
            (UNEVEN, True, POINTS),
        )
    ),
    Row("project_permutahedron", (UNEVEN,), powers=(0, 1)),
    *(
        valued(
            "prox_k_support",
            (1.0,),
            weighted=True,
            static={"k": k},
            steps=(0.4, 5.0, 0.01),
            points=points,
            powers=(0, 0),
        )
        for k, points in ((1, POINTS), (2, POINTS), (3, LONGER), (5, LONGER))
    ),
    *(
        valued(
            "prox_top_k_envelope",
            static={"k": k},
            steps=(0.4, 0.9, 1.0, 5.0),
            points=points,
            convex=False,
            powers=(0,),
        )
        for k, points in ((1, POINTS), (2, POINTS), (3, LONGER))
    ),
]
