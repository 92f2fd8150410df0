"""Rows: groups of entries."""

import numpy as np

import fedjax_admm.kernels as kernels
from tests.kernels.table.row import POINTS, Row, weighted
from tests.reference import prox_groups as groups

SEGMENTS = np.array([1, 0, 1, 3, 1, 0, -1])
WEIGHTS = np.array([0.7, 1.5, 1.0, 2.0])  # of segment 2, which is empty, too
LONG = np.concatenate([POINTS, POINTS[::-1], POINTS[:, :1] / 2], axis=1)
TIED = np.concatenate([POINTS, [[0.3, -0.3, 0.1], [-5.0, 5.0, 5.0], [-0.4, 0.4, 0.4]]])

ROWS = [
    Row(
        "prox_group_l2",
        groups.prox_group_l2,
        kernels.group_l2_value,
        kinks=(0.4 / 3**0.5,),
        scaled=lambda s: (s, ()),
    ),
    Row(
        "prox_sparse_group",
        groups.prox_sparse_group,
        kernels.sparse_group_value,
        (0.5, 1.2),
        kinks=(0.2, 0.2 + 0.48 / 3**0.5),
        scaled=lambda s: (s, (0.5, 1.2)),
    ),
    Row(
        "prox_segments_l2",
        groups.prox_segments_l2,
        kernels.segments_l2_value,
        (WEIGHTS, SEGMENTS),
        {"count": 4},
        points=LONG,
        kinks=(0.8, 0.6 / 3**0.5, 0.28 / 2**0.5),
        scaled=lambda s: (s, (WEIGHTS, SEGMENTS)),
    ),
    Row(
        "prox_sparse_segments",
        groups.prox_sparse_segments,
        kernels.sparse_segments_value,
        (0.3, 0.5, SEGMENTS),
        {"count": 4},
        points=LONG,
        kinks=(0.12, 0.32),
        scaled=lambda s: (s, (0.3, 0.5, SEGMENTS)),
    ),
    Row(
        "prox_group_mcp",
        groups.prox_group_mcp,
        kernels.group_mcp_value,
        (1.0, 3.0),
        steps=(0.5, 2.9, 4.0),
        kinks=(0.5 / 3**0.5, 3**0.5),
        convex=False,
        scaled=lambda s: (1.0, (s, 3.0)),
    ),
    Row(
        "prox_group_scad",
        groups.prox_group_scad,
        kernels.group_scad_value,
        (1.0, 3.5),
        steps=(1.0, 3.2, 6.0),
        kinks=tuple(np.array([1.0, 2.0, 3.5]) / 3**0.5),
        convex=False,
        scaled=lambda s: (1.0, (s, 3.5)),
    ),
    Row(
        "prox_group_l0",
        groups.prox_group_l0,
        kernels.group_l0_value,
        steps=(0.5, 0.02, 7.0),
        kinks=(3**-0.5,),
        convex=False,
        scaled=lambda s: (s * s, ()),
    ),
    Row(
        "prox_group_l_half",
        groups.prox_group_l_half,
        kernels.group_l_half_value,
        steps=(1.0, 0.03, 8.0),
        kinks=(0.75**0.5,),
        convex=False,
        scaled=lambda s: (s**1.5, ()),
    ),
    Row(
        "prox_smoothed_group_mcp",
        groups.prox_smoothed_group_mcp,
        kernels.smoothed_group_mcp_value,
        (1.0, 3.0, 0.5),
        steps=(0.5, 4.0),
        convex=False,
        tolerance=1e-6,
    ),
    Row(
        "prox_smoothed_group_scad",
        groups.prox_smoothed_group_scad,
        kernels.smoothed_group_scad_value,
        (1.0, 3.5, 0.5),
        steps=(1.0, 6.0),
        convex=False,
        tolerance=1e-6,
    ),
    Row(
        "prox_cube_l2",
        groups.prox_cube_l2,
        kernels.cube_l2_value,
        scaled=lambda s: (1 / s, ()),
    ),
    Row(
        "prox_group_huber",
        groups.prox_group_huber,
        kernels.group_huber_value,
        (1.2,),
        kinks=(1.4 * 1.2 / 3**0.5,),
        scaled=lambda s: (1.0, (1.2 * s,)),
    ),
    Row(
        "prox_l1_minus_l2",
        weighted(groups.prox_l1_minus_l2),
        kernels.l1_minus_l2_value,
        (1.0, 1.0),
        steps=(0.4, 2.5, 7.0),
        points=TIED,
        kinks=(0.4,),
        convex=False,
        scaled=lambda s: (s, (1.0, 1.0)),
    ),
    Row(
        "prox_l1_minus_l2",
        weighted(groups.prox_l1_minus_l2),
        kernels.l1_minus_l2_value,
        (1.0, 0.5),
        steps=(0.4, 2.5, 7.0),
        points=TIED,
        kinks=(0.4, 0.2),
        convex=False,
        scaled=lambda s: (s, (1.0, 0.5)),
    ),
    Row(
        "prox_l1_minus_l2",
        weighted(groups.prox_l1_minus_l2),
        kernels.l1_minus_l2_value,
        (1.0, 1.8),
        steps=(0.4, 2.5),
        points=TIED,
        convex=False,
    ),
]
