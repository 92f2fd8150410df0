"""What a client can do: one name, one signature and one meaning for every method.

A capability is a `typing.Protocol` whose members a problem has, or has not. Solvers list in
`requires` all that they use; measures and direct methods say it above their heads:

    @needs(KnownTarget)
    def localization_error(solver, problem, state): ...

What is missing is told in one sentence before anything is traced. A problem has a capability if it
has every member, and no datum of it is None; its class needs no base. A new capability is a
Protocol class with its members.

**Shapes.** Points are stacked, `(clients, dim)`: row l is the point of client l, and so is row l of
what comes back. Numbers per client (steps, smoothing) have shape `(clients,)`.
"""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from importlib import import_module
from typing import Any, Generic, NamedTuple, ParamSpec, Protocol, TypeVar

import jax
import jax.numpy as jnp

from fedjax_admm._checks import InputError, listed

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


# --- where clients stand --------------------------------------------------------------------------


class Clients(Protocol):
    """Some number of clients."""

    num_clients: int


class OnStar(Clients, Protocol):
    """Clients that can hang at one server, with the models that a search starts from."""

    start: jax.Array  # shape=(dim,): the first model of all; or (clients, dim): of each


class OnTree(OnStar, Protocol):
    """Clients that are the leaves of a tree; all nodes start at one model, (dim,)."""

    tree: Any  # of `fedjax_admm.trees`


class OnGraph(OnStar, Protocol):
    """Clients that are the nodes of a graph; each starts at a model of its own, (clients, dim)."""

    graph: Any  # of `fedjax_admm.graphs`


class Access(Protocol):
    """Clients of whom some may hold their data back; the loss of these is zero."""

    accessible: jax.Array  # shape=(clients,), bool: whose data can be used


# --- what clients know of their losses ------------------------------------------------------------


class Values(Protocol):
    """Losses."""

    def values(self, points: jax.Array) -> jax.Array:
        """Return every client's loss at its own point: (clients, dim) to (clients,)."""
        ...


class Gradients(Protocol):
    """Gradients, or subgradients."""

    def gradients(self, points: jax.Array, key: jax.Array | None = None) -> jax.Array:
        """Return every client's gradient at its own point; a subgradient at a kink.

        Args:
          points: shape (clients, dim).
          key: a typed key; with it, the gradient is that of a minibatch where the problem has them.
            A problem without minibatches does not look at it.

        Returns:
          Shape (clients, dim).
        """
        ...


class ClippedGradients(Protocol):
    """Gradients to which no sample contributes much, for private solvers."""

    sizes: jax.Array  # shape=(clients,), int32: samples of each client

    def clipped_gradients(
        self, points: jax.Array, clip: jax.Array, key: jax.Array | None = None
    ) -> jax.Array:
        """Return every client's gradient with that of each sample clipped to a norm.

        Args:
          points: shape (clients, dim).
          clip: shape (): the largest norm of a sample's gradient. Terms that hold no data, such as
            a regulariser, are not clipped.
          key: as in `Gradients`.

        Returns:
          Shape (clients, dim).
        """
        ...


class SmoothedGradients(Protocol):
    """Gradients of smoothed losses."""

    def smoothed_gradients(self, points: jax.Array, mu: jax.Array) -> jax.Array:
        """Return the gradients of the losses smoothed with mu (clients,), shape (clients, dim)."""
        ...


class Prox(Protocol):
    """Proximal maps of the losses."""

    def prox_memory(self, start: jax.Array) -> Any:
        """Return what the prox remembers before the first round, for models (clients, dim).

        The empty tuple of an exact prox; of an inexact one its warm start (the models that it
        returned last) and the state of its optimiser, stacked over clients.
        """
        ...

    def prox(self, points: jax.Array, step: jax.Array, memory: Any) -> tuple[jax.Array, Any]:
        """Return `argmin_w f_l(w) + ||w - x_l||^2 / (2 step_l)` for every client, and the memory.

        Args:
          points: shape (clients, dim): x.
          step: shape (clients,), positive.
          memory: what the last call returned, or `prox_memory`.

        Returns:
          The models, shape (clients, dim), and the memory for the next call.
        """
        ...


