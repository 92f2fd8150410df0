r"""FedADMM: consensus ADMM on a star, exact or inexact, with some clients in a round.

    minimise over w   (1/N) sum_i f_i(w) + g(w)

as sum_i f_i(w_i) + N g(z) with w_i = z, duals y_i and penalty parameters rho_i. Client i of those
that take part, with the server's model z and its own model w_i of before:

    e    = a z + (1 - a) w_i                                            (relaxation; a = 1: e = z)
    w_i <- about argmin_w f_i(w) + <y_i, w - e> + rho_i/2 ||w - e||^2,  begun at z
    y_i <- y_i + rho_i (w_i - e)                                        (both dual_updates times)

and it sends the difference of rho_i w_i + y_i to its value of before. The server:

    c <- c + (sum of what arrives) / sum_j rho_j,    z <- prox of g at c, with step N / sum_j rho_j

so that c = sum_i (rho_i w_i + y_i) / sum_i rho_i over what ALL clients sent last, whoever takes
part (computed so, unless the participation lists the few who are drawn). The step is 1 / rho where
all rho_i are equal: N g stands beside the sum of the losses. At a fixed point w_i = z and
y_i = -grad f_i(z), hence 0 lies in (1/N) sum_i grad f_i(z) + dg(z).

Duals of absent clients are of models long gone, and c counts them in: the fewer take part, the
longer the mean of ||y_i + grad f_i(z)|| lags. It vanishes all the same, about as fast as the error.

Settings:

*  Gong, Li, Freris: dual_updates=1. Where c <- c + eta mean over those present of the differences
   of w_i + y_i / rho, the paper's constant eta, c adds up everybody's once only for eta = |S| / N;
   that is what stands above. For |S| clients per round and g = 0, another eta has limits with
   grad f(z) = rho (1 - |S| / (eta N)) (z - z^0), which are no minimisers and depend on the start,
   and often none: `server_step=eta` is for comparisons. The difference is to the client's own
   model of before; implementations that subtract the model just received solve another problem.
*  Zhou, Li: dual_updates=k0, with `local_gradient(1 / (r + sigma), steps=...)`: k0 solutions and
   steps of the dual while the server's model stands still. Their round begins with the server:
   their x of a round is z of the round before. Their losses have weights 1/N, so that their sigma
   and pi are rho / N and y_i / N. Many dual steps drive w_i to z and y_i to -grad f_i(z): a
   gradient step of length 1 / rho is what is left, which needs rho > L / 2.
*  Composite FedADMM (Wang, Marella, Anderson): the regulariser. It is FedDR with step 1 / rho
   begun at its clients' prox, and so is the relaxation a, which is FedDR's alpha: the same
   Douglas-Rachford iteration. (Relaxing w_i toward z, as where the server's step comes before the
   duals', diverges here.) For a = 2 strongly convex losses are needed.

Messages: with an exchange a client sends its upload u_i = w_i + y_i / rho_i, of which c is the mean
with weights rho_i, over what the server heard last of everybody; or another location of them. Where
u^_i arrives, the client goes on with w_i - (u_i - u^_i) / 2 and y_i - rho_i (u_i - u^_i) / 2. The
papers send the changes of u_i, which vanish at a fixed point: `messages.differences` codes these.

Weights of clients belong into their losses: N p_i f_i for weights p_i that add up to one.

Reference: Y. Gong, Y. Li, N. Freris, "FedADMM: A Robust Federated Deep Learning Framework with
Adaptivity to System Heterogeneity", arXiv:2204.03529 (2022); S. Zhou, G. Y. Li, "Federated Learning
via Inexact ADMM", arXiv:2204.10607 (2022); H. Wang, S. Marella, J. Anderson, "FedADMM: A Federated
Primal-Dual Algorithm Allowing Partial Participation", arXiv:2203.15104 (2022). Relaxation: J.
Eckstein, D. Bertsekas, "On the Douglas-Rachford Splitting Method and the Proximal Point Algorithm
for Maximal Monotone Operators", Math. Program. 55 (1992).
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, cast

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import InputError, count, number, scalar
from fedjax_admm._pytrees import register_dataclass
from fedjax_admm._shown import short_repr
from fedjax_admm.capabilities import OnStar, first_model
from fedjax_admm.messages import Exchange, check_exchange
from fedjax_admm.penalties import Penalty, Zero
from fedjax_admm.solvers._local import (
    LocalSolver,
    check_curvature,
    check_local,
    curvature_at_start,
)
from fedjax_admm.solvers._present import (
    Message,
    Post,
    StarSolver,
    check_regularizer,
    copies,
    exchanged,
    open_post,
)
from fedjax_admm.solvers.splitting._adaptive import AdaptivePenalty, Agreement
from fedjax_admm.traffic import Traffic


@short_repr
class FedADMMClients(NamedTuple):
    """What the clients hold, stacked; inactive ones keep all of it."""

    models: jax.Array  # shape=(clients, dim): w_i
    duals: jax.Array  # shape=(clients, dim): y_i, about -grad f_i(w_i)
    memory: Any  # of the local solver


@short_repr
class FedADMMState(NamedTuple):
    """The server's model, the stacked clients, and the penalty parameters."""

    server: jax.Array  # shape=(dim,): z, sent to those who take part
    centre: jax.Array  # shape=(dim,): c, what z is the prox of
    clients: FedADMMClients
    rho: jax.Array  # shape=(clients,): rho_i
    curvature: jax.Array  # shape=(): of the losses, about; 1 where nothing asks for it
    penalty: Any  # what an adaptive penalty remembers
    post: Post | tuple[()] = ()  # what the exchange remembers


