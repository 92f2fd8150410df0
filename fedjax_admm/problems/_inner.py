r"""Proximal maps of a user's own losses: exact ones, and those that an inner solver approaches.

    prox(v, step) = argmin_z phi(z),    phi(z) = f(z) + ||z - v||^2 / (2 step)

An inner solver starts at the model that it returned last (its warm start) and stops as soon as
`||grad phi||` is below an accuracy times its first value, which tightens with the calls. The
memory of a client is its last model and the number of calls. All functions here are about one
client; the problem maps them over all.
"""

import inspect
from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import optax

from fedjax_admm._checks import (
    build,
    counted,
    declared,
    flagged,
    function_of,
    having,
    optax_optimizer,
    refuse,
    shapes_of,
)
from fedjax_admm._cutting_planes import minimize_by_planes
from fedjax_admm._linear_algebra import conjugate_gradients
from fedjax_admm._pytrees import FlatLayout, pytree_dataclass
from fedjax_admm.kernels import inexact_prox, safe_norm
from fedjax_admm.problems._client_arrays import one_client
from fedjax_admm.problems._client_data import BucketedData, ClientData
from fedjax_admm.schedules import Schedule, ScheduleLike, as_schedule, power_decay

_LBFGS_MEMORY = 10
# Relative rise of the value that optax's line search accepts.
_SLACK = 1e-6
# Differences below so many units of rounding are noise.
_ROUNDING = 8


class InnerMemory(NamedTuple):
    """The memory of an inner solver for one client."""

    model: jax.Array  # shape=(dim,): returned by the last call
    optimizer: Any  # the state of its optimiser; () of one that begins anew
    calls: jax.Array  # shape=(), int32: number of calls
    short: jax.Array  # shape=(), int32: number of calls that missed their accuracy
    kinked: jax.Array  # shape=(), bool: whether the last call was better off without L-BFGS


class ProximalMap(Protocol):
    """A method for the prox of one client's loss."""

    def memory(self, start: jax.Array, calls: int = 0) -> Any:
        """Return the memory after so many calls, the last of which returned the model `start`."""
        ...

    def __call__(
        self,
        loss: Callable[[jax.Array], jax.Array],
        point: jax.Array,
        step: jax.Array,
        memory: Any,
        samples: Any,
        size: jax.Array,
        weight: jax.Array,
    ) -> tuple[jax.Array, Any]:
        """Return `argmin_z loss(z) + ||z - point||^2 / (2 step)`, (dim,), and the memory.

        The loss has the client's weight as a factor. The samples are padded after the first `size`.
        """
        ...


@pytree_dataclass
class ExactProx:
    """A prox that the user knows, of the loss without the client's weight."""

    layout: FlatLayout
    function: Callable[..., Any] = field(metadata={"static": True})
    arguments: tuple[str, ...] = field(metadata={"static": True})  # what follows (params, step)

    def memory(self, start, calls=0):
        """Return nothing."""
        return ()

    def __call__(self, loss, point, step, memory, samples, size, weight):
        """Return the user's map of the parameters, with the step times the client's weight."""
        known = {"samples": samples, "size": size}
        more = [known[name] for name in self.arguments]
        params = self.function(self.layout.tree(point), weight * step, *more)
        return self.layout.flat(params).astype(point.dtype), memory


def _accuracy(name: str, value: ScheduleLike | None) -> Schedule | None:
    return None if value is None else as_schedule(name, value, above=0)


@pytree_dataclass
class InnerSteps:
    """Steps of an optax optimiser, at most so many; it keeps its state between the calls.

    If the goal is higher after them, the start is returned, and the optimiser begins anew.
    """

    accuracy: Schedule | None = declared(_accuracy)  # of the number of the call, from 1
    optimizer: optax.GradientTransformation = declared(optax_optimizer, static=True)
    steps: int = counted()
    warm: bool = flagged()

    def memory(self, start, calls=0):
        """Return the start, the optimiser's first state, and the number of calls."""
        return _remembered(start, self.optimizer.init(start), calls)

    def __call__(self, loss, point, step, memory, samples, size, weight):
        """Return the model after the steps; the map can be differentiated through them."""
        calls = memory.calls + 1
        goal = jax.value_and_grad(partial(_objective, loss, point, step))
        start = memory.model if self.warm else point
        value, slope = goal(start)
        enough = _tolerance(self.accuracy, slope, point, start, step, calls)

        prox = inexact_prox(loss, self.optimizer, self.steps).prox
        z, (_, state) = prox(point, step, (start, memory.optimizer), enough=enough)
        there, rest = goal(z)
        worse = _higher(there, value)
        anew = (start, self.optimizer.init(start))
        z, state = jax.tree.map(partial(jnp.where, worse), anew, (z, state))
        asked = self.accuracy is not None
        failed = worse | (safe_norm(rest) > enough) if asked else worse
        short = memory.short + failed.astype(jnp.int32)
        return z, memory._replace(model=z, optimizer=state, calls=calls, short=short)


