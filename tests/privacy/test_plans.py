"""Plans against the reference: noise of every release, what is claimed after it, what is said."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, strategies as st

from fedjax_admm import InputError
from fedjax_admm.privacy import (
    NOMINAL,
    _plans as plans,
    accountant,
    approximate_plan,
    rounded_up,
    zcdp_plan,
    zcdp_plan_of_budget,
)
from tests.reference import zcdp as reference

DELTA = 1e-5


class Made(NamedTuple):
    """A way to make a plan, and the noise that the reference takes."""

    plan: object  # (epsilon, delta, rounds, tau) -> plan
    multipliers: object  # (epsilon, delta, rounds, tau) -> (rounds,)


def zcdp_multipliers(epsilon, delta, rounds, tau):
    total = reference.classical_budget(epsilon, delta)
    return reference.noise_scale(1.0, reference.budgets(total, rounds, tau))


def advanced_multipliers(epsilon, delta, rounds, tau):
    """Those of advanced composition or, for few releases, of the sum, which allows more."""
    share = delta / (2 * rounds)
    added = reference.conventional_epsilons(epsilon, delta, rounds, tau, "basic")
    composed = reference.conventional_epsilons(epsilon, delta, rounds, tau, "advanced")
    return math.sqrt(2 * math.log(1.25 / share)) / np.maximum(added, composed)


def basic_multipliers(*numbers):
    return reference.conventional_multipliers(*numbers, "basic")


def advanced_plan(*numbers):
    return approximate_plan(*numbers, composition="advanced")


def basic_plan(*numbers):
    return approximate_plan(*numbers, composition="basic")


WAYS = {
    "zcdp": Made(zcdp_plan, zcdp_multipliers),
    "advanced": Made(advanced_plan, advanced_multipliers),
    "basic": Made(basic_plan, basic_multipliers),
}


@pytest.fixture(params=WAYS)
def way(request):
    return WAYS[request.param]


# --- the noise ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "rounds", "tau"), [(1.0, 200, 0.985), (8.0, 200, 0.97), (0.5, 1, 0.9), (0.3, 7, 1)]
)
def test_multipliers_are_those_of_the_reference(way, epsilon, rounds, tau):
    plan = way.plan(epsilon, DELTA, rounds, tau)
    assert plan.multipliers.dtype == np.float64
    assert plan.multipliers.shape == (rounds,)
    assert plan.rounds == rounds
    assert (plan.epsilon, plan.delta, plan.tau) == (pytest.approx(epsilon, rel=1e-12), DELTA, tau)
    expected = way.multipliers(epsilon, DELTA, rounds, tau)
    np.testing.assert_allclose(plan.multipliers, expected, rtol=1e-9)


@pytest.mark.parametrize(("rounds", "tau"), [(200, 0.985), (30, 0.7), (12, 1.0)])
@pytest.mark.parametrize("total", [0.0208, 3.5])
def test_budgets_add_up_to_the_total_and_grow(total, rounds, tau):
    plan = zcdp_plan_of_budget(total, DELTA, rounds, tau)
    np.testing.assert_allclose(plan.budgets, reference.budgets(total, rounds, tau), rtol=1e-12)
    assert math.fsum(plan.budgets) == pytest.approx(total, rel=1e-13)
    np.testing.assert_allclose(plan.budgets[:-1], tau * plan.budgets[1:], rtol=1e-12)
    assert plan.epsilon == pytest.approx(reference.classical_epsilon(total, DELTA), rel=1e-12)


def test_a_plan_of_a_budget_reaches_an_exact_epsilon():
    plan = zcdp_plan_of_budget(accountant.gaussian_budget(1.0, DELTA), DELTA, 200)
    assert plan.exact_epsilon == pytest.approx(1, rel=1e-9)
    assert 1.3 < plan.epsilon < 1.4
    assert plan.multipliers.max() < zcdp_plan(1.0, DELTA, 200).multipliers.max()


# --- what is spent --------------------------------------------------------------------------------


def test_claims_are_those_of_the_reference():
    rounds, tau, epsilon = 40, 0.95, 3.0
    plan = zcdp_plan(epsilon, DELTA, rounds, tau)
    total = reference.classical_budget(epsilon, DELTA)
    budgets = np.cumsum(reference.budgets(total, rounds, tau))
    spent = plan.spent(np.arange(1, rounds + 1))
    np.testing.assert_allclose(spent.budget, budgets, rtol=1e-12)
    classical = [reference.classical_epsilon(phi, DELTA) for phi in budgets]
    np.testing.assert_allclose(spent.epsilon, classical, rtol=1e-12)
    exact = [reference.exact_epsilon(phi, DELTA) for phi in budgets]
    np.testing.assert_allclose(spent.exact_epsilon, exact, rtol=1e-9)

    plan = approximate_plan(epsilon, DELTA, rounds, tau, composition="basic")
    epsilons = np.cumsum(reference.conventional_epsilons(epsilon, DELTA, rounds, tau, "basic"))
    np.testing.assert_allclose(plan.spent(range(1, rounds + 1)).epsilon, epsilons, rtol=1e-9)

    plan = approximate_plan(epsilon, DELTA, rounds, tau, composition="advanced")
    each = reference.conventional_epsilons(epsilon, DELTA, rounds, tau, "advanced")
    composed = np.cumsum(each * np.tanh(each / 2))
    composed += np.sqrt(2 * math.log(2 / DELTA) * np.cumsum(each**2))
    expected = np.minimum(composed, np.cumsum(each))
    np.testing.assert_allclose(plan.spent(range(1, rounds + 1)).epsilon, expected, rtol=1e-9)


@given(
    st.sampled_from(sorted(WAYS)),
    st.floats(-4, 0),
    st.floats(-9, -2),
    st.integers(1, 25),
    st.floats(0.6, 1.0),
)
def test_the_exact_epsilon_is_never_above_the_claim(name, epsilon, delta, rounds, tau):
    epsilon, delta = 10.0**epsilon, 10.0**delta  # at most 1, which every way can spend
    plan = WAYS[name].plan(epsilon, delta, rounds, tau)
    spent = plan.spent(np.arange(rounds + 1))
    assert (spent.exact_epsilon <= spent.epsilon).all()
    assert (np.diff(spent.epsilon) >= 0).all()
    assert (np.diff(spent.exact_epsilon) >= 0).all()
    assert spent.epsilon[-1] == pytest.approx(epsilon, rel=1e-9)
    assert spent.epsilon[0] == spent.exact_epsilon[0] == 0
    assert plan.exact_epsilon == spent.exact_epsilon[-1]


# --- what is said ---------------------------------------------------------------------------------


@pytest.mark.parametrize("clipped", [True, False])
def test_the_statement(way, clipped):
    plan = way.plan(1.0, 1e-6, 40, 0.97)
    text = plan.statement(clipped=clipped)
    points = dict(line.split(": ", 1) for line in text.splitlines())
    assert list(points) == [
        "epsilon",
        "exact epsilon",
        "spent over",
        "protected",
        "adversary",
        "public",
        "not covered",
    ]
    assert points["protected"] == plans.UNIT
    assert points["adversary"] == plans.ADVERSARY
    assert points["public"] == plans.PUBLIC
    assert points["not covered"] == plans.NOT_COVERED
    assert points["spent over"] == "40 releases of each client, tau 0.97"
    assert points["epsilon"].startswith("1 at delta 1e-06, by ")
    assert plans.ACCOUNTINGS[plan.accounting].description in points["epsilon"]
    number = float(points["exact epsilon"].split()[0])
    assert plan.exact_epsilon <= number < plan.exact_epsilon * (1 + 1e-3)
    assert 0 < number < 1
    assert "at delta 1e-06" in points["exact epsilon"]
    for name, sentence in points.items():
        assert (NOMINAL in sentence) == (not clipped and "epsilon" in name)


def test_what_is_told_is_never_less_than_what_was_spent():
    rng = np.random.default_rng(0)
    for number in np.exp(rng.uniform(-30, 30, 300)):
        for digits in (3, 4, 6, 12):
            text = rounded_up(number, digits)
            assert number * (1 - 2e-13) <= float(text) < number * (1 + 10.0 ** (1 - digits))
            assert text == f"{float(text):.{digits}g}"
    given = (0.35205, 1.0, 1 + 1e-15, 1.00001, 9.9991, 123456.0, 0.0, math.inf, np.float32(2.5))
    told = ["0.3521", "1", "1", "1.001", "10", "1.235e+05", "0", "inf", "2.5"]
    assert [rounded_up(number) for number in given] == told


# --- mistakes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("numbers", "sentence"),
    [
        ((0.0, DELTA, 5, 0.9), "epsilon must be greater than 0, but it is 0"),
        ((1.0, DELTA, 2.5, 0.9), "rounds must be a whole number, but it is 2.5"),
        ((1.0, DELTA, 5, 1.01), "tau must be at most 1, but it is 1.01"),
        (
            (1.0, DELTA, 3000, 0.5),
            r"tau 0\.5 over 3000 rounds is too small",
        ),
    ],
)
def test_mistakes_get_a_sentence(way, numbers, sentence):
    with pytest.raises(InputError, match=sentence):
        way.plan(*numbers)


@pytest.mark.parametrize("rule", ["advanced", "basic"])
def test_a_single_epsilon_must_not_be_above_one(rule):
    """The classical Gaussian mechanism says nothing beyond; the reference refuses it too."""
    with pytest.raises(
        InputError,
        match="epsilons must be at most 1 for the classical Gaussian mechanism, but entry",
    ):
        approximate_plan(16.0, DELTA, 5, composition=rule)
    with pytest.raises(ValueError, match="at most one"):
        reference.conventional_multipliers(16.0, DELTA, 5, 0.985, rule)
    assert approximate_plan(16.0, DELTA, 500, composition=rule).rounds == 500


@pytest.mark.parametrize(
    ("counts", "sentence"),
    [
        (1.0, r"releases must be whole numbers, but it is array\(1\.\)\."),
        ([[2, 6], [0, 0]], r"releases must be from 0 to 5, but entry \(0, 1\) is 6\."),
    ],
)
def test_counts_must_be_planned(way, counts, sentence):
    plan = way.plan(1.0, DELTA, 5, 0.9)
    with pytest.raises(InputError, match=sentence):
        plan.spent(counts)
