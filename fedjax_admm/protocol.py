"""The protocol of every solver: a pure step over a stacked client state."""

from typing import Any, ClassVar, NamedTuple, Protocol

import jax

from fedjax_admm._shown import short_repr
from fedjax_admm.traffic import Traffic

__all__ = ["RoundInfo", "Solver"]


def __dir__() -> list[str]:
    return __all__


@short_repr
class RoundInfo(NamedTuple):
    """Everything that a round gets from outside."""

    # shape=(), int32: the absolute number of the round, from 0
    index: jax.Array  # pyright: ignore[reportIncompatibleMethodOverride]
    key: jax.Array  # a typed key for this round alone
    active: jax.Array  # bool, of the shape that the solver asks for: who takes part
    sampled: jax.Array | None = None  # shape=(count,), int32: the active ones, where the
    # participation draws a fixed number; heavy client work gathers and scatters these only


class Solver(Protocol):
    """An algorithm as a frozen dataclass registered as a pytree.

    Hyper-parameters, schedules and penalties are leaves: they can be vmapped over a grid and
    differentiated. Only counts, structure and functions are static. No solver knows about
    trials, devices, files or plots, and none draws who takes part: it obeys `info.active`.

    A solver may have `check(problem, rounds)`, which raises `InputError` where it cannot run for
    so many rounds, counted from the first; a run calls it before anything is traced. It may have
    `check_start(state)`, for a state from which it cannot go on. One whose clients send nothing in
    some rounds may have `transmitting(info)`, which returns the mask of those who take part and
    send; a run counts their messages. It draws what the step draws from a clone of the key.

    One with a true `noisy` hides something by what it draws: a run refuses to use its key for
    anything else. Around such a solver, or one with a `release`, no other solver runs, unless that
    has a `noisy` of its own: it says by it that its own sensitivity is proved.

    One whose clients keep models of their own beside the estimate may have `client_models(state)`,
    (clients, dim), by which measures judge whether they agree; one whose duals tell a subgradient
    of every client's loss at its own model may have `client_slopes(state)`, (clients, dim). A
    `regularizer` stands beside the mean of the losses, or beside their sum with `sums_losses`.
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
