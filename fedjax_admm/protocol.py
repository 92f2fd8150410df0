"""The protocol of every solver: a pure step over a stacked client state."""

from typing import Any, ClassVar, NamedTuple, Protocol

import jax

from fedjax_admm.traffic import Traffic

__all__ = ["RoundInfo", "Solver"]


def __dir__() -> list[str]:
    return __all__


class RoundInfo(NamedTuple):
    """Everything that a round gets from outside."""

    # shape=(), int32: the absolute number of the round, from 0
    index: jax.Array  # pyright: ignore[reportIncompatibleMethodOverride]
    key: jax.Array  # a typed key for this round alone
    active: jax.Array  # bool, of the shape that the solver asks for: participants
    sampled: jax.Array | None = None  # shape=(count,), int32: the active ones, where the
    # participation draws a fixed number; heavy client work gathers and scatters these only


class Solver(Protocol):
    """An algorithm as a frozen dataclass registered as a pytree.

    Hyper-parameters, schedules and penalties are leaves: they can be vmapped over a grid and
    differentiated. Only counts, structure and functions are static. No solver knows about
    trials, devices, files or plots, and none draws its participants: they are `info.active`.

    A solver may have more methods and attributes:

    - `check(problem, rounds)` raises `InputError` if it cannot run for so many rounds, counted from
      the first; a run calls it before anything is traced.
    - `check_start(state)` raises `InputError` for a state from which it cannot continue.
    - `transmitting(info)` returns the mask of the participants that send in a round, for solvers
      whose clients skip rounds; a run counts their messages. It draws as the step does, from a
      clone of the key.
    - `noisy`, if true, marks draws that hide data: a run refuses to use its key for anything else.
      No other solver runs around such a solver, or around one with a `release`, unless it has a
      `noisy` of its own, which says that its own sensitivity is proved.
    - `client_models(state)`, (clients, dim), are the clients' own models beside the estimate, for
      measures of agreement.
    - `client_slopes(state)`, (clients, dim), are subgradients of every client's loss at its own
      model.
    - `regularizer` is added to the mean of the losses, or to their sum with `sums_losses`.
    """

    requires: ClassVar[tuple[type, ...]]
    """The capabilities that the problem must have, all that are used (`fedjax_admm.capabilities`);
    checked before anything is traced. A field that is an object with `requires` of its own adds to
    it."""

    def participants(self, problem: Any) -> tuple[int, ...]:
        """Return the shape of the activity mask, usually `(clients,)`."""
        ...

    def init(self, problem: Any, key: jax.Array) -> Any:
        """Return the state before the first round."""
        ...

    def step(self, problem: Any, state: Any, info: RoundInfo) -> Any:
        """Return the state after one global round."""
        ...

    def estimate(self, state: Any) -> jax.Array:
        """Return what a user reads: a shared model (d,) or personal models (clients, d)."""
        ...

    def traffic(self, problem: Any) -> Traffic:
        """Return the numbers in a message up and in one down."""
        ...

    def messages(self, problem: Any, active: jax.Array) -> jax.Array:
        """Return how many messages go each way in a round, shape (), int32, given the mask."""
        ...
