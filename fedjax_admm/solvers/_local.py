"""Local solvers: how a client minimises `f_l(w) + weight_l ||w - centre_l||^2 / 2`.

A local solver is an object in a solver's field `local`. `local_gradient()` takes some gradient
steps, and `local_optimizer()` takes steps of an optax optimiser. `local_prox()` takes the proximal
map of the problem, which may be exact or inexact. The first two also take steps without the
quadratic term, as the clients of FedAvg and SCAFFOLD do.
"""

from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, cast

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import (
    InputError,
    build,
    count,
    counted,
    declared,
    flagged,
    having,
    optax_optimizer,
    positive,
    refuse,
)
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.capabilities import Gradients, Prox, kept_states, slopes_and_states
from fedjax_admm.schedules import Schedule, ScheduleLike
from fedjax_admm.solvers._declared import scheduled
from fedjax_admm.solvers._gradients import descend, draws

Pull: TypeAlias = Callable[[jax.Array], jax.Array] | None
"""What is added to the gradients, (clients, dim) to the same; nothing if None."""


class StepsMemory(NamedTuple):
    """What steps along gradients remember of every client, stacked."""

    own: Any  # of the rule of the steps; () of one that remembers nothing
    kept: Any  # the states of the losses, `kept_states`


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


class LocalSteps(LocalSolver, Protocol):
    """A local solver by steps along gradients."""

    def descend(
        self,
        problem: Any,
        start: jax.Array,
        pull: Pull,
        stiffness: jax.Array,
        memory: Any,
        key: jax.Array,
    ) -> tuple[jax.Array, jax.Array, Any]:
        """Return the models after steps along `g_l(w) + pull(w)`, the mean slope, and the memory.

        Args:
          problem: of the clients that take part.
          start: shape (clients, dim).
          pull: what is added to the gradients.
          stiffness: the curvature of that, shape (clients, 1) or ().
          memory: stacked over clients.
          key: of these clients' round, for minibatches.
        """
        ...


class _Steps:
    """Steps along gradients of the loss, and of the quadratic term where there is one."""

    requires: ClassVar[tuple[type, ...]] = (Gradients,)

    def first(self, start: jax.Array) -> Any:
        """Return what the rule of the steps remembers before the first round."""
        return ()

    def memory(self, problem, start):
        """Return what the steps remember before the first round."""
        return StepsMemory(self.first(start), kept_states(problem))

    def __call__(self, problem, centre, weight, start, memory, key):
        """Return the models after all steps, shape (clients, dim), and the memory."""
        pull = _to(centre, weight)
        w, _, memory = self.descend(problem, start, pull, weight[:, None], memory, key)
        return w, memory

    def descend(
        self, problem: Any, start: jax.Array, pull: Pull, stiffness: Any, memory: Any, key: Any
    ) -> tuple[jax.Array, jax.Array, StepsMemory]:
        """Return what `LocalSteps.descend` says."""
        raise NotImplementedError


@pytree_dataclass
class LocalGradient(_Steps):
    """Gradient steps of one length: `w <- w - rate (g_l(w) + weight_l (w - centre_l))`."""

    rate: jax.Array = positive(curvature=lambda largest: 0.2 / largest)  # shape=()
    steps: int = counted()

    def length(self, weight):
        """Return rate (1 + r + ... + r^(steps - 1)) with r = 1 - rate weight."""
        return _length(self.rate, weight, self.steps)

    def descend(self, problem, start, pull, stiffness, memory, key):
        """Return the models after all steps, the mean slope (start - models) / (steps rate)."""
        moved, kept = descend(problem, start, key, self.rate, self.steps, pull, memory.kept)
        return moved, (start - moved) / (self.steps * self.rate), memory._replace(kept=kept)


@pytree_dataclass
class FallingGradient(_Steps):
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

    def first(self, start):
        """Return no overshoots, shape (clients,)."""
        return jnp.zeros(start.shape[0], jnp.int32)

    def length(self, weight):
        """Return rate (1 + r + ... + r^(steps - 1)) with r = 1 - rate weight."""
        return _length(1 / (self.curvature + weight), weight, self.steps)

    def descend(self, problem, start, pull, stiffness, memory, key):
        """Return the models after all steps, the mean slope, and the overshoots so far."""
        rate = 1 / (self.curvature + stiffness)

        def step(carry, draw):
            w, before, (overshoots, kept), total = carry
            slope, kept = _slope(problem, w, draw, pull, kept)
            overshoots += (jnp.sum(slope * before, -1) < 0).astype(jnp.int32)
            fall = jnp.sqrt(1 + overshoots.astype(w.dtype))[:, None]
            memory = StepsMemory(overshoots, kept)
            return (w - rate / fall * slope, slope, memory, total + slope), None

        none = jnp.zeros_like(start)
        begun = start, none, memory, none
        (w, _, memory, total), _ = jax.lax.scan(step, begun, draws(problem, key, self.steps))
        return w, total / self.steps, memory


