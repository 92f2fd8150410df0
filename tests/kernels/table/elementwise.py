"""Rows: convex functions of one number."""

import jax.numpy as jnp

import fedjax_admm.kernels as kernels
from tests.kernels.table.row import Row
from tests.reference import kernels as reference

ROWS = [
    Row(
        "prox_l1",
        lambda v, step: reference.soft_threshold(v, step),
        jnp.abs,
        kinks=(0.4,),
        scaled=lambda s: (s, ()),
    ),
    Row(
        "prox_elastic_net",
        reference.prox_elastic_net,
        lambda x, l1, l2: l1 * jnp.abs(x) + l2 * x * x / 2,
        (1.2, 0.8),
        kinks=(0.48,),
        scaled=lambda s: (1.0, (1.2 * s, 0.8)),
    ),
    Row(
        "prox_pinball",
        reference.prox_pinball,
        lambda x, q: jnp.maximum(q * x, (q - 1) * x),
        (0.25,),
        kinks=(0.1, 0.3),
        scaled=lambda s: (s, (0.25,)),
    ),
    Row(
        "project_box",
        reference.project_box,
        lambda x, low, high: jnp.where((x >= low) & (x <= high), 0.0, jnp.inf),
        (-1.0, 2.0),
        kinks=(1.0, 2.0),
        projection=True,
        scaled=lambda s: (1.0, (-1.0 * s, 2.0 * s)),
    ),
    Row(
        "project_linf_ball",
        reference.project_linf_ball,
        lambda x, radius: jnp.where(jnp.abs(x) <= radius, 0.0, jnp.inf),
        (1.5,),
        kinks=(1.5,),
        projection=True,
        scaled=lambda s: (1.0, (1.5 * s,)),
    ),
    Row(
        "prox_squared_l2",
        reference.prox_squared_l2,
        lambda x, weight: weight * x * x / 2,
        (3.0,),
        scaled=lambda s: (1.0, (3.0,)),
    ),
    Row(
        "prox_smoothed_abs",
        reference.prox_smoothed_abs,
        kernels.smoothed_abs,
        (0.5,),
        kinks=(0.9,),
        scaled=lambda s: (s, (0.5 * s,)),
    ),
]
