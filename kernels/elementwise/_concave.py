"""Proximal maps of smooth concave functions of the magnitude: log-sum, Geman, exponential.

With `t = |x|` each g rises concavely from 0, its slope falling convexly. The stationary points
beyond 0 solve one equation in one variable; the largest root is the only local minimum, if there is
a root at all. While the objective is convex (`step` times the curvature at 0 up to 1) the map is
continuous and leaves 0 at `|v| = step g'(0)`. Beyond, it jumps where the objective at the root
falls below that at 0, which is decided by comparing the two. Results are `|v| - step g'(x)`: exact
to rounding of the point, wherever the root lies.

The jumps are found again by brute force in the tests.
"""

import math

import jax
import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from fedjax_admm.kernels._arguments import matched, weighed, widened
from fedjax_admm.kernels.compiling import Scale, Size


def _chosen(v: Array, wide: Array, x: Array, zero: Array) -> Array:
    """Return x with the sign of the point, and 0 where the minimiser is 0, in its dtype."""
    return jnp.where(zero, 0.0, jnp.sign(wide) * jnp.maximum(x, 0.0)).astype(v.dtype)


def log_sum_value(x: Array, weight: Size, epsilon: Scale) -> Array:
    """Log-sum penalty, `g(x) = log(1 + |x| / epsilon)`.

    Derivative at the kink `x = 0`: 0, of [-1 / epsilon, 1 / epsilon].
    """
    x, weight, epsilon = matched(x, weight, epsilon)
    return weight * _log_sum(widened(x * jnp.sign(x)), widened(epsilon)).astype(x.dtype)


def _log_sum(x: Array, epsilon: Array) -> Array:
    """Return the value for x >= 0; the ratio may exceed the range, its logarithm does not."""
    large = x > epsilon
    near = jnp.log1p(jnp.where(large, 1.0, x) / epsilon)
    ratio = epsilon / jnp.where(large, x, epsilon)
    far = jnp.log(jnp.where(large, x, 1.0)) - jnp.log(epsilon) + jnp.log1p(ratio)
    return jnp.where(large, far, near)


def _log_sum_at_once(x: Array, epsilon: Array) -> Array:
    """Return the same with one logarithm, for comparisons: its derivatives may be infinite."""
    finfo = jnp.finfo(x.dtype)
    far = x * 2.0 ** (2 - finfo.maxexp) > epsilon  # there 1 + ratio is the ratio, also scaled
    power = finfo.maxexp - finfo.nmant - 5
    ratio = jnp.where(far, x * 2.0**-power, x) / epsilon
    return jnp.log1p(jnp.minimum(ratio, float(finfo.max))) + jnp.where(
        far, power * math.log(2), 0.0
    )


def prox_log_sum(v: Array, step: Size, weight: Size, epsilon: Scale) -> Array:
    """Proximal map of the log-sum penalty, `g(x) = log(1 + |x| / epsilon)`, for every step.

    The candidate beside 0, of the sign of `v`, is `x = (|v| - epsilon + sqrt((|v| + epsilon)**2 - 4
    step)) / 2`, where that root is real. `step <= epsilon**2`: 0 where `|v| <= step / epsilon`,
    else `x`; continuous. `step > epsilon**2`: `x` where it is real, positive and `g(x) + (x -
    |v|)**2 / (2 step)` is below `v**2 / (2 step)`, else 0. The threshold of existence `2 sqrt(step)
    - epsilon` alone is not enough: up to the jump, 0 is the better of two local minima.

    The penalty `log(|x| + delta)` differs by a constant from that with `epsilon = delta`; `sigma
    log(1 + gamma |x|) / log(1 + gamma)` is `epsilon = 1 / gamma` and `step` times `sigma / log(1 +
    gamma)`.

    Ties, where both objectives are equal: 0 is returned. Derivative: 0 at the kink `|v| = step /
    epsilon` and at the jump, that of the constant 0.

    Args:
      epsilon: positive.

    Reference: A. Prater-Bennette, L. Shen and E. E. Tripp, "The Proximity Operator of the Log-Sum
    Penalty", Journal of Scientific Computing 93, 2022 (both regimes); E. J. Candes, M. B. Wakin and
    S. P. Boyd, "Enhancing Sparsity by Reweighted l1 Minimization", Journal of Fourier Analysis and
    Applications 14, 2008.
    """
    v, step, epsilon = weighed(v, step, weight, epsilon)
    wide, step, epsilon = widened(v), widened(step), widened(epsilon)
    magnitude = wide * jnp.sign(wide)
    total = magnitude + epsilon
    missing = stop_gradient(4 * (step / total) / total) >= 1
    # Masked before the square root and after it: neither branch has an infinite derivative.
    inside = 1 - 4 * (jnp.where(missing, 0.0, step) / total) / total
    slope = jnp.where(missing, 0.0, step) / (0.5 * total * (1 + jnp.sqrt(inside)))
    x = magnitude - slope

    place, point = stop_gradient(x), stop_gradient(magnitude)
    positive = jnp.where(place > 0, place, 1.0)
    worse = (step / positive) * _log_sum_at_once(
        positive, stop_gradient(epsilon)
    ) >= point - 0.5 * place
    convex = step / epsilon <= epsilon
    zero = jnp.where(convex, point <= step / epsilon, worse | (place <= 0))
    return _chosen(v, wide, x, missing | stop_gradient(zero))


