"""Federated averaging and FedProx: the server takes the mean of models that clients improve.

    minimise over x   (1/N) sum_i f_i(x) + g(x)

One round of the clients S that take part:

    FedAvg     w_i = K gradient steps of length eta on f_i, from x
    FedProx    w_i = argmin_w f_i(w) + mu_p ||w - x||^2 / 2        exactly, or by gradient steps
    network    w_i = argmin_w f_i(w) + ||w - x||^2 / (2 tau_i),    tau_i = ratio / degree_i

    x <- prox_{s g}(mean over i in S of w_i)                        at the server

For linear losses the clients' work equals a gradient step; s is its length: K eta, 1 / mu_p, or the
mean of tau_i over S. If a problem has `accessible`, clients without accessible data do not send. If
no client sends, the model does not change. With a `server_optimizer` the server takes that
optimiser's step along x - mean of w_i instead: FedAvgM, FedAdam, FedYogi, FedAdagrad.

**Limits.** With K = 1 and full participation FedAvg is the proximal gradient method and converges
to the minimiser. Otherwise both methods are biased if clients differ: for quadratic losses with
Hessians A_i and minimisers x_i*, without g, the limit is

    x = (sum_i Q_i)^{-1} sum_i Q_i x_i*,    Q_i = I - (I - eta A_i)^K            FedAvg
                                            Q_i = A_i (A_i + mu_p I)^{-1}        FedProx, exact

which for FedProx minimises the mean of the Moreau envelopes. Under partial participation the model
fluctuates without converging, even with K = 1. SCAFFOLD, FedDyn, FedDR and federated ADMM have no
such bias. Weights w_i of clients (of sum 1) belong in the losses, as N w_i f_i.

References: H. B. McMahan et al., "Communication-Efficient Learning of Deep Networks from
Decentralized Data", AISTATS 2017, arXiv:1602.05629 (FedAvg); T. Li et al., "Federated Optimization
in Heterogeneous Networks", MLSys 2020, arXiv:1812.06127, Algorithm 2 (FedProx); Y. SarcheshmehPour
et al., "Clustered Federated Learning via Generalized Total Variation Minimization", 2023 (the third
form, with which GTV minimisation is compared).
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, declared, positive, ranged, refuse, scalar
from fedjax_admm.capabilities import Access, Gradients, OnGraph, Prox, has
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers._local import (
    LocalProx,
    LocalSteps,
    check_length_known,
    local_steps as steps_of,
)
from fedjax_admm.solvers.star._server_optimizers import (
    ServerAdagrad,
    ServerAdam,
    ServerMean,
    ServerMomentum,
    ServerYogi,
    as_server_optimizer,
)


class _Update:
    """The work of a client that keeps nothing, and whose length the server knows."""

    def memory(self, problem, models) -> Any:
        """Return what clients keep before the first round."""
        return ()

    def beside(self, memory) -> Any:
        """Return the number beside a client's model, None for none."""


@roles.pytree_dataclass
class GradientUpdate(_Update):
    """Gradient steps on the local loss, or those of an optimiser."""

    local: LocalSteps

    requires: ClassVar[tuple[type, ...]] = (Gradients,)

    def memory(self, problem, models):
        """Return what the local steps remember."""
        return self.local.memory(problem, models)

    def __call__(self, problem, shared, memory, key):
        """Return the models after the steps, (clients, dim), and what the steps remember."""
        none = jnp.zeros((), shared.dtype)
        moved, _, memory = self.local.descend(problem, shared, None, none, memory, key)
        return moved, memory

    def length(self, received) -> Any:
        """Return K times the rate."""
        return self.local.length(jnp.zeros((), received.means[0].dtype))


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


def proximal_update(penalty: ArrayLike | None, local: roles.LocalSolver | None) -> ProximalUpdate:
    """Build `ProximalUpdate`; an exact local solver asks for a positive penalty."""
    update = build(ProximalUpdate, penalty=penalty, local=local)
    if penalty is not None and isinstance(update.local, LocalProx):
        scalar("penalty", penalty, above=0)
    return update


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


class Averaged(NamedTuple):
    """What the server holds."""

    model: jax.Array  # shape=(dim,): x
    optimizer: Any  # the state of its optimiser


