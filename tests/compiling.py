"""Whether programs are compiled as a user's are, or quickly.

JAX is not imported before the flags for XLA are set.
"""

import functools
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


# As another processor would compile them: "AVX2", "SSE4_2"; empty for this one's own instructions.
ISA = os.environ.get("FEDJAX_ADMM_TEST_ISA", "")


def flags() -> str:
    """Return the flags for XLA that this run of the tests wants."""
    wanted = [] if OPTIMIZED else [quick_flags()]
    return " ".join(wanted + ([f"--xla_cpu_max_isa={ISA}"] if ISA else []))


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


_shared = []  # the MLIR context of this process, if there is one


def share_context() -> None:
    """Lower all programs in one MLIR context; JAX makes one for each, which takes 4 to 10 ms.

    That is most of the time for lowering a small program. A program that is lowered while another
    one is gets a context of its own. The function is private to JAX: where it is gone, nothing is
    shared. What a context keeps is dropped by `forget_shared_context`.
    """
    from jax._src.interpreters import mlir
    from jax._src.lib.mlir import ir

    make = getattr(mlir, "make_ir_context", None)
    if make is None or hasattr(make, "__wrapped__"):
        return

    @functools.wraps(make)
    def shared():
        if ir.Context.current is not None:  # inside of another one's lowering
            return make()
        if not _shared:
            _shared.append(make())
        return _shared[0]

    mlir.make_ir_context = shared


def forget_shared_context() -> None:
    """Begin a new MLIR context with the next program."""
    _shared.clear()