@register_dataclass
@dataclass(frozen=True, eq=False)
class FedADMM(StarSolver):
    """Consensus ADMM on a star; build it with `fed_admm`."""

    rho: jax.Array | AdaptivePenalty | None  # shape=() or (clients,); from the curvature if None
    local: LocalSolver
    server_step: jax.Array | None  # shape=(): eta; |S| / N if None
    relaxation: jax.Array  # shape=(): a
    regularizer: Penalty  # g
    exchange: Exchange  # of w_i + y_i / rho_i, with weights rho_i
    dual_updates: int = field(metadata={"static": True})

    requires: ClassVar[tuple[type, ...]] = (OnStar,)  # and what the local solver requires

    def init(self, problem, key) -> FedADMMState:
        """Start every model at the problem's start and every dual at zero."""
        model = first_model(problem)
        models = copies(model, problem)
        clients = FedADMMClients(models, jnp.zeros_like(models), self.local.memory(problem, models))
        first = self._first_rho()
        curvature = curvature_at_start(problem, models, self.local, first)
        first = curvature if first is None else first
        rho = jnp.broadcast_to(first, (problem.num_clients,)).astype(model.dtype)
        adaptive, penalty = _adaptive(self.rho), ()
        if adaptive is not None:
            active = jnp.zeros(problem.num_clients, bool)
            penalty = adaptive.memory(self._seen(model, clients, rho, active))
        post = open_post(self.exchange, key, (models,), model, rho)
        return FedADMMState(model, model, clients, rho, curvature, penalty, post)

    def check(self, problem, rounds: int) -> None:
        """Check that rho fits the clients, and can be found where it is not given.

        Raises:
          InputError: it has another shape, or is None and the problem has no gradients.
        """
        rho = self._first_rho()
        check_curvature(problem, "rho", rho)
        if rho is not None and rho.shape not in ((), (problem.num_clients,)):
            raise InputError(
                f"must have shape () or ({problem.num_clients},), but it has {rho.shape}",
                argument="rho",
                value=rho,
                remedy="give one number for all clients, or one per client",
            )

    def step(self, problem, state: FedADMMState, turn) -> FedADMMState:
        """Return the state after one round."""

        def update(problem, given, read, key):
            client, rho = given
            new = self._client(problem, client, rho, read, key, state.curvature)
            weight = rho[:, None]
            difference = weight * (new.models - client.models) + new.duals - client.duals
            return (new, rho), Message((new.models + new.duals / weight,), rho, difference)

        def absorb(given, values):
            client, rho = given
            weight = rho[:, None]
            lost = (client.models + client.duals / weight - values[0]) / 2
            models, duals = client.models - lost, client.duals - weight * lost
            return client._replace(models=models, duals=duals), rho

        mail = exchanged(
            problem,
            turn,
            self.exchange,
            state.post,
            (state.clients, state.rho),
            state.server,
            update,
            kept=(True,),
            absorb=absorb,
        )
        clients, _ = mail.clients
        if not self.exchange.plain:
            centre = mail.values[0]
            server = self._server(centre, state.rho)
            return state._replace(server=server, centre=centre, clients=clients, post=mail.post)

        present = jnp.sum(turn.active, dtype=jnp.int32)
        share = mail.sums / jnp.sum(state.rho)
        if self.server_step is not None:
            drawn = jnp.maximum(present, 1).astype(share.dtype)
            centre = state.centre + share * (self.server_step * problem.num_clients / drawn)
        elif turn.selected is not None:
            centre = state.centre + share
        else:  # the same number, without rounding that adds up over rounds
            centre = _centre(clients, state.rho)
        server = jnp.where(present > 0, self._server(centre, state.rho), state.server)
        adaptive = _adaptive(self.rho)
        if adaptive is None:
            return state._replace(server=server, centre=centre, clients=clients)

        seen = self._seen(server, clients, state.rho, turn.active)
        rho, penalty = adaptive.update(seen, state.penalty)
        centre = jnp.where(present > 0, _centre(clients, rho), centre)
        server = jnp.where(present > 0, self._server(centre, rho), server)
        return FedADMMState(server, centre, clients, rho, state.curvature, penalty, state.post)

    def estimate(self, state: FedADMMState) -> jax.Array:
        """Return the server's model, shape (dim,)."""
        return state.server

    def client_models(self, state: FedADMMState) -> jax.Array:
        """Return the clients' own models, shape (clients, dim)."""
        return state.clients.models

    def client_slopes(self, state: FedADMMState) -> jax.Array:
        """Return `-y_i in df_i(x_i)` of every client, shape (clients, dim)."""
        return -state.clients.duals

    def traffic(self, problem) -> Traffic:
        """Return dim numbers each way; with an adaptive rho w_i and y_i up, and rho_i down too."""
        dim = problem.start.shape[-1]
        if _adaptive(self.rho) is None:
            return self.exchange.traffic(up=[(dim,)], down=[(dim,)])
        return Traffic(up=2 * dim, down=dim + 1)

    def _client(self, problem, client: FedADMMClients, rho, start, key, curvature):
        """Return what clients of a problem hold after the round, begun at what they read."""
        weight = rho[:, None]
        e = self.relaxation * start + (1 - self.relaxation) * client.models

        def once(client, key):
            centre = e - client.duals / weight
            models, memory = self.local(problem, centre, rho, start, client.memory, key, curvature)
            return FedADMMClients(models, client.duals + weight * (models - e), memory)

        if self.dual_updates == 1:
            return once(client, key)

        def again(client, data):
            return once(client, jax.random.wrap_key_data(data, impl=kind)), None

        # As numbers: JAX's check of reused keys loses count of keys in nested scans under vmap.
        kind, keys = jax.random.key_impl(key), jax.random.split(key, self.dual_updates)
        return jax.lax.scan(again, client, jax.random.key_data(keys))[0]

    def _server(self, centre: jax.Array, rho: jax.Array) -> jax.Array:
        return self.regularizer.prox(centre, 1 / jnp.mean(rho))

    def _seen(self, server, clients: FedADMMClients, rho, active) -> Agreement:
        regularized = not isinstance(self.regularizer, Zero)
        return Agreement(clients.models, clients.duals, server, rho, active, regularized)

    def _first_rho(self) -> jax.Array | None:
        adaptive = _adaptive(self.rho)
        return cast("jax.Array | None", self.rho) if adaptive is None else adaptive.initial


