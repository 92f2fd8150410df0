"""The iterative federated clustering algorithm (IFCA): every node chooses one of k models.

    j_i     = argmin_j L_i(theta_j)                                      (every node)
    theta_j <- prox_{rate a g}(theta_j - (rate / n) sum over i with j_i = j of grad L_i(theta_j))

It looks for a minimum of (1/n) sum_i min_j L_i(theta_j) + sum_j g(theta_j). The sum runs over the
present nodes and is divided by the number n of all nodes. a is the share of present nodes, which
gives g the same weight relative to the losses in every round. If a problem has `accessible`, nodes
without accessible data do not send; their loss is zero, so they choose the first model.

Messages: a node sends its gradient through the exchange, and beside it its choice, uncompressed.
For each model the server takes the aggregate of its gradients times their number. A Byzantine
sender sends a false gradient and its true choice. All models go down as one array, and a node
chooses among the models that it reads.

k is an input. After a bad start models can stay unused; `nonempty` counts those in use.

Reference: A. Ghosh, J. Chung, D. Yin, K. Ramchandran, "An Efficient Framework for Clustered
Federated Learning", NeurIPS 2020 (arXiv 2006.04088), gradient averaging.
"""

from functools import partial
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, declared, finite_array, positive, refuse
from fedjax_admm.capabilities import Access, Clients, Gradients, Values, has
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers._gradients import copies


@roles.pytree_dataclass
class IFCA(roles.StarSolver):
    """Iterative federated clustering; build it with `ifca`.

    The server holds the models (clusters, dim), a node the number of the model that fits it best.
    """

    start: jax.Array = declared(
        partial(finite_array, shape=(None, None))
    )  # shape=(clusters, dim): first models
    rate: jax.Array = positive()  # shape=()
    regularizer: roles.Penalty = roles.regularized()  # g, on every model
    exchange: roles.Exchange = roles.exchanged()  # of gradients

    requires: ClassVar[tuple[type, ...]] = (Clients, Values, Gradients)

    def check(self, problem, rounds: int) -> None:
        """Check that the first models have as many numbers as the problem's."""
        needed, length = jnp.shape(getattr(problem, "start", self.start))[-1], self.start.shape[1]
        refuse(
            needed != length,
            "start",
            f"must hold models of {needed} numbers as the problem's, but they have {length}",
        )

    def first_model(self, problem, key) -> jax.Array:
        """Return the first models, shape (clusters, dim)."""
        return self.start

    def present(self, problem, active):
        """Return those whose data are accessible."""
        return active & problem.accessible if has(problem, Access) else active

    def groups(self) -> int:
        """Return the number of models."""
        return self.start.shape[0]

    def start_clients(self, problem, models, key):
        """Let every node choose among the first models; gradients are zero."""
        choice = _choice(problem, models)
        return choice, roles.RoundMessage((jnp.zeros_like(models[:, 0]),), choice)

    def client(self, problem, choice, models, key):
        """Choose among the models that are read, and say the gradient at the chosen one."""
        if not self.reads_exactly:  # else it has chosen among these very models, to be judged
            choice = _choice(problem, models)
        own = jnp.take_along_axis(models, choice[:, None, None], 1)[:, 0]
        return choice, roles.RoundMessage((problem.gradients(own, key),), choice)

    def server(self, models, received: roles.Received, info) -> jax.Array:
        """Return the models after a gradient step, and the prox of g."""
        models = models - self.rate / received.num_clients * received.sums[0]
        share = jnp.sum(info.active).astype(models.dtype) / received.num_clients
        # A prox of length 0 may divide by it.
        return self.regularizer.prox(models, self.rate * jnp.where(share > 0, share, 1))

    def step(self, problem, state: roles.StarState, info) -> roles.StarState:
        """Return the state after one round, in which absent nodes choose, too, to be judged."""
        state = super().step(problem, state, info)
        choice = _choice(problem, copies(state.server, problem))
        return state._replace(clients=choice)

    def estimate(self, state: roles.StarState) -> jax.Array:
        """Return every node's chosen model, shape (nodes, dim)."""
        return state.server[state.clients]

    def nonempty(self, problem, state: roles.StarState) -> jax.Array:
        """Return how many models some accessible node uses, shape (), int32."""
        users = jnp.ones(problem.num_clients, jnp.int32)
        if has(problem, Access):
            users = problem.accessible.astype(jnp.int32)
        used = jax.ops.segment_max(users, state.clients, num_segments=self.groups())
        return jnp.sum(used > 0, dtype=jnp.int32)


def ifca(
    start: ArrayLike,
    rate: ArrayLike = 0.1,
    *,
    regularizer: roles.Penalty | None = None,
    exchange: roles.Exchange | None = None,
) -> IFCA:
    """Build `IFCA`.

    Args:
      start: first models, shape (clusters, dim); they must differ. Random ones, or a perturbation
        of a good guess: the method only converges near the true models.
      rate: length of the gradient steps, for the mean over all nodes.
      regularizer: g, one of `fedjax_admm.penalties`, added for every model at the server; none if
        None. A model that nobody chooses shrinks as g says.
      exchange: of messages, `messages.exchange(...)`; none if None.
    """
    return build(IFCA, **locals())


def _choice(problem, read: jax.Array) -> jax.Array:
    """Return which of the models that it reads has the smallest loss at every node.

    Ties go to the lowest index.
    """
    losses = jax.vmap(problem.values, 1)(read)
    return jnp.argmin(losses, 0).astype(jnp.int32)