class DifferenceOfConvex(Protocol):
    """Losses `f_l = Gamma_l - phi_l`, differences of convex functions with known proximal maps."""

    def prox_convex_part(self, points: jax.Array, step: jax.Array) -> jax.Array:
        """Return the prox of each Gamma_l; points (clients, dim), step (clients,)."""
        ...

    def prox_concave_part(self, points: jax.Array, step: jax.Array, mu: jax.Array) -> jax.Array:
        """Return the prox of minus the Moreau envelope of each phi_l with mu (clients,) > step."""
        ...


class Minimizers(Protocol):
    """What every client would learn on its own."""

    def minimizers(self) -> jax.Array:
        """Return a minimiser of each loss, shape (clients, dim); 0 where there are no data."""
        ...


class TypicalNorm(Protocol):
    """The size of a client's model."""

    def typical_norm(self) -> jax.Array:
        """Return about how long a model is that a client learns on its own, shape ()."""
        ...


class Projection(Protocol):
    """A constraint that all clients share."""

    def project(self, points: jax.Array) -> jax.Array:
        """Return the nearest points that obey the constraint, row by row, shape (..., dim)."""
        ...


class LinearModels(Protocol):
    """Losses that are means over samples of a loss of one prediction, `x^T w`."""

    features: jax.Array  # shape=(clients, samples, dim): zero for padding
    shares: jax.Array  # shape=(clients, samples): 1 / samples of the client, 0 for padding
    loss: Any  # of `fedjax_admm.losses`
    l1: jax.Array  # shape=(): weight of ||w||_1, of which each client has its share
    l2: jax.Array  # shape=(): weight of ||w||^2, likewise

    def predictions(self, points: jax.Array) -> jax.Array:
        """Return the predictions of all samples: (clients, dim) to (clients, samples)."""
        ...

    def slopes(self, predictions: jax.Array, clip: jax.Array | None = None) -> jax.Array:
        """Return the derivatives of the losses by the predictions, clipped if `clip` is given."""
        ...

    def curvatures(self, points: jax.Array, clip: jax.Array | None = None) -> jax.Array:
        """Return the second derivatives at points (clients, dim), shape (clients, samples)."""
        ...


class NodeLosses(Protocol):
    """Losses as an object of their own, such as `losses.SquaredLoss`."""

    local: Any


# --- data of particular families ------------------------------------------------------------------


class Ranges(Protocol):
    """Sensors that know where they are, and how far a target is."""

    anchors: jax.Array  # shape=(clients, dim), metres
    distances: jax.Array  # shape=(clients,), metres


class FactorData(Clients, Protocol):
    """Clients that hold the ratings of some users."""

    num_items: int
    users_per_client: int  # of the largest client
    by_user: Any  # `ratings.ClientRatings`: what is learnt from, sorted by user
    by_item: Any  # the same, sorted by item
    here: jax.Array  # shape=(clients, users_per_client), bool: which users there are
    mean: jax.Array  # shape=(): of the ratings that are learnt from
    places: jax.Array  # shape=(users,), int32: client * users_per_client + number within it


class HeldOut(Protocol):
    """Ratings by which predictions are judged."""

    held_out: Any  # `ratings.ClientRatings`
    deviation: jax.Array  # shape=(): of the ratings that are learnt from, in their own units


# --- what is known of the answer ------------------------------------------------------------------


class KnownTarget(Protocol):
    """A target whose position is known."""

    target: jax.Array  # shape=(dim,), metres


class KnownTruth(Protocol):
    """True models that are known."""

    truth: jax.Array  # shape=(dim,): one for all clients; or (clients, dim): of each


class KnownOptimum(Protocol):
    """A common minimiser that is known."""

    optimum: jax.Array  # shape=(dim,)


# --- what measures read of a solver and of its state ----------------------------------------------


class Releasing(Protocol):
    """A solver whose clients make noisy models public."""

    def released(self, state: Any) -> jax.Array:
        """Return what everybody may know, shape (clients, dim)."""
        ...


class ReleaseCounts(Protocol):
    """A state that counts releases."""

    releases: jax.Array  # shape=(clients,), int32


class RoundCount(Protocol):
    """A state that counts the rounds."""

    rounds: jax.Array  # shape=(), int32