@jax.custom_jvp
def _geman_root(v: Array, step: Array, gamma: Array) -> Array:
    """Return the largest root of `(x - v) (x + gamma)**2 + step gamma`, where there is one."""
    total = v + gamma
    # x + gamma is total (2/3 + r) with the root r >= 0 of r**2 (1 + r) = t.
    t = jnp.maximum(4 / 27 - (step / total) * (gamma / total) / total, 0.0)
    s = jnp.sqrt(t)
    r = s * (1 + s * (-0.47285943 + s * 0.33299285))  # a fit within 2e-3 of the root
    for _ in range(3 if t.dtype.itemsize == 8 else 2):
        r = r - (r * r * (1 + r) - t) / (jnp.where(r > 0, r, 1.0) * (2 + 3 * r))
    shifted = total * (2 / 3 + r)
    return v - (step / shifted) * (gamma / shifted)


@_geman_root.defjvp
def _geman_slope(primals: tuple[Array, ...], tangents: tuple[Array, ...]) -> tuple[Array, Array]:
    """Differentiate `x + step gamma / (x + gamma)**2 = v`."""
    v, step, gamma = primals
    x = _geman_root(v, step, gamma)
    inverse = 1 / (x + gamma)
    share = gamma * inverse
    curvature = 1 - 2 * (step * (share * inverse)) * inverse
    by_gamma = (step * inverse) * (1 - 2 * share) * inverse
    moved = tangents[0] - (share * inverse) * tangents[1] - by_gamma * tangents[2]
    return x, moved / jnp.where(curvature > 0, curvature, 1.0)


def geman_value(x: Array, weight: Size, gamma: Scale) -> Array:
    """Geman penalty, `g(x) = |x| / (|x| + gamma)`.

    Derivative at the kink `x = 0`: 0, of [-1 / gamma, 1 / gamma].
    """
    x, weight, gamma = matched(x, weight, gamma)
    magnitude = x * jnp.sign(x)
    return weight * (magnitude / (magnitude + gamma))


def prox_geman(v: Array, step: Size, weight: Size, gamma: Scale) -> Array:
    """Proximal map of the Geman penalty, `g(x) = |x| / (|x| + gamma)`, for every step.

    The candidate beside 0, of the sign of `v`, is `x = a (2/3 + r) - gamma` with `a = |v| + gamma`
    and the root `r >= 0` of `r**2 (1 + r) = 4/27 - step gamma / a**3`, where the right side is
    positive: the largest root of the cubic `(x - |v|) (x + gamma)**2 + step gamma = 0`. `step <=
    gamma**2 / 2`: 0 where `|v| <= step / gamma`, else `x`; continuous. `step > gamma**2 / 2`: `x`
    where it is positive and `step / (x + gamma) < |v| - x / 2` (its objective is below that of 0),
    else 0.

    Ties, where both objectives are equal: 0 is returned. Derivative: 0 at the kink `|v| = step /
    gamma` and at the jump, that of the constant 0.

    Args:
      gamma: positive.

    Reference: D. Geman and C. Yang, "Nonlinear image recovery with half-quadratic regularization",
    IEEE Transactions on Image Processing 4(7), 1995 (penalty); cubic and regimes derived in the
    comments of the module.
    """
    v, step, gamma = weighed(v, step, weight, gamma)
    wide, step, gamma = widened(v), widened(step), widened(gamma)
    magnitude = wide * jnp.sign(wide)
    total = magnitude + gamma
    missing = stop_gradient((step / total) * (gamma / total) / total) >= 4 / 27
    x = _geman_root(*jnp.broadcast_arrays(magnitude, jnp.where(missing, 0.0, step), gamma))

    place, point = stop_gradient(x), stop_gradient(magnitude)
    worse = step / (place + gamma) >= point - 0.5 * place
    convex = 2 * (step / gamma) <= gamma
    zero = jnp.where(convex, point <= step / gamma, worse | (place <= 0))
    return _chosen(v, wide, x, missing | stop_gradient(zero))


