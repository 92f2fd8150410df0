r"""Federated averaging and FedProx: clients work on their own from the server's model.

    minimise over x   (1/N) sum_i f_i(x) + g(x)

One round, S those who take part:

    FedAvg     w_i = K gradient steps of length eta on f_i, from x
    FedProx    w_i = argmin_w f_i(w) + mu_p ||w - x||^2 / 2        exactly, or by gradient steps
    network    w_i = argmin_w f_i(w) + ||w - x||^2 / (2 tau_i),    tau_i = ratio / degree_i

    x <- prox_{s g}(mean over i in S of w_i)                        at the server

with s the length of the gradient step that the clients' work amounts to where the losses are
linear: K eta, 1 / mu_p, or the mean of tau_i over S. The mean has equal weights. Where a problem
says whose data are accessible, the others are not heard; a round that hears nobody keeps the model.

**Where it ends.** With K = 1 and everybody present FedAvg is the proximal gradient method, and ends
at the minimiser. Otherwise both are biased wherever clients differ: for quadratic losses with
Hessians A_i and minimisers x_i*, without g,

    x = (sum_i Q_i)^{-1} sum_i Q_i x_i*,    Q_i = I - (I - eta A_i)^K            FedAvg
                                            Q_i = A_i (A_i + mu_p I)^{-1}        FedProx, exact

(the latter minimises the mean of the Moreau envelopes), and where not everybody takes part the
model keeps wandering, even with K = 1. SCAFFOLD, FedDyn, FedDR and federated ADMM have no such
bias. Weights w_i of clients (of sum 1) belong in the losses, as N w_i f_i.

References: H. B. McMahan et al., "Communication-Efficient Learning of Deep Networks from
Decentralized Data", AISTATS 2017, arXiv:1602.05629 (FedAvg); T. Li et al., "Federated Optimization
in Heterogeneous Networks", MLSys 2020, arXiv:1812.06127, Algorithm 2 (FedProx); the third form is
the one with which GTV minimisation was compared: Y. SarcheshmehPour et al., "Clustered Federated
Learning via Generalized Total Variation Minimization", 2023.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import count, scalar
from fedjax_admm._pytrees import register_dataclass
from fedjax_admm._shown import short_repr
from fedjax_admm.capabilities import (
    Access,
    Gradients,
    OnGraph,
    OnStar,
    Prox,
    first_model,
    has,
)
from fedjax_admm.messages import Exchange, check_exchange
from fedjax_admm.penalties import Penalty
from fedjax_admm.solvers._local import LocalProx, LocalSolver, check_local, curvature_at_start
from fedjax_admm.solvers._present import (
    Message,
    Post,
    StarSolver,
    check_regularizer,
    copies,
    descend,
    exchanged,
    largest_curvature,
    open_post,
)


@short_repr
class AveragingState(NamedTuple):
    """The shared model, and what clients and server remember."""

    model: jax.Array  # shape=(dim,)
    clients: Any  # what every client keeps, stacked: of FedProx the memory of its local solver; of
    # GTV's proxes the lengths, shape (nodes,)
    curvature: jax.Array  # shape=(): estimated at the start where a length follows from it, else 1
    post: Post | tuple[()] = ()  # what the exchange remembers


@register_dataclass
@dataclass(frozen=True, eq=False)
class GradientUpdate:
    """Gradient steps on the local loss."""

    rate: jax.Array | None  # shape=(); 0.2 / curvature if None
    steps: int = field(metadata={"static": True})

    requires: ClassVar[tuple[type, ...]] = (Gradients,)

    def first(self, problem, model):
        """Return what clients remember, nothing, and the curvature, shape ()."""
        known = jnp.ones((), model.dtype)
        return (), largest_curvature(problem, model) if self.rate is None else known

    def __call__(self, problem, shared, clients, key, curvature):
        """Return the models after the steps, (clients, dim), what is remembered, K times rate."""
        rate = 0.2 / curvature if self.rate is None else self.rate
        moved = descend(problem, shared, key, rate, self.steps)
        return moved, clients, jnp.broadcast_to(self.steps * rate, (problem.num_clients,))


@register_dataclass
@dataclass(frozen=True, eq=False)
class ProximalUpdate:
    """The local problem `f_l(w) + penalty ||w - x||^2 / 2`, by a local solver."""

    penalty: jax.Array | None  # shape=(); the curvature if None
    local: LocalSolver

    @property
    def requires(self) -> tuple[type, ...]:
        """What the local solver requires."""
        return self.local.requires

    def first(self, problem, model):
        """Return what the local solvers remember, and the curvature, shape ()."""
        memory = self.local.memory(problem, copies(model, problem))
        return memory, curvature_at_start(problem, model, self.local, self.penalty)

    def __call__(self, problem, shared, clients, key, curvature):
        """Return the models, (clients, dim), what is remembered, and lengths, (clients,)."""
        penalty = curvature if self.penalty is None else self.penalty
        weight = jnp.broadcast_to(penalty, (problem.num_clients,))
        moved, memory = self.local(problem, shared, weight, shared, clients, key, curvature)
        length = self.local.length(penalty, curvature)
        return moved, memory, jnp.broadcast_to(length, (problem.num_clients,))


@register_dataclass
@dataclass(frozen=True, eq=False)
class ProxUpdate:
    """One proximal step, with the steps `ratio / degree_i` of GTV minimisation."""

    ratio: jax.Array  # shape=()

    requires: ClassVar[tuple[type, ...]] = (OnGraph, Prox)

    def first(self, problem, model):
        """Return the lengths of the steps, shape (nodes,), and no curvature: 1."""
        degrees = jnp.maximum(problem.graph.degrees, 1).astype(model.dtype)
        return self.ratio / degrees, jnp.ones((), model.dtype)

    def __call__(self, problem, shared, clients, key, curvature):
        """Return the models after the prox, shape (nodes, dim), and the lengths twice."""
        return problem.prox(shared, clients, problem.prox_memory(shared))[0], clients, clients


@register_dataclass
@dataclass(frozen=True, eq=False)
class FederatedAveraging(StarSolver):
    """Averaging; built by `federated_averaging`, `fed_prox`, `federated_proximal_averaging`."""

    update: GradientUpdate | ProximalUpdate | ProxUpdate  # what clients do
    regularizer: Penalty  # g
    exchange: Exchange  # of the clients' models

    requires: ClassVar[tuple[type, ...]] = (OnStar,)  # and what the update requires

    def init(self, problem, key) -> AveragingState:
        """Start at the mean of the problem's starts."""
        model = first_model(problem)
        clients, curvature = self.update.first(problem, model)
        post = open_post(self.exchange, key, (copies(model, problem),), model)
        return AveragingState(model, clients, curvature, post)

    def step(self, problem, state: AveragingState, turn) -> AveragingState:
        """Return the state after one round."""

        def update(problem, clients, read, key):
            moved, clients, lengths = self.update(problem, read, clients, key, state.curvature)
            heard = jnp.ones(lengths.shape, bool)
            if has(problem, Access):
                heard = problem.accessible
                moved, lengths = jnp.where(heard[:, None], moved, 0), jnp.where(heard, lengths, 0)
            heard = heard.astype(jnp.int32)
            return clients, Message((moved,), heard, (lengths, heard))

        mail = exchanged(
            problem, turn, self.exchange, state.post, state.clients, state.model, update
        )
        (total,), number, (length, active) = mail.values, mail.number, mail.sums
        mean = total / jnp.maximum(number, 1).astype(total.dtype)
        # A prox of length 0 may divide by it.
        length = jnp.where(active > 0, length / jnp.maximum(active, 1).astype(total.dtype), 1)
        model = self.regularizer.prox(mean, length)
        model = jnp.where(number > 0, model, state.model)
        return AveragingState(model, mail.clients, state.curvature, mail.post)

    def estimate(self, state: AveragingState) -> jax.Array:
        """Return the shared model, shape (dim,)."""
        return state.model

    def messages(self, problem, active: jax.Array) -> jax.Array:
        """Count the clients that are present and whose data, where this is said, are accessible."""
        heard = active & problem.accessible if has(problem, Access) else active
        return jnp.sum(heard, dtype=jnp.int32)


