r"""The pinball loss: the prox of a client with several samples, and the minimiser of all.

With r = y - <x, w> the loss of a sample is `rho(r) = |r| + (2 tau - 1) r`: the absolute deviation
for tau = 1/2, and in general twice the pinball loss, whose minimiser is the tau-quantile. A
subgradient in r lies between 2 tau - 2 and 2 tau.
"""

from dataclasses import field
from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm._checks import default_float
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.kernels import prox_pinball
from fedjax_admm.penalties import Penalty
from fedjax_admm.problems import Federated, federated

_HIGHEST = jax.lax.Precision.HIGHEST


def pinball(w: jax.Array, sample: Any) -> jax.Array:
    """Return the loss of one sample {"x": (dim,), "y": (), "tau": ()}, shape ()."""
    rest = sample["y"] - jnp.vdot(sample["x"], w, precision=_HIGHEST)
    return jnp.abs(rest) + (2 * sample["tau"] - 1) * rest


@pytree_dataclass
class PinballProx:
    r"""The prox of a client's mean loss, by coordinate ascent on its dual problem.

    With a = weight / samples the prox at v is `w = v + step sum_j u_j x_j`, where u maximises

        sum_j u_j (y_j - <x_j, v>) - step/2 ||sum_j u_j x_j||^2,    a (2 tau - 2) <= u_j <= 2 a tau

    One coordinate after the other is maximised exactly; a pass over all of them costs as much as a
    gradient. The multipliers of the last call are where the next one begins.
    """

    samples: int = field(metadata={"static": True})  # of a padded client
    passes: int = field(metadata={"static": True})

    def memory(self, start, calls=0):
        """Return multipliers of zero, shape (samples,)."""
        return jnp.zeros(self.samples, start.dtype)

    def __call__(self, loss, point, step, memory, samples, size, weight):
        """Return the model after all passes, shape (dim,), and the multipliers."""
        share = weight / size.astype(point.dtype)
        here = jnp.arange(self.samples, dtype=jnp.int32) < size
        share = jnp.where(here, share, 0)
        low, high = share * (2 * samples["tau"] - 2), 2 * share * samples["tau"]
        lengths = step * jnp.sum(samples["x"] ** 2, -1)

        def one(w, sample):
            x, y, u, low, high, length = sample
            rest = y - jnp.vdot(x, w, precision=_HIGHEST)
            new = jnp.clip(u + rest / length, low, high)
            return w + step * (new - u) * x, new

        def once(carry, _):
            w, u = carry
            rows = (samples["x"], samples["y"], u, low, high, lengths)
            return jax.lax.scan(one, w, rows), None

        first = jnp.clip(memory, low, high)
        w = point + step * jnp.matmul(first, samples["x"], precision=_HIGHEST)
        return jax.lax.scan(once, (w, first), length=self.passes)[0]


def pinball_problem(
    x: jax.Array, y: jax.Array, tau: jax.Array | float, passes: int, **more: Any
) -> Federated:
    """Return the problem of clients with a prox, and samples x (clients, samples, dim) and y."""
    start, samples = jnp.zeros(x.shape[-1], x.dtype), {"x": x, "y": y, "tau": jnp.full_like(y, tau)}
    return federated(pinball, samples, start, optimizer=PinballProx(y.shape[1], passes), **more)


def heavy_noise(bell_key: jax.Array, tail_key: jax.Array, shape: tuple[int, ...]) -> jax.Array:
    """Draw from half of Student's distribution with 2 degrees of freedom."""
    # Half its chi-squared one is exponential.
    tail = jax.random.exponential(tail_key, shape, default_float())
    return 0.5 * jax.random.normal(bell_key, shape, default_float()) / jnp.sqrt(tail)


def minimize_together(
    x: jax.Array,
    y: jax.Array,
    tau: jax.Array | float,
    present: jax.Array,
    penalty: Penalty,
    steps: int,
) -> jax.Array:
    r"""Return about the minimiser of the mean loss of all samples plus a penalty, shape (dim,).

    ADMM on `sum_j rho(r_j) / n + g(z)` with `r = y - X w`, `z = w`, which returns z. Shapes: x
    (clients, samples, dim), y and present, which samples count, (clients, samples).
    """
    x, y, present = x.reshape(-1, x.shape[-1]), y.ravel(), present.ravel()
    tau = jnp.full_like(y, tau)
    x, y = jnp.where(present[:, None], x, 0), jnp.where(present, y, 0)
    number = jnp.sum(present).astype(x.dtype)
    heavy = 3 / number  # the penalty parameter of r, and 1 for that of z
    gram = heavy * jnp.matmul(x.T, x, precision=_HIGHEST) + jnp.eye(x.shape[1], dtype=x.dtype)
    factor = jax.scipy.linalg.cho_factor(gram)
    width = 2 / (number * heavy)

    def iterate(carry, _):
        z, r, dual_z, dual_r = carry
        right = heavy * jnp.matmul(y - r - dual_r, x, precision=_HIGHEST) + z - dual_z
        w = jax.scipy.linalg.cho_solve(factor, right)
        rest = y - jnp.matmul(x, w, precision=_HIGHEST)
        r = prox_pinball(rest - dual_r, width, tau)
        z = penalty.prox(w + dual_z, jnp.ones((), x.dtype))
        return (z, r, dual_z + w - z, dual_r + r - rest), None

    first = jnp.zeros_like(x[0]), y, jnp.zeros_like(x[0]), jnp.zeros_like(y)
    return jax.lax.scan(iterate, first, length=steps)[0][0]