@jax.custom_jvp
def _branch(h: Array) -> Array:
    """Return the root w <= 1 of `w exp(-w) = h` for h from 0 to 1 / e: minus Lambert's W of -h."""
    p = jnp.sqrt(jnp.maximum(2 - 2 * jnp.e * h, 0.0))
    fit = 0.3319999 + p * (-0.14256825 + p * (0.05262297 + p * -0.01010933))
    w = 1 - p * (1 - p * fit)  # within 2e-4 of the distance to the branch point
    for _ in range(2):
        target = h * jnp.exp(w)
        w = w - (w - target) / jnp.maximum(1 - target, jnp.finfo(h.dtype).eps ** 0.5)
    return jnp.minimum(w, 1.0)


@_branch.defjvp
def _branch_slope(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    w = _branch(*primals)
    return w, tangents[0] * (jnp.exp(w) / jnp.where(w < 1, 1 - w, 1.0))


def _initial_slope(gamma: Array) -> Array:
    """Return `gamma / (1 - exp(-gamma))`; near 0 by its series: its derivative does not cancel."""
    near = gamma < 0.25
    small, large = jnp.where(near, gamma, 0.0), jnp.where(near, 1.0, gamma)
    square = small * small
    last = 1 / 1209600 - square / 47900160
    even = 1 / 12 - square * (1 / 720 - square * (1 / 30240 - square * last))
    return jnp.where(near, 1 + small / 2 + square * even, large / -jnp.expm1(-large))


def exponential_type_value(x: Array, weight: Size, gamma: Scale) -> Array:
    """Exponential-type penalty, `g(x) = (1 - exp(-gamma |x|)) / (1 - exp(-gamma))`.

    Derivative at the kink `x = 0`: 0, of [-g'(0), g'(0)].
    """
    x, weight, gamma = matched(x, weight, gamma)
    return weight * (jnp.expm1(-gamma * (x * jnp.sign(x))) / jnp.expm1(-gamma))


def prox_exponential_type(v: Array, step: Size, weight: Size, gamma: Scale) -> Array:
    """Proximal map of `g(x) = (1 - exp(-gamma |x|)) / (1 - exp(-gamma))`, for every step.

    With `c = step gamma**2 / (1 - exp(-gamma))` the candidate beside 0, of the sign of `v`, is `x =
    |v| - w / gamma` with the root `w <= 1` of `w exp(-w) = c exp(-gamma |v|)` (minus Lambert's W),
    where the right side is at most `1 / e`. `c <= 1`: 0 where `gamma |v| <= c`, else `x`;
    continuous. `c > 1`: `x` where it is positive and `g(x) + (x - |v|)**2 / (2 step)` is below
    `v**2 / (2 step)`, else 0.

    Ties, where both objectives are equal: 0 is returned. Derivative: 0 at the kink `gamma |v| = c`
    and at the jump, that of the constant 0.

    Args:
      gamma: positive and finite.

    Reference: C. Gao, N. Wang, Q. Yu and Z. Zhang, "A Feasible Nonconvex Relaxation Approach to
    Feature Selection", AAAI 2011 (penalty); R. M. Corless, G. H. Gonnet, D. E. G. Hare, D. J.
    Jeffrey and D. E. Knuth, "On the Lambert W function", Advances in Computational Mathematics 5,
    1996 (the root).
    """
    v, step, gamma = weighed(v, step, weight, gamma)
    wide, step, gamma = widened(v), widened(step), widened(gamma)
    magnitude = wide * jnp.sign(wide)
    slope = jnp.minimum(step * _initial_slope(gamma), float(jnp.finfo(wide.dtype).max))
    decay = jnp.exp(-gamma * magnitude)
    # For a larger c the jump lies where exp(-gamma |v|) is 0 in every dtype.
    c = jnp.minimum(slope * gamma, 1e8)
    missing = stop_gradient(c * decay) > 1 / jnp.e
    w = _branch(jnp.where(missing, 0.0, c * decay))
    x = magnitude - slope * (decay * jnp.exp(w))

    place, point = stop_gradient(x), stop_gradient(magnitude)
    positive = jnp.where(place > 0, place, 1.0)
    rise = jnp.expm1(-gamma * positive) / jnp.expm1(-gamma)
    worse = (step / positive) * rise >= point - 0.5 * place
    zero = jnp.where(c <= 1, point <= slope, worse | (place <= 0))
    return _chosen(v, wide, x, missing | stop_gradient(zero))
