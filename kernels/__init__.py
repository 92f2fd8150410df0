"""Proximal maps, smoothings and projections as pure array functions: they need jax only.

`Prox_g(v; step) = argmin_x g(x) + |x - v|**2 / (2 step)`. These rules hold for all functions, so
docstrings do not repeat them:

- `prox_NAME(v, step, weight, ...)` takes the point, the step, then the weight where the penalty has
  one, then its parameters. The map of `weight g` at a step is that of g at the step `step weight`,
  so formulas are given for the weight 1. Losses of data have no weight. `project_NAME(v, ...)` has
  no step.
- `NAME_value(x, weight, ...)` is g itself with the parameters of its map. It returns one value per
  entry, not summed, or one per vector, group or matrix. References are in the docstring of the
  map.
- `v` and `x` are points of any shape, real and floating. Results have their dtype and the broadcast
  shape. The step and weights are at least 0. Parameters are Python numbers or arrays that
  broadcast with the point, and they may be traced. With an `axis` they have size 1 along it.
- Functions are elementwise unless they have an `axis`, which holds the entries of a vector, group
  or chain, or take matrices, on the last two axes. The argument `decomposition` is that of
  `spectral_map`.
- Derivatives are finite at every kink, and docstrings state which one is taken there. No formula
  divides 0 by 0.
- A maker of maps (`conjugate`, `translate`, ...) takes and returns maps `prox(v, step,
  *parameters)`. Maps and projections return the point alone. For those that approximate it,
  `with_gap` also returns the remaining error.
- Maps of norms of groups (`prox_group_mcp`, ...) and of singular values (`prox_spectral_mcp`, ...)
  have the parameters, ties and derivatives of the elementwise map.

Each function is compiled once for every structure (shapes, dtypes, axes, counts, choices) and kept,
so that a call outside of `jax.jit` costs what a call of a compiled function costs. Inside of
`jax.jit`, `vmap`, `grad`, `scan` or `shard_map` it is the function itself. A maker returns a map
with programs of its own: make it once, outside of loops. Float64 arrays that were made under
`jax.enable_x64` are computed with in float64 outside of it too.

Numbers out of range (a negative step, a quantile of 2, bounds that cross), complex points,
impossible axes, counts and shapes raise a `ValueError` or `TypeError`. Traced numbers, and those in
arrays of JAX, cannot be looked at: where they are out of range, the result is NaN.

Cited by author and year:

- H. H. Bauschke and P. L. Combettes, "Convex Analysis and Monotone Operator Theory in Hilbert
  Spaces", 2nd edition, Springer, 2017.
- A. Beck, "First-Order Methods in Optimization", SIAM, 2017.
- S. Boyd, N. Parikh, E. Chu, B. Peleato, J. Eckstein, "Distributed Optimization and Statistical
  Learning via the Alternating Direction Method of Multipliers", 2011.
- S. Boyd and L. Vandenberghe, "Convex Optimization", Cambridge University Press, 2004.
- P. L. Combettes and J.-C. Pesquet, "Proximal Splitting Methods in Signal Processing", in
  Fixed-Point Algorithms for Inverse Problems in Science and Engineering, Springer, 2011.
- J. Duchi, S. Shalev-Shwartz, Y. Singer and T. Chandra, "Efficient projections onto the l1-ball for
  learning in high dimensions", ICML, 2008.
- R. Mirzaeifard, A. Moradi, M. Yukawa, S. Werner, "Federated Smoothing ADMM for Localization",
  arXiv:2503.09497, 2025.
- R. Mirzaeifard, S. Werner, "Smoothing ADMM for Non-convex and Non-smooth Hierarchical Federated
  Learning", 2025.
- N. Parikh and S. Boyd, "Proximal Algorithms", Foundations and Trends in Optimization 1(3), 2014.
"""

from typing import Any

from fedjax_admm._lazy import attach
from fedjax_admm.kernels.compiling import published

_plain, __dir__, __all__ = attach(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Compile a public function at its first use; files in here call each other's as they are."""
    globals()[name] = found = published(_plain(name), __name__)
    return found
