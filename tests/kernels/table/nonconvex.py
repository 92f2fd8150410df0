"""Rows: nonconvex functions of one number."""

import numpy as np

import fedjax_admm.kernels as kernels
from tests.kernels.table.row import Row, weighted
from tests.reference import prox_nonconvex as nonconvex

ROWS = [
    Row(
        "prox_l0",
        nonconvex.prox_l0,
        kernels.l0_value,
        steps=(0.5, 0.03, 7.0),
        kinks=(1.0,),
        convex=False,
        scaled=lambda s: (s * s, ()),
    ),
    Row(
        "prox_l_half",
        nonconvex.prox_l_half,
        kernels.l_half_value,
        steps=(1.0, 0.03, 8.0),
        kinks=(1.5,),
        convex=False,
        scaled=lambda s: (s**1.5, ()),
    ),
    Row(
        "prox_l_two_thirds",
        nonconvex.prox_l_two_thirds,
        kernels.l_two_thirds_value,
        steps=(1.5, 0.03, 8.0),
        kinks=(2.0,),
        convex=False,
        scaled=lambda s: (s ** (4 / 3), ()),
    ),
    # The square of epsilon, half of that of gamma, and c = 1 lie between the steps.
    Row(
        "prox_log_sum",
        weighted(nonconvex.prox_log_sum),
        kernels.log_sum_value,
        (1.0, 1.1),
        steps=(0.6, 1.2, 1.25, 7.0),
        kinks=(0.6 / 1.1,),
        convex=False,
        scaled=lambda s: (s * s, (1.0, 1.1 * s)),
    ),
    Row(
        "prox_log_sum",
        weighted(nonconvex.prox_log_sum),
        kernels.log_sum_value,
        (1.0, 1e-3),
        steps=(0.4, 1e-7),
        convex=False,
    ),
    Row(
        "prox_geman",
        weighted(nonconvex.prox_geman),
        kernels.geman_value,
        (1.0, 1.3),
        steps=(0.5, 0.84, 0.85, 6.0),
        kinks=(0.5 / 1.3,),
        convex=False,
        scaled=lambda s: (s * s, (1.0, 1.3 * s)),
    ),
    Row(
        "prox_exponential_type",
        weighted(nonconvex.prox_exponential_type),
        kernels.exponential_type_value,
        (1.0, 1.2),
        steps=(0.3, 0.48, 0.49, 4.0),
        kinks=(0.3 * 1.2 / (1 - np.exp(-1.2)),),
        convex=False,
    ),
    Row(
        "prox_exponential_type",
        weighted(nonconvex.prox_exponential_type),
        kernels.exponential_type_value,
        (1.0, 30.0),
        steps=(0.5, 1e-3),
        convex=False,
    ),
    Row(
        "prox_capped_l1",
        weighted(nonconvex.prox_capped_l1),
        kernels.capped_l1_value,
        (1.0, 1.5),
        steps=(0.5, 2.9, 3.1, 8.0),
        kinks=(0.5, 1.75),
        convex=False,
        scaled=lambda s: (s, (1.0, 1.5 * s)),
    ),
    Row(
        "prox_capped_quadratic",
        nonconvex.prox_capped_quadratic,
        kernels.capped_quadratic_value,
        (2.0, 4.0),
        steps=(0.4, 5.0),
        kinks=(np.sqrt(7.2),),
        convex=False,
    ),
    Row(
        "prox_capped_quadratic",
        nonconvex.prox_capped_quadratic,
        kernels.capped_quadratic_value,
        (0.0, 4.0),
        convex=False,
    ),
]
