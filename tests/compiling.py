"""Whether programs are compiled as a user's are, or quickly; JAX is not imported here."""

import os
import subprocess
import sys
from importlib import metadata

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
