"""Rows: MCP and SCAD, plain and smoothed, on both sides of every limit of the step."""

import numpy as np

from tests.kernels.table.row import valued

# Rows on, and beside, the kinks of all rows below, and a grid.
POINTS = np.resize(np.concatenate([np.linspace(-9, 9, 24), [0.0, 1e-3, -1e-3]]), (9, 3))


def rows(name, regimes):
    """Return a row for every regime: step, parameters, kinks (or jumps)."""
    return [
        valued(
            name,
            parameters,
            steps=(step,),
            points=POINTS,
            kinks=kinks,
            convex=False,
            powers=(0, 1, 0, *(1,) * (len(parameters) - 2)) if parameters[0] > 0 else None,
            # The twin of the smoothed ones is a search, which resolves a minimiser to 1e-7 at best.
            tolerance=3e-6 if "smoothed" in name else 1e-9,
        )
        for step, parameters, kinks in regimes
    ]


# Kinks of the smoothed ones: the v whose minimiser is t = mu, where h_mu = lam and gamma lam.
ROWS = [
    *rows(
        "prox_mcp",
        [
            (0.5, (1.0, 3.0), (0.5, 3.0)),
            (2.999, (1.0, 3.0), (2.999, 3.0)),
            (3.0, (1.0, 3.0), (3.0,)),
            (4.0, (1.0, 2.25), (2.25, 3.0)),
            (0.5, (0.0, 3.0), ()),
        ],
    ),
    *rows(
        "prox_scad",
        [
            (1.0, (1.0, 3.5), (1.0, 2.0, 3.5)),
            (2.499, (1.0, 3.5), (2.499, 3.499, 3.5)),
            (2.5, (1.0, 3.5), (2.5, 3.5)),
            (3.5, (1.0, 3.5), (3.5, 4.0)),
            (4.5, (1.0, 3.5), (3.5, 4.5)),
            (8.0, (1.0, 3.5), (3.5, 6.0)),
            (0.5, (0.0, 3.5), ()),
        ],
    ),
    *rows(
        "prox_smoothed_mcp",
        [
            (0.5, (1.0, 3.0, 0.5), (0.5 + 0.5 * (1 - 0.5 / 3), 3.0)),
            (0.5, (1.0, 1.5, 2.0), (2.0**0.5,)),
            (0.5, (1.0, 0.75, 2.0), (0.75, 2.0)),
            (1.5, (1.0, 1.5, 0.5), ()),
            (4.0, (1.0, 2.0, 0.5), (0.5, 2.0)),
        ],
    ),
    *rows(
        "prox_smoothed_scad",
        [
            (0.5, (1.0, 3.0, 0.5), (1.0, 1.5, 3.0)),
            (0.5, (1.0, 3.0, 1.5), (1.5,)),
            (0.5, (0.4, 2.5, 1.5), (0.8660254037844386, 1.5)),
            (2.0, (1.0, 3.0, 0.5), (2.5,)),
            (5.0, (1.0, 3.0, 0.5), (0.5, 3.0)),
        ],
    ),
]
