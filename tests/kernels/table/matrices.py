"""Rows: matrices."""

import numpy as np

import fedjax_admm.kernels as kernels
from tests.kernels.table.row import Row
from tests.reference import prox_matrices as reference

# Tall and wide, of full rank, of low rank, and zero.
TALL = np.array(
    [
        [[-6.3, -2.0], [0.0, 0.2], [1.9, 3.1]],
        [[2.0, 0.0], [0.0, 2.0], [0.0, 0.0]],
        [[1.0, 2.0], [2.0, 4.0], [-1.0, -2.0]],
        [[0.0, 0.0], [0.0, 0.0], [0.0, 0.0]],
        [[0.05, -0.02], [0.01, 0.3], [0.4, 1.1]],
    ]
)
WIDE = TALL.swapaxes(1, 2)
SQUARE = np.concatenate([TALL, TALL[:, ::-1, :1] * [[1.0], [-0.5], [0.3]]], axis=2)
FULL = np.array([[[-6.3, -2.0], [0.0, 0.2], [1.9, 3.1]], [[2.0, 0.0], [0.0, 2.0], [0.0, 0.0]]])

ROWS = [
    Row("prox_nuclear", points=TALL, kinks=(0.4 / 6**0.5,), powers=(1,)),
    Row("prox_nuclear", points=WIDE),
    Row("project_rank", static={"k": 1}, points=TALL[[0, 2, 3, 4]], convex=False, powers=(0,)),
    Row("project_spectral_ball", (1.5,), points=WIDE, kinks=(1.5 / 6**0.5,), powers=(0, 1)),
    Row("project_nuclear_ball", (1.5,), points=WIDE, kinks=(1.5 / 6**0.5,), powers=(0, 1)),
    Row(
        "prox_spectral",
        static={"prox": kernels.prox_l0},
        points=TALL,
        kinks=(0.8**0.5 / 6**0.5,),
        convex=False,
        powers=(2,),
    ),
    Row(
        "prox_spectral_mcp",
        (1.0, 3.0),
        steps=(0.5, 2.9, 4.0),
        points=TALL,
        kinks=(0.5 / 6**0.5, 3.0 / 6**0.5),
        convex=False,
        powers=(0, 1, 0),
    ),
    Row(
        "prox_spectral_scad",
        (1.0, 3.5),
        steps=(1.0, 3.2, 6.0),
        points=WIDE,
        kinks=(1.0 / 6**0.5, 2.0 / 6**0.5, 3.5 / 6**0.5),
        convex=False,
        powers=(0, 1, 0),
    ),
    Row(
        "prox_spectral_log_det",
        (1.0, 0.5),
        weighted=True,
        steps=(0.1, 1.3),
        points=TALL,
        convex=False,
    ),
    Row(
        "prox_rank_envelope",
        static={"k": 1},
        steps=(0.4, 1.3),
        points=TALL[[0, 2, 3, 4]],
        convex=False,
        powers=(0,),
    ),
    Row("project_psd", points=SQUARE, powers=(0,)),
    Row("prox_log_det", points=SQUARE, powers=(2,)),
    Row("project_stiefel", points=FULL, convex=False),
    Row("project_orthogonal", twin=reference.project_stiefel, points=SQUARE[[0, 4]], convex=False),
    Row("project_hankel", points=WIDE, powers=(0,)),
    Row(
        "project_transport",
        (np.array([1.0, 2.0]), np.array([0.5, 1.5, 1.0])),
        points=WIDE,
        powers=(0, 1, 1),
    ),
    Row("project_birkhoff", points=SQUARE),
    Row(
        "project_kl_transport",
        (np.array([1.0, 2.0]), np.array([0.5, 1.5, 1.0])),
        points=WIDE,
        convex=False,
        idempotent=False,
    ),
    Row("project_kl_birkhoff", points=SQUARE, convex=False, idempotent=False),
]