@pytree_dataclass
class LocalOptimizer(_Steps):
    r"""Steps of an optax optimiser, each client by itself; build it with `local_optimizer`.

    With `G = g_l(w) + weight_l (w - centre_l)` and s_l the state of the client's optimiser,

        u, s_l <- update(G, s_l, w),    w <- w + rate(k) u

    in round k = 1, 2, ... of the run.
    """

    rate: Schedule = scheduled()  # of the number of the round, from 1
    steps: int = counted()
    optimizer: Any = declared(optax_optimizer, static=True)
    keep: bool = flagged()
    # shape=(), int32: the number of the round, from 0; a run fills it in
    round: jax.Array | None = field(default=None, metadata={"round": True}, kw_only=True)

    def first(self, start):
        """Return the clients' first states, stacked; nothing where they are forgotten."""
        return self._states(start) if self.keep else ()

    def length(self, weight):
        """Return 1: what an optimiser's steps amount to is not known, and no solver asks for it."""
        return jnp.ones_like(weight)

    def descend(self, problem, start, pull, stiffness, memory, key):
        """Return the models after all steps, the mean slope, and the optimisers' states."""
        number = jnp.ones((), jnp.int32) if self.round is None else self.round + 1
        rate = self.rate(number).astype(start.dtype)
        rate = rate[:, None] if rate.ndim else rate  # of a schedule that sees, one per client

        def step(carry, draw):
            w, states, kept, total = carry
            slope, kept = _slope(problem, w, draw, pull, kept)
            with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
                change, new = jax.vmap(self.optimizer.update)(slope, states, w)
            states = jax.tree.map(lambda leaf, old: leaf.astype(old.dtype), new, states)
            moved = w + rate * change.astype(w.dtype)  # pyright: ignore[reportAttributeAccessIssue]
            return (moved, states, kept, total + slope), None

        states = memory.own if self.keep else self._states(start)
        begun = start, states, memory.kept, jnp.zeros_like(start)
        (w, states, kept, total), _ = jax.lax.scan(step, begun, draws(problem, key, self.steps))
        return w, total / self.steps, StepsMemory(states if self.keep else (), kept)

    def _states(self, models: jax.Array) -> Any:
        states = jax.vmap(self.optimizer.init)(models)
        return jax.tree.map(jnp.asarray, states)


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


def local_optimizer(
    optimizer: Any,  # an `optax.GradientTransformation`
    *,
    steps: int = 5,
    rate: ScheduleLike = 1.0,
    keep: bool = False,
) -> LocalOptimizer:
    """Build the local steps of an optax optimiser.

    Every client has its own optimiser, for the model as one vector: `optax.clip_by_global_norm`
    in a chain clips each client's slope. Rules by the name of a parameter do not apply.

    Args:
      optimizer: such as `optax.adam(1e-2, eps_root=1e-16)`, whose derivatives are NaN without
        `eps_root` where a slope is zero; one object for all solvers saves compiling again. A
        schedule inside counts the steps of a client since its state began.
      steps: per round; each has its own minibatch where the problem has them.
      rate: a factor of the updates as a schedule of the number of the round, from 1: one of
        `fedjax_admm.schedules`, an optax schedule, another function of the count, or a number.
      keep: whether a client keeps the state of its optimiser, such as Adam's moments, until the
        next round in which it takes part; it begins anew in every round if not. A state that is
        kept is as large as the client's model or larger, and is never sent.
    """
    return build(LocalOptimizer, **locals())


def local_steps(rate: ArrayLike | None, steps: int, default: int, local: Any) -> LocalSteps:
    """Return the steps of FedAvg's and SCAFFOLD's clients, of one length unless `local` has others.

    Args:
      rate: of the builder.
      steps: its `local_steps`.
      default: of that.
      local: of the builder; None for gradient steps of the rate.
    """
    steps = count("local_steps", steps)
    if local is None:
        return build(LocalGradient, rate=rate, steps=steps)
    if rate is not None or steps != default:
        name = "local_steps" if rate is None else "rate"
        raise InputError(
            "is given, and so is {local}, which has steps of its own",
            argument=name,
            value=steps if rate is None else rate,
            remedy="leave one of the two out",
            others=["local"],
        )
    kind = "local_optimizer(...) or local_gradient(...)"
    return cast(LocalSteps, having("descend", kind=kind)("local", local))


def check_length_known(local: Any, regularizer: Any) -> None:
    """Check that the length of local steps is known where the server's prox needs it."""
    refuse(
        regularizer is not None and isinstance(local, LocalOptimizer),
        "regularizer",
        "needs the length of the clients' steps, which those of an optimiser do not have",
        remedy="take local_gradient(...), or a solver with dual variables such as fed_admm",
    )


def local_prox() -> LocalProx:
    """Build `LocalProx`."""
    return LocalProx()


def locally(default: Callable[[], LocalSolver] = local_gradient) -> Any:
    """Declare how a client solves its problem; None stands for the default."""
    kind = "local_gradient(...), local_optimizer(...) or local_prox()"
    remedy = "build it with one of these functions of fedjax_admm.solvers"
    return declared(having("memory", kind=kind, default=default, remedy=remedy))


def _length(rate: jax.Array, weight: jax.Array, steps: int) -> jax.Array:
    kept, one = 1 - rate * weight, jnp.ones((), weight.dtype)
    return rate * jax.lax.fori_loop(1, steps, lambda _, total: total * kept + 1, one)


def _to(centre: jax.Array, weight: jax.Array) -> Callable[[jax.Array], jax.Array]:
    """Return the slope of the quadratic term: weight (w - centre)."""
    return lambda w: weight[:, None] * (w - centre)


def _slope(problem: Any, w: jax.Array, draw: Any, pull: Pull, kept: Any) -> tuple[jax.Array, Any]:
    slope, kept = slopes_and_states(problem, w, draw, kept)
    return (slope if pull is None else slope + pull(w)), kept
