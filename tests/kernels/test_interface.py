"""What the kernels promise as a package: names, documentation, weight of the import."""

import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import fedjax_admm.kernels as kernels

# What kernels share among themselves.
SHARED = {
    "along",
    "approximate",
    "ascending",
    "blocks_of",
    "centred",
    "chain_segments",
    "check_system",
    "clipped_part",
    "coordinates",
    "demand_as_many",
    "demand_entries",
    "demand_projections",
    "demand_proxes",
    "end_to_end",
    "exceeds",
    "falling_root",
    "group_norm",
    "headroom",
    "kept_share",
    "largest",
    "length_along",
    "magnitude_of",
    "matched",
    "objective_at",
    "points_last",
    "positive_part",
    "power_of_two",
    "radial_value",
    "residuals",
    "resolvent",
    "rotate_symmetric",
    "rotate_tall",
    "scaled_norm",
    "scan",
    "segment_norm",
    "side_by_side",
    "spread",
    "take_back",
    "times",
    "transported",
    "undefined_by",
    "weighed",
    "unit_of",
    "weighted_simplex",
    "while_loop",
    "widened",
}


def test_public_names_are_sorted_exist_and_are_all_there_is():
    assert list(kernels.__all__) == sorted(kernels.__all__)
    functions = set()
    house = Path(kernels.__file__).parent
    for path in house.rglob("_*.py"):
        place = path.relative_to(house).with_suffix("").parts
        module = import_module(".".join(["fedjax_admm.kernels", *place]))
        functions |= {
            name
            for name, value in vars(module).items()
            if inspect.isfunction(value)
            and value.__module__ == module.__name__
            and not name.startswith("_")
        }
    assert functions - SHARED == set(kernels.__all__)


# What the package says of all kernels at once; a value has the parameters of its map.
COMMON = {"v", "x", "step", "weight", "axis", "decomposition", "prox", "project", "iterations"}


@pytest.mark.parametrize("name", kernels.__all__)
def test_docstring_names_every_parameter_that_is_not_common(name):
    documentation = inspect.getdoc(getattr(kernels, name)) or ""
    if name.endswith("_value") and hasattr(kernels, "prox_" + name.removesuffix("_value")):
        return
    words = set(re.findall(r"\w+", documentation))
    assert words >= inspect.signature(getattr(kernels, name)).parameters.keys() - COMMON
    if name not in ("safe_ratio", "sum_of_squares", "smoothed_abs"):
        assert "Reference:" in documentation


def test_import_needs_jax_only_and_makes_no_array():
    program = (
        "import sys, jax, jax.numpy, fedjax_admm.kernels;"
        "heavy = {'optax', 'chex', 'matplotlib', 'scipy.optimize', 'typer'} & set(sys.modules);"
        "assert not heavy, heavy;"
        "from jax._src import xla_bridge;"
        "assert not xla_bridge._backends, 'the import started a device'"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