@pytree_dataclass
class InnerLBFGS:
    """L-BFGS with a line search, at most `steps` iterations, begun anew at every call.

    At kinks of the loss the line search fails. Cutting planes then take over, at most twice as
    many, and begin the next call. They bound the gap of the best point to the minimum of a convex
    loss: a gap of `step / 2 (accuracy times the first slope)^2` is as good as a slope of that
    accuracy, since `phi(z) - min phi <= step / 2 ||grad phi(z)||^2`.
    """

    accuracy: Schedule = declared(_accuracy)  # of the number of the call, from 1
    steps: int = counted()
    warm: bool = flagged()

    def memory(self, start, calls=0):
        """Return the start, and the number of calls."""
        return _remembered(start, (), calls)

    def __call__(self, loss, point, step, memory, samples, size, weight):
        """Return the model; its derivatives are those of the exact minimiser."""
        calls = memory.calls + 1
        start = memory.model if self.warm else point

        # What is differentiated stays out of the search: its derivative is known without it.
        objective, known = jax.closure_convert(partial(_objective, loss, point, step), start)
        start, fixed = jax.lax.stop_gradient((start, known))

        def searched(z):
            return objective(z, *fixed)

        both = jax.value_and_grad(searched)
        point, step = jax.lax.stop_gradient((point, step))
        begun, slope = both(start)
        enough = _tolerance(self.accuracy, slope, point, start, step, calls)
        steps = jnp.where(memory.kinked, 0, self.steps)
        z, best, failed = minimize_by_lbfgs(searched, start, steps, enough)
        worse = _higher(best[0], begun)
        z, best = jax.tree.map(partial(jnp.where, worse), (start, (begun, slope)), (z, best))
        kinked, gap = memory.kinked | failed | worse, step / 2 * enough**2
        rounds = jnp.where(kinked, 2 * self.steps, 0)
        z, reached = minimize_by_planes(both, point, step, z, best, gap, rounds)
        rest = jax.grad(objective)(z, *known)
        z = z - _solved(jax.grad(searched), z, rest - jax.lax.stop_gradient(rest))
        short = memory.short + (~reached).astype(jnp.int32)
        return z, InnerMemory(z, (), calls, short, kinked & reached)


def minimize_by_lbfgs(
    objective: Callable[[jax.Array], jax.Array],
    start: jax.Array,
    steps: int | jax.Array,
    tolerance: jax.Array,
) -> tuple[jax.Array, tuple[jax.Array, jax.Array], jax.Array]:
    """Return the result of L-BFGS from a start (dim,), its value and slope, and whether it failed.

    It fails where a line search does, as at a kink, and ends there. It also ends after so many
    steps, or as soon as the slope is at most as long as the tolerance.
    """
    optimizer = optax.lbfgs(memory_size=_LBFGS_MEMORY)

    def goes_on(carry):
        _z, (_value, slope), _state, done, failed = carry
        return (done < steps) & ~failed & ((done == 0) | (safe_norm(slope) > tolerance))

    def iterate(carry):
        z, (value, slope), state, done, _ = carry
        with jax.numpy_dtype_promotion("standard"):
            change, moved = optimizer.update(
                slope, state, z, value=value, grad=slope, value_fn=objective
            )
        value_there, slope_there, search = (
            optax.tree.get(moved, name) for name in ("value", "grad", "info")
        )
        new = jax.tree.map(
            lambda new, old: new.astype(old.dtype),
            (z + change, (value_there, slope_there), moved, done + 1),
            carry[:-1],
        )
        higher = ~(value_there <= value + _SLACK * jnp.abs(value))
        new = jax.tree.map(partial(jnp.where, higher), carry[:-1], new)
        return *new, higher | (search.curvature_error > 0) | (search.decrease_error > 0)

    none = jnp.zeros((), jnp.int32)
    first = (start, jax.value_and_grad(objective)(start), optimizer.init(start), none, none > 0)
    z, best, _, _, failed = jax.lax.while_loop(goes_on, iterate, first)
    return z, best, failed


def inner_steps(
    optimizer: optax.GradientTransformation,
    steps: int = 10,
    *,
    accuracy: ScheduleLike | None = None,
    warm: bool = True,
) -> InnerSteps:
    """Build the inexact prox that takes steps of an optax optimiser.

    Args:
      optimizer: such as `optax.adam(1e-2, eps_root=1e-16)`, whose derivatives are NaN without
        `eps_root` where a slope is zero; one object for all problems saves compiling again.
      steps: at most so many per call.
      accuracy: stop as soon as the slope is so small relative to its first length in the call: a
        number, or a schedule of the number of the call; all steps are taken if None.
      warm: begin at the model that was returned last; else at the point.
    """
    return build(InnerSteps, **locals())


def inner_lbfgs(
    steps: int = 50, *, accuracy: ScheduleLike | None = None, warm: bool = True
) -> InnerLBFGS:
    """Build the inexact prox that takes iterations of L-BFGS.

    Args:
      steps: at most so many per call.
      accuracy: relative to the first slope of the call, a number or a schedule of the number of
        the call; 0.1 / k if None.
      warm: begin at the model that was returned last; else at the point.

    Reference: D. C. Liu, J. Nocedal, "On the limited memory BFGS method for large scale
    optimization", Mathematical Programming 45 (1989); the iterations are optax's.
    """
    accuracy = power_decay(0.1, 1.0) if accuracy is None else accuracy
    return build(InnerLBFGS, **locals())


