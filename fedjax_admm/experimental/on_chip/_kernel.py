"""The kernel: all rounds of one trial of FSMDM, one vector over the clients per coordinate."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedjax_admm._shown import short_repr
from fedjax_admm.experimental.on_chip._masks import WORD
from fedjax_admm.experimental.on_chip._respelling import respelled
from fedjax_admm.kernels import couple_pair, prox_smoothed_abs

Vector = jax.Array  # shape=(lanes,): one number per client
Point = tuple[Vector, ...]  # one vector per coordinate


@short_repr
class _Client(NamedTuple):
    """`FSMDMClients` in registers: one vector over the clients for every coordinate."""

    x: Point
    z: Point
    g: Point
    q: Point
    psi: Point
    xi: Point
    zeta: Point
    updates: Vector


def run_rounds(numbers, sensors, vectors, updates, server, *refs, structure, rounds, every, masked):
    """Run all rounds of one trial; the arguments are references to global memory."""
    words, (trace, last_vectors, last_updates, failed) = refs[:-4], refs[-4:]
    dim = server.shape[0]
    solver = structure.unflatten([numbers[i] for i in range(numbers.shape[0])])
    *anchor, distance, present = (sensors[i] for i in range(dim + 2))
    present = present > 0
    rows = [vectors[i] for i in range(vectors.shape[0])]
    copies = (tuple(rows[i : i + dim]) for i in range(0, len(rows), dim))
    update = respelled(partial(_local_update, anchor=tuple(anchor), distance=distance))
    weigh = respelled(lambda solver, updates: solver.sigma_xi(updates + 1))

    def advance(index, carry):
        server, client, failed = carry
        new = jax.lax.fori_loop(
            0, solver.local_updates, lambda _, held: update(solver, server, held), client
        )
        if masked:
            active = ((words[0][index >> 5] >> (index & (WORD - 1))) & 1) > 0
            new = jax.tree.map(partial(jnp.where, active), new, client)
        share = weigh(solver, new.updates)
        total = jnp.sum(jnp.where(present, share, 0.0))
        server = tuple(
            jnp.sum(jnp.where(present, share * q - zeta, 0.0)) / total
            for q, zeta in zip(new.q, new.zeta, strict=True)
        )
        # An infinity or a NaN is not below infinity; there is no `isfinite` in the kernel.
        finite = jnp.abs(server[0]) < jnp.inf
        for coordinate in server[1:]:
            finite = finite & (jnp.abs(coordinate) < jnp.inf)
        return server, new, jnp.where(finite | (failed > 0), failed, index + 1)

    def record(row, carry):
        carry = jax.lax.fori_loop(
            0, every, lambda index, carry: advance(row * every + index, carry), carry
        )
        for i in range(dim):
            trace[row, i] = carry[0][i]
        return carry

    first = (
        tuple(server[i] for i in range(dim)),
        _Client(*copies, updates=updates[...]),
        jnp.int32(0),
    )
    _, client, first_failed = jax.lax.fori_loop(0, rounds // every, record, first)
    for i, row in enumerate(jax.tree.leaves(client[:-1])):
        last_vectors[i] = row
    last_updates[...] = client.updates
    failed[0] = first_failed


def _local_update(solver, server, client, *, anchor: Point, distance: Vector) -> _Client:
    """Return all clients after one local update, as `FSMDM` does, coordinate by coordinate."""
    updates = client.updates + 1
    sigma_psi, mu_phi = solver.sigma_psi(updates), solver.mu_phi(updates)
    sigma_xi, mu_h = solver.sigma_xi(updates), solver.mu_h(updates)
    total = sigma_psi + sigma_xi

    def link(v, step):
        return prox_smoothed_abs(v, step * solver.omega, mu_h)

    centre = _each(
        lambda z, g, psi, xi: (sigma_psi * z + sigma_xi * g - psi - xi) / total,
        *(client.z, client.g, client.psi, client.xi),
    )
    x = prox_range_excess(centre, anchor, distance, 1 / total)
    pulled = _each(lambda x, psi: x + psi / sigma_psi, x, client.psi)
    z = prox_negative_moreau_norm(pulled, anchor, 1 / sigma_psi, mu_phi)
    psi = _each(lambda psi, x, z: psi + sigma_psi * (x - z), client.psi, x, z)
    pairs = _each(
        lambda x, xi, w, zeta: couple_pair(
            x + xi / sigma_xi, w + zeta / sigma_xi, link, 1 / sigma_xi
        ),
        *(x, client.xi, server, client.zeta),
    )
    g, q = zip(*pairs, strict=True)
    xi = _each(lambda xi, x, g: xi + sigma_xi * (x - g), client.xi, x, g)
    zeta = _each(lambda zeta, w, q: zeta + sigma_xi * (w - q), client.zeta, server, q)
    return _Client(x, z, g, q, psi, xi, zeta, updates)


def prox_range_excess(points: Point, anchor: Point, distance: Vector, step: Vector) -> Point:
    """`kernels.prox_range_excess`, one vector per coordinate."""
    offset = _each(jnp.subtract, points, anchor)
    positive, radius = _length(offset)
    excess = jnp.clip(radius - jnp.maximum(distance, 0.0), 0.0, 2 * step)
    shrinkage = jnp.where(positive, excess / radius, 0.0)
    return _each(lambda p, o: p - shrinkage * o, points, offset)


def prox_negative_moreau_norm(points: Point, anchor: Point, step: Vector, mu: Vector) -> Point:
    """`kernels.prox_negative_moreau_norm`, one vector per coordinate."""
    offset = _each(jnp.subtract, points, anchor)
    positive, radius = _length(offset)
    divisor = jnp.maximum(jnp.where(positive, radius, 0.0), mu - step)
    distinguished = divisor > 0
    stretch = jnp.where(distinguished, step / jnp.where(distinguished, divisor, 1.0), 0.0)
    return _each(lambda p, o: p + stretch * o, points, offset)


def _length(offset: Point) -> tuple[Vector, Vector]:
    """Return where the offset has a length, and that length, 1 where it has none."""
    squared = sum((o * o for o in offset[1:]), start=offset[0] * offset[0])
    positive = squared > 0
    return positive, jnp.sqrt(jnp.where(positive, squared, 1.0))


def _each(function: Callable, *points: Point) -> tuple:
    """Apply a function to every coordinate."""
    return tuple(function(*coordinates) for coordinates in zip(*points, strict=True))
