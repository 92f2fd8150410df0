"""What may be said of the last bits of programs that are compiled quickly."""

import chex
import jax
import numpy as np
import pytest

from tests.compiling import OPTIMIZED

# What `check_solver` takes as `bits`: by how much the last bits may differ, relative to the largest
# entry, where programs are compiled quickly.
TOLERANCE = 0.0 if OPTIMIZED else 1e-5


def same_bits(found, wanted, tolerance: float = 1e-5) -> None:
    """Assert that two pytrees are the same to the last bit, or to rounding without optimisation.

    Args:
      found: what is tested.
      wanted: what it should be.
      tolerance: relative to the largest entry, where programs are compiled quickly.
    """
    if OPTIMIZED:
        chex.assert_trees_all_equal(found, wanted)
        return
    chex.assert_trees_all_equal_shapes_and_dtypes(found, wanted)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        if jax.numpy.issubdtype(other.dtype, jax.dtypes.prng_key):
            one, other = jax.random.key_data(one), jax.random.key_data(other)
        one, other = np.asarray(one), np.asarray(other)
        size = np.max(np.abs(np.nan_to_num(other, posinf=0, neginf=0)), initial=1e-30)
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance * size)


def hangs_on_rounding(test):
    """Mark a test whose outcome hangs on how XLA rounds: it runs with optimised programs alone."""
    return pytest.mark.bits(pytest.mark.skipif(not OPTIMIZED, reason="hangs on rounding")(test))
