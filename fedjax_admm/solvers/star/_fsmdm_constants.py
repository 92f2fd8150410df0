"""Constants of FSMDM: named presets, and the conditions under which convergence is proved.

    sigma_psi = c sqrt(k),  mu_phi = alpha / sqrt(k),  sigma_xi = d sqrt(k),  mu_h = beta / sqrt(k)

Reference: R. Mirzaeifard, A. Moradi, M. Yukawa, S. Werner, "Federated Smoothing ADMM for
Localization", arXiv:2503.09497 (2025), sections on the schedules and on convergence.
"""

import math
from types import MappingProxyType

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm import _checks
from fedjax_admm._host._programs import compiled_alone
from fedjax_admm.schedules import Schedule, SeeingFormula

_PUBLISHED = {
    "c": 1 / (100 * math.sqrt(2)),
    "d": math.sqrt(3) / math.sqrt(500),
    "alpha": 100 * math.sqrt(3),
    "beta": 100 * math.sqrt(3),
    "omega": 10.0,
}
FSMDM_PRESETS = MappingProxyType(
    {
        # The constants of the paper; omega is not published there.
        "published": MappingProxyType(_PUBLISHED),
        # The same products alpha c and beta d, chosen on 100 trials of another seed.
        "tuned": MappingProxyType(
            _PUBLISHED | {"d": _PUBLISHED["d"] / 4, "beta": _PUBLISHED["beta"] * 4, "omega": 100.0}
        ),
    }
)
"""Named constants for 21 sensors in a cube of 60 m."""


def fsmdm_convergence_conditions(c: float, d: float, alpha: float, beta: float) -> dict[str, bool]:
    """Tell which conditions of the convergence theorem hold.

    The paper proves convergence to a stationary point (not to the target: localisation has local
    minima) for `beta d >= sqrt(80)` and `alpha c >= sqrt(3/2)`. The published constants meet the
    second one with equality, hence the relative tolerance of 1e-9.

    Args:
      c: sigma_psi = c sqrt(k).
      d: sigma_xi = d sqrt(k).
      alpha: mu_phi = alpha / sqrt(k).
      beta: mu_h = beta / sqrt(k).

    Returns:
      `{"beta d >= sqrt(80)": bool, "alpha c >= sqrt(3/2)": bool}`.
    """
    constants = {"c": c, "d": d, "alpha": alpha, "beta": beta}
    for name, value in constants.items():
        _checks.number(name, value, at_least=0)
    return {
        "beta d >= sqrt(80)": beta * d >= math.sqrt(80) * (1 - 1e-9),
        "alpha c >= sqrt(3/2)": alpha * c >= math.sqrt(1.5) * (1 - 1e-9),
    }


def check_product(alpha: jax.Array, c: jax.Array) -> None:
    """Check that the z-step has a minimiser inside the ball: alpha * c > 1."""
    if _checks.is_concrete((alpha, c)) and np.any(np.asarray(alpha) * np.asarray(c) <= 1):
        raise _checks.InputError(
            f"alpha * c must exceed 1 (the paper asks for sqrt(3/2)), but alpha is {alpha} "
            f"and c is {c}",
            value=(alpha, c),
            remedy="enlarge one of them",
        )


def check_schedules(mu_phi: Schedule, sigma_psi: Schedule, updates: int) -> None:
    """Check that the z-step has a minimiser inside the ball: mu_phi * sigma_psi > 1.

    Up to 64 counts from 1 to `updates` are looked at, in geometric progression, the first and the
    last among them; schedules with traced numbers are not, nor those that see.
    """
    if isinstance(mu_phi, SeeingFormula) or isinstance(sigma_psi, SeeingFormula):
        return
    last = min(max(updates, 1), 2**31 - 1)  # counts of updates are int32
    counts = np.geomspace(1, last, 64).round().astype(np.int32)
    with jax.ensure_compile_time_eval():
        values = _at(counts, mu_phi, sigma_psi)
    if not _checks.is_concrete(values):
        return
    product = np.multiply(*map(np.asarray, values))
    small = np.flatnonzero(~(product > 1))
    if small.size:
        raise _checks.InputError(
            "mu_phi * sigma_psi must exceed 1 (the paper asks for sqrt(3/2)), but at update "
            f"{counts[small[0]]} it is {product[small[0]]:g}",
            value=(mu_phi, sigma_psi),
            remedy="enlarge one of them",
        )


@compiled_alone
def _at(counts, *schedules: Schedule) -> list[jax.Array]:
    return [schedule(jnp.asarray(counts)) for schedule in schedules]
