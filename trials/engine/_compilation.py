"""What makes another program of the same text: options of the compiler, and the processor.

XLA takes options from variables of the environment, and JAX passes on some of its own. For CPUs it
compiles for the instructions of the processor at hand: with wider vectors sums have another order,
and a multiplication and an addition in one instruction are rounded once.
"""

import os
import platform
import re
from pathlib import Path
from typing import Any

import jax

_VARIABLES = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
# Flags by which no number changes: where XLA writes what, and how many devices there are.
_NEUTRAL = re.compile(r"--xla_(dump_.*|force_host_platform_device_count|gpu_cuda_data_dir)")
# What of JAX's configuration goes to the compiler, and stands in no program's text.
_SETTINGS = (
    "jax_disable_most_optimizations",
    "jax_optimization_level",
    "jax_exec_time_optimization_effort",
    "jax_memory_fitting_level",
    "jax_memory_fitting_effort",
    "jax_compiler_enable_remat_pass",
)
CPUINFO = Path("/proc/cpuinfo")
# Floating-point arithmetic on vectors, of x86 and of ARM; what whole numbers give is always exact.
_VECTORS = re.compile(
    r"avx|avx2|fma|fma4|f16c|avx512(f|dq|vl|_bf16|_fp16)|avx_ne_convert|avx10.*|amx.*"
    r"|asimd|asimdhp|asimdfhm|fphp|bf16|sve.*|sme|sme2.*"
)


def compilation(device: Any) -> dict[str, str]:
    """Return what decides how a program is compiled for a device, by what it is called."""
    options = {f"value of {name}": _flags(os.environ.get(name, "")) for name in _VARIABLES}
    options |= {name: str(jax.config.values.get(name)) for name in _SETTINGS}
    if device.platform == "cpu":
        options["processor's instruction set"] = instructions()
    return options


def _flags(text: str) -> str:
    """Return the flags that may change numbers, sorted; of two of one name the last one counts."""
    values = {name: value for name, _, value in (flag.partition("=") for flag in text.split())}
    flags = [f"{name}={value or 'true'}" for name, value in sorted(values.items())]
    return " ".join(flag for flag in flags if not _NEUTRAL.match(flag)) or "none"


def instructions() -> str:
    """Return the kind of this machine's processor; on Linux, with its instructions for vectors."""
    try:
        text = CPUINFO.read_text()
    except OSError:
        text = ""
    line = re.search(r"^(?:flags|Features)\s*:(.*)$", text, re.MULTILINE)
    names = sorted(name for name in (line[1].split() if line else ()) if _VECTORS.fullmatch(name))
    return " ".join([platform.machine(), *names])
