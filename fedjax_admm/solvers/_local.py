"""How a client of a star solves its own problem `f_l(w) + weight_l ||w - centre_l||^2 / 2`.

An object in a solver's field `local`: `local_gradient()` takes some gradient steps, `local_prox()`
takes the proximal map of the problem, exact or inexact as the problem has it.
"""

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, counted, declared, having, positive
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.capabilities import Gradients, Prox
from fedjax_admm.solvers._gradients import descend, draws


class LocalSolver(Protocol):
    """A solver of the clients' local problems."""

    requires: ClassVar[tuple[type, ...]]

    def memory(self, problem: Any, start: jax.Array) -> Any:
        """Return what it remembers before the first round, for models (clients, dim)."""
        ...

    def length(self, weight: jax.Array) -> jax.Array:
        """Return the length of the gradient step that it amounts to where the loss is linear.

        Args:
          weight: shape ().
        """
        ...

    def __call__(
        self,
        problem: Any,
        centre: jax.Array,
        weight: jax.Array,
        start: jax.Array,
        memory: Any,
        key: jax.Array,
    ) -> tuple[jax.Array, Any]:
        """Return about `argmin_w f_l(w) + weight_l ||w - centre_l||^2 / 2`, and the memory.

        Args:
          problem: of the clients that take part.
          centre: shape (clients, dim).
          weight: shape (clients,), positive.
          start: shape (clients, dim): where to begin; what is exact does not look at it.
          memory: stacked over clients; what the last call returned, or `memory`.
          key: of these clients' round, for minibatches.
        """
        ...


@pytree_dataclass
class LocalGradient:
    """Gradient steps of one length: `w <- w - rate (g_l(w) + weight_l (w - centre_l))`."""

    rate: jax.Array = positive()  # shape=()
    steps: int = counted()

    requires: ClassVar[tuple[type, ...]] = (Gradients,)

    def memory(self, problem, start):
        """Return nothing."""
        return ()

    def length(self, weight):
        """Return rate (1 + r + ... + r^(steps - 1)) with r = 1 - rate weight."""
        return _length(self.rate, weight, self.steps)

    def __call__(self, problem, centre, weight, start, memory, key):
        """Return the models after all steps, shape (clients, dim), and nothing."""

        def pull(w):
            return weight[:, None] * (w - centre)

        return descend(problem, start, key, self.rate, self.steps, pull), memory


@pytree_dataclass
class FallingGradient:
    r"""Gradient steps whose length falls when they overshoot: `w <- w - rate G`.

    With `G = g_l(w) + weight_l (w - centre_l)` and n_l the number of steps, over all rounds, after
    which the next slope G' of the same round has `<G', G> < 0`,

        rate = 1 / ((curvature + weight_l) sqrt(1 + n_l)).

    Where the loss is convex, and smooth with that curvature, there is none: slopes are cocoercive,
    so that `<G', G> >= ||G'||^2` for a rate of at most 1 / (curvature + weight_l). At a kink, and
    with the noise of minibatches, steps of one length never settle, and those that fall like
    1 / sqrt(n) do.

    Reference: H. Kesten, "Accelerated Stochastic Approximation", Ann. Math. Statist. 29 (1958);
    B. Delyon, A. Juditsky, "Accelerated Stochastic Approximation", SIAM J. Optim. 3 (1993), for
    inner products.
    """

    curvature: jax.Array = positive(curvature=lambda largest: largest)  # shape=()
    steps: int = counted()

    requires: ClassVar[tuple[type, ...]] = (Gradients,)

    def memory(self, problem, start):
        """Return no overshoots, shape (clients,)."""
        return jnp.zeros(start.shape[0], jnp.int32)

    def length(self, weight):
        """Return rate (1 + r + ... + r^(steps - 1)) with r = 1 - rate weight."""
        return _length(1 / (self.curvature + weight), weight, self.steps)

    def __call__(self, problem, centre, weight, start, memory, key):
        """Return the models after all steps, shape (clients, dim), and the overshoots so far."""
        weight = weight[:, None]
        rate = 1 / (self.curvature + weight)

        def step(carry, draw):
            w, before, overshoots = carry
            slope = problem.gradients(w, draw) + weight * (w - centre)
            overshoots += (jnp.sum(slope * before, -1) < 0).astype(jnp.int32)
            fall = jnp.sqrt(1 + overshoots.astype(w.dtype))[:, None]
            return (w - rate / fall * slope, slope, overshoots), None

        begun = start, jnp.zeros_like(start), memory
        (w, _, overshoots), _ = jax.lax.scan(step, begun, draws(problem, key, self.steps))
        return w, overshoots


@pytree_dataclass
class LocalProx:
    """The proximal map of the loss, with step 1 / weight_l at the centre."""

    requires: ClassVar[tuple[type, ...]] = (Prox,)

    def memory(self, problem, start):
        """Return what the prox remembers before the first round."""
        return problem.prox_memory(start)

    def length(self, weight):
        """Return 1 / weight."""
        return 1 / weight

    def __call__(self, problem, centre, weight, start, memory, key):
        """Return the models, shape (clients, dim), and the memory of the prox."""
        return problem.prox(centre, 1 / weight, memory)


def local_gradient(
    rate: ArrayLike | None = None, *, steps: int = 5
) -> LocalGradient | FallingGradient:
    """Build gradient steps of one length, or steps that fall when they overshoot.

    Args:
      rate: length of the steps, below 2 / (curvature + weight). If None it begins at
        1 / (curvature + weight), with the curvature that the solver estimates at the start, and
        falls at every step that overshoots, as at a kink of the loss.
      steps: per round; each has its own minibatch where the problem has them.
    """
    if rate is None:
        return build(FallingGradient, curvature=None, steps=steps)
    return build(LocalGradient, rate=rate, steps=steps)


def local_prox() -> LocalProx:
    """Build `LocalProx`."""
    return LocalProx()


def locally(default: Callable[[], LocalSolver] = local_gradient) -> Any:
    """Declare how a client solves its problem; None stands for the default."""
    kind = "local_gradient(...) or local_prox()"
    remedy = "build it with one of these functions of fedjax_admm.solvers"
    return declared(having("memory", kind=kind, default=default, remedy=remedy))


def _length(rate: jax.Array, weight: jax.Array, steps: int) -> jax.Array:
    kept, one = 1 - rate * weight, jnp.ones((), weight.dtype)
    return rate * jax.lax.fori_loop(1, steps, lambda _, total: total * kept + 1, one)
