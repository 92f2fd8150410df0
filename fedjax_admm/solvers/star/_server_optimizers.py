r"""Optimisers of the server's model: momentum (FedAvgM), and adaptive steps (FedAdam and others).

Delta is the mean of `w_i - x` over the clients heard in a round. The server passes -Delta as the
gradient to an optimiser with optax's methods `init` and `update`:

    momentum    m <- decay m + Delta,                         x <- x + rate m            (FedAvgM)
    adaptive    m <- b1 m + (1 - b1) Delta,                   x <- x + rate m / (sqrt(v) + tau)
      with      v <- v + Delta^2                                                      (FedAdagrad)
                v <- b2 v + (1 - b2) Delta^2                                              (FedAdam)
                v <- v - (1 - b2) Delta^2 sign(v - Delta^2)                               (FedYogi)

These are the steps of the paper's final version; its first one has m^2 in place of Delta^2. They
start at m = 0 and v = tau^2 and have no bias correction, unlike optax's Adam. Their numbers are
leaves, which can be stacked and learnt. Any optax optimiser may be given instead.

References: S. J. Reddi, Z. Charles, M. Zaheer, Z. Garrett, K. Rush, J. Konecny, S. Kumar, H. B.
McMahan, "Adaptive Federated Optimization", ICLR 2021, arXiv:2003.00295v5, Algorithm 2; T.-M. H.
Hsu, H. Qi, M. Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
Classification", arXiv:1909.06335 (FedAvgM).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, declared, optax_optimizer, positive, ranged
from fedjax_admm.solvers import _roles as roles


class Moments(NamedTuple):
    """The state of an adaptive server."""

    mean: jax.Array  # shape=(dim,): m
    square: jax.Array  # shape=(dim,): v


@roles.pytree_dataclass
class ServerMean:
    """The mean itself, without an optimiser."""

    def init(self, model: jax.Array) -> Any:
        """Return nothing."""
        return ()

    def moved(self, model, mean, state):
        """Return the mean."""
        return mean, state


class _Optimizer:
    """A server that takes the step of an optimiser along x - mean of w_i."""

    def moved(self, model, mean, state):
        """Return x after the step, shape (dim,), and the optimiser's state."""
        step, state = self.update(model - mean, state, model)
        return model + step, state

    def update(self, slope: jax.Array, state: Any, model: jax.Array) -> tuple[jax.Array, Any]:
        """Return the step of the model, shape (dim,), and the optimiser's state."""
        raise NotImplementedError


@roles.pytree_dataclass
class ServerMomentum(_Optimizer):
    """Heavy-ball momentum; build it with `server_momentum`."""

    rate: jax.Array = positive()  # shape=()
    decay: jax.Array = ranged(at_least=0)  # shape=()

    def init(self, model: jax.Array) -> jax.Array:
        """Return m = 0, shape (dim,)."""
        return jnp.zeros_like(model)

    def update(self, slope, state, model):
        """Return the step of the model, shape (dim,), and m."""
        mean = self.decay * state - slope
        return self.rate * mean, mean


@roles.pytree_dataclass
class _Adaptive(_Optimizer):
    """Steps that are divided by the root of a mean square, coordinate by coordinate."""

    rate: jax.Array = positive()  # shape=()
    b1: jax.Array = ranged(at_least=0, at_most=1)  # shape=()
    tau: jax.Array = positive()  # shape=()

    def init(self, model: jax.Array) -> Moments:
        """Return m = 0 and v = tau^2."""
        none = jnp.zeros_like(model)
        return Moments(none, none + self.tau**2)

    def update(self, slope, state: Moments, model):
        """Return the step of the model, shape (dim,), and m and v."""
        mean = self.b1 * state.mean - (1 - self.b1) * slope
        square = self.squares(state.square, slope**2)
        return self.rate * mean / (jnp.sqrt(square) + self.tau), Moments(mean, square)

    def squares(self, square: jax.Array, new: jax.Array) -> jax.Array:
        """Return the next v."""
        raise NotImplementedError


