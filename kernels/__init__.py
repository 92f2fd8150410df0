"""Proximal maps, smoothings and projections as pure array functions: they need jax only.

`Prox_g(v; step) = argmin_x g(x) + |x - v|**2 / (2 step)`. Functions are elementwise unless they
say so, take any shape, and keep the dtype of their point; parameters are Python numbers or arrays
that broadcast, traced ones included. No function divides 0 by 0, and derivatives are finite at
every kink. Each map and projection returns the point alone; of those that approximate it,
`with_gap` tells what it lacks.
"""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