class TreeState(Protocol):
    """A state with the models of all nodes of a tree."""

    root: jax.Array  # shape=(dim,): the cloud's model
    servers: tuple[Any, ...]  # one per level from 1
    clients: Any  # with models `w` (clients, dim) and `updates` (clients,)


class FactorState(Protocol):
    """A state with factors that predict ratings."""

    factors: Any  # `ratings.Factors`


class CopiesState(Protocol):
    """A state of clients with copies of the items' factors, and dual variables."""

    clients: Any  # with `users`, `copies` and `duals`
    items: jax.Array  # shape=(items, rank)
    total: tuple[jax.Array, jax.Array]


class FlowState(Protocol):
    """A state with models of nodes, and flows on edges."""

    nodes: Any  # with models `w` (nodes, dim)
    u: jax.Array  # shape=(edges, dim)


class FactorPenalties(Protocol):
    """A solver with penalties of users' and of items' factors."""

    user_penalty: Any
    item_penalty: Any


class FreshUsers(Protocol):
    """A solver whose users can take their steps once more before they predict."""

    def fresh(self, problem: Any, state: Any) -> Any:
        """Return `ratings.Factors`."""
        ...


class LinearizedCopies(FactorPenalties, Protocol):
    """A solver with copies of the items' factors that are held together by beta."""

    beta: jax.Array
    inner_steps: int


class FlowSteps(Protocol):
    """A primal-dual solver: a penalty of differences along edges, and steps."""

    penalty: Any

    def radius(self, problem: Any) -> jax.Array:
        """Return the weight of each edge's penalty, shape (edges,)."""
        ...

    def steps(self, problem: Any) -> tuple[jax.Array, jax.Array]:
        """Return the nodes' steps, shape (nodes,), and the edges', shape ()."""
        ...


def first_model(problem: Any) -> jax.Array:
    """Return the first model of one server, shape (dim,): the mean where clients have their own."""
    return problem.start if problem.start.ndim == 1 else jnp.mean(problem.start, 0)


# --- the check ------------------------------------------------------------------------------------


class Needs(NamedTuple):
    """What a function needs of its arguments `problem`, `solver` and `state`."""

    problem: tuple[type, ...] = ()
    solver: tuple[type, ...] = ()
    state: tuple[type, ...] = ()


