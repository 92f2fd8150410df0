"""An inexact proximal map of any smooth loss, by steps of a given optimiser."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._loops import scan
from fedjax_admm.kernels._safe import safe_norm
from fedjax_admm.kernels.compiling import Real, Size, checked, kernel


class Optimizer(Protocol):
    """What takes the steps: an optax optimiser, or anything with these two functions."""

    def init(self, params: Any, /) -> Any:
        """Return the state for a tree of arrays."""
        ...

    def update(self, updates: Any, state: Any, params: Any, /) -> tuple[Any, Any]:
        """Return the change of the parameters and the new state."""
        ...


class InexactProx(NamedTuple):
    """A proximal map with a memory.

    Attributes:
      init: `init(start) -> memory`, where the first call begins.
      prox: `prox(v, step, memory, *parameters, enough=None) -> (x, memory)`.
    """

    init: Callable[[Any], Any]
    prox: Callable[..., tuple[Any, Any]]


class InexactMemory(NamedTuple):
    """What an inexact proximal map remembers.

    Attributes:
      point: what it returned last, where the next call begins.
      optimizer: the state of its optimiser.
    """

    point: Any
    optimizer: Any


@checked
def inexact_prox(value: Callable[..., Array], optimizer: Optimizer, steps: int) -> InexactProx:
    """Make an inexact proximal map of any smooth loss, by steps of an optimiser.

    `Prox(v; step)` is approached by gradient steps on `g(x) + ||x - v||^2 / (2 step)` from the
    point of the memory, its warm start: where v and the step change little between the calls, few
    steps are enough. The state of the optimiser is kept too.

    Derivative: through the steps that were taken, in the point, the step, the parameters and the
    memory.

    Args:
      value: g, `value(x, *parameters)`, a number for a tree of arrays.
      optimizer: with `init(params)` and `update(gradient, state, params)`, such as those of optax.
      steps: how many are taken, at most.

    Returns:
      A pair `(init, prox)`: `init(start)` returns the first memory, and `prox(v, step, memory,
      *parameters, enough=None)` the point and the memory. v is a tree of arrays as `start` is, and
      the step a positive number. With `enough` the steps end as soon as the gradient is no longer
      than it.

    Reference: R. T. Rockafellar, "Monotone Operators and the Proximal Point Algorithm", SIAM
    Journal on Control and Optimization 14(5), 1976 (inexact proximal maps).
    """

    def init(start: Any) -> InexactMemory:
        return InexactMemory(start, optimizer.init(start))

    @kernel
    def prox(
        v: Any, step: Size, memory: InexactMemory, *parameters: Any, enough: Real | None = None
    ) -> tuple[Any, InexactMemory]:
        slope = jax.grad(lambda x: value(x, *parameters) + _pull(x, v, step))

        def descend(carry: Any, _: None) -> tuple[Any, None]:
            x, state = carry
            g = slope(x)
            with jax.numpy_dtype_promotion("standard"):  # optimisers add counts to floats
                change, moved = optimizer.update(g, state, x)
                new = jax.tree.map(lambda a, b: jnp.asarray(a + b, a.dtype), x, change), moved
            if enough is None:
                return new, None
            goes_on = _length(g) > enough
            return jax.tree.map(partial(jnp.where, goes_on), new, (x, state)), None

        found, _ = scan(descend, tuple(memory), length=steps)
        return found[0], InexactMemory(*found)

    return InexactProx(init, prox)


def _pull(x: Any, v: Any, step: Real) -> Array:
    """Return `||x - v||^2 / (2 step)`."""
    squares = [
        jnp.sum((a - b) ** 2) / (2 * jnp.asarray(step, a.dtype))
        for a, b in zip(jax.tree.leaves(x), jax.tree.leaves(v), strict=True)
    ]
    return sum(squares[1:], squares[0])


def _length(tree: Any) -> Array:
    lengths = [safe_norm(jnp.ravel(leaf)) for leaf in jax.tree.leaves(tree)]
    return lengths[0] if len(lengths) == 1 else safe_norm(jnp.stack(lengths))
