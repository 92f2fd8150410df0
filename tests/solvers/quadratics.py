"""Clients with quadratic losses, whose every answer is known: the ground of the star's peers."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._pytrees import pytree_dataclass

CLIENTS, DIM = 10, 5


@pytree_dataclass
class Quadratics:
    """`f_i(x) = x^T A_i x / 2 - b_i^T x`."""

    hessians: jax.Array  # shape=(clients, dim, dim): A_i
    linear: jax.Array  # shape=(clients, dim): b_i
    start: jax.Array  # shape=(dim,)

    @property
    def num_clients(self) -> int:
        return self.linear.shape[0]

    def values(self, points: jax.Array) -> jax.Array:
        bent = jnp.einsum("cij,cj->ci", self.hessians, points)
        return jnp.sum(points * (bent / 2 - self.linear), -1)

    def gradients(self, points: jax.Array, key: jax.Array | None = None) -> jax.Array:
        return jnp.einsum("cij,cj->ci", self.hessians, points) - self.linear

    def prox_memory(self, start: jax.Array) -> Any:
        return ()

    def prox(self, points: jax.Array, step: jax.Array, memory: Any) -> tuple[jax.Array, Any]:
        weight = 1 / step[:, None]
        unit = jnp.eye(points.shape[-1], dtype=points.dtype)[None]
        bent = self.hessians + weight[..., None] * unit
        return jnp.linalg.solve(bent, (self.linear + weight * points)[..., None])[..., 0], memory

    def take(self, clients: jax.Array) -> "Quadratics":
        return Quadratics(self.hessians[clients], self.linear[clients], self.start)


def draw() -> tuple[np.ndarray, np.ndarray]:
    """Return A_i and b_i of ten clients in float64; curvatures between 0.05 and 1."""
    rng = np.random.default_rng(7)
    hessians, linear = [], []
    for _ in range(CLIENTS):
        gaussian, u = rng.standard_normal((DIM, DIM)), rng.random(DIM)
        centre = rng.standard_normal(DIM)
        spectrum = 0.05 * 20**u
        spectrum[:2] = 1, 0.05
        basis, _ = np.linalg.qr(gaussian)
        hessian = basis @ np.diag(spectrum) @ basis.T
        hessian = (hessian + hessian.T) / 2
        hessians.append(hessian)
        linear.append(hessian @ centre)
    return np.array(hessians), np.array(linear)


def masks(rounds: int = 1000) -> np.ndarray:
    """Return who is present, each client with probability 0.3; 25 of 1000 rounds are empty."""
    return (np.random.default_rng(11).random((1000, CLIENTS)) < 0.3)[:rounds]


def minimizer() -> np.ndarray:
    """Return the minimiser of the mean."""
    hessians, linear = draw()
    return np.linalg.solve(hessians.sum(0), linear.sum(0))


def quadratics(start: Any = None) -> Quadratics:
    """Return the problem, in float64 where it is enabled."""
    hessians, linear = map(jnp.asarray, draw())
    first = jnp.zeros(DIM, linear.dtype) if start is None else jnp.asarray(start, linear.dtype)
    return Quadratics(hessians, linear, first)