def needs(
    *problem: type, solver: Sequence[type] = (), state: Sequence[type] = ()
) -> Callable[[Callable[Arguments, Answer]], Callable[Arguments, Answer]]:
    """Declare what a measure or a direct method needs; it is checked at every call.

    A run checks it before anything is traced, too.

    Args:
      *problem: capabilities of the argument called `problem`.
      solver: of the argument called `solver`.
      state: of the argument called `state`.

    Returns:
      A decorator; the function gets `requires`, the problem's capabilities, and `needs`.
    """
    declared = Needs(problem, tuple(solver), tuple(state))

    def declare(function: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
        names = list(inspect.signature(function).parameters)
        who = function.__name__

        @wraps(function)
        def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
            given = {**dict(zip(names, args, strict=False)), **kwargs}
            for role, wanted in declared._asdict().items():
                if wanted and role in given:
                    _check(who, role, given[role], wanted)
            return function(*args, **kwargs)

        checked.requires = problem  # pyright: ignore[reportAttributeAccessIssue]
        checked.needs = declared  # pyright: ignore[reportAttributeAccessIssue]
        return checked

    return declare


def check_capabilities(solver: Any, problem: Any, *functions: Callable | None) -> None:
    """Check that a problem can do all that a solver and its parts need, and what is measured.

    Args:
      solver: with `requires`; a field that is an object with `requires` of its own adds to it.
      problem: any.
      *functions: measures and residuals; what `needs` declared of them is checked too.

    Raises:
      InputError: something is missing; the sentence names it, and which problems have it.
    """
    parts = (solver, *getattr(solver, "__dict__", {}).values())
    wanted = [capability for part in parts for capability in getattr(part, "requires", ())]
    _check(type(solver).__name__, "problem", problem, wanted)
    for function in functions:
        while isinstance(function, partial):
            function = function.func
        declared = getattr(function, "needs", None)
        if not isinstance(declared, Needs):
            continue
        who = getattr(function, "__name__", type(function).__name__)
        _check(who, "problem", problem, declared.problem)
        _check(who, "solver", solver, declared.solver)
        state = _state_of(type(solver))
        if declared.state and state is not None:
            _check(who, "state", state, declared.state)


def has(thing: Any, *capabilities: type) -> bool:
    """Whether an object, or a class, has all members of some capabilities."""
    return not _missing(thing, capabilities)


def members(capability: type) -> tuple[str, ...]:
    """Return the names of the methods and data that make up a capability."""
    found: dict[str, None] = {}
    for base in reversed(capability.__mro__):
        if base not in (object, Protocol, Generic):
            names = (*inspect.get_annotations(base), *vars(base))
            found |= dict.fromkeys(name for name in names if not name.startswith("_"))
    return tuple(found)


def _missing(thing: Any, capabilities: Iterable[type]) -> dict[str, str]:
    """Return what is missing, member -> the first capability that asks for it."""
    asked = {}
    for capability in capabilities:
        for name in members(capability):
            asked.setdefault(name, capability.__name__)
    return {name: capability for name, capability in asked.items() if not _offers(thing, name)}


def _offers(thing: Any, name: str) -> bool:
    if isinstance(thing, type):
        return hasattr(thing, name) or name in getattr(thing, "__dataclass_fields__", {})
    # A property may compute: it is not asked.
    computed = isinstance(inspect.getattr_static(type(thing), name, None), property)
    return computed or getattr(thing, name, None) is not None


def _check(who: str, role: str, thing: Any, wanted: Sequence[type]) -> None:
    """Check one argument of a function, or the problem of a solver."""
    missing = _missing(thing, wanted)
    if not missing:
        return
    groups: dict[str, list[str]] = {}
    for name, capability in missing.items():
        groups.setdefault(capability, []).append(name)
    told = [f"{listed(names)} ({capability})" for capability, names in groups.items()]
    what = told[0] if len(told) == 1 else f"{', '.join(told[:-1])}, and {told[-1]}"
    kind = thing if isinstance(thing, type) else type(thing)
    them = "it" if len(missing) == 1 else "them"
    if not isinstance(thing, type) and all(hasattr(thing, name) for name in missing):
        are = "it is" if len(missing) == 1 else "they are"
        remedy = f"give {them} to what builds the {role}"
        sentence = f"but {are} None in this {kind.__name__}; {remedy}."
    else:
        owners = _owners(role, wanted)
        have = "has" if len(owners) == 1 else "have"
        where = _ROOMS[role] if len(owners) != 1 else _ROOMS[role].replace("those", "that")
        rest = f"; {where}{listed(owners)} {have} {them}" if owners else ""
        sentence = f"which {'None' if thing is None else kind.__name__} lacks{rest}."
    raise InputError(f"{who} needs a {role} with {what}, {sentence}")


# Which room to look into, and how the sentence calls it.
_ROOMS = {"problem": "problems.", "solver": "solvers.", "state": "those of solvers."}


def _owners(role: str, wanted: Sequence[type]) -> list[str]:
    """Return the builders in the room of problems or solvers whose classes have all that is asked.

    A class is found by looking at what the room publishes; it is told by the functions that build
    it from a user's arguments, and by its own name where there is none.
    """
    room = import_module("fedjax_admm.problems" if role == "problem" else "fedjax_admm.solvers")
    public = {name: getattr(room, name) for name in room.__all__}
    # What a solver runs on has clients, and what runs has rounds.
    mark = "num_clients" if role == "problem" else "step"
    owners = []
    for name, kind in public.items():
        if not isinstance(kind, type) or not hasattr(kind, mark):
            continue
        looked_at = _state_of(kind) if role == "state" else kind
        if looked_at is not None and has(looked_at, *wanted):
            owners += [n for n, made in public.items() if _builds(n, made, kind)] or [name]
    return owners


def _builds(name: str, function: Any, kind: type) -> bool:
    """Whether a function makes a class from a user's arguments: neither drawn nor changed."""
    if isinstance(function, type) or not callable(function) or name.startswith("draw_"):
        return False
    made = inspect.get_annotations(function)
    return made.pop("return", None) is kind and kind not in made.values()


def _state_of(solver: type) -> type | None:
    """Return the class of a solver's state, where its `init` says it."""
    made = inspect.get_annotations(getattr(solver, "init", None) or object).get("return")
    return made if isinstance(made, type) and made is not Any else None