def as_inner(inner: Any) -> ProximalMap:
    """Return an inner solver; L-BFGS for None, ten steps of an optax optimiser for that."""
    if inner is None:
        return inner_lbfgs()
    if isinstance(inner, optax.GradientTransformation):
        return inner_steps(inner)
    kind = "an optax optimiser, inner_steps(...) or inner_lbfgs(...)"
    return having("__call__", "memory", kind=kind)("optimizer", inner)


def exact_prox(function: Any, layout: FlatLayout, start: jax.Array, samples: Any) -> ExactProx:
    """Return a user's `prox(params, step[, client_data[, size]])`, or a kernel of two arguments.

    Args:
      function: the map.
      layout: of the parameters.
      start: shape (dim,).
      samples: the shapes of what it gets as `client_data`.
    """
    kind = "must be a function prox(params, step, client_data)"
    refuse(not callable(function), "prox", kind, function)
    made = ExactProx(layout, function, _more_arguments(function, 2))
    function_of("prox", function, "params", "step", *made.arguments)
    known = {"samples": samples, "size": jnp.zeros((), jnp.int32)}
    params = layout.tree(start)
    arguments = {"parameters": params, "a step": jnp.ones((), start.dtype)}
    arguments |= {name: known[name] for name in made.arguments}
    result = shapes_of("prox", function, arguments)
    shapes, returned = (jax.tree.map(lambda leaf: leaf.shape, tree) for tree in (params, result))
    told = f"must return parameters of the shapes {shapes}, but it returns {returned}"
    refuse(returned != shapes, "prox", told)
    return made


def prepared_rows(prepare: Any, data: ClientData) -> Any:
    """Return what `prepare(client_data[, size])` makes of every client, stacked: (clients, ...).

    Raises:
      InputError: it is no such function, or its arrays differ in shape between clients.
    """
    if prepare is None:
        return None
    names = _more_arguments(prepare, 0) if callable(prepare) else ("samples",)
    function_of("prepare", prepare, *names)
    buckets = data.buckets if isinstance(data, BucketedData) else (data,)
    size = jnp.zeros((), jnp.int32)
    known = [{"samples": jax.eval_shape(one_client, part), "size": size} for part in buckets]
    made = [
        shapes_of("prepare", prepare, {f"one client's {name}": one[name] for name in names})
        for one in known
    ]
    shapes = [jax.tree.map(lambda leaf: leaf.shape, one) for one in made]
    refuse(
        any(one != shapes[0] for one in shapes),
        "prepare",
        f"must return arrays of the same shapes for clients of all sizes, but it returns {shapes}",
        remedy="sum over the samples, as a Gram matrix does",
    )
    return data.each(lambda client: prepare(*(getattr(client, name) for name in names)))


def _more_arguments(function: Callable[..., Any], given: int) -> tuple[str, ...]:
    """Return which of samples and size a function takes after so many other arguments."""
    parameters = inspect.signature(function).parameters.values()
    places = [
        p
        for p in parameters
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]
    return ("samples", "size")[: max(0, len(places) - given)]


def _remembered(start: jax.Array, optimizer: Any, calls: int) -> InnerMemory:
    none = jnp.zeros((), jnp.int32)
    return InnerMemory(start, optimizer, jnp.asarray(calls, jnp.int32), none, none > 0)


def _objective(loss, point, step, z):
    return loss(z) + jnp.sum((z - point) ** 2) / (2 * step)


def _higher(value: jax.Array, begun: jax.Array) -> jax.Array:
    """Return whether a value is above the one before by more than rounding, or is NaN."""
    return ~(value <= begun + _ROUNDING * jnp.finfo(begun.dtype).eps * jnp.abs(begun))


def _tolerance(accuracy, slope, point, start, step, calls) -> jax.Array:
    """Return the final length of the slope that is accepted; below 0 if there is no accuracy."""
    if accuracy is None:
        return jnp.full((), -1, start.dtype)
    first = safe_norm(slope)
    rounding = _ROUNDING * jnp.finfo(start.dtype).eps
    floor = rounding * (first + (safe_norm(point) + safe_norm(start)) / step)
    return jax.lax.stop_gradient(accuracy(calls).astype(start.dtype) * first + floor)


def _solved(slope: Callable[[jax.Array], jax.Array], z: jax.Array, right: jax.Array) -> jax.Array:
    """Return `H^-1 right`, H the derivative of a slope at z, by the implicit function theorem.

    The right side is a zero with the derivative of the slope in its other arguments. The result is
    a zero with minus the derivative of the root.
    """

    def bend(direction: jax.Array) -> jax.Array:
        return jax.jvp(slope, (z,), (direction,))[1]

    return jax.lax.custom_linear_solve(bend, right, conjugate_gradients, symmetric=True)
