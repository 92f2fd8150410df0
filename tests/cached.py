"""Programs that a test compiles again and again are kept, as a user's are."""

import jax
import pytest

LONG = 0.1  # seconds of compiling: what takes longer is read back sooner


@pytest.fixture(autouse=True, scope="module")
def programs_are_kept():
    """Keep the programs of commands, which compile the same ones anew with each run."""
    name = "jax_persistent_cache_min_compile_time_secs"
    usual = jax.config.values[name]
    jax.config.update(name, LONG)
    yield
    jax.config.update(name, usual)
