"""Proximal maps of the smoothed folded concave penalties `P(h_mu(t))`, P = MCP or SCAD.

With `t >= 0` (both are odd maps) the objective `P(h_mu(t)) + (t - a)**2 / (2 step)` is
continuously differentiable: its minimiser is a root of
`psi(t) = t + step P'(h_mu(t)) min(t / mu, 1) - a`, and psi increases through it. The half line
is cut where the formula of psi or the sign of its slope changes; in each piece the root has a
closed form, and the signs of psi at both ends say whether it is there. Of the roots present (one
while the step is small, up to three beyond) the one with the least objective is taken.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from fedjax_admm.kernels._arguments import matched, undefined_by, widened
from fedjax_admm.kernels._safe import power_of_two
from fedjax_admm.kernels.compiling import Above1, Real, Scale, Size
from fedjax_admm.kernels.elementwise._folded_concave import mcp_value, scad_value
from fedjax_admm.kernels.elementwise._smoothed_abs import smoothed_abs


def smoothed_mcp_value(x: Array, lam: Size, gamma: Scale, mu: Scale) -> Array:
    """Smoothed MCP, `g(x) = P(h_mu(x))`.

    `P` as in `mcp_value`, `h_mu` as in `smoothed_abs`. Derivative: smooth at `x = 0`, where it is
    0: no kink.
    """
    x, lam, gamma, mu = matched(x, lam, gamma, mu)
    return mcp_value(smoothed_abs(x, mu), lam, gamma)


def prox_smoothed_mcp(v: Array, step: Size, lam: Size, gamma: Scale, mu: Scale) -> Array:
    """Proximal map of the smoothed MCP, `g(t) = P(h_mu(t))`: the global minimiser, every step.

    `P` as in `mcp_value`, `h_mu` as in `smoothed_abs`. Where `|result| >= mu` it obeys the formulas
    of `prox_mcp`; inside, while `s = h_mu(t) < gamma lam`, it is the smallest root of `t (1 + step
    lam / mu - step / (2 gamma)) - step t**3 / (2 gamma mu**2) = |v|`. Single-valued for `step <
    gamma`; `mu -> 0` gives `prox_mcp`.

    Ties (only for `step >= gamma`): the smaller magnitude. Derivative where two pieces meet: that
    of one of them; at `v = 0` both sides agree.

    Args:
      step: at least 0 (positive for derivatives in it).
      lam: slope of the penalty, at least 0.
      gamma: concavity, positive and finite.
      mu: smoothing parameter, positive.

    Reference: Mirzaeifard and Werner, smoothed link penalties; C.-H. Zhang, "Nearly unbiased
    variable selection under minimax concave penalty", Annals of Statistics 38(2), 2010.
    """
    v, step, lam, gamma, mu = matched(v, step, lam, gamma, mu)
    return _in_its_units(v, step, lam, gamma, mu, curvature=gamma, penalty=mcp_value)


def smoothed_scad_value(x: Array, lam: Size, gamma: Above1, mu: Scale) -> Array:
    """Smoothed SCAD, `g(x) = P(h_mu(x))`.

    `P` as in `scad_value`, `h_mu` as in `smoothed_abs`. Derivative: smooth at `x = 0`, where it is
    0: no kink.
    """
    x, lam, gamma, mu = matched(x, lam, gamma, mu)
    return scad_value(smoothed_abs(x, mu), lam, gamma)


def prox_smoothed_scad(v: Array, step: Size, lam: Size, gamma: Above1, mu: Scale) -> Array:
    """Proximal map of the smoothed SCAD, `g(t) = P(h_mu(t))`: the global minimiser, every step.

    `P` as in `scad_value`, `h_mu` as in `smoothed_abs`. Where `|result| >= mu` it obeys the
    formulas of `prox_scad`; inside it is `|v| mu / (mu + step lam)` while `s = h_mu(t) <= lam`,
    then the smallest root of `t (1 + step (gamma lam - mu / 2) / (mu (gamma - 1))) - step t**3 / (2
    mu**2 (gamma - 1)) = |v|` while `s <= gamma lam`, then `|v|`. Single-valued for `step < gamma -
    1`; `mu -> 0` gives `prox_scad`.

    Ties (only for `step >= gamma - 1`): the smaller magnitude. Derivative where two pieces meet:
    that of one of them; at `v = 0` both sides agree.

    Args:
      step: at least 0 (positive for derivatives in it).
      lam: slope of the penalty, at least 0.
      gamma: greater than 1 and finite.
      mu: smoothing parameter, positive.

    Reference: Mirzaeifard and Werner, smoothed link penalties; J. Fan and R. Li, "Variable
    selection via nonconcave penalized likelihood and its oracle properties", Journal of the
    American Statistical Association 96, 2001.
    """
    v, step, lam, gamma, mu = matched(v, step, lam, gamma, mu)
    return _in_its_units(
        v, step, lam, gamma, mu, curvature=gamma - 1, penalty=scad_value, linear=True
    )


def _in_its_units(
    v: Array,
    step: Array,
    lam: Array,
    gamma: Array,
    mu: Array,
    *,
    curvature: Array,
    penalty: Callable[[Array, Array, Array], Array],
    linear: bool = False,
) -> Array:
    """Minimiser in units of lam or mu, a power of two: cubes and squares stay within the range.

    `Prox(s v; step, lam, gamma, mu) = s Prox(v; step, lam / s, gamma, mu / s)`. Far points stay:
    from `|v| = gamma lam + lam sqrt(step (gamma + 1))` on, no gain of the penalty pays for the way.
    Points and parameters may differ by the root of the range, 1e17 in float32.
    """
    wide, step, lam, gamma, mu, curvature = (
        widened(number) for number in (v, step, lam, gamma, mu, curvature)
    )
    unit, inverse = power_of_two(stop_gradient(jnp.maximum(lam, mu)))
    lam, mu = lam * inverse, mu * inverse
    reach = stop_gradient(mu + lam * (2 * gamma + 1 + step))
    scaled = wide * inverse
    found = _prox_smoothed(
        jnp.clip(scaled, -reach, reach),
        step,
        lam,
        mu,
        curvature=curvature,
        flat_start=gamma * lam,
        linear_end=lam if linear else None,
        penalty=lambda t: penalty(t, lam, gamma),
    )
    found = jnp.where(jnp.abs(scaled) > reach, wide, unit * found)
    return undefined_by(found, step, lam, curvature, mu).astype(v.dtype)


def _prox_smoothed(
    v: Array,
    step: Real,
    lam: Real,
    mu: Real,
    *,
    curvature: Real,
    flat_start: Real,
    linear_end: Real | None,
    penalty: Callable[[Array], Array],
) -> Array:
    """Minimiser for `P' = lam` up to linear_end, then falling by 1 / curvature to flat_start.

    `linear_end` is None where the slope falls from 0 on (MCP).
    """
    sign = jnp.where(v >= 0, 1.0, -1.0)
    a = sign * v

    def slope(t: Array) -> Array:
        falling = jnp.clip((flat_start - smoothed_abs(t, mu)) / curvature, 0.0, lam)
        return t + step * falling * jnp.minimum(t / mu, 1.0) - a

    def objective(t: Array) -> Array:
        return step * penalty(smoothed_abs(t, mu)) + 0.5 * (t - a) ** 2

    # Inside, t = mu x with x in [0, 1]: the cubic is gain x - cubic x**3 = a, increasing up to
    # x = turn, and the trigonometric formula gives its smallest root.
    gain = mu + step * jnp.maximum(flat_start - 0.5 * mu, 0.0) / curvature
    positive_step = jnp.greater(step, 0)
    divisor = 1.5 * jnp.where(positive_step, step, 1.0) * mu
    turn = jnp.where(positive_step, jnp.sqrt(gain * curvature / divisor), 1e9)
    # arcsin has an infinite derivative at 1, the double root: stop one rounding before.
    eps = float(jnp.finfo(a.dtype).eps)
    share = a / gain
    sine = jnp.minimum(1.5 * share / turn, 1 - eps)
    # Of a small angle the cube is nothing: share is the root, whose sine may vanish.
    curved = jnp.where(sine < eps**0.5, share, 2 * turn * jnp.sin(jnp.arcsin(sine) / 3))
    cubic_root = mu * curved

    # Outside, while P' falls; for a larger step psi decreases there and has no candidate.
    increasing = jnp.less(step, curvature)
    ratio = step / jnp.where(increasing, curvature - step, 1.0)
    falling_root = a + ratio * (a - flat_start)

    # The cuts: only the roots between them carry derivatives.
    def inside(level: Real) -> Array:
        """The t in [0, mu] at which h_mu(t) = level."""
        return stop_gradient(mu * jnp.sqrt(jnp.clip(2 * (level / mu) - 1, 0.0, 1.0)))

    zero = jnp.zeros_like(a)
    start = zero if linear_end is None else inside(linear_end)
    end = inside(flat_start)
    top = jnp.clip(stop_gradient(mu * turn), start, end)
    edge = zero + stop_gradient(mu)
    flat = jnp.maximum(stop_gradient(flat_start), edge)
    bend = edge if linear_end is None else jnp.maximum(stop_gradient(linear_end), edge)
    pieces = [
        (start, top, cubic_root),
        (top, end, end),  # psi decreases: taken only where rounding hides the root beside it
        (end, edge, a),
        (bend, flat, falling_root),
        (flat, None, a),
    ]
    if linear_end is not None:
        pieces.insert(0, (zero, start, a * (mu / (mu + step * lam))))
        pieces.insert(4, (edge, bend, a - step * lam))

    best, least = a, jnp.inf
    for lower, upper, root in pieces:
        present = slope(lower) <= 0
        root = jnp.where(root < lower, lower, root)
        if upper is not None:
            present &= (upper > lower) & (slope(upper) >= 0)
            root = jnp.where(root > upper, upper, root)
        value = jnp.where(present, stop_gradient(objective(root)), jnp.inf)
        better = value < least
        best, least = jnp.where(better, root, best), jnp.where(better, value, least)
    return sign * best
