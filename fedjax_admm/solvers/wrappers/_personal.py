"""Private parts: each client learns private parameters beside the shared model.

A problem with private parts h_l (`federated(..., shared="body")`) has losses f_l(w, h_l). In a
round, every participating client first fits its private part to the shared model w that it reads,

    h_l <- h_l - rate grad_h f_l(w, h_l)                              (some steps)

and then the wrapped solver takes its round on w -> f_l(w, h_l) with the new parts. With
`steps=None` both move at once: each gradient step of the wrapped solver is taken together with one
of h_l, at the same w, h_l and minibatch. This is FedBN if the private parts are the weights of
normalisation and a state of the losses holds the running statistics. A joint fixed point is a
stationary point of `sum_l f_l(w, h_l)` in w and in all h_l.

The messages are those of the wrapped solver, through its exchange; private parts are never sent.
The server's model must reach the clients unchanged, since private parts are fitted to it.

Reference: L. Collins, H. Hassani, A. Mokhtari, S. Shakkottai, "Exploiting shared representations
for personalized federated learning", ICML 2021 (FedRep: private parts first, then the shared one);
M. G. Arivazhagan, V. Aggarwal, A. K. Singh, S. Choudhary, "Federated learning with personalization
layers", arXiv:1912.00818; X. Li, M. Jiang, X. Zhang, M. Kamp, Q. Dou, "FedBN: Federated Learning on
Non-IID Features via Local Batch Normalization", ICLR 2021, arXiv:2102.07623.
"""

from typing import Any, ClassVar, NamedTuple, cast

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, count, declared, optional, positive
from fedjax_admm.capabilities import OnStar, PrivateParts, at_state, first_state
from fedjax_admm.protocol import Solver
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers._gradients import draws
from fedjax_admm.solvers._star import work_present
from fedjax_admm.solvers.wrappers._wrapper import PersonalWrapper


class PersonalState(NamedTuple):
    """What the solver inside keeps, and the clients' own parts."""

    inner: Any  # the state of the solver inside
    private: jax.Array  # shape=(clients, private_dim)


@roles.pytree_dataclass
class Personal(PersonalWrapper):
    """A solver for the shared part, and gradient steps for the private ones; see `personal`."""

    solver: Solver
    rate: jax.Array = positive()  # shape=()
    steps: int | None = declared(optional(count), static=True)  # None: with those of the solver

    requires: ClassVar[tuple[type, ...]] = (OnStar, PrivateParts)

    def init(self, problem, key) -> PersonalState:
        """Start both parts where the problem does."""
        inner = first_state(self.solver, self._seen(problem), key)
        return PersonalState(inner, problem.private)

    def step(self, problem, state: PersonalState, info) -> PersonalState:
        """Return the state after one round."""
        if self.steps is None:
            inner = self.solver.step(self._seen(problem), state.inner, info)
            return PersonalState(inner, at_state(problem, inner).private)
        read = self.read(problem, state.inner)
        fit = self.clients_round(problem, info)
        now = at_state(problem, state.inner)
        _, private = work_present(now, fit, (read, state.private), self._fit)
        inner = self.solver.step(problem.with_private(private), state.inner, info)
        return PersonalState(inner, private)

    def estimate(self, state: PersonalState) -> jax.Array:
        """Return every client's whole model, shape (clients, dim + private_dim)."""
        shared = self.solver.estimate(state.inner)
        rows = jnp.broadcast_to(shared, (state.private.shape[0], shared.shape[-1]))
        return jnp.concatenate([rows, state.private], -1)

    def judged(self, problem, state: PersonalState) -> tuple[Any, jax.Array]:
        """Return the problem with the clients' present parts, and the shared model or models."""
        now = at_state(problem, state.inner).with_private(state.private)
        return now, self.solver.estimate(state.inner)

    def _seen(self, problem):
        """Return the problem as the solver inside has it."""
        return problem.with_moving_private(self.rate) if self.steps is None else problem

    def _fit(self, problem, clients, key):
        """Return the private parts of some clients after the steps; nothing is sent."""
        (read, private), steps = clients, cast(int, self.steps)

        def descend(own, draw):
            slope = problem.with_private(own).private_gradients(read, draw)
            return own - self.rate * slope, None

        return read, jax.lax.scan(descend, private, draws(problem, key, steps))[0]


def personal(solver: Solver, rate: ArrayLike = 0.1, *, steps: int | None = 5) -> Personal:
    """Build a solver that learns the clients' private parts beside the shared one.

    Args:
      solver: for the shared part; any whose clients read a model. What happens to its messages up
        is up to its exchange.
      rate: length of the steps on the private parts, positive.
      steps: per round, before the solver inside works. If None, every gradient step of that solver
        takes one of the private parts beside it, as in FedBN; it is one with local steps then.

    Returns:
      The solver; its estimate is a whole model per client.
    """
    return build(Personal, solver=solver, rate=rate, steps=steps).checked("scaffold()")
