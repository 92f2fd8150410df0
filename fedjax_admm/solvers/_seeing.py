"""Schedules that depend on a client's state (`SeeingFormula`), for the clients of a solver.

A participating client evaluates such schedules once per round, after it has read the server's model
and before it works. The values hold for its work and for its upload, which the server may use again
in later rounds. Their inputs are stored in the client's rows beside the state of the solver.
"""

from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_admm._checks import InputError, refuse
from fedjax_admm.capabilities import at_state
from fedjax_admm.kernels import safe_norm
from fedjax_admm.schedules import SeeingFormula
from fedjax_admm.solvers._declared import with_values


class Kept(NamedTuple):
    """What clients keep of what they have seen, stacked."""

    seen: dict[str, jax.Array]  # shapes=(clients,): what they saw last
    states: tuple[Any, ...]  # of each schedule, before that
    read: Any  # shape=(clients, dim): the server's model as they read it last; () if none asks
    rounds: jax.Array  # shape=(clients,), int32: in which they have taken part
    last: jax.Array  # shape=(clients,), int32: one more than the number of the last one; 0 before


class Watched(NamedTuple):
    """The clients of a solver with schedules that see; what it keeps for them are its fields."""

    own: Any  # of the solver
    kept: Kept

    def __getattr__(self, name: str) -> Any:
        """Return a field of what the solver keeps."""
        return getattr(self.own, name)


class _Watching:
    """The roles of clients that see, around those of the solver."""

    inner: Any
    index: jax.Array | None  # shape=(), int32: the number of the round, from 0

    def start_clients(self, problem, models, key):
        kept = _first(self.inner, problem, models)
        clients, said = _bound(self.inner, kept).start_clients(problem, models, key)
        return Watched(clients, kept), said

    def client(self, problem, clients, received, key):
        kept = _look(self.inner, problem, clients, received, self.index)
        clients, said = _bound(self.inner, kept).client(problem, clients.own, received, key)
        return Watched(clients, kept), said

    def upload(self, clients):
        return _bound(self.inner, clients.kept).upload(clients.own)

    def apply_decoded(self, clients, values):
        own = _bound(self.inner, clients.kept).apply_decoded(clients.own, values)
        return clients._replace(own=own)


def seeing(part: Any) -> list[SeeingFormula]:
    """Return the schedules of a solver, and of the parts of it, that see."""
    if isinstance(part, SeeingFormula):
        return [part]
    if not is_dataclass(part):
        return []
    inside = [getattr(part, each.name) for each in fields(part) if not each.metadata.get("static")]
    return [schedule for value in inside for schedule in seeing(value)]


def watching(solver: Any, index: jax.Array | None = None) -> Any:
    """Return a solver whose clients look before they work; the same one if no schedule sees.

    Args:
      solver: with one server.
      index: the number of the round, shape (), int32; of no account before the first one.
    """
    if not seeing(solver):
        return solver
    kind = type(solver)
    watched = object.__new__(type(kind.__name__, (_Watching, kind), {}))
    watched.__dict__.update(vars(solver), inner=solver, index=index)
    return watched


def check_sights(solver: Any, problem: Any) -> None:
    """Check that clients can see what the schedules of their solver ask for.

    Raises:
      InputError: they cannot.
    """
    names = {name for schedule in seeing(solver) for name in schedule.sees}
    kind = type(solver).__name__
    if seeing(solver) and (solver.replies or solver.groups() is not None):
        raise InputError(
            f"{kind} has no schedules that see {', '.join(sorted(names))}, because its clients "
            "read the server's model after their work; take schedules of the count"
        )
    refuse(
        "primal" in names and not hasattr(solver, "client_models"),
        None,
        f"a schedule cannot see primal in {kind}, whose clients have no models of their own; "
        "take dual, loss or waited",
    )
    refuse(
        "loss" in names and not hasattr(problem, "values"),
        None,
        f"a schedule cannot see loss, because {type(problem).__name__} has no values of losses",
    )


def _first(solver: Any, problem: Any, models: jax.Array) -> Kept:
    """Return what clients keep before the first round, at the first models (clients, dim)."""
    schedules, none = seeing(solver), jnp.zeros(models.shape[0], models.dtype)
    names = {name for schedule in schedules for name in schedule.sees}
    seen = dict.fromkeys(sorted(names), none)
    if "loss" in names:
        seen["loss"] = problem.values(models)
    states = tuple(
        jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, none.shape), schedule.start)
        for schedule in schedules
    )
    count = jnp.zeros(none.shape, jnp.int32)
    return Kept(seen, states, models if "dual" in names else (), count, count)


def _look(solver: Any, problem: Any, clients: Watched, received: Any, index: Any) -> Kept:
    """Return what clients keep once they have read the server's model."""
    kept, seen = clients.kept, {}
    read = own = jax.tree.leaves(received)[0]
    if hasattr(solver, "client_models"):
        own = solver.client_models(_OfClients(clients.own))
    if "primal" in kept.seen:
        seen["primal"] = safe_norm(own - read)
    if "dual" in kept.seen:
        seen["dual"] = safe_norm(read - kept.read)
    if "loss" in kept.seen:
        seen["loss"] = at_state(problem, clients.own).values(own)
    if "waited" in kept.seen:
        seen["waited"] = (index + 1 - kept.last).astype(kept.seen["waited"].dtype)
    begun = kept.rounds > 0
    states = tuple(
        jax.tree.map(
            lambda new, old: jnp.where(begun, new, old), schedule.after(kept.rounds), state
        )
        for schedule, state in zip(_at(seeing(solver), kept), kept.states, strict=True)
    )
    read = read if "dual" in kept.seen else ()
    last = jnp.broadcast_to(index + 1, kept.last.shape).astype(jnp.int32)
    return Kept(seen, states, read, kept.rounds + 1, last)


class _OfClients(NamedTuple):
    """The state of a solver as its clients know it."""

    clients: Any


def _at(schedules: list[SeeingFormula], kept: Kept) -> list[Any]:
    pairs = zip(schedules, kept.states, strict=True)
    return [schedule.at(kept.seen, state) for schedule, state in pairs]


def _bound(solver: Any, kept: Kept) -> Any:
    """Return a solver whose schedules that see have their values for what clients keep."""
    found = iter(_at(seeing(solver), kept))

    def put(part: Any) -> Any:
        if isinstance(part, SeeingFormula):
            return next(found)
        if not seeing(part):
            return part
        values = {
            each.name: put(getattr(part, each.name))
            for each in fields(part)
            if not each.metadata.get("static")
        }
        return with_values(part, values)

    return put(solver)
