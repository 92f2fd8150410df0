"""Federated averaging and FedProx: clients work on their own from the server's model.

    minimise over x   (1/N) sum_i f_i(x) + g(x)

One round of the clients S that take part:

    FedAvg     w_i = K gradient steps of length eta on f_i, from x
    FedProx    w_i = argmin_w f_i(w) + mu_p ||w - x||^2 / 2        exactly, or by gradient steps
    network    w_i = argmin_w f_i(w) + ||w - x||^2 / (2 tau_i),    tau_i = ratio / degree_i

    x <- prox_{s g}(mean over i in S of w_i)                        at the server

with s the length of the gradient step to which the clients' work amounts where the losses are
linear: K eta, 1 / mu_p, or the mean of tau_i over S. Where a problem says whose data are
accessible, the other clients stay silent. If no client sends, the model stays.

**Limits.** With K = 1 and full participation FedAvg is the proximal gradient method and ends at the
minimiser. Otherwise both are biased wherever clients differ: for quadratic losses with Hessians A_i
and minimisers x_i*, without g,

    x = (sum_i Q_i)^{-1} sum_i Q_i x_i*,    Q_i = I - (I - eta A_i)^K            FedAvg
                                            Q_i = A_i (A_i + mu_p I)^{-1}        FedProx, exact

(the latter minimises the mean of the Moreau envelopes). Under partial participation the model
fluctuates without converging, even with K = 1. SCAFFOLD, FedDyn, FedDR and federated ADMM have no
such bias. Weights w_i of clients (of sum 1) belong in the losses, as N w_i f_i.

References: H. B. McMahan et al., "Communication-Efficient Learning of Deep Networks from
Decentralized Data", AISTATS 2017, arXiv:1602.05629 (FedAvg); T. Li et al., "Federated Optimization
in Heterogeneous Networks", MLSys 2020, arXiv:1812.06127, Algorithm 2 (FedProx); the third form is
the one with which GTV minimisation was compared: Y. SarcheshmehPour et al., "Clustered Federated
Learning via Generalized Total Variation Minimization", 2023.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, counted, positive, ranged, scalar
from fedjax_admm.capabilities import Gradients, OnGraph, Prox
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers._gradients import descend
from fedjax_admm.solvers._local import LocalProx


class _Update:
    """The work of a client that keeps nothing, and whose length the server knows."""

    def memory(self, problem, models) -> Any:
        """Return what clients keep before the first round."""
        return ()

    def beside(self, memory) -> Any:
        """Return the number beside a client's model, None for none."""


@roles.pytree_dataclass
class GradientUpdate(_Update):
    """Gradient steps on the local loss."""

    rate: jax.Array = positive(curvature=lambda largest: 0.2 / largest)  # shape=()
    local_steps: int = counted()

    requires: ClassVar[tuple[type, ...]] = (Gradients,)

    def __call__(self, problem, shared, memory, key):
        """Return the models after the steps, (clients, dim), and nothing."""
        return descend(problem, shared, key, self.rate, self.local_steps), memory

    def length(self, received) -> Any:
        """Return K times the rate."""
        return self.local_steps * self.rate


@roles.pytree_dataclass
class ProximalUpdate(_Update):
    """The local problem `f_l(w) + penalty ||w - x||^2 / 2`, by a local solver."""

    penalty: jax.Array = ranged(at_least=0, curvature=lambda largest: largest)  # shape=()
    local: roles.LocalSolver = roles.locally()

    @property
    def requires(self) -> tuple[type, ...]:
        """What the local solver requires."""
        return self.local.requires

    def memory(self, problem, models):
        """Return what the local solvers remember."""
        return self.local.memory(problem, models)

    def __call__(self, problem, shared, memory, key):
        """Return the models, (clients, dim), and what the local solvers remember."""
        weight = jnp.broadcast_to(self.penalty, shared.shape[:1])
        return self.local(problem, shared, weight, shared, memory, key)

    def length(self, received) -> Any:
        """Return the length of the gradient step that it amounts to."""
        return self.local.length(self.penalty)


