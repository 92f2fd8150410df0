"""Rows: vectors, by sorting and by their norms."""

import numpy as np

import fedjax_admm.kernels as kernels
from tests.kernels.table.row import POINTS, Row, weighted
from tests.reference import kernels as reference, prox_vectors as twins

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
    Row(
        "project_l2_ball",
        reference.project_l2_ball,
        parameters=(1.5,),
        kinks=(1.5 / 3**0.5,),
        projection=True,
        scaled=lambda s: (1.0, (1.5 * s,)),
    ),
    *(
        Row(
            "project_simplex",
            twins.project_simplex,
            parameters=(mass,),
            kinks=(mass / 3,),
            points=points,
            projection=True,
            scaled=lambda s, mass=mass: (1.0, (mass * s,)),
        )
        for mass, points in ((1.0, POINTS), (2.5, LONGER))
    ),
    Row(
        "project_weighted_simplex",
        twins.project_weighted_simplex,
        parameters=(UNEVEN, 1.5),
        projection=True,
        scaled=lambda s: (1.0, (UNEVEN, 1.5 * s)),
    ),
    Row(
        "project_sparse_simplex",
        twins.project_sparse_simplex,
        static={"k": 2, "mass": 1.5},
        points=LONGER,
        convex=False,
        projection=True,
    ),
    Row(
        "project_l1_ball",
        twins.project_l1_ball,
        parameters=(1.5,),
        kinks=(0.5, 1.5),
        projection=True,
        scaled=lambda s: (1.0, (1.5 * s,)),
    ),
    Row(
        "project_l1_sphere",
        twins.project_l1_sphere,
        parameters=(1.5,),
        kinks=(0.5, 1.5),
        convex=False,
        projection=True,
        scaled=lambda s: (1.0, (1.5 * s,)),
    ),
    Row(
        "project_weighted_l1_ball",
        twins.project_weighted_l1_ball,
        parameters=(UNEVEN, 1.5),
        kinks=(1.5 / 3.5,),
        projection=True,
        scaled=lambda s: (1.0, (UNEVEN, 1.5 * s)),
    ),
    Row(
        "prox_max",
        twins.prox_max,
        kernels.max_value,
        scaled=lambda s: (s, ()),
    ),
    Row(
        "prox_linf",
        twins.prox_linf,
        kernels.linf_value,
        kinks=(0.4 / 3,),
        scaled=lambda s: (s, ()),
    ),
    *(
        Row(
            "prox_sum_largest",
            weighted(twins.prox_sum_largest),
            kernels.sum_largest_value,
            parameters=(1.0,),
            static={"k": k},
            points=points,
            scaled=lambda s: (s, (1.0,)),
        )
        for k, points in ((2, POINTS), (3, LONGER), (3, POINTS))
    ),
    Row(
        "prox_slope",
        twins.prox_slope,
        kernels.slope_value,
        parameters=(FALLING,),
        kinks=(0.4 * FALLING.mean(), 0.4 * FALLING[0]),
        scaled=lambda s: (s, (FALLING,)),
    ),
    *(
        Row(
            "project_box_section",
            twins.project_box_section,
            parameters=parameters,
            projection=True,
            scaled=scaled,
        )
        for parameters, scaled in (
            (
                (-1.0, 1.0, UNEVEN, 0.5),
                lambda s: (1.0, (-1.0 * s, 1.0 * s, UNEVEN, 0.5 * s)),
            ),
            (
                (np.array([-np.inf, -0.5, 0.2]), np.array([2.0, np.inf, 0.9]), -UNEVEN, 0.7),
                None,
            ),
        )
    ),
    *(
        Row(
            "project_top_k",
            twins.project_top_k,
            static={"k": k},
            points=points,
            convex=False,
            projection=True,
            scaled=lambda s: (1.0, ()),
        )
        for k, points in ((1, POINTS), (2, LONGER))
    ),
    Row(
        "project_top_k_groups",
        twins.project_top_k_groups,
        static={"k": 2},
        points=GROUPS,
        convex=False,
        projection=True,
        scaled=lambda s: (1.0, ()),
    ),
    *(
        Row(
            "project_isotonic",
            twins.project_isotonic,
            parameters=(weights,),
            static={"increasing": increasing},
            points=points,
            projection=True,
            scaled=lambda s, weights=weights: (1.0, (weights,)),
            convex=weights is ONE,
        )
        for weights, increasing, points in (
            (ONE, True, LONGER),
            (ONE, False, POINTS),
            (UNEVEN, True, POINTS),
        )
    ),
    Row(
        "project_permutahedron",
        twins.project_permutahedron,
        parameters=(UNEVEN,),
        projection=True,
        scaled=lambda s: (1.0, (UNEVEN * s,)),
    ),
    *(
        Row(
            "prox_k_support",
            weighted(twins.prox_k_support),
            kernels.k_support_value,
            parameters=(1.0,),
            static={"k": k},
            steps=(0.4, 5.0, 0.01),
            points=points,
            scaled=lambda s: (1.0, (1.0,)),
        )
        for k, points in ((1, POINTS), (2, POINTS), (3, LONGER), (5, LONGER))
    ),
    *(
        Row(
            "prox_top_k_envelope",
            twins.prox_top_k_envelope,
            kernels.top_k_envelope_value,
            static={"k": k},
            steps=(0.4, 0.9, 1.0, 5.0),
            points=points,
            convex=False,
            scaled=lambda s: (1.0, ()),
        )
        for k, points in ((1, POINTS), (2, POINTS), (3, LONGER))
    ),
]
