r"""The iterative federated clustering algorithm (IFCA): k models, every node picks one.

    j_i     = argmin_j L_i(theta_j)                                      (every node)
    theta_j <- prox_{rate a g}(theta_j - (rate / n) sum over i with j_i = j of grad L_i(theta_j))

It looks for a minimum of (1/n) sum_i min_j L_i(theta_j) + sum_j g(theta_j), with g a regulariser.
The division is by all n nodes, and the sum runs over those who are present; a is their share, so
that g counts as much as the losses in every round. Where a problem says whose data are accessible,
the other nodes are not heard, and learn nothing: their loss is zero everywhere, and they read the
first model.

It needs to know k, and a bad start can leave clusters empty: `nonempty` counts those in use.

Reference: A. Ghosh, J. Chung, D. Yin, K. Ramchandran, "An Efficient Framework for Clustered
Federated Learning", NeurIPS 2020 (arXiv 2006.04088), gradient averaging.
"""

from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import InputError, finite_array, scalar
from fedjax_admm._pytrees import register_dataclass
from fedjax_admm.capabilities import Access, Clients, Gradients, Values, has
from fedjax_admm.penalties import Penalty, zero
from fedjax_admm.solvers._present import check_regularizer
from fedjax_admm.traffic import Traffic


class IFCAState(NamedTuple):
    """Models, and who uses which."""

    models: jax.Array  # shape=(clusters, dim)
    choice: jax.Array  # shape=(nodes,), int32: the model that fits each node best
    heard: jax.Array  # shape=(nodes,), bool: whose data are accessible; all, if nothing is said


@register_dataclass
@dataclass(frozen=True, eq=False)
class IFCA:
    """Iterative federated clustering; build it with `ifca`."""

    start: jax.Array  # shape=(clusters, dim): first models
    rate: jax.Array  # shape=()
    regularizer: Penalty = field(default_factory=zero)  # g, on every model

    requires: ClassVar[tuple[type, ...]] = (Clients, Values, Gradients)

    def participants(self, problem) -> tuple[int, ...]:
        """Return `(nodes,)`."""
        return (problem.num_clients,)

    def init(self, problem, key) -> IFCAState:
        """Let every node choose among the first models.

        Raises:
          InputError: they have another number of entries than the problem's.
        """
        wanted, given = jnp.shape(getattr(problem, "start", self.start))[-1], self.start.shape[1]
        if wanted != given:
            raise InputError(
                f"must hold models of {wanted} numbers as the problem's, but they have {given}",
                argument="start",
                value=self.start,
            )
        return IFCAState(self.start, _choice(problem, self.start), _heard(problem))

    def step(self, problem, state: IFCAState, turn) -> IFCAState:
        """Return the state after one round."""
        clusters = state.models.shape[0]
        slopes = problem.gradients(state.models[state.choice], turn.key)
        heard = (turn.active & state.heard)[:, None]
        total = jax.ops.segment_sum(
            jnp.where(heard, slopes, 0), state.choice, num_segments=clusters
        )
        models = state.models - self.rate / problem.num_clients * total
        number = jnp.sum(turn.active)
        # A prox of length 0 may divide by it.
        share = jnp.maximum(number, 1).astype(models.dtype) / problem.num_clients
        models = jnp.where(
            number > 0, self.regularizer.prox(models, self.rate * share), state.models
        )
        return IFCAState(models, _choice(problem, models), state.heard)

    def estimate(self, state: IFCAState) -> jax.Array:
        """Return every node's chosen model, shape (nodes, dim)."""
        return state.models[state.choice]

    def nonempty(self, state: IFCAState) -> jax.Array:
        """Return how many models some accessible node uses, shape (), int32."""
        clusters = state.models.shape[0]
        used = jax.ops.segment_max(
            state.heard.astype(jnp.int32), state.choice, num_segments=clusters
        )
        return jnp.sum(used > 0, dtype=jnp.int32)

    def traffic(self, problem) -> Traffic:
        """Return a gradient and a choice up, and all models down."""
        clusters, dim = self.start.shape
        return Traffic(up=dim + 1, down=clusters * dim)

    def messages(self, problem, active: jax.Array) -> jax.Array:
        """Count the nodes that are present and whose data, where this is said, are accessible."""
        return jnp.sum(active & _heard(problem), dtype=jnp.int32)


def ifca(start: ArrayLike, rate: ArrayLike = 0.1, *, regularizer: Penalty | None = None) -> IFCA:
    """Build `IFCA`.

    Args:
      start: first models, shape (clusters, dim); they must differ. Random ones, or a perturbation
        of a good guess: the method only converges near the true models.
      rate: length of the gradient steps, for the mean over all nodes.
      regularizer: g, one of `fedjax_admm.penalties`, added for every model at the server; none if
        None. A model that nobody chooses shrinks as g says.

    Returns:
      The solver.

    Raises:
      InputError: `start` is not a finite matrix, the rate is not positive, or the regulariser
        has no prox.
    """
    models = finite_array("start", start, (None, None))
    if 0 in models.shape:
        raise InputError(
            f"must hold at least one model, but it has shape {models.shape}",
            argument="start",
            value=start,
        )
    return IFCA(models, scalar("rate", rate, above=0), check_regularizer(regularizer))


def _heard(problem) -> jax.Array:
    """Return whose data can be used, shape (nodes,), bool."""
    return problem.accessible if has(problem, Access) else jnp.ones(problem.num_clients, bool)


def _choice(problem, models: jax.Array) -> jax.Array:
    """Return the model with the smallest loss at every node (the first of equals)."""
    nodes = (problem.num_clients, models.shape[1])
    losses = jax.vmap(lambda model: problem.values(jnp.broadcast_to(model, nodes)))(models)
    return jnp.argmin(losses, 0).astype(jnp.int32)
