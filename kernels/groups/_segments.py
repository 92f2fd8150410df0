"""Proximal maps on ragged groups: entries along one axis, each with the number of its segment."""

import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import along, matched, widened
from fedjax_admm.kernels.compiling import Size
from fedjax_admm.kernels.elementwise._absolute import soft_threshold
from fedjax_admm.kernels.groups._radial import kept_share, segment_norm


def segments_l2_value(
    x: Array, weights: Size, segments: Array, *, count: int, axis: int = -1
) -> Array:
    """Weighted sum of the norms of segments, `g(x) = sum_s weights_s ||x_s||_2`.

    Derivative at the kinks `x_s = 0`: 0.
    """
    x, weights = matched(x, weights)
    norms, _ = segment_norm(x, segments, count, axis)
    return jnp.sum(widened(along(x, weights, axis)) * norms, axis).astype(x.dtype)


def prox_segments_l2(
    v: Array, step: Size, weights: Size, segments: Array, *, count: int, axis: int = -1
) -> Array:
    """Proximal map of weighted norms of ragged groups, `g(x) = sum_s weights_s ||x_s||_2`.

    `Prox(v; step) = max(0, 1 - step weights_s / ||v_s||) v_s` for every segment s, and 0 where
    `||v_s|| <= step weights_s`: the block soft threshold of groups of any size, in any order. The
    usual weight of a group is the square root of its size.

    Derivative at `v_s = 0`: 0 for `step weights_s > 0`; at the kink `||v_s|| = step weights_s`: the
    mean of both sides.

    Args:
      segments: integers, shape (entries along `axis`,): of which segment an entry is; an entry
        whose number is not in 0, ..., count - 1 belongs to none and stays as it is.
      weights: at least 0, shape (count,), or a number.
      count: how many segments there are, a Python integer; some may be empty.

    Reference: M. Yuan and Y. Lin, "Model selection and estimation in regression with grouped
    variables", Journal of the Royal Statistical Society B 68, 2006; Parikh and Boyd, 2014, section
    6.5.1.
    """
    v, step, weights = matched(v, step, weights)
    norms, for_each_entry = segment_norm(v, segments, count, axis)
    threshold = widened(step) * widened(along(v, weights, axis))
    share = kept_share(norms, lambda norm: jnp.maximum(norm - threshold, 0.0))
    return (widened(v) * for_each_entry(share)).astype(v.dtype)


def sparse_segments_value(
    x: Array, l1: Size, weights: Size, segments: Array, *, count: int, axis: int = -1
) -> Array:
    """Sparse penalty of ragged groups, `g(x) = sum_i l1_i |x_i| + sum_s weights_s ||x_s||_2`.

    Derivative at the kinks `x_i = 0`: 0 in that entry.
    """
    x, l1, weights = matched(x, l1, weights)
    absolute = jnp.sum(widened(l1 * (x * jnp.sign(x))), axis).astype(x.dtype)
    return absolute + segments_l2_value(x, weights, segments, count=count, axis=axis)


def prox_sparse_segments(
    v: Array,
    step: Size,
    l1: Size,
    weights: Size,
    segments: Array,
    *,
    count: int,
    axis: int = -1,
) -> Array:
    """Proximal map of a sparse penalty of ragged groups, `g(x) = ||l1 x||_1 + sum_s w_s ||x_s||_2`.

    `Prox(v; step) = max(0, 1 - step w_s / ||z_s||) z_s` for every segment s, with the soft
    threshold `z = S(v, step l1)` entry by entry and `w = weights`. Derivative at the kinks: the
    mean of both sides at `|v_i| = step l1_i` and at `||z_s|| = step w_s`, 0 at `z_s = 0` for `step
    w_s > 0`.

    Args:
      l1: weight of the magnitudes, at least 0.
      segments: integers, shape (entries along `axis`,), as in `prox_segments_l2`; an entry without
        a segment has the soft threshold alone.
      weights: at least 0, shape (count,), or a number.
      count: how many segments there are, a Python integer.

    Reference: N. Simon, J. Friedman, T. Hastie and R. Tibshirani, "A Sparse-Group Lasso", Journal
    of Computational and Graphical Statistics 22(2), 2013; Y.-L. Yu, "On Decomposing the Proximal
    Map", Advances in Neural Information Processing Systems 26, 2013 (the two maps in a row).
    """
    v, step, l1 = matched(v, step, l1)
    shrunk = soft_threshold(v, step * l1)
    return prox_segments_l2(shrunk, step, weights, segments, count=count, axis=axis)
