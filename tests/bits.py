"""Whether programs are compiled as a user's are, and what may be said of their last bits then."""

import os
import subprocess
import sys
from importlib import metadata

import numpy as np
import pytest

OPTIMIZED = bool(os.environ.get("FEDJAX_ADMM_TEST_OPTIMIZED"))
_FLAGS = (
    "--xla_backend_optimization_level=0",
    "--xla_cpu_parallel_codegen_split_count=1",
    "--xla_cpu_use_fusion_emitters=false",  # until jaxlib 0.11
)


def quick_flags() -> str:
    """Return flags with which XLA compiles two to three times faster, if it has them."""
    if metadata.version("jaxlib").startswith("0.10."):
        return " ".join(_FLAGS)
    return " ".join(flag for flag in _FLAGS if _is_known(flag))


def _is_known(flag: str) -> bool:
    """Whether XLA knows a flag; one that it does not know ends the process, so another one asks."""
    asked = subprocess.run(
        [sys.executable, "-c", "import jax; jax.devices()"],
        env={**os.environ, "XLA_FLAGS": flag, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
    )
    return asked.returncode == 0


def same_bits(found, wanted, tolerance: float = 1e-5) -> None:
    """Assert that two arrays are the same to the last bit, or to rounding without optimisation.

    Args:
      found: what is tested.
      wanted: what it should be.
      tolerance: relative to the largest entry, where programs are compiled quickly.
    """
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.dtype == wanted.dtype
    if OPTIMIZED or not np.issubdtype(wanted.dtype, np.floating) or not wanted.size:
        np.testing.assert_array_equal(found, wanted)
        return
    scale = np.max(np.abs(np.where(np.isfinite(wanted), wanted, 0)), initial=0)
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * max(scale, 1e-30))


def hangs_on_rounding(test):
    """Mark a test whose outcome hangs on how XLA rounds: it runs with optimised programs alone."""
    return pytest.mark.bits(pytest.mark.skipif(not OPTIMIZED, reason="hangs on rounding")(test))
