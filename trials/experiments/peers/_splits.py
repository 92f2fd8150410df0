"""Dealing labelled samples to clients of different sizes; all of it can be traced.

Every client has a size, drawn log-uniformly, and odds of labels. Samples are dealt in turns, one to
every client that still wants one: each draws a label from its odds among those that are left, and
gets the next sample of that label. No sample is dealt twice. Where no label with positive odds is
left, the client goes without, so that sizes can end below those drawn.

Reference: T.-M. H. Hsu, H. Qi, M. Brown, "Measuring the Effects of Non-Identical Data Distribution
for Federated Visual Classification", arXiv:1909.06335 (2019), for Dirichlet odds; H. B. McMahan et
al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", AISTATS 2017, for
two labels per client.
"""

import jax
import jax.numpy as jnp

from fedjax_admm._checks import default_float

BY_LABEL = 0.0
"""The concentration that stands for two labels per client."""


def label_odds(key: jax.Array, concentration: jax.Array, clients: int, labels: int) -> jax.Array:
    """Return the logarithms of every client's odds of labels, shape (clients, labels).

    The concentration is that of a symmetric Dirichlet distribution; 0 stands for two labels per
    client, or one where both draws agree, with equal odds.
    """
    gamma_key, *pair_keys = jax.random.split(key, 3)
    # Logarithms of gamma variables: the variables themselves underflow at small concentrations.
    shape = jnp.maximum(concentration, jnp.finfo(concentration.dtype).tiny)
    drawn = jax.random.loggamma(gamma_key, shape, (clients * labels,), concentration.dtype)
    drawn = drawn.reshape(clients, labels)
    spread = jnp.arange(clients, dtype=jnp.int32) % labels  # every label equally often
    both = jnp.stack([jax.random.permutation(pair_key, spread) for pair_key in pair_keys])
    held = jnp.any(jax.nn.one_hot(both, labels, dtype=bool), 0)
    pairs = jnp.where(held, 0, -jnp.inf).astype(drawn.dtype)
    return jnp.where(concentration == BY_LABEL, pairs, drawn)


def draw_sizes(key: jax.Array, clients: int, smallest: int, largest: int) -> jax.Array:
    """Return whole numbers from `smallest` to `largest`, log-uniform, shape (clients,), int32."""
    share = jax.random.uniform(key, (clients,), default_float())
    sizes = smallest * ((largest + 1) / smallest) ** share
    return jnp.clip(sizes.astype(jnp.int32), smallest, largest)


def deal(
    key: jax.Array, labels: jax.Array, odds: jax.Array, sizes: jax.Array, largest: int
) -> tuple[jax.Array, jax.Array]:
    """Deal samples with labels (samples,) to clients with log odds (clients, labels) and sizes.

    Returns:
      The places of every client's samples, shape (clients, largest), int32, and which of them
      count, bool.
    """
    clients, kinds = odds.shape
    order_key, label_key = jax.random.split(key)
    # Samples in random order within each label; where those of each label begin and end.
    shares = jax.random.uniform(order_key, labels.shape, odds.dtype)
    order = jnp.argsort(labels.astype(odds.dtype) + shares).astype(jnp.int32)
    counts = jnp.sum(jax.nn.one_hot(labels, kinds, dtype=jnp.int32), 0, dtype=jnp.int32)
    begin = jnp.cumsum(counts, dtype=jnp.int32) - counts
    # Drawn along one axis, which compiles faster.
    noise = jax.random.gumbel(label_key, (largest * clients * kinds,), odds.dtype)

    chances = jnp.tile(odds, (largest, 1)) + noise.reshape(-1, kinds)
    turns = jnp.arange(largest * clients, dtype=jnp.int32)
    asking = turns // clients < sizes[turns % clients]

    def one(next_place, turn):
        chance, wants = turn
        chance = jnp.where(next_place < begin + counts, chance, -jnp.inf)
        gets = wants & jnp.any(chance > -jnp.inf)
        chosen = (jnp.arange(kinds, dtype=jnp.int32) == jnp.argmax(chance)) & gets
        place = jnp.sum(jnp.where(chosen, next_place, 0), dtype=jnp.int32)
        return next_place + chosen.astype(jnp.int32), (place, gets)

    _, (places, gets) = jax.lax.scan(one, begin, (chances, asking))
    places = order[places].reshape(largest, clients).T
    return places, gets.reshape(largest, clients).T
