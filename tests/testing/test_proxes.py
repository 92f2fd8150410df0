"""Proximal maps and penalties that break one rule each, and good ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import InputError, kernels
from fedjax_admm.testing import check_penalty, check_prox
from fedjax_admm.testing._proxes import PENALTY_CHECKS, PROX_CHECKS
from tests.testing.own import Modulus, changed, modulus


def value(x, weight):
    return weight * jnp.abs(x)


def shrink(v, step, weight):
    return v - jnp.clip(v, -step * weight, step * weight)


def total(x):
    return kernels.safe_norm(x)


def shorten(v, step):
    return kernels.prox_group_l2(v, step)


def naive_shorten(v, step):
    length = jnp.sqrt(jnp.sum(v * v, -1, keepdims=True))
    return jnp.where(length > step, v * (1 - step / length), 0)


def divided(v, step):
    length = jnp.sqrt(jnp.sum(v * v, -1, keepdims=True))
    return jnp.where(length > step, v / length * (length - step), 0)


def stopped(v, step, weight):
    return shrink(v, jax.lax.stop_gradient(jnp.asarray(step)), weight)


PROXES = {
    "multiplies where it should divide": (
        lambda v, step, weight: shrink(v, 1 / step, weight),
        value,
        "minimises",
        r"must minimise g\(x\) \+ \|x - v\|\^2 / \(2 step\), but at v = .* and step = 0.001 it "
        r"returns .* with the objective .*, while x = .* has",
    ),
    "has a dtype of its own": (
        lambda v, step, weight: shrink(v, step, weight).astype(jnp.float32),
        value,
        "dtype",
        "of float16 points must return float16 .* but it returns float32",
    ),
    "branches": (
        lambda v, step, weight: shrink(v, step, weight) if v[0, 0] < 0 else v,
        value,
        "dtype",
        "The check 'dtype' of .* raised .*Take jnp.where",
    ),
    "stops the derivative by the step": (
        stopped,
        value,
        "derivatives",
        "The derivative of stopped by the step at step 0.001 is not its finite difference",
    ),
    "mixes rows": (
        lambda v, step, weight: shrink(v, step, weight) + 0 * jnp.sum(v) + 0.01 * jnp.mean(v),
        value,
        "minimises",
        "together and under jax.vmap differ",
    ),
}


@pytest.mark.kin(4)
@pytest.mark.parametrize("name", PROXES)
def test_a_broken_prox_is_caught(name):
    prox, g, check, message = PROXES[name]
    with pytest.raises(AssertionError, match=f"(?s){message}"):
        check_prox(prox, g, 0.7, kinks=[0.7], only=check)


@pytest.mark.parametrize(
    ("prox", "check", "message"),
    [
        (
            naive_shorten,
            "kinks",
            r"The derivative of naive_shorten at its kinks, .* must be finite, but .*nan",
        ),
        (
            divided,
            "range",
            r"result of divided at points up to .* must be finite, .* Scale before",
        ),
    ],
)
def test_a_norm_that_is_not_safe_is_caught(prox, check, message):
    with pytest.raises(AssertionError, match=f"(?s){message}"):
        check_prox(prox, total, only=check)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("prox", "g", "parameters"),
    [
        (shrink, value, (0.7,)),
        (shorten, total, ()),
        (kernels.prox_mcp, kernels.mcp_value, (1.0, 3.0)),
    ],
)
def test_good_proxes_pass(prox, g, parameters):
    check_prox(prox, g, *parameters, kinks=[0.7, 1.0, 3.0])


def test_a_missing_branch_of_a_nonconvex_prox_is_caught():
    """Firm thresholding, as it is often copied: wrong once the step reaches gamma."""

    def firm(v, step, lam, gamma):
        inner = jnp.sign(v) * jnp.maximum(jnp.abs(v) - step * lam, 0) / (1 - step / gamma)
        return jnp.where(jnp.abs(v) <= gamma * lam, inner, v)

    check_prox(firm, kernels.mcp_value, 1.0, 3.0, steps=(0.4,), only="minimises")
    with pytest.raises(AssertionError, match=r"at v = .* and step = 5 it returns"):
        check_prox(firm, kernels.mcp_value, 1.0, 3.0, only="minimises")


PENALTIES = {
    "a prox of another step": (
        {"prox": lambda self, v, step: Modulus.prox(self, v, 2 * step)},
        "minimises",
        "MineModulus.prox must minimise .* at v = .* and step = 0.4",
    ),
    "a certificate of another weight": (
        {"optimality": lambda self, x, g: Modulus.optimality(self, x, 2 * g)},
        "certificate",
        "do they belong to one function",
    ),
    "a value for each entry": (
        {"value": lambda self, x: self.weight * jnp.abs(x)},
        "dtype",
        r"MineModulus.value must return float32 of shape \(\), but .* of shape \(5, 3\)",
    ),
    "a root at zero": (
        {"value": lambda self, x: jnp.sum(self.weight * jnp.sqrt(x * x))},
        "kinks",
        "The derivative of MineModulus.value at its kinks, .* must be finite",
    ),
}


@pytest.mark.kin(3)
@pytest.mark.parametrize("name", PENALTIES)
def test_a_broken_penalty_is_caught(name):
    members, check, message = PENALTIES[name]
    penalty = modulus(changed(Modulus, **members))
    with pytest.raises(AssertionError, match=f"(?s){message}"):
        check_penalty(penalty, only=check)


@pytest.mark.thorough
def test_a_good_penalty_passes():
    check_penalty(modulus())


@pytest.mark.parametrize(
    ("penalty", "message"),
    [
        (Modulus, "penalty must be an object with the methods value, prox and optimality"),
        (np.zeros(3), "penalty must be an object with the methods"),
        (
            type("Plain", (Modulus,), {})(1.0),
            r"penalty must be a pytree, but it is Plain\(weight=1\.0\);",
        ),
    ],
)
def test_what_is_no_penalty_is_an_input_error(penalty, message):
    with pytest.raises(InputError, match=message):
        check_penalty(penalty)


def test_every_rule_has_a_broken_example():
    broken = {check for *_, check, _ in PROXES.values()} | {"kinks", "range"}
    assert broken == set(PROX_CHECKS)
    assert {"dtype", "certificate", "kinks"} < {check for _, check, _ in PENALTIES.values()}
    for function, names in ((check_prox, PROX_CHECKS), (check_penalty, PENALTY_CHECKS)):
        assert all(f"`{name}`" in (function.__doc__ or "") for name in names)
