"""Proximal maps of convex penalties on groups of entries."""

import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import Real, matched
from fedjax_admm.kernels._safe import safe_norm


def prox_group_l2(v: Array, step: Real, axis: int = -1) -> Array:
    """Proximal map of the Euclidean norm of groups, `g(x) = ||x||_2` along an axis.

    `Prox(v; step) = max(0, 1 - step / ||v||) v`, and 0 where `||v|| <= step`.

    Derivative at `v = 0`: 0 (exact for `step > 0`); at the kink `||v|| = step`: the mean of
    both sides.

    Args:
      v: points, any shape, floating dtype; the groups lie along `axis`.
      step: at least 0; broadcasts with `v` and has size 1 along `axis` (or is a number).
      axis: the axis that holds the entries of a group.

    Returns:
      Minimisers, broadcast shape, dtype of `v`.

    Reference: N. Parikh and S. Boyd, "Proximal Algorithms", Foundations and Trends in Optimization
    1(3), 2014, section 6.5.1 (block soft thresholding); M. Yuan and Y. Lin, "Model selection and
    estimation in regression with grouped variables", 2006.
    """
    v, step = matched(v, step)
    norm = safe_norm(v, axis, keepdims=True)
    positive = norm > 0
    kept = jnp.maximum(1 - step / jnp.where(positive, norm, 1.0), 0.0)
    return jnp.where(positive, kept, 0.0) * v
