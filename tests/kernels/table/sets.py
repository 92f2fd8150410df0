"""Rows: sets."""

import jax.numpy as jnp
import numpy as np

import fedjax_admm.kernels as kernels
from fedjax_admm.kernels.sets._affine import AffineFactor, GraphFactor
from tests.kernels.table.row import POINTS, Row
from tests.reference import prox_sets as reference

NORMAL = np.array([1.0, -2.0, 0.5])
# One equation is the sum of the two others; (x, y) of a wide and of a tall matrix.
EQUATIONS = np.array([[1.0, 2.0, -1.0], [0.5, 0.0, 2.0], [1.5, 2.0, 1.0]])
SLOPE = np.array([[1.5, -0.5]])
NEAR = 1e-12
CONE_POINTS = np.array(
    [
        [3.0, 1.0, 2.0],
        [1.0, -2.0, 2.0],
        [-3.0, 1.0, 2.0],
        [-1.0, 2.0, 0.5],
        [0.0, 0.0, 0.0],
        [0.0, 0.0, 1.0],
        [1.0, 0.0, 0.0],
        [-1.0, 0.0, 0.0],
        [2.0, 2.0, -2.0],
        [-0.3, -0.2, 12.0],
        [5.0, -1.0, 0.2],
        [-4.0, 0.1, -0.3],
        *POINTS,
    ]
)


def indicator(excess):
    """Return a value: 0 where an excess is 0 to rounding, else infinite."""

    def value(x, *parameters):
        size = jnp.max(jnp.abs(x)) + 1
        return jnp.where(excess(x, *parameters) <= NEAR * size, 0.0, jnp.inf)

    return value


def second_order(x):
    return kernels.safe_norm(x[1:]) - x[0]


def rotated(x):
    return second_order(jnp.stack([(x[0] + x[1]) / 2**0.5, (x[0] - x[1]) / 2**0.5, *x[2:]]))


def exponential(x):
    curved = x[1] * jnp.exp(x[0] / jnp.where(x[1] > 0, x[1], 1.0)) - x[2]
    flat = jnp.maximum(jnp.maximum(x[0], -x[2]), -x[1])
    return jnp.minimum(jnp.where(x[1] > 0, curved, jnp.inf), jnp.maximum(flat, jnp.abs(x[1])))


def along(x, normal):
    return jnp.sum(normal * x)


def orthonormal(matrix, right=0.0):
    """Return rows that span those of a matrix, and the level of the solutions there, in NumPy."""
    left, values, rows = np.linalg.svd(matrix, full_matrices=False)
    seen = values > 1e-12
    level = (left.T @ np.broadcast_to(right, len(matrix)))[seen] / values[seen]
    return rows[seen], level


def box(v):
    return kernels.project_linf_ball(v, 1.0)


def below(v):
    return kernels.project_halfspace(v, jnp.asarray(NORMAL, v.dtype), 0.7)


CONES = [
    Row(name, twin=twin, value=value, points=CONE_POINTS, kinks=(1.0,), powers=(0,))
    for name, twin, value in (
        ("project_second_order_cone", reference.second_order_cone, indicator(second_order)),
        (
            "project_rotated_second_order_cone",
            reference.rotated_second_order_cone,
            indicator(rotated),
        ),
        ("project_exponential_cone", reference.exponential_cone, indicator(exponential)),
        ("project_dual_exponential_cone", reference.dual_exponential_cone, None),
    )
]

ROWS = [
    *CONES,
    Row("project_l2_sphere", (1.5,), twin=reference.l2_sphere, convex=False, powers=(0, 1)),
    Row(
        "project_halfspace",
        (NORMAL, 0.7),
        twin=reference.halfspace,
        value=indicator(lambda x, normal, offset: along(x, normal) - offset),
        kinks=(-1.4,),
        powers=(0, 0, 1),
    ),
    Row(
        "project_hyperplane",
        (NORMAL, 0.7),
        twin=reference.hyperplane,
        value=indicator(lambda x, normal, offset: jnp.abs(along(x, normal) - offset)),
        powers=(0, 0, 1),
    ),
    Row(
        "project_hyperslab",
        (NORMAL, -0.3, 0.7),
        twin=reference.hyperslab,
        value=indicator(
            lambda x, normal, lower, upper: jnp.maximum(
                lower - along(x, normal), along(x, normal) - upper
            )
        ),
        kinks=(-1.4, 0.6),
        powers=(0, 0, 1, 1),
    ),
    Row(
        "project_line",
        (NORMAL,),
        twin=reference.line,
        value=indicator(
            lambda x, direction: jnp.max(
                jnp.abs(x - along(x, direction) / along(direction, direction) * direction)
            )
        ),
        powers=(0, 1),
    ),
    Row(
        "project_affine",
        (AffineFactor(*orthonormal(EQUATIONS, [1.0, -2.0, 0.5])),),
        twin=reference.affine,
    ),
    Row(
        "project_graph",
        (GraphFactor(np.zeros((0, 3)), orthonormal(np.concatenate([SLOPE, -np.eye(1)], 1))[0]),),
        twin=reference.graph,
    ),
    Row(
        "project_graph",
        (GraphFactor(orthonormal(np.concatenate([np.eye(1), SLOPE], 1))[0], np.zeros((0, 3))),),
        twin=reference.graph,
    ),
    Row(
        "project_intersection",
        twin=lambda points, projections, iterations: reference.box_and_halfspace(1.0, NORMAL, 0.7)(
            points
        ),
        static={"projections": (box, below), "iterations": 1000},
    ),
]
