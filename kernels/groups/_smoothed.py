"""Proximal maps of smoothed folded concave penalties on the norms of groups.

Each is the elementwise map applied to the norm: see `shrink_norm` for the proof, which asks nothing
of the penalty, so that every regime of the step carries over.
"""

from jax import Array

from fedjax_admm.kernels._arguments import matched
from fedjax_admm.kernels.compiling import Above1, Scale, Size
from fedjax_admm.kernels.elementwise._folded_concave import mcp_value, scad_value
from fedjax_admm.kernels.elementwise._smoothed_abs import smoothed_abs
from fedjax_admm.kernels.elementwise._smoothed_folded_concave import (
    prox_smoothed_mcp,
    prox_smoothed_scad,
)
from fedjax_admm.kernels.groups._radial import Axis, radial_value, shrink_norm


def smoothed_group_mcp_value(
    x: Array, lam: Size, gamma: Scale, mu: Scale, axis: Axis = -1
) -> Array:
    """Smoothed MCP of norms, `g(x) = P(h_mu(||x||_2))`, P as in `mcp_value`.

    `h_mu` as in `smoothed_abs`. Derivative: smooth at `x = 0`, where it is 0: no kink.
    """
    x, lam, gamma, mu = matched(x, lam, gamma, mu)
    return radial_value(x, lambda norm: mcp_value(smoothed_abs(norm, mu), lam, gamma), axis)


def prox_smoothed_group_mcp(
    v: Array, step: Size, lam: Size, gamma: Scale, mu: Scale, axis: Axis = -1
) -> Array:
    """Proximal map of the smoothed MCP of norms, `g(x) = P(h_mu(||x||_2))`.

    `Prox(v; step) = v m / ||v||` with `m = prox_smoothed_mcp(||v||, step, lam, gamma, mu)`. Ties:
    those of `prox_smoothed_mcp`, the smaller norm. Derivative at `v = 0`: the identity times that
    of `prox_smoothed_mcp` at 0; elsewhere its conventions.

    Reference: Mirzaeifard and Werner, smoothed link penalties.
    """
    v, step, lam, gamma, mu = matched(v, step, lam, gamma, mu)
    return shrink_norm(v, lambda norm: prox_smoothed_mcp(norm, step, lam, gamma, mu), axis)


def smoothed_group_scad_value(
    x: Array, lam: Size, gamma: Above1, mu: Scale, axis: Axis = -1
) -> Array:
    """Smoothed SCAD of norms, `g(x) = P(h_mu(||x||_2))`, P as in `scad_value`.

    `h_mu` as in `smoothed_abs`. Derivative: smooth at `x = 0`, where it is 0: no kink.
    """
    x, lam, gamma, mu = matched(x, lam, gamma, mu)
    return radial_value(x, lambda norm: scad_value(smoothed_abs(norm, mu), lam, gamma), axis)


def prox_smoothed_group_scad(
    v: Array, step: Size, lam: Size, gamma: Above1, mu: Scale, axis: Axis = -1
) -> Array:
    """Proximal map of the smoothed SCAD of norms, `g(x) = P(h_mu(||x||_2))`.

    `Prox(v; step) = v m / ||v||` with `m = prox_smoothed_scad(||v||, step, lam, gamma, mu)`. Ties:
    those of `prox_smoothed_scad`, the smaller norm. Derivative at `v = 0`: the identity times that
    of `prox_smoothed_scad` at 0; elsewhere its conventions.

    Reference: Mirzaeifard and Werner, smoothed link penalties.
    """
    v, step, lam, gamma, mu = matched(v, step, lam, gamma, mu)
    return shrink_norm(v, lambda norm: prox_smoothed_scad(norm, step, lam, gamma, mu), axis)