@roles.pytree_dataclass
class FederatedAveraging(roles.StarSolver):
    """Averaging; built by `fed_avg`, `fed_prox`, `fed_avg_prox`."""

    update: GradientUpdate | ProximalUpdate | ProxUpdate  # the work of the clients
    server_optimizer: Any = declared(as_server_optimizer, default=ServerMean)
    regularizer: roles.Penalty = roles.regularized()  # g
    exchange: roles.Exchange = roles.exchanged()  # of the clients' models

    def start_server(self, model, num_clients) -> Averaged:
        """Start at the first model."""
        return Averaged(model, self.server_optimizer.init(model))

    def start_clients(self, problem, models, key):
        """Return the memories of the updates; everybody knows the first model."""
        memory = self.update.memory(problem, models)
        return memory, roles.RoundMessage((models,), beside=self.update.beside(memory))

    def present(self, problem, active):
        """Return those whose data are accessible."""
        return active & problem.accessible if has(problem, Access) else active

    def broadcast(self, server: Averaged) -> jax.Array:
        """Send x."""
        return server.model

    def client(self, problem, memory, model, key):
        """Return the memory, and say the client's model."""
        moved, memory = self.update(problem, model, memory, key)
        return memory, roles.RoundMessage((moved,), beside=self.update.beside(memory))

    def server(self, server: Averaged, received: roles.Received, info) -> Averaged:
        """Return the prox of g at the mean of the models, or what an optimiser makes of it."""
        x, state = self.server_optimizer.moved(server.model, received.means[0], server.optimizer)
        return Averaged(self.regularizer.prox(x, self.update.length(received)), state)

    def model(self, server: Averaged) -> jax.Array:
        """Return x."""
        return server.model


ServerOptimizer = ServerMomentum | ServerAdagrad | ServerAdam | ServerYogi | Any
"""One of ours, or an `optax.GradientTransformation`."""


def _averaging(
    update: Any, regularizer: Any = None, server_optimizer: Any = None, exchange: Any = None
) -> FederatedAveraging:
    check_length_known(getattr(update, "local", None), regularizer)
    refuse(
        regularizer is not None and server_optimizer is not None,
        "regularizer",
        "does not go with a {server_optimizer}, whose step is not of one length",
        remedy="leave one of the two out, or add it to the losses",
    )
    return build(FederatedAveraging, **locals())


def fed_avg(
    rate: ArrayLike | None = None,
    *,
    local_steps: int = 1,
    local: LocalSteps | None = None,
    regularizer: roles.Penalty | None = None,
    server_optimizer: ServerOptimizer | None = None,
    exchange: roles.Exchange | None = None,
) -> FederatedAveraging:
    """Build FedAvg: gradient steps on the clients' own losses.

    Args:
      rate: length of the steps, below `2 / L` for every client, or the model diverges; 0.2 / L if
        None, with L the largest curvature of the clients' losses, estimated at the start.
      local_steps: K per round; each has its own minibatch where the problem has them. With more
        than one the limit is biased wherever clients differ.
      local: in the place of both, the steps of the clients: `local_optimizer(...)` or
        `local_gradient(...)`.
      regularizer: g at the server, one of `fedjax_admm.penalties`; none if None. Not with an
        optimiser.
      server_optimizer: how the server moves toward the mean of the clients' models:
        `server_momentum(...)` (FedAvgM), `server_adam(...)`, `server_yogi(...)`,
        `server_adagrad(...)`, or an optax optimiser; it takes the mean if None.
      exchange: of messages, `messages.exchange(...)`; none if None.
    """
    update = GradientUpdate(local=steps_of(rate, local_steps, 1, local))
    return _averaging(update, regularizer, server_optimizer, exchange)


def fed_prox(
    penalty: ArrayLike | None = None,
    *,
    local: roles.LocalSolver | None = None,
    regularizer: roles.Penalty | None = None,
    server_optimizer: ServerOptimizer | None = None,
    exchange: roles.Exchange | None = None,
) -> FederatedAveraging:
    """Build FedProx: local problems that are tied to the server's model.

    Args:
      penalty: mu_p; 0 with gradient steps is FedAvg. The largest curvature of the clients' losses,
        estimated at the start, if None. A larger one has less bias and is slower.
      local: how a client solves its problem, `local_gradient(...)`, `local_optimizer(...)` or
        `local_prox()`; five gradient steps from the server's model if None.
      regularizer: g at the server, one of `fedjax_admm.penalties`; none if None. Not with an
        optimiser.
      server_optimizer: as that of `fed_avg`.
      exchange: of messages, `messages.exchange(...)`; none if None.
    """
    update = proximal_update(penalty, local)
    return _averaging(update, regularizer, server_optimizer, exchange)


def fed_avg_prox(
    ratio: ArrayLike = 1.0,
    *,
    regularizer: roles.Penalty | None = None,
    exchange: roles.Exchange | None = None,
) -> FederatedAveraging:
    """Build averaging of proximal steps `tau_i = ratio / degree_i`, to compare GTV with."""
    update = build(ProxUpdate, ratio=ratio)
    return build(FederatedAveraging, **locals())
