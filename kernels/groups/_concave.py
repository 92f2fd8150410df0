"""Proximal maps of folded concave and power penalties on the norms of groups.

Each is the elementwise map applied to the norm: see `shrink_norm` for the proof, which asks nothing
of the penalty, so that every regime of the step carries over.
"""

from jax import Array

from fedjax_admm.kernels._arguments import matched, weighed
from fedjax_admm.kernels.compiling import Above1, Scale, Size
from fedjax_admm.kernels.elementwise._folded_concave import (
    mcp_value,
    prox_mcp,
    prox_scad,
    scad_value,
)
from fedjax_admm.kernels.elementwise._powers import l0_value, l_half_value, prox_l0, prox_l_half
from fedjax_admm.kernels.groups._radial import Axis, radial_value, shrink_norm


def group_mcp_value(x: Array, lam: Size, gamma: Scale, axis: Axis = -1) -> Array:
    """Minimax concave penalty of norms, `g(x) = P(||x||_2)`, P as in `mcp_value`.

    Derivative at the kink `x = 0`: 0; no other kink.
    """
    x, lam, gamma = matched(x, lam, gamma)
    return radial_value(x, lambda norm: mcp_value(norm, lam, gamma), axis)


def prox_group_mcp(v: Array, step: Size, lam: Size, gamma: Scale, axis: Axis = -1) -> Array:
    """Proximal map of the minimax concave penalty of norms, `g(x) = P(||x||_2)`.

    `Prox(v; step) = v prox_mcp(||v||, step, lam, gamma) / ||v||`: the firm threshold of the norm
    for `step < gamma`, the hard threshold beyond.

    Ties, `||v|| = lam sqrt(gamma step)` with `step >= gamma`: 0 is returned. Derivative at `v = 0`:
    0 for `step lam > 0`; at the kinks of the norm that of `prox_mcp`.

    Reference: J. Huang, P. Breheny and S. Ma, "A Selective Review of Group Selection in
    High-Dimensional Models", Statistical Science 27(4), 2012.
    """
    v, step, lam, gamma = matched(v, step, lam, gamma)
    return shrink_norm(v, lambda norm: prox_mcp(norm, step, lam, gamma), axis)


def group_scad_value(x: Array, lam: Size, gamma: Above1, axis: Axis = -1) -> Array:
    """SCAD of norms, `g(x) = P(||x||_2)`, P as in `scad_value`.

    Derivative at the kink `x = 0`: 0; no other kink.
    """
    x, lam, gamma = matched(x, lam, gamma)
    return radial_value(x, lambda norm: scad_value(norm, lam, gamma), axis)


def prox_group_scad(v: Array, step: Size, lam: Size, gamma: Above1, axis: Axis = -1) -> Array:
    """Proximal map of SCAD of norms, `g(x) = P(||x||_2)`.

    `Prox(v; step) = v prox_scad(||v||, step, lam, gamma) / ||v||`, in all three regimes of
    `prox_scad`. Ties, at the two jumps of `prox_scad`: the shrunk group is returned, not `v`.
    Derivative at `v = 0`: 0 for `step lam > 0`; at the kinks of the norm that of `prox_scad`.

    Reference: J. Huang, P. Breheny and S. Ma, "A Selective Review of Group Selection in
    High-Dimensional Models", Statistical Science 27(4), 2012.
    """
    v, step, lam, gamma = matched(v, step, lam, gamma)
    return shrink_norm(v, lambda norm: prox_scad(norm, step, lam, gamma), axis)


def group_l0_value(x: Array, weight: Size = 1.0, axis: Axis = -1) -> Array:
    """Count of groups that are not 0, `g(x) = 1 where x != 0, else 0`.

    Derivative: 0 everywhere.
    """
    return radial_value(x, lambda norm: l0_value(norm, weight), axis)


def prox_group_l0(v: Array, step: Size, weight: Size = 1.0, axis: Axis = -1) -> Array:
    """Proximal map of the number of groups that are not 0, `g(x) = 1 where x != 0, else 0`.

    `Prox(v; step) = 0` where `||v|| <= sqrt(2 step)`, else `v`. Ties, `||v|| = sqrt(2 step)`: 0 is
    returned, not `v`. Derivative: the identity beyond the threshold, 0 up to it and at the jump.

    Reference: Y. C. Eldar, P. Kuppinger and H. Bolcskei, "Block-Sparse Signals: Uncertainty
    Relations and Efficient Recovery", IEEE Transactions on Signal Processing 58(6), 2010.
    """
    v, step = weighed(v, step, weight)
    return shrink_norm(v, lambda norm: prox_l0(norm, step), axis)


def group_l_half_value(x: Array, weight: Size = 1.0, axis: Axis = -1) -> Array:
    """Square root of the norms of groups, `g(x) = ||x||_2**(1/2)`.

    Derivative at the kink `x = 0`: 0, though the slope is infinite.
    """
    return radial_value(x, lambda norm: l_half_value(norm, weight), axis)


def prox_group_l_half(v: Array, step: Size, weight: Size = 1.0, axis: Axis = -1) -> Array:
    """Proximal map of the square root of norms, `g(x) = ||x||_2**(1/2)`.

    `Prox(v; step) = v prox_l_half(||v||, step) / ||v||`: 0 where `||v|| <= 3/2 step**(2/3)`. Ties,
    `||v|| = 3/2 step**(2/3)`: 0 is returned. Derivative at `v = 0`: 0 for `step > 0`; 0 up to the
    jump and at it, exact beyond.

    Reference: Y. Hu, C. Li, K. Meng, J. Qin and X. Yang, "Group Sparse Optimization via l_{p,q}
    Regularization", Journal of Machine Learning Research 18, 2017.
    """
    v, step = weighed(v, step, weight)
    return shrink_norm(v, lambda norm: prox_l_half(norm, step), axis)
