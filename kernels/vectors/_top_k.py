"""Projections onto vectors with few nonzero entries."""

import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import matched, widened
from fedjax_admm.kernels._safe import safe_norm
from fedjax_admm.kernels.vectors._ranks import largest


def project_top_k(v: Array, k: int, axis: int = -1) -> Array:
    """Project onto vectors with at most `k` nonzero entries along an axis.

    `v_i` for the `k` entries of largest modulus, else 0. Ties: of entries with equal modulus those
    with the lowest index are kept; the other choices are as near. Derivative: 1 by the entries that
    are kept, 0 by the others, at ties too.

    Args:
      k: how many entries may be nonzero, a Python number of at least 0.

    Returns:
      Projections, shape and dtype of `v`; an entry that is NaN is kept.

    Reference: T. Blumensath and M. E. Davies, "Iterative thresholding for sparse approximations",
    Journal of Fourier Analysis and Applications 14, 2008 (the operator that keeps the largest
    entries).
    """
    (v,) = matched(v)
    return jnp.where(largest(jnp.abs(widened(v)), k, axis), v, 0.0)


def project_top_k_groups(v: Array, k: int, axis: int = -1, groups: int = -2) -> Array:
    """Project onto arrays with at most `k` nonzero groups of entries.

    Groups lie along `axis` and are counted along `groups`: the `k` groups of largest Euclidean norm
    are kept, the others are 0. (The nearest point does not keep those of largest l1 norm.)

    Ties: of groups with equal norm those with the lowest index are kept. Derivative: 1 by the
    entries of groups that are kept, 0 by the others, at ties too.

    Args:
      v: points, at least two axes, floating dtype.
      k: how many groups may be nonzero, a Python number of at least 0.
      groups: the axis along which groups are counted.

    Returns:
      Projections, shape and dtype of `v`; a group with NaN is kept.

    Reference: T. Blumensath and M. E. Davies, "Sampling theorems for signals from the union of
    finite-dimensional linear subspaces", IEEE Transactions on Information Theory 55, 2009 (nearest
    points of a union of subspaces).
    """
    (v,) = matched(v)
    if axis % v.ndim == groups % v.ndim:
        raise ValueError(f"entries and groups need two axes, but both are {axis}.")
    norms = safe_norm(widened(v), axis, keepdims=True)
    return jnp.where(largest(norms, k, groups), v, 0.0)
