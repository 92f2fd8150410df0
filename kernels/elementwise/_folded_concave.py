"""The folded concave penalties MCP and SCAD: values and proximal maps for every step.

Both rise like `lam |x|` at 0 and are flat from `|x| = gamma lam` on. Their proximal maps are
those of weakly convex functions only while the step is small; beyond that limit the problem has
several stationary points and the global minimiser jumps. All regimes are here.
"""

import jax.numpy as jnp
from jax import Array
from jax.lax import stop_gradient

from fedjax_admm.kernels._arguments import matched, undefined_by, widened
from fedjax_admm.kernels._safe import power_of_two
from fedjax_admm.kernels.compiling import Above1, Scale, Size
from fedjax_admm.kernels.elementwise._absolute import magnitude_of, soft_threshold


def mcp_value(v: Array, lam: Size, gamma: Scale) -> Array:
    """Minimax concave penalty.

    `P(v) = lam |v| - v**2 / (2 gamma)` where `|v| <= gamma lam`, else `gamma lam**2 / 2`.
    Subgradient at the kink `v = 0`: 0, of [-lam, lam]; no other kink.
    """
    v, lam, gamma = matched(v, lam, gamma)
    capped = jnp.minimum(magnitude_of(v), gamma * lam)
    return capped * (lam - 0.5 * capped / gamma)


def scad_value(v: Array, lam: Size, gamma: Above1) -> Array:
    """Smoothly clipped absolute deviation penalty.

    With `t = |v|`: `P = lam t` for `t <= lam`, `(2 gamma lam t - t**2 - lam**2) / (2 (gamma - 1))`
    for `lam < t <= gamma lam`, `(gamma + 1) lam**2 / 2` above. Subgradient at the kink `v = 0`: 0,
    of [-lam, lam]; no other kink.
    """
    v, lam, gamma = matched(v, lam, gamma)
    magnitude = magnitude_of(v)
    linear = lam * jnp.minimum(magnitude, lam)
    # Beyond lam the slope falls linearly to 0 at gamma lam: length times mean slope.
    capped = jnp.clip(magnitude, lam, gamma * lam)
    return linear + (capped - lam) * (gamma * lam - 0.5 * (capped + lam)) / (gamma - 1)


def prox_mcp(v: Array, step: Size, lam: Size, gamma: Scale) -> Array:
    """Proximal map of the minimax concave penalty, the global minimiser for every step.

    `step < gamma` (firm threshold): `S(v, step lam) / (1 - step / gamma)` where `|v| <= gamma
    lam`, else `v`. `step >= gamma` (hard threshold): 0 where `|v| <= lam sqrt(gamma step)`,
    else `v`. `S` is the soft threshold. With `gamma = 1` and `lam = sqrt(2 mu)` this is the map
    of the quadratic envelope of `mu` times the number of nonzero entries, `mu - max(sqrt(2 mu)
    - |x|, 0)**2 / 2`.

    Ties, `|v| = lam sqrt(gamma step)` with `step >= gamma`: 0 is returned. Derivative at the kinks:
    at `|v| = step lam` the mean of both sides, at `|v| = gamma lam` that from within; at the jump
    that of the constant 0.

    Args:
      lam: slope at 0, at least 0.
      gamma: concavity, positive.

    Reference: C.-H. Zhang, "Nearly unbiased variable selection under minimax concave penalty",
    Annals of Statistics 38(2), 2010 (penalty, firm threshold); H.-Y. Gao and A. G. Bruce,
    "WaveShrink with firm shrinkage", Statistica Sinica 7, 1997.
    """
    v, step, lam, gamma = matched(v, step, lam, gamma)
    dtype = v.dtype
    v, step, lam, gamma = (widened(number) for number in (v, step, lam, gamma))
    magnitude = jnp.abs(v)
    single_valued = jnp.less(step, gamma)
    contraction = jnp.where(single_valued, 1 - step / gamma, 1.0)
    firm = soft_threshold(v, step * lam) / contraction
    # The second condition holds in exact arithmetic; near step = gamma rounding breaks it.
    firm = jnp.where((magnitude <= gamma * lam) & (jnp.abs(firm) <= magnitude), firm, v)
    hard = jnp.where(magnitude <= lam * (jnp.sqrt(gamma) * jnp.sqrt(step)), 0.0, v)
    found = jnp.where(single_valued, firm, hard)
    return undefined_by(found, step, lam, gamma).astype(dtype)


def prox_scad(v: Array, step: Size, lam: Size, gamma: Above1) -> Array:
    """Proximal map of SCAD, the global minimiser for every step.

    `step < gamma - 1`: `S(v, step lam)` where `|v| <= (1 + step) lam`, `((gamma - 1) v - sign(v)
    step gamma lam) / (gamma - 1 - step)` up to `|v| = gamma lam`, `v` above. `gamma - 1 <= step <=
    gamma + 1`: `S(v, step lam)` where `|v| <= (gamma + 1 + step) lam / 2`, else `v`. `step > gamma
    + 1`: 0 where `|v| <= lam sqrt(step (gamma + 1))`, else `v`. `S` is the soft threshold.

    Ties, at the two jumps: the shrunk value is returned, not `v`. Derivative at the kinks: at `|v|
    = step lam` the mean of both sides, else that of the piece nearer 0.

    Args:
      lam: slope at 0, at least 0.
      gamma: greater than 1 (2 and more in the reference).

    Reference: J. Fan and R. Li, "Variable selection via nonconcave penalized likelihood and its
    oracle properties", Journal of the American Statistical Association 96, 2001, equation (2.8)
    (unit step); the regimes of larger steps follow by comparing the stationary points.
    """
    v, step, lam, gamma = matched(v, step, lam, gamma)
    dtype = v.dtype
    v, step, lam, gamma = (widened(number) for number in (v, step, lam, gamma))
    # In units of lam: with a large gamma the product gamma lam would leave the range.
    unit, inverse = power_of_two(stop_gradient(lam))
    point, lam, largest = v, lam * inverse, float(jnp.finfo(v.dtype).max)
    v = jnp.clip(v * inverse, -largest, largest)
    magnitude = jnp.abs(v)
    curvature = gamma - 1
    single_valued = jnp.less(step, curvature)
    soft = soft_threshold(v, step * lam)
    # Written around |v| = gamma lam, and never below lam: stable however near step is to gamma - 1.
    ratio = step / jnp.where(single_valued, curvature - step, 1.0)
    middle = jnp.sign(v) * jnp.maximum(magnitude + ratio * (magnitude - gamma * lam), lam)
    soft_end = jnp.where(single_valued, (1 + step) * lam, 0.5 * (gamma + 1 + step) * lam)
    middle_end = jnp.where(single_valued, gamma * lam, soft_end)
    near = unit * jnp.where(magnitude <= soft_end, soft, middle)
    large = jnp.greater(step, gamma + 1)
    end = jnp.where(large, lam * (jnp.sqrt(step) * jnp.sqrt(gamma + 1)), middle_end)
    found = jnp.where(magnitude <= end, jnp.where(large, 0.0, near), point)
    return undefined_by(found, step, lam, gamma).astype(dtype)