def federated_averaging(
    rate: ArrayLike | None = None,
    *,
    local_steps: int = 1,
    regularizer: Penalty | None = None,
    exchange: Exchange | None = None,
) -> FederatedAveraging:
    """Build FedAvg: gradient steps on the clients' own losses.

    Args:
      rate: length of the steps, below `2 / L` for every client, or the model diverges; 0.2 / L if
        None, with L the largest curvature of the clients' losses, estimated at the start.
      local_steps: K per round; each has its own minibatch where the problem has them. With more
        than one the limit is biased wherever clients differ.
      regularizer: g at the server, one of `fedjax_admm.penalties`; none if None.
      exchange: what happens to messages, `messages.exchange(...)`; nothing if None.

    Returns:
      The solver.

    Raises:
      InputError: a number is out of range, or the regulariser has no prox.
    """
    rate = None if rate is None else scalar("rate", rate, above=0)
    return FederatedAveraging(
        GradientUpdate(rate, count("local_steps", local_steps)),
        check_regularizer(regularizer),
        check_exchange(exchange),
    )


def fed_prox(
    penalty: ArrayLike | None = None,
    *,
    local: LocalSolver | None = None,
    regularizer: Penalty | None = None,
    exchange: Exchange | None = None,
) -> FederatedAveraging:
    """Build FedProx: local problems that are tied to the server's model.

    Args:
      penalty: mu_p; 0 with gradient steps is FedAvg. The largest curvature of the clients' losses,
        estimated at the start, if None. A larger one has less bias and is slower.
      local: how a client solves its problem, `local_gradient(...)` or `local_prox()`; five gradient
        steps from the server's model if None.
      regularizer: g at the server, one of `fedjax_admm.penalties`; none if None.
      exchange: what happens to messages, `messages.exchange(...)`; nothing if None.

    Returns:
      The solver.

    Raises:
      InputError: the penalty is negative, or 0 with a prox; the local solver is none; or the
        regulariser has no prox.
    """
    local = check_local(local)
    if penalty is not None:
        exact = isinstance(local, LocalProx)
        penalty = scalar("penalty", penalty, **({"above": 0} if exact else {"at_least": 0}))
    return FederatedAveraging(
        ProximalUpdate(penalty, local), check_regularizer(regularizer), check_exchange(exchange)
    )


def federated_proximal_averaging(
    ratio: ArrayLike = 1.0,
    *,
    regularizer: Penalty | None = None,
    exchange: Exchange | None = None,
) -> FederatedAveraging:
    """Build averaging of proximal steps `tau_i = ratio / degree_i`, GTV's comparison on a network.

    Raises:
      InputError: the ratio is not positive, or the regulariser has no prox.
    """
    return FederatedAveraging(
        ProxUpdate(scalar("ratio", ratio, above=0)),
        check_regularizer(regularizer),
        check_exchange(exchange),
    )