@roles.pytree_dataclass
class ServerAdagrad(_Adaptive):
    """Adagrad at the server; build it with `server_adagrad`."""

    def squares(self, square, new):
        """Return v + Delta^2."""
        return square + new


@roles.pytree_dataclass
class ServerAdam(_Adaptive):
    """Adam at the server; build it with `server_adam`."""

    b2: jax.Array = ranged(at_least=0, at_most=1)  # shape=()

    def squares(self, square, new):
        """Return b2 v + (1 - b2) Delta^2."""
        return self.b2 * square + (1 - self.b2) * new


@roles.pytree_dataclass
class ServerYogi(_Adaptive):
    """Yogi at the server; build it with `server_yogi`."""

    b2: jax.Array = ranged(at_least=0, at_most=1)  # shape=()

    def squares(self, square, new):
        """Return v - (1 - b2) Delta^2 sign(v - Delta^2)."""
        return square - (1 - self.b2) * new * jnp.sign(square - new)


@roles.pytree_dataclass
class OptaxServer(_Optimizer):
    """An optax optimiser at the server."""

    optimizer: Any = declared(optax_optimizer, static=True)

    def init(self, model: jax.Array) -> Any:
        """Return the optimiser's first state."""
        return jax.tree.map(jnp.asarray, self.optimizer.init(model))

    def update(self, slope, state, model):
        """Return the step of the model, shape (dim,), and the state."""
        with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
            step, new = self.optimizer.update(slope, state, model)
        new = jax.tree.map(lambda leaf, old: leaf.astype(old.dtype), new, state)
        return jnp.asarray(step, model.dtype), new


def as_server_optimizer(name: str, value: Any) -> Any:
    """Return the server's step; an optax optimiser is a part of the structure."""
    if value is None:
        return ServerMean()
    if isinstance(value, ServerMomentum | _Adaptive):
        return value
    return OptaxServer(optimizer=optax_optimizer(name, value))


def server_momentum(rate: ArrayLike = 1.0, *, decay: ArrayLike = 0.9) -> ServerMomentum:
    """Build the momentum of FedAvgM, for `fed_avg(server_optimizer=...)`.

    Args:
      rate: of the server's step; with decay 0 and rate 1 it is plain averaging.
      decay: of the momentum, at least 0.
    """
    return build(ServerMomentum, **locals())


def server_adagrad(
    rate: ArrayLike = 0.1, *, b1: ArrayLike = 0.0, tau: ArrayLike = 1e-3
) -> ServerAdagrad:
    """Build the server of FedAdagrad, for `fed_avg(server_optimizer=...)`.

    Args:
      rate: eta, of the server's step, about the size by which a coordinate may move in a round.
      b1: decay of the mean of the clients' moves.
      tau: how adaptive it is; smaller is more.
    """
    return build(ServerAdagrad, **locals())


def server_adam(
    rate: ArrayLike = 0.1, *, b1: ArrayLike = 0.9, b2: ArrayLike = 0.99, tau: ArrayLike = 1e-3
) -> ServerAdam:
    """Build the server of FedAdam, for `fed_avg(server_optimizer=...)`.

    Args:
      rate: eta, of the server's step, about the size by which a coordinate moves in a round.
      b1: decay of the mean of the clients' moves.
      b2: decay of the mean of squares.
      tau: how adaptive it is; smaller is more.
    """
    return build(ServerAdam, **locals())


def server_yogi(
    rate: ArrayLike = 0.1, *, b1: ArrayLike = 0.9, b2: ArrayLike = 0.99, tau: ArrayLike = 1e-3
) -> ServerYogi:
    """Build the server of FedYogi, for `fed_avg(server_optimizer=...)`.

    Args:
      rate: eta, of the server's step, about the size by which a coordinate moves in a round.
      b1: decay of the mean of the clients' moves.
      b2: of the mean of squares, which changes by at most (1 - b2) Delta^2.
      tau: how adaptive it is; smaller is more.
    """
    return build(ServerYogi, **locals())