def fed_admm(
    rho: ArrayLike | AdaptivePenalty | None = None,
    *,
    local: LocalSolver | None = None,
    dual_updates: int = 1,
    server_step: ArrayLike | None = None,
    relaxation: ArrayLike = 1.0,
    regularizer: Penalty | None = None,
    exchange: Exchange | None = None,
) -> FedADMM:
    """Build `FedADMM`.

    Args:
      rho: the penalty parameter: a number, one per client (clients,), or an object that adapts it
        (`balanced_penalty`, `spectral_penalty`); about the largest curvature of the losses if None.
        For losses that are not convex it should be a few times that.
      local: how a client solves its problem; `local_gradient()`, five gradient steps, if None.
      dual_updates: solutions and steps of the dual per round, while the server's model stands
        still.
      server_step: the paper's constant eta in place of |S| / N, which is biased unless it equals
        |S| / N; not with a rho that adapts.
      relaxation: a, above 0 and at most 2; 1.5 to 1.8 is often faster than 1.
      regularizer: g, one of `fedjax_admm.penalties`, at the server; none if None.
      exchange: what happens to messages, `messages.exchange(...)`; nothing if None. The server then
        takes c from what it heard last of everybody; not with a rho that adapts, for which it reads
        the clients' models and duals, and not with `server_step`.

    Returns:
      The solver; its numbers are leaves.

    Raises:
      InputError: a number is out of range, `local` is no local solver, the regulariser has no
        prox, `server_step` is given beside a rho that adapts, or one of them beside an exchange.
    """
    adaptive = _adaptive(rho)
    if adaptive is not None and server_step is not None:
        raise InputError(
            "does not go with a {rho} that adapts",
            argument="server_step",
            value=server_step,
            remedy="leave it out, or give a number as {rho}",
            others=["rho"],
        )
    given = {"rho": adaptive, "server_step": server_step}
    chosen = check_exchange(exchange)
    for name, value in given.items():
        if value is not None and not chosen.plain:
            raise InputError(
                "needs messages as they are, but something happens to them in the {exchange}",
                argument=name,
                value=value,
                remedy="leave one of the two out",
                others=["exchange"],
            )
    return FedADMM(
        adaptive or (None if rho is None else number("rho", cast(ArrayLike, rho), above=0)),
        check_local(local),
        None if server_step is None else scalar("server_step", server_step, above=0),
        scalar("relaxation", relaxation, above=0, at_most=2),
        check_regularizer(regularizer),
        chosen,
        count("dual_updates", dual_updates),
    )


def _centre(clients: FedADMMClients, rho: jax.Array) -> jax.Array:
    """Return c of what all clients hold, shape (dim,)."""
    return jnp.sum(rho[:, None] * clients.models + clients.duals, 0) / jnp.sum(rho)


def _adaptive(rho: Any) -> AdaptivePenalty | None:
    """Return what adapts penalty parameters, None if they are numbers."""
    return rho if hasattr(rho, "initial") and not isinstance(rho, type) else None
