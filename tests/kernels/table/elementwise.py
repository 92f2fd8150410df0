"""Rows: convex functions of one number."""

import jax.numpy as jnp
import numpy as np

import fedjax_admm.kernels as kernels
from tests.kernels.table.row import Row, valued
from tests.reference import kernels as reference

ROWS = [
    valued("prox_l1", twin=reference.soft_threshold, kinks=(0.4,), powers=(1,)),
    valued("prox_elastic_net", (1.2, 0.8), kinks=(0.48,), powers=(0, 1, 0)),
    valued("prox_pinball", (0.25,), kinks=(0.1, 0.3), powers=(1, 0)),
    Row(
        "project_box",
        (-1.0, 2.0),
        value=lambda x, low, high: jnp.where((x >= low) & (x <= high), 0.0, jnp.inf),
        kinks=(1.0, 2.0),
        powers=(0, 1, 1),
    ),
    Row(
        "project_linf_ball",
        (1.5,),
        value=lambda x, radius: jnp.where(jnp.abs(x) <= radius, 0.0, jnp.inf),
        kinks=(1.5,),
        powers=(0, 1),
    ),
    valued("prox_squared_l2", (3.0,), powers=(0, 0)),
    Row(
        "prox_smoothed_abs",
        (1.0, 0.5),
        value=kernels.smoothed_abs,
        weighted=True,
        kinks=(0.9,),
        powers=(1, 0, 1),
    ),
    valued("prox_elastic_net", (0.0, 0.8)),
    valued("prox_pinball", (0.0,), kinks=(0.4,)),
    valued("prox_pinball", (1.0,), kinks=(0.4,)),
    valued("prox_pinball", (0.5,), kinks=(0.2,), steps=(0.4, 1e-3, 100.0)),
    valued("prox_sum_positive", kinks=(0.4,), powers=(1,)),
    valued("prox_linear", (-1.7,), powers=(1, 0)),
    valued("prox_huber", (0.5,), kinks=(0.7,), powers=(0, 1)),
    valued("prox_huber", (0.0,), steps=(0.4, 1e3)),
    Row("project_non_negative", value=lambda x: jnp.where(x >= 0, 0.0, jnp.inf), powers=(0,)),
    Row(
        "project_box",
        (0.0, np.inf),
        value=lambda x, low, high: jnp.where((x >= low) & (x <= high), 0.0, jnp.inf),
    ),
    Row(
        "project_binary",
        (-1.0, 2.0),
        value=lambda x, low, high: jnp.where((x == low) | (x == high), 0.0, jnp.inf),
        kinks=(0.5,),
        convex=False,
        powers=(0, 1, 1),
    ),
    valued("prox_non_negative_l1", kinks=(0.4,), powers=(1,)),
    valued("prox_non_negative_squared_l2", (3.0,), powers=(0, 0)),
    valued("prox_box_l1", (1.5, -1.0, 2.0), kinks=(0.6, 1.6, 2.6), powers=(1, 0, 1, 1)),
    valued("prox_box_l1", (1.5, 0.5, np.inf), kinks=(0.6, 1.1)),
    valued("prox_box_l1", (1.5, 0.0, 2.0), kinks=(0.6, 2.6)),
    valued("prox_box_squared_l2", (1.5, -1.0, 2.0), kinks=(1.6, 3.2), powers=(0, 0, 1, 1)),
    valued("prox_box_squared_l2", (1.5, -np.inf, -0.5), kinks=(0.8,)),
    valued("prox_hinge", kinks=(0.6, 1.0)),
    valued("prox_squared_hinge", kinks=(1.0,), steps=(0.4, 5.0, 1e3)),
    valued("prox_logistic", steps=(0.4, 5.0, 1e3)),
    valued("prox_cross_entropy", (0.0,), steps=(0.4, 5.0, 1e3)),
    valued("prox_cross_entropy", (0.3,), steps=(0.4, 5.0, 1e3)),
    valued("prox_poisson", (3.0,), steps=(0.4, 5.0, 1e3), powers=(1, 1)),
    valued("prox_poisson", (0.0,), kinks=(0.4,)),
    *(
        valued("prox_bernoulli", (target,), steps=(0.4, 1e3, 1e-3), kinks=kinks)
        for target, kinks in ((0.3, ()), (0.0, (0.4,)), (1.0, (0.6,)))
    ),
    valued("prox_log_barrier", (0.7,), steps=(0.4, 5.0, 1e-3), powers=(1, 1)),
    valued("prox_log_barrier", (0.0,)),
    valued("prox_kl", (1.3,), steps=(0.4, 5.0, 1e3), powers=(1, 1)),
    valued("prox_kl", (50.0,)),
    valued("prox_entropy", steps=(0.4, 5.0, 1e3)),
]
