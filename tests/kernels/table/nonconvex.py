"""Rows: nonconvex functions of one number."""

import numpy as np

from tests.kernels.table.row import valued

ROWS = [
    valued("prox_l0", steps=(0.5, 0.03, 7.0), kinks=(1.0,), convex=False, powers=(2,)),
    valued("prox_l_half", steps=(1.0, 0.03, 8.0), kinks=(1.5,), convex=False, powers=(1.5,)),
    valued(
        "prox_l_two_thirds", steps=(1.5, 0.03, 8.0), kinks=(2.0,), convex=False, powers=(4 / 3,)
    ),
    # The square of epsilon, half of that of gamma, and c = 1 lie between the steps.
    valued(
        "prox_log_sum",
        (1.0, 1.1),
        weighted=True,
        steps=(0.6, 1.2, 1.25, 7.0),
        kinks=(0.6 / 1.1,),
        convex=False,
        powers=(2, 0, 1),
    ),
    valued("prox_log_sum", (1.0, 0.001), weighted=True, steps=(0.4, 1e-7), convex=False),
    valued(
        "prox_geman",
        (1.0, 1.3),
        weighted=True,
        steps=(0.5, 0.84, 0.85, 6.0),
        kinks=(0.5 / 1.3,),
        convex=False,
        powers=(2, 0, 1),
    ),
    valued(
        "prox_exponential_type",
        (1.0, 1.2),
        weighted=True,
        steps=(0.3, 0.48, 0.49, 4.0),
        kinks=(0.3 * 1.2 / (1 - np.exp(-1.2)),),
        convex=False,
    ),
    valued("prox_exponential_type", (1.0, 30.0), weighted=True, steps=(0.5, 1e-3), convex=False),
    valued(
        "prox_capped_l1",
        (1.0, 1.5),
        weighted=True,
        steps=(0.5, 2.9, 3.1, 8.0),
        kinks=(0.5, 1.75),
        convex=False,
        powers=(1, 0, 1),
    ),
    valued(
        "prox_capped_quadratic", (2.0, 4.0), steps=(0.4, 5.0), kinks=(np.sqrt(7.2),), convex=False
    ),
    valued("prox_capped_quadratic", (0.0, 4.0), convex=False),
]
