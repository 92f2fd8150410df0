"""How a client of a star solves its own problem `f_l(w) + weight_l ||w - centre_l||^2 / 2`.

An object in a solver's field `local`: `local_gradient()` takes some gradient steps, `local_prox()`
takes the proximal map of the problem, exact or inexact as the problem has it.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, cast

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import InputError, count, one_line, scalar
from fedjax_admm._pytrees import register_dataclass
from fedjax_admm.capabilities import Gradients, Prox, has
from fedjax_admm.solvers._present import descend, draws, largest_curvature


class LocalSolver(Protocol):
    """What finds a client's model."""

    requires: ClassVar[tuple[type, ...]]

    @property
    def needs_curvature(self) -> bool:
        """Whether it looks at the curvature; without this property it is taken to look."""
        ...

    def memory(self, problem: Any, start: jax.Array) -> Any:
        """Return what it remembers before the first round, for models (clients, dim)."""
        ...

    def length(self, weight: jax.Array, curvature: jax.Array) -> jax.Array:
        """Return the length of the gradient step that it amounts to where the loss is linear.

        Args:
          weight: shape ().
          curvature: shape (): about the largest curvature of the losses.
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
        curvature: jax.Array,
    ) -> tuple[jax.Array, Any]:
        """Return about `argmin_w f_l(w) + weight_l ||w - centre_l||^2 / 2`, and the memory.

        Args:
          problem: of the clients that take part.
          centre: shape (clients, dim).
          weight: shape (clients,), positive.
          start: shape (clients, dim): where to begin; what is exact does not look at it.
          memory: stacked over clients; what the last call returned, or `memory`.
          key: of these clients' round, for minibatches.
          curvature: shape (): about the largest curvature of the losses.
        """
        ...


@register_dataclass
@dataclass(frozen=True, eq=False)
class LocalGradient:
    r"""Gradient steps: `w <- w - rate G`, with `G = g_l(w) + weight_l (w - centre_l)`.

    The rate is given, or falls whenever a step of the client overshoots:

        rate = 1 / ((curvature + weight_l) sqrt(1 + n_l))

    where n_l counts, over all rounds, the steps after which the next slope G' of the same round has
    `<G', G> < 0`. Where the loss is convex, and smooth with that curvature, there is none: slopes
    are cocoercive, so that `<G', G> >= ||G'||^2` for a rate of at most 1 / (curvature + weight_l).
    At a kink, and with the noise of minibatches, steps of one length never settle, and those that
    fall like 1 / sqrt(n) do.

    Reference: H. Kesten, "Accelerated Stochastic Approximation", Ann. Math. Statist. 29 (1958);
    B. Delyon, A. Juditsky, "Accelerated Stochastic Approximation", SIAM J. Optim. 3 (1993), for
    inner products.
    """

    rate: jax.Array | None  # shape=(); from the curvature and the overshoots if None
    steps: int = field(metadata={"static": True})

    requires: ClassVar[tuple[type, ...]] = (Gradients,)

    @property
    def needs_curvature(self) -> bool:
        """Whether the rate follows from the curvature."""
        return self.rate is None

    def memory(self, problem, start):
        """Return no overshoots, shape (clients,); nothing where the rate is given."""
        return () if self.rate is not None else jnp.zeros(start.shape[0], jnp.int32)

    def length(self, weight, curvature):
        """Return rate (1 + r + ... + r^(steps - 1)) with r = 1 - rate weight."""
        rate = 1 / (curvature + weight) if self.rate is None else self.rate
        kept, one = 1 - rate * weight, jnp.ones((), weight.dtype)
        return rate * jax.lax.fori_loop(1, self.steps, lambda _, total: total * kept + 1, one)

    def __call__(self, problem, centre, weight, start, memory, key, curvature):
        """Return the models after all steps, shape (clients, dim), and the overshoots so far."""
        weight = weight[:, None]

        def pull(w):
            return weight * (w - centre)

        if self.rate is not None:
            return descend(problem, start, key, self.rate, self.steps, pull), memory

        def step(carry, draw):
            w, before, overshoots = carry
            slope = problem.gradients(w, draw) + pull(w)
            overshoots += (jnp.sum(slope * before, -1) < 0).astype(jnp.int32)
            fall = jnp.sqrt(1 + overshoots.astype(w.dtype))[:, None]
            return (w - rate / fall * slope, slope, overshoots), None

        rate = 1 / (curvature + weight)
        begun = start, jnp.zeros_like(start), memory
        (w, _, overshoots), _ = jax.lax.scan(step, begun, draws(problem, key, self.steps))
        return w, overshoots


@register_dataclass
@dataclass(frozen=True, eq=False)
class LocalProx:
    """The proximal map of the loss, with step 1 / weight_l at the centre."""

    requires: ClassVar[tuple[type, ...]] = (Prox,)

    @property
    def needs_curvature(self) -> bool:
        """Whether it looks at the curvature: never."""
        return False

    def memory(self, problem, start):
        """Return what the prox remembers before the first round."""
        return problem.prox_memory(start)

    def length(self, weight, curvature):
        """Return 1 / weight."""
        return 1 / weight

    def __call__(self, problem, centre, weight, start, memory, key, curvature):
        """Return the models, shape (clients, dim), and the memory of the prox."""
        return problem.prox(centre, 1 / weight, memory)


def local_gradient(rate: ArrayLike | None = None, *, steps: int = 5) -> LocalGradient:
    """Build `LocalGradient`.

    Args:
      rate: length of the steps, below 2 / (curvature + weight). If None it begins at
        1 / (curvature + weight), with the curvature that the solver estimates at the start, and
        falls at every step that overshoots, as at a kink of the loss.
      steps: per round; each has its own minibatch where the problem has them.

    Returns:
      The local solver.

    Raises:
      InputError: a number is out of range.
    """
    chosen = None if rate is None else scalar("rate", rate, above=0)
    return LocalGradient(chosen, count("steps", steps))


def local_prox() -> LocalProx:
    """Build `LocalProx`."""
    return LocalProx()


def check_local(local: Any) -> LocalSolver:
    """Return the local solver, five gradient steps if it is None.

    Raises:
      InputError: it is no local solver.
    """
    if local is None:
        return local_gradient()
    if isinstance(local, type) or not (callable(local) and hasattr(local, "memory")):
        raise InputError(
            f"must be local_gradient(...) or local_prox(), but it is {one_line(local)}",
            argument="local",
            value=local,
            remedy="build it with one of these functions of fedjax_admm.solvers",
        )
    return cast(LocalSolver, local)


def curvature_at_start(
    problem: Any, points: jax.Array, local: LocalSolver, *given: jax.Array | None
) -> jax.Array:
    """Return the curvature that a solver keeps, shape (): `largest_curvature` if somebody needs it.

    Args:
      problem: of all clients.
      points: shape (clients, dim) or (dim,).
      local: the local solver, which may need it.
      *given: the solver's own lengths; where one is None, it follows from the curvature.

    Returns:
      The estimate; 1, which nobody reads, where nothing follows from it.
    """
    if getattr(local, "needs_curvature", True) or any(one is None for one in given):
        return largest_curvature(problem, points)
    return jnp.ones((), points.dtype)


def check_curvature(problem: Any, argument: str, given: jax.Array | None) -> None:
    """Check that what a solver was not given can be found from the problem's curvature.

    Raises:
      InputError: nothing is given, and the problem has no gradients.
    """
    if given is None and not has(problem, Gradients):
        raise InputError(
            f"is to be found from gradients, which {type(problem).__name__} lacks",
            argument=argument,
            remedy="give it",
        )
