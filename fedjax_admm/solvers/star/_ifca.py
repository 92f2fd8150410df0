r"""The iterative federated clustering algorithm (IFCA): k models, every node picks one.

    j_i     = argmin_j L_i(theta_j)                                      (every node)
    theta_j <- prox_{rate a g}(theta_j - (rate / n) sum over i with j_i = j of grad L_i(theta_j))

It looks for a minimum of (1/n) sum_i min_j L_i(theta_j) + sum_j g(theta_j), with g a regulariser.
The division is by all n nodes, and the sum runs over those who are present; a is their share, so
that g counts as much as the losses in every round. Where a problem says whose data are accessible,
the other nodes are not heard, and learn nothing: their loss is zero everywhere, and they read the
first model.

Messages: a node sends its gradient through the exchange and, beside it and as it is, its choice,
which travels along where messages wait. A server of many models makes of the gradients for each of
them what the aggregator says, times their number, in the place of their sum; a liar may lie about
its gradient, not about its choice. All models go down as one array, and a node chooses among the
models as it reads them.

It needs to know k, and a bad start can leave clusters empty: `nonempty` counts those in use.

Reference: A. Ghosh, J. Chung, D. Yin, K. Ramchandran, "An Efficient Framework for Clustered
Federated Learning", NeurIPS 2020 (arXiv 2006.04088), gradient averaging.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import InputError, finite_array, scalar
from fedjax_admm._pytrees import register_dataclass
from fedjax_admm._shown import short_repr
from fedjax_admm.capabilities import Access, Clients, Gradients, Values, has
from fedjax_admm.messages import Exchange, check_exchange
from fedjax_admm.penalties import Penalty, zero
from fedjax_admm.solvers._present import Post, check_regularizer
from fedjax_admm.traffic import Traffic


@short_repr
class IFCAState(NamedTuple):
    """Models, and who uses which."""

    models: jax.Array  # shape=(clusters, dim)
    choice: jax.Array  # shape=(nodes,), int32: the model that fits each node best
    heard: jax.Array  # shape=(nodes,), bool: whose data are accessible; all, if nothing is said
    post: Post | tuple[()] = ()  # what the exchange remembers


@register_dataclass
@dataclass(frozen=True, eq=False)
class IFCA:
    """Iterative federated clustering; build it with `ifca`."""

    start: jax.Array  # shape=(clusters, dim): first models
    rate: jax.Array  # shape=()
    regularizer: Penalty = field(default_factory=zero)  # g, on every model
    exchange: Exchange = field(default_factory=Exchange)  # of gradients

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
        nodes, (clusters, dim) = problem.num_clients, self.start.shape
        choice, post = _choice(problem, _copies(self.start, nodes)), ()
        if not self.exchange.plain:
            none = jnp.zeros((nodes, dim), self.start.dtype)
            box = self.exchange.open(key, none, receivers=clusters)
            post = Post((box,), self.exchange.open_down(self.start, nodes))
        return IFCAState(self.start, choice, _heard(problem), post)

    def step(self, problem, state: IFCAState, turn) -> IFCAState:
        """Return the state after one round."""
        if self.exchange.plain:
            slopes = problem.gradients(state.models[state.choice], turn.key)
            heard = (turn.active & state.heard)[:, None]
            total = jax.ops.segment_sum(
                jnp.where(heard, slopes, 0), state.choice, num_segments=state.models.shape[0]
            )
            number, post = jnp.sum(turn.active), ()
        else:
            total, number, post = self._exchanged(problem, state, turn)
        models = state.models - self.rate / problem.num_clients * total
        # A prox of length 0 may divide by it.
        share = jnp.maximum(number, 1).astype(models.dtype) / problem.num_clients
        models = jnp.where(
            number > 0, self.regularizer.prox(models, self.rate * share), state.models
        )
        choice = _choice(problem, _copies(models, problem.num_clients))
        return IFCAState(models, choice, state.heard, post)

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
        return self.exchange.traffic(up=[(dim,)], down=[(clusters, dim)], more_up=1)

    def messages(self, problem, active: jax.Array) -> jax.Array:
        """Count the nodes that are present and whose data, where this is said, are accessible."""
        return jnp.sum(active & _heard(problem), dtype=jnp.int32)

    def _exchanged(self, problem, state: IFCAState, turn) -> tuple[jax.Array, jax.Array, Post]:
        """Return the sums of gradients, (clusters, dim), who counts, shape (), and the post."""
        clusters, active = state.models.shape[0], turn.active & state.heard
        post: Any = state.post
        read, down = self.exchange.read(
            turn.key, post.down, state.models, active, problem.num_clients
        )
        choice = _choice(problem, read)
        chosen = jnp.take_along_axis(read, choice[:, None, None], 1)[:, 0]
        slopes = problem.gradients(chosen, turn.key)
        # What travels uncompressed beside a message: its weight, which here says the choice.
        sent, box = self.exchange.send(
            turn.key, turn.index, post.up[0], slopes, active, choice.astype(slopes.dtype)
        )
        groups, here = sent.weights.astype(jnp.int32), sent.arrived.astype(slopes.dtype)
        last = self.exchange.aggregate(sent.values, here, box.last, groups)
        numbers = jax.ops.segment_sum(here, groups, num_segments=clusters)
        number = jnp.sum(sent.arrived | (turn.active & ~state.heard))
        return numbers[:, None] * last, number, Post((box._replace(last=last),), down)


def ifca(
    start: ArrayLike,
    rate: ArrayLike = 0.1,
    *,
    regularizer: Penalty | None = None,
    exchange: Exchange | None = None,
) -> IFCA:
    """Build `IFCA`.

    Args:
      start: first models, shape (clusters, dim); they must differ. Random ones, or a perturbation
        of a good guess: the method only converges near the true models.
      rate: length of the gradient steps, for the mean over all nodes.
      regularizer: g, one of `fedjax_admm.penalties`, added for every model at the server; none if
        None. A model that nobody chooses shrinks as g says.
      exchange: what happens to messages, `messages.exchange(...)`; nothing if None.

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
    return IFCA(
        models,
        scalar("rate", rate, above=0),
        check_regularizer(regularizer),
        check_exchange(exchange),
    )


def _heard(problem) -> jax.Array:
    """Return whose data can be used, shape (nodes,), bool."""
    return problem.accessible if has(problem, Access) else jnp.ones(problem.num_clients, bool)


def _copies(models: jax.Array, nodes: int) -> jax.Array:
    """Return all models for every node, shape (nodes, clusters, dim)."""
    return jnp.broadcast_to(models, (nodes, *models.shape))


def _choice(problem, read: jax.Array) -> jax.Array:
    """Return which of the models that it reads has the smallest loss at every node.

    Of equals it is the first.

    Args:
      problem: with all nodes.
      read: shape (nodes, clusters, dim).
    """
    losses = jax.vmap(problem.values, 1)(read)
    return jnp.argmin(losses, 0).astype(jnp.int32)
