"""The harness of solvers of factor models: a star whose clients have users of their own.

The model is V, the factors of the items, shape (items, rank). The clients' state has a field
`users`, U_i, which never leaves them. A solver implements the roles of `StarSolver` and one more:

    fit_users(ratings, users, items) -> users

The roles `client` and `fit_users` read the ratings of some clients (`RatingsOf`). The ratings are
stored in blocks and are not copied.
"""

from typing import Any, ClassVar, NamedTuple

import jax

from fedjax_admm._checks import declared
from fedjax_admm.capabilities import FactorData
from fedjax_admm.ratings import Factors, FactorStart, check_factor_start, uniform_start
from fedjax_admm.solvers._messages import StarState
from fedjax_admm.solvers._star import StarSolver
from fedjax_admm.traffic import Traffic


class FactorsState(StarState):
    """The state of a solver of factor models: that of a star."""

    __slots__ = ()

    @property
    def items(self) -> jax.Array:
        """Return the shared factors V, shape (items, rank)."""
        return self.server

    @property
    def factors(self) -> Factors:
        """Return each client's own U_i, possibly old, and the shared V, for predictions."""
        return Factors(self.clients.users, self.server)


class RatingsOf(NamedTuple):
    """The ratings of some clients."""

    problem: Any  # of all clients
    chosen: jax.Array  # shape=(chosen,), int32: which clients

    @property
    def here(self) -> jax.Array:
        """Return which users there are, bool, shape (chosen, users_per_client)."""
        return self.problem.here[self.chosen]


class FactorSolver(StarSolver):
    """A solver of a factor model as the roles of its clients and its server."""

    start: FactorStart

    requires: ClassVar[tuple[type, ...]] = (FactorData,)

    def fit_users(self, ratings: RatingsOf, users: jax.Array, items: jax.Array, /) -> jax.Array:
        """Return the users' factors of some clients after their steps.

        Args:
          ratings: of these clients.
          users: shape (chosen, users_per_client, rank).
          items: shape (items, rank), or (chosen, items, rank) where each has its own.
        """
        raise NotImplementedError

    def fit_all_users(self, problem: Any, users: jax.Array, items: jax.Array) -> jax.Array:
        """Return the users' factors of all clients after their steps."""
        return self.fit_users(RatingsOf(problem, problem.by_user.everyone), users, items)

    def first_factors(self, problem: Any, key: jax.Array) -> Factors:
        """Return the factors before the first round; the key is that of `init`."""
        return self.start(problem, jax.random.clone(key))

    def first_model(self, problem: Any, key: jax.Array) -> jax.Array:
        """Return V before the first round."""
        return self.first_factors(problem, key).items

    def computed(self, problem: Any, info: Any) -> tuple[jax.Array | None, RatingsOf]:
        """Return which clients are drawn, None if all may take part, and the ratings of these."""
        everyone = info.sampled is None
        return info.sampled, RatingsOf(
            problem, problem.by_user.everyone if everyone else info.sampled
        )

    def init(self, problem: Any, key: jax.Array) -> FactorsState:
        """Return the state before the first round."""
        return FactorsState(*super().init(problem, key))

    def fresh(self, problem: Any, state: FactorsState) -> Factors:
        """Return factors whose users took their steps once more against V, for prediction."""
        return Factors(self.fit_all_users(problem, *state.factors), state.items)

    def traffic(self, problem: Any) -> Traffic:
        """Return the numbers in a message each way: one array of the shape of V."""
        shape = (problem.num_items, self.start.rank)
        return self.exchange.traffic(up=[shape], down=[shape])


def started() -> Any:
    """Declare where a solver of factors starts."""

    def checked(_: str, start: Any) -> Any:
        check_factor_start(start)
        return start

    return declared(checked)


def start_of(start: FactorStart | None, rank: int) -> FactorStart:
    """Return a start, small uniform numbers if None."""
    return uniform_start(rank=rank) if start is None else start