@roles.pytree_dataclass
class ProxUpdate:
    """One proximal step, with the steps `tau_i = ratio / degree_i` of GTV minimisation."""

    ratio: jax.Array = positive()  # shape=()

    requires: ClassVar[tuple[type, ...]] = (OnGraph, Prox)

    def memory(self, problem, models):
        """Return tau_i, shape (nodes,)."""
        return self.ratio / jnp.maximum(problem.graph.degrees, 1).astype(models.dtype)

    def __call__(self, problem, shared, tau, key):
        """Return the models after the prox, (nodes, dim), and tau_i."""
        return problem.prox(shared, tau, problem.prox_memory(shared))[0], tau

    def beside(self, tau) -> Any:
        """Return tau_i, which travels beside the models."""
        return tau

    def length(self, received) -> Any:
        """Return the mean of tau_i."""
        return received.beside


@roles.pytree_dataclass
class FederatedAveraging(roles.StarSolver):
    """Averaging; built by `fed_avg`, `fed_prox`, `fed_avg_prox`."""

    update: GradientUpdate | ProximalUpdate | ProxUpdate  # the work of the clients
    regularizer: roles.Penalty = roles.regularized()  # g
    exchange: roles.Exchange = roles.exchanged()  # of the clients' models

    obeys_access: ClassVar[bool] = True

    def start_clients(self, problem, models, key):
        """Return the memories of the updates; everybody knows the first model."""
        memory = self.update.memory(problem, models)
        return memory, roles.Said((models,), beside=self.update.beside(memory))

    def client(self, problem, memory, model, key):
        """Return the memory, and say the client's model."""
        moved, memory = self.update(problem, model, memory, key)
        return memory, roles.Said((moved,), beside=self.update.beside(memory))

    def server(self, server, received: roles.Received, info) -> jax.Array:
        """Return the mean of the models, after the prox of g."""
        return self.regularizer.prox(received.means[0], self.update.length(received))


def fed_avg(
    rate: ArrayLike | None = None,
    *,
    local_steps: int = 1,
    regularizer: roles.Penalty | None = None,
    exchange: roles.Exchange | None = None,
) -> FederatedAveraging:
    """Build FedAvg: gradient steps on the clients' own losses.

    Args:
      rate: length of the steps, below `2 / L` for every client, or the model diverges; 0.2 / L if
        None, with L the largest curvature of the clients' losses, estimated at the start.
      local_steps: K per round; each has its own minibatch where the problem has them. With more
        than one the limit is biased wherever clients differ.
      regularizer: g at the server, one of `fedjax_admm.penalties`; none if None.
      exchange: of messages, `messages.exchange(...)`; none if None.
    """
    update = build(GradientUpdate, rate=rate, local_steps=local_steps)
    return build(FederatedAveraging, **locals())


def fed_prox(
    penalty: ArrayLike | None = None,
    *,
    local: roles.LocalSolver | None = None,
    regularizer: roles.Penalty | None = None,
    exchange: roles.Exchange | None = None,
) -> FederatedAveraging:
    """Build FedProx: local problems that are tied to the server's model.

    Args:
      penalty: mu_p; 0 with gradient steps is FedAvg. The largest curvature of the clients' losses,
        estimated at the start, if None. A larger one has less bias and is slower.
      local: how a client solves its problem, `local_gradient(...)` or `local_prox()`; five gradient
        steps from the server's model if None.
      regularizer: g at the server, one of `fedjax_admm.penalties`; none if None.
      exchange: of messages, `messages.exchange(...)`; none if None.
    """
    update = build(ProximalUpdate, penalty=penalty, local=local)
    if penalty is not None and isinstance(update.local, LocalProx):
        scalar("penalty", penalty, above=0)
    return build(FederatedAveraging, **locals())


def fed_avg_prox(
    ratio: ArrayLike = 1.0,
    *,
    regularizer: roles.Penalty | None = None,
    exchange: roles.Exchange | None = None,
) -> FederatedAveraging:
    """Build averaging of proximal steps `tau_i = ratio / degree_i`, to compare GTV with."""
    update = build(ProxUpdate, ratio=ratio)
    return build(FederatedAveraging, **locals())
