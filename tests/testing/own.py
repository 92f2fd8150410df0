"""A solver, a problem, a penalty and a prox as a user writes them, to be broken by the tests."""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.capabilities import Gradients, OnStar, first_model
from fedjax_admm.participation import where_active
from fedjax_admm.traffic import Traffic

CLIENTS, DIM = 4, 3


@pytree_dataclass
class Squares:
    """`f_l(w) = mean over j of (x_lj^T w - y_lj)^2 / 2`, with minibatches of two samples."""

    x: jax.Array  # shape=(clients, samples, dim)
    y: jax.Array  # shape=(clients, samples)
    start: jax.Array  # shape=(dim,)
    numbers: jax.Array  # shape=(clients,), int32: of each client among all

    @property
    def num_clients(self) -> int:
        return self.y.shape[0]

    def errors(self, points):
        return jnp.einsum("cmd,cd->cm", self.x, points) - self.y

    def values(self, points):
        return jnp.mean(self.errors(points) ** 2, -1) / 2

    def gradients(self, points, key=None):
        slopes = self.x * self.errors(points)[..., None]
        if key is None:
            return jnp.mean(slopes, 1)

        def batch(number, own):
            places = jax.random.randint(jax.random.fold_in(key, number), (2,), 0, own.shape[0])
            return jnp.mean(own[places], 0)

        return jax.vmap(batch)(self.numbers, slopes)

    def clipped_gradients(self, points, clip, key=None):
        slopes = self.x * self.errors(points)[..., None]
        lengths = jnp.sqrt(jnp.sum(slopes**2, -1, keepdims=True) + 1e-30)
        return jnp.mean(slopes * jnp.minimum(1, clip / lengths), 1)

    @property
    def sizes(self):
        return jnp.full(self.num_clients, self.y.shape[1], jnp.int32)

    def prox_memory(self, start):
        return ()

    def prox(self, points, step, memory):
        samples = self.y.shape[1]
        gram = jnp.einsum("cmd,cme->cde", self.x, self.x) / samples
        right = jnp.einsum("cmd,cm->cd", self.x, self.y) / samples + points / step[:, None]
        bent = gram + jnp.eye(points.shape[-1], dtype=points.dtype)[None] / step[:, None, None]
        return jnp.linalg.solve(bent, right[..., None])[..., 0], memory

    def project(self, points):
        return jnp.clip(points, -5, 5)

    def take(self, clients):
        parts = (self.x[clients], self.y[clients], self.start, self.numbers[clients])
        return type(self)(*parts)


def squares(kind: type = Squares) -> Any:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((CLIENTS, 5, DIM))
    y = x @ np.array([1.0, -1.0, 0.5]) + 0.3 * rng.standard_normal((CLIENTS, 5))
    start = jnp.full(DIM, 0.1)
    numbers = jnp.arange(CLIENTS, dtype=jnp.int32)
    return kind(jnp.asarray(x), jnp.asarray(y), start, numbers)


class State(NamedTuple):
    """Of the solver below."""

    server: jax.Array  # shape=(dim,)
    models: jax.Array  # shape=(clients, dim): what each client found last


@pytree_dataclass
class Averaging:
    """Clients take one step from the server's model, with noise; the server averages them."""

    rate: Any
    noise: Any

    requires: ClassVar[tuple[type, ...]] = (OnStar, Gradients)

    def participants(self, problem):
        return (problem.num_clients,)

    def init(self, problem, key):
        first = first_model(problem)
        return State(first, jnp.broadcast_to(first, (problem.num_clients, *first.shape)))

    def found(self, problem, state, info):
        here = jnp.broadcast_to(state.server, state.models.shape)
        draw, batch = jax.random.split(info.key)
        noise = self.noise * jax.random.normal(draw, here.shape, here.dtype)
        return here - self.rate * problem.gradients(here, batch) + noise

    def kept(self, active, new, old):
        return where_active(active, new, old)

    def average(self, state, models, active):
        share = active.astype(models.dtype)
        total = jnp.sum(share[:, None] * models, 0)
        number = jnp.sum(share)
        return jnp.where(number > 0, total / jnp.maximum(number, 1), state.server)

    def step(self, problem, state, info):
        new = self.found(problem, state, info)
        server = self.average(state, new, info.active)
        return State(server, self.kept(info.active, new, state.models))

    def estimate(self, state):
        return state.server

    def traffic(self, problem):
        return Traffic(up=DIM, down=DIM)

    def messages(self, problem, active):
        return jnp.sum(active, dtype=jnp.int32)


def averaging(kind: type = Averaging) -> Any:
    return kind(jnp.asarray(0.3), jnp.asarray(0.01))


@pytree_dataclass
class Modulus:
    """`weight * sum |x_i|`."""

    weight: Any

    def value(self, x):
        return jnp.sum(self.weight * jnp.abs(x))

    def prox(self, v, step):
        return v - jnp.clip(v, -step * self.weight, step * self.weight)

    def optimality(self, x, gradient):
        beside = jnp.abs(gradient + self.weight * jnp.sign(x))
        return jnp.where(x == 0, jnp.maximum(jnp.abs(gradient) - self.weight, 0), beside)


def modulus(kind: type = Modulus) -> Any:
    return kind(jnp.asarray(0.7))


def changed(base: type, **members: Any) -> type:
    """Return a class like another one, with some members of its own, registered as a pytree."""
    kind = type(f"Mine{base.__name__}", (base,), members)
    return pytree_dataclass(kind)
