"""One table of elementwise kernels: parameters on both sides of every regime limit, and kinks."""

from typing import NamedTuple

import numpy as np

import fedjax_admm.kernels as kernels


class Case(NamedTuple):
    name: str
    parameters: tuple[float, ...]
    kinks: tuple[float, ...]  # of v >= 0 unless the map is not odd
    jumps: tuple[float, ...] = ()  # where two minimisers tie: excluded from twin comparisons
    odd: bool = True
    nonexpansive: bool = True

    @property
    def kernel(self):
        return getattr(kernels, self.name)

    @property
    def special_points(self):
        """Zero, every kink and jump, mirrored."""
        points = np.array([0.0, *self.kinks, *self.jumps])
        return np.unique(np.concatenate([points, -points])) + 0.0

    def points(self, count=61, reach=9.0):
        """A grid with the kinks and their neighbours in float64, the jumps left out."""
        kinks = np.array([0.0, *self.kinks])
        near = np.concatenate([kinks, np.nextafter(kinks, 99.0), np.nextafter(kinks, -99.0)])
        grid = np.unique(np.concatenate([np.linspace(-reach, reach, count), near, -near]))
        keep = np.ones(grid.shape, bool)
        for jump in self.jumps:
            keep &= np.abs(np.abs(grid) - jump) > 1e-6
        return grid[keep]

    def __str__(self):
        return f"{self.name}{self.parameters}"


def _many_valued(name, parameters, kinks, jumps=()):
    return Case(name, parameters, kinks, jumps, nonexpansive=False)


SIMPLE = [
    Case("soft_threshold", (0.7,), (0.7,)),
    Case("soft_threshold", (0.0,), ()),
    Case("prox_l1", (0.7,), (0.7,)),
    Case("prox_elastic_net", (0.5, 1.2, 0.8), (0.6,)),
    Case("prox_elastic_net", (0.5, 0.0, 0.8), ()),
    Case("project_box", (-1.0, 2.0), (1.0, 2.0), odd=False),
    Case("prox_pinball", (2.0, 0.25), (0.5, 1.5), odd=False),
    Case("project_linf_ball", (1.5,), (1.5,)),
    Case("prox_squared_l2", (0.5, 3.0), ()),
    Case("prox_smoothed_abs", (1.0, 0.5), (1.5,)),
    Case("smoothed_abs", (0.5,), (0.5,), odd=False),
    _many_valued("prox_mcp", (0.5, 1.0, 3.0), (0.5, 3.0)),
    _many_valued("prox_mcp", (2.999, 1.0, 3.0), (2.999, 3.0)),
    _many_valued("prox_mcp", (3.0, 1.0, 3.0), (), (3.0,)),
    _many_valued("prox_mcp", (4.0, 1.0, 2.25), (2.25,), (3.0,)),
    _many_valued("prox_mcp", (0.5, 0.0, 3.0), ()),
    _many_valued("prox_scad", (1.0, 1.0, 3.5), (1.0, 2.0, 3.5)),
    _many_valued("prox_scad", (2.499, 1.0, 3.5), (2.499, 3.499, 3.5)),
    _many_valued("prox_scad", (2.5, 1.0, 3.5), (2.5,), (3.5,)),
    _many_valued("prox_scad", (3.5, 1.0, 3.5), (3.5,), (4.0,)),
    _many_valued("prox_scad", (4.5, 1.0, 3.5), (3.5,), (4.5,)),
    _many_valued("prox_scad", (8.0, 1.0, 3.5), (3.5,), (6.0,)),
    _many_valued("prox_scad", (0.5, 0.0, 3.5), ()),
]

# Kinks: the v whose minimiser is t = mu, where h_mu = lam and where h_mu = gamma lam.
SMOOTHED = [
    _many_valued("prox_smoothed_mcp", (0.5, 1.0, 3.0, 0.5), (0.5 + 0.5 * (1 - 0.5 / 3), 3.0)),
    _many_valued("prox_smoothed_mcp", (0.5, 1.0, 1.5, 2.0), (np.sqrt(2.0),)),
    _many_valued("prox_smoothed_mcp", (0.5, 1.0, 0.75, 2.0), (0.75, 2.0)),
    _many_valued("prox_smoothed_mcp", (1.5, 1.0, 1.5, 0.5), (), ()),
    _many_valued("prox_smoothed_mcp", (4.0, 1.0, 2.0, 0.5), (0.5, 2.0)),
    _many_valued("prox_smoothed_scad", (0.5, 1.0, 3.0, 0.5), (1.0, 1.5, 3.0)),
    _many_valued("prox_smoothed_scad", (0.5, 1.0, 3.0, 1.5), (1.5 * 1.0,)),
    _many_valued("prox_smoothed_scad", (0.5, 0.4, 2.5, 1.5), (0.8660254037844386, 1.5)),
    _many_valued("prox_smoothed_scad", (2.0, 1.0, 3.0, 0.5), (2.5,)),
    _many_valued("prox_smoothed_scad", (5.0, 1.0, 3.0, 0.5), (0.5, 3.0)),
]

ELEMENTWISE = SIMPLE + SMOOTHED
PENALTIES = [
    Case("mcp_value", (1.0, 3.0), (3.0,), odd=False),
    Case("scad_value", (1.0, 3.0), (1.0, 3.0), odd=False),
]
