"""The keys that a run draws from its key."""

from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm._threefry import fold_in, one_loop, split

# Round keys fold in the index of the round, which is below 2**31: these three never meet one.
_INIT, _PARTICIPATION, _FINGERPRINT = 2**32 - 1, 2**32 - 2, 2**32 - 3


def init_key(key: jax.Array) -> jax.Array:
    """Return the key of `init` of a run."""
    return fold_in(key, _INIT)


def participation_key(key: jax.Array) -> jax.Array:
    """Return the key of the first state of the participation."""
    return fold_in(key, _PARTICIPATION)


def round_keys(key: jax.Array, index: jax.Array) -> jax.Array:
    """Return the keys of a round: for who takes part, and for the solver's step."""
    return split(fold_in(key, index))


@jax.jit
def fingerprint_of(key: jax.Array) -> jax.Array:
    """Return 32 bits that follow from a key, and from which it does not follow, shape ()."""
    return jax.random.bits(jax.random.fold_in(one_loop(key), _FINGERPRINT), (), jnp.uint32)


def with_fingerprint(start: Any, key: jax.Array) -> Any:
    """Return a `RoundState` that has a fingerprint: this key's, if it had none."""
    return start._replace(fingerprint=fingerprint_of(key)) if start.fingerprint is None else start
