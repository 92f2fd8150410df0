"""Ditto: one personal model per client, near the shared model that any solver finds.

    v_i = argmin_v h_i(v; w),    h_i(v; w) = f_i(v) + lambda ||v - w||^2 / 2

One round of the participating clients, which read the model w, is

    v_i <- some steps on h_i(.; w), from v_i
    w   <- the round of the wrapped solver, which does not use v_i

Gradient steps are `v_i <- v_i - eta (grad f_i(v_i) + lambda (v_i - w))`. If the wrapped solver
converges to w*, v_i converges to the proximal point `prox_{f_i / lambda}(w*)` of a convex loss.
This point tends to w* for lambda to infinity, and to the client's own minimiser for lambda to 0.
The messages are those of the wrapped solver; v_i is never sent.

Reference: T. Li, S. Hu, A. Beirami, V. Smith, "Ditto: Fair and Robust Federated Learning Through
Personalization", ICML 2021, arXiv:2012.04221, Algorithm 1.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build
from fedjax_admm.capabilities import OnStar, at_state, first_model, first_state
from fedjax_admm.protocol import Solver
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers._declared import at_round, filled, open_fields
from fedjax_admm.solvers._gradients import check_curvature_known, copies, largest_curvature
from fedjax_admm.solvers._star import work_present
from fedjax_admm.solvers.star._averaging import ProximalUpdate, proximal_update
from fedjax_admm.solvers.wrappers._wrapper import PersonalWrapper


class DittoState(NamedTuple):
    """What the solver inside keeps, and the clients' own models."""

    # First, because measures of v_i read the states of the losses there.
    memory: Any  # of the local solvers of h_i, stacked
    models: jax.Array  # shape=(clients, dim): v_i
    inner: Any  # the state of the solver inside
    curvature: jax.Array  # shape=(): estimated before the first round; 1 where nothing needs it


@roles.pytree_dataclass
class Ditto(PersonalWrapper):
    """A solver for the shared model, and a model of each client beside it; see `ditto`."""

    solver: Solver
    update: ProximalUpdate  # lambda, and how a client solves its problem

    requires: ClassVar[tuple[type, ...]] = (OnStar,)

    def check(self, problem, rounds: int) -> None:
        """Check what the solver inside checks, and that lambda and the steps can be found."""
        super().check(problem, rounds)
        check_curvature_known(self.update, problem)

    def init(self, problem, key) -> DittoState:
        """Start all models where the problem does."""
        model = first_model(problem)
        curvature = jnp.ones((), model.dtype)
        if open_fields(self.update):
            curvature = largest_curvature(problem, model)
        models = copies(model, problem)
        memory = filled(self.update, curvature).memory(problem, models)
        return DittoState(memory, models, first_state(self.solver, problem, key), curvature)

    def step(self, problem, state: DittoState, info) -> DittoState:
        """Return the state after one round."""
        update = at_round(filled(self.update, state.curvature), info.index)

        def work(problem, clients, key):
            w, v, memory = clients
            weight = jnp.broadcast_to(update.penalty, w.shape[:1])
            return w, *update.local(problem, w, weight, v, memory, key)

        clients = self.read(problem, state.inner), state.models, state.memory
        _, models, memory = work_present(problem, self.clients_round(problem, info), clients, work)
        inner = self.solver.step(problem, state.inner, info)
        return DittoState(memory, models, inner, state.curvature)

    def estimate(self, state: DittoState) -> jax.Array:
        """Return v_i, shape (clients, dim)."""
        return state.models

    def client_models(self, state: DittoState) -> jax.Array:
        """Return v_i, shape (clients, dim)."""
        return state.models

    def client_slopes(self, state: DittoState) -> None:
        """Return None: the slopes of the solver inside are not at v_i."""

    def judged(self, problem, state: DittoState) -> tuple[Any, jax.Array]:
        """Return the problem, and the shared model w."""
        return at_state(problem, state.inner), self.solver.estimate(state.inner)


def ditto(
    solver: Solver,
    penalty: ArrayLike | None = None,
    *,
    local: roles.LocalSolver | None = None,
) -> Ditto:
    """Build a solver that learns a model of each client beside the shared one.

    Args:
      solver: for the shared model, `fed_avg(...)` in the paper; any whose clients read a model.
        What happens to its messages up is up to its exchange.
      penalty: lambda: a large one holds v_i near the shared model, with 0 and gradient steps each
        client learns alone. The largest curvature of the clients' losses, estimated at the start,
        if None.
      local: how a client solves its problem, `local_gradient(...)`, `local_optimizer(...)` or
        `local_prox()`; five gradient steps from v_i if None.

    Returns:
      The solver; its estimate is a model per client, shape (clients, dim).
    """
    update = proximal_update(penalty, local)
    return build(Ditto, solver=solver, update=update).checked("fed_avg()")
