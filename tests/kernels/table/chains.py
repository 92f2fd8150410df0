"""Rows: chains and images."""

import numpy as np

import fedjax_admm.kernels as kernels
from tests.kernels.table.row import Row, valued
from tests.reference import prox_chains as reference

# Steps, noise, ties, a constant; chains that cost little to solve by hand.
CHAINS = np.array(
    [
        [0.3, -1.7, 4.1, 4.0, 3.2, -0.6],
        [1.0, 1.0, 2.0, 2.0, -3.0, 1.0],
        [0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
        [2.0, 3.0, 3.0, 6.0, 8.0, 11.0],
        [-1.0, 1.0, -1.0, 1.0, -1.0, 1.0],
    ]
)
WEIGHTS = np.array([[0.5, 2.0, 0.0, 1.0, 3.0]])
# A step, an edge across, noise with ties, a constant.
IMAGES = np.array(
    [
        [[0.3, -1.7, 4.1, 4.0], [0.2, -1.5, 4.4, 3.0], [0.1, 2.0, 3.5, 3.9]],
        [[1.0, 1.0, 2.0, -2.0], [1.0, 3.0, -2.0, -2.0], [0.0, -3.0, -1.0, -2.0]],
        [[2.0, 2.0, 2.0, 2.0], [2.0, 2.0, 2.0, 2.0], [2.0, 2.0, 2.0, 2.0]],
    ]
)
# Enough rounds for all digits on so few entries.
MANY = {"iterations": 2000}

ROWS: list[Row] = [
    valued("prox_tv1d", points=CHAINS, powers=(1,)),
    Row(
        "prox_tv1d",
        (WEIGHTS,),
        value=lambda x, weights: kernels.tv1d_value(x, weights[0] if x.ndim == 1 else weights),
        points=CHAINS,
        powers=(1, 0),
    ),
    valued("prox_fused_lasso", (0.5, 1.5), points=CHAINS, kinks=(0.2,), powers=(1, 0, 0)),
    *(
        Row(
            f"prox_tv2d_{kind}",
            twin=getattr(reference, f"prox_tv2d_{kind}"),
            static=MANY,
            points=IMAGES,
            powers=(1,),
            tolerance=1e-6,
        )
        for kind in ("anisotropic", "isotropic")
    ),
    *(
        Row(
            "prox_trend_filter",
            static={"order": order, "iterations": 1000},
            points=CHAINS,
            powers=(1,),
            tolerance=1e-7,
        )
        for order in (1, 2)
    ),
]
