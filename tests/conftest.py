"""Strict settings for every test: typed keys, no silent promotion, one CPU with two devices.

Most of a test's time goes into compiling, and most of that into making programs fast, which small
arrays do not need: XLA leaves these passes out here. What depends on them is that two programs of
the same arithmetic have the same last bits. Tests of that compare with `same_bits` of `tests.bits`
and carry the marker `bits`; with FEDJAX_ADMM_TEST_OPTIMIZED=1 they are as strict as they sound.
"""

import atexit
import gc
import os
import shutil
import tempfile
from collections import Counter

from tests.compiling import OPTIMIZED, flags, share_context

if "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {flags()}".strip()
os.environ.setdefault("MPLBACKEND", "Agg")
# A test must never read or write the compilation cache of the person who runs it.
os.environ.setdefault("FEDJAX_ADMM_NO_CACHE", "1")
# The processes of one run share what takes long to compile, in a folder of their own.
if "JAX_COMPILATION_CACHE_DIR" not in os.environ or "PYTEST_XDIST_WORKER" not in os.environ:
    os.environ["JAX_COMPILATION_CACHE_DIR"] = tempfile.mkdtemp(prefix="fedjax-admm-tests-")
    atexit.register(shutil.rmtree, os.environ["JAX_COMPILATION_CACHE_DIR"], ignore_errors=True)

import jax
import jax.numpy as jnp
import pytest
from hypothesis import HealthCheck, settings

from fedjax_admm import key_reuse_allowed

pytest_plugins = ("tests.memory",)
share_context()
jax.config.update("jax_platforms", os.environ.get("JAX_PLATFORMS") or "cpu")
jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_legacy_prng_key", "error")
# It costs a tenth of the time: in the run with programs compiled as a user's, and `check_solver`.
jax.config.update("jax_debug_key_reuse", OPTIMIZED)

# What JAX keeps of thousands of programs is no garbage: it is looked through less often.
gc.set_threshold(20_000, 20, 20)

settings.register_profile(
    "fedjax_admm",
    deadline=None,
    max_examples=25,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("fedjax_admm")


@pytest.fixture(params=["float32", "float64"])
def dtype(request):
    """Both precisions; float64 is enabled for the duration of the test only."""
    with jax.enable_x64(request.param == "float64"):
        yield jnp.dtype(request.param)


@pytest.fixture
def x64():
    """Float64 for the duration of the test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(autouse=True)
def keys_serve_again():
    """Private runs may share a key, as they do on synthetic data; tests of that replace it."""
    with key_reuse_allowed():
        yield


_seen = Counter()


def pytest_itemcollected(item):
    """Leave kin to the thorough run, in the order of the file, before the order is shuffled.

    These are the cases of a parametrised test after its first `kin(n)`, and the second precision of
    tests that use the fixture `dtype`.
    """
    if hasattr(item, "callspec") and item.callspec.params.get("dtype") == "float64":
        item.add_marker(pytest.mark.thorough)
    marker = item.get_closest_marker("kin")
    if marker is not None:
        function = item.nodeid.partition("[")[0]
        _seen[function] += 1
        if _seen[function] > marker.args[0]:
            item.add_marker(pytest.mark.thorough)
