"""The coupled update of the two copies that stand for the ends of a link."""

from collections.abc import Callable

from jax import Array

from fedjax_admm.kernels._arguments import demand_proxes
from fedjax_admm.kernels.compiling import Real, Size


def couple_pair(
    a: Array, b: Array, prox_of_difference: Callable[[Array, Real], Array], step: Size
) -> tuple[Array, Array]:
    """Minimise a penalty on a difference together with its two proximity terms.

    `argmin_{z, q} r(q - z) + ||z - a||**2 / (2 step) + ||q - b||**2 / (2 step)`. The sum of the
    pair stays `a + b` and the difference is `e = Prox_r(b - a; 2 step)`, so that `z = (a + b - e) /
    2` and `q = (a + b + e) / 2`.

    Kinks and ties are those of `prox_of_difference`.

    Args:
      a: where `z` is drawn to, any shape.
      b: where `q` is drawn to, same shape and dtype.
      prox_of_difference: `(v, step) -> Prox_r(v; step)`.
      step: at least 0; whatever `prox_of_difference` accepts.

    Returns:
      The pair `(z, q)`, each of the shape and dtype of `a`.

    Reference: Mirzaeifard et al., 2025, equation (23); D. Hallac, J. Leskovec, S. Boyd, "Network
    Lasso", KDD 2015, section 3 (the same change of variables).
    """
    demand_proxes("couple_pair", prox_of_difference)
    difference = prox_of_difference(b - a, 2 * step)
    total = a + b
    return 0.5 * (total - difference), 0.5 * (total + difference)
