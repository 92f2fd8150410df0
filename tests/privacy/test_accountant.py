"""The accountant against dp-accounting, against 60 digits, and against its own claims."""

import math

import dp_accounting
import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from dp_accounting import rdp
from dp_accounting.pld import privacy_loss_distribution as pld
from hypothesis import given, strategies as st
from scipy.optimize import minimize_scalar

from fedjax_admm._checks import InputError
from fedjax_admm.privacy import accountant
from fedjax_admm.privacy.accountant import (
    advanced_epsilon,
    advanced_epsilons,
    basic_epsilon,
    basic_epsilons,
    budgets_of,
    gaussian_budget,
    gaussian_delta,
    gaussian_epsilon,
    mechanism_multipliers,
    noise_multipliers,
    release_budgets,
    renyi_epsilon,
    zcdp_budget,
    zcdp_epsilon,
)

DELTAS = (1e-3, 1e-5, 1e-8)
SCHEDULES = ((1, 1.0), (5, 0.5), (20, 0.9), (30, 1.0), (60, 0.985))  # rounds, tau

some_budgets = st.floats(-9, 3).map(lambda exponent: 10.0**exponent)
some_deltas = st.floats(-30, -0.01).map(lambda exponent: 10.0**exponent)


def true_log_delta(budget, epsilon):
    """Log of the exact delta with 60 digits left after cancellation."""
    with mpmath.workdps(60 + 2 * int(abs(math.log10(budget)))):
        eps, mu = mpmath.mpf(epsilon), mpmath.sqrt(2 * mpmath.mpf(budget))
        left = mpmath.erfc((eps / mu - mu / 2) / mpmath.sqrt(2)) / 2
        right = mpmath.erfc((eps / mu + mu / 2) / mpmath.sqrt(2)) / 2
        return mpmath.log(left - mpmath.exp(eps) * right)


def as_distribution(multipliers):
    """The privacy loss of releases, composed one by one by dp-accounting."""
    whole = None
    for z in multipliers.tolist():
        one = pld.from_gaussian_mechanism(z, value_discretization_interval=1e-4)
        whole = one if whole is None else whole.compose(one)
    return whole


# --- exact conversion -----------------------------------------------------------------------------


@pytest.mark.kin(2)
@pytest.mark.parametrize("budget", [0.02, 0.5])
@pytest.mark.parametrize(("rounds", "tau"), SCHEDULES)
def test_composition_release_by_release(budget, rounds, tau):
    multipliers = noise_multipliers(release_budgets(budget, rounds, tau))
    distribution = as_distribution(multipliers)
    orders = 1.0 + np.geomspace(1e-2, 1e4, 3000)
    renyi = rdp.RdpAccountant(orders)
    for z in multipliers.tolist():
        renyi.compose(dp_accounting.GaussianDpEvent(z))
    for delta in DELTAS:
        expected = distribution.get_epsilon_for_delta(delta)
        assert gaussian_epsilon(budget, delta) == pytest.approx(expected, rel=2e-5)
        expected = renyi.get_epsilon(delta)
        assert renyi_epsilon(budget, delta) == pytest.approx(expected, rel=1e-5)
        # A finite list of orders cannot do better than all of them.
        assert renyi_epsilon(budget, delta) <= expected * (1 + 1e-12)


def test_table_of_the_method():
    """Classical epsilon, budget, exact epsilon and budget allowed by it, at delta = 1e-5."""
    table = [
        (0.5, 0.00531, 0.388, 0.352, 0.0101),
        (1.0, 0.02082, 0.812, 0.742, 0.0359),
        (2.0, 0.08005, 1.694, 1.556, 0.1258),
        (4.0, 0.29765, 3.519, 3.250, 0.4278),
        (8.0, 1.04914, 7.281, 6.764, 1.3878),
        (16.0, 3.43067, 14.988, 14.012, 4.2209),
    ]
    for epsilon, budget, by_orders, exact, allowed in table:
        found = zcdp_budget(epsilon, 1e-5)
        assert found == pytest.approx(budget, abs=6e-6)
        # The table was made with a list of orders; over all orders the infimum is a little lower.
        assert by_orders * (1 - 8e-4) <= renyi_epsilon(found, 1e-5) <= by_orders + 6e-4
        assert gaussian_epsilon(found, 1e-5) == pytest.approx(exact, abs=6e-4)
        assert gaussian_budget(epsilon, 1e-5) == pytest.approx(allowed, abs=1.1e-4)


@given(st.floats(-9, 3), st.floats(0, 1), st.floats(0, 36))
def test_exact_delta_to_nine_digits(exponent, near, far):
    mu = 10.0**exponent
    for s in (-min(mu / 2, 10.0) * near, far):
        budget, epsilon = mu * mu / 2, max(0.0, mu * (s + mu / 2))
        expected = true_log_delta(budget, epsilon)
        found = gaussian_delta(budget, epsilon)
        assert found > 0
        assert abs(float(mpmath.log(found) - expected)) < 1e-9
        value, error = accountant.log_delta_with_error(budget, epsilon)
        assert abs(float(value - expected)) <= error


def test_exact_delta_where_nothing_is_left_of_it():
    assert gaussian_delta(1e-6, 1.0) == 0.0
    assert gaussian_delta(1e-320, 1.0) == 0.0
    assert gaussian_delta(1e6, 1.0) == 1.0
    assert gaussian_delta(1e300, 1.0) == 1.0
    assert gaussian_delta(2.0, 1e300) == 0.0
    # e^epsilon overflows here, but delta is an everyday number.
    assert gaussian_delta(1e6, 1.002e6) == pytest.approx(
        float(mpmath.exp(true_log_delta(1e6, 1.002e6))), rel=1e-9
    )


@given(some_budgets, some_deltas)
def test_exact_epsilon_holds_and_is_the_smallest(budget, delta):
    found = gaussian_epsilon(budget, delta)
    log_delta = mpmath.log(delta)
    assert true_log_delta(budget, found) <= log_delta
    if found > 1e-6 * math.sqrt(budget):
        assert true_log_delta(budget, found * (1 - 1e-9)) > log_delta


@given(some_budgets, some_deltas)
def test_exact_budget_holds_and_is_the_largest(epsilon, delta):
    found = gaussian_budget(epsilon, delta)
    log_delta = mpmath.log(delta)
    assert true_log_delta(found, epsilon) <= log_delta
    assert true_log_delta(found * (1 + 1e-9), epsilon) > log_delta


# --- the order of the conversions -----------------------------------------------------------------


@given(some_budgets, some_deltas)
def test_no_conversion_claims_less_than_the_exact_epsilon(budget, delta):
    exact = gaussian_epsilon(budget, delta)
    renyi = renyi_epsilon(budget, delta)
    classical = zcdp_epsilon(budget, delta)
    assert exact <= renyi * (1 + 2e-12)
    assert renyi <= classical * (1 + 1e-13)
    assert true_log_delta(budget, renyi) <= mpmath.log(delta)
    assert true_log_delta(budget, classical) <= mpmath.log(delta)
    assert zcdp_budget(classical, delta) <= gaussian_budget(classical, delta)


@given(some_budgets, some_deltas)
def test_renyi_epsilon_is_the_infimum_over_the_orders_and_never_below(budget, delta):
    with mpmath.workdps(50):
        phi, log_inverse = mpmath.mpf(budget), -mpmath.log(delta)

        def at(log_x):
            x = mpmath.exp(log_x)
            rest = (log_inverse - mpmath.log1p(x)) / x
            return phi * (1 + x) - mpmath.log1p(1 / x) + rest

        best = minimize_scalar(lambda y: float(at(y)), bounds=(-60, 60), method="bounded")
        start = mpmath.mpf(best.x)
        # The derivative in x, without a common factor.
        root = mpmath.findroot(
            lambda y: phi * mpmath.exp(2 * y) + mpmath.log1p(mpmath.exp(y)) - log_inverse, start
        )
        infimum = max(mpmath.mpf(0), at(root))
        assert at(root) <= at(root + 0.01)
        assert at(root) <= at(root - 0.01)
        found = renyi_epsilon(budget, delta)
        assert found >= infimum
        scale = phi * (1 + mpmath.exp(root)) + log_inverse / mpmath.exp(root) + 1e-300
        assert found - infimum <= 1e-13 * scale


# --- classical formula ----------------------------------------------------------------------------


@given(some_budgets, some_deltas)
def test_classical_formula_and_its_inverse(budget, delta):
    epsilon = zcdp_epsilon(budget, delta)
    log_inverse = -math.log(delta)
    assert epsilon == pytest.approx(budget + 2 * math.sqrt(budget * log_inverse), rel=1e-14)
    assert zcdp_budget(epsilon, delta) == pytest.approx(budget, rel=1e-13)


@pytest.mark.parametrize(
    "conversion", [zcdp_epsilon, zcdp_budget, renyi_epsilon, gaussian_epsilon, gaussian_budget]
)
def test_the_ends_and_whole_arrays(conversion):
    assert conversion(math.inf, 1e-5) == math.inf
    if conversion is not gaussian_budget:  # delta alone allows a little
        assert conversion(0.0, 1e-5) == 0.0
    values = np.array([[0.5, 1.0, 2.0], [0.0, 3.0, math.inf]])
    found = conversion(values, 1e-5)
    assert found.shape == (2, 3)
    assert found.dtype == np.float64
    assert found.ravel().tolist() == [conversion(v, 1e-5) for v in values.ravel().tolist()]
    assert np.all(np.diff(found.ravel()[np.argsort(values.ravel())]) > 0)
    assert type(conversion(1, 1e-5)) is float


# --- budgets and noise of the releases ------------------------------------------------------------


@pytest.mark.parametrize("total", [1e-9, 0.0208, 1.0, 3.43067, 1e6])
@pytest.mark.parametrize("rounds", [1, 2, 7, 200, 5000])
@pytest.mark.parametrize("tau", [0.9, 0.97, 0.985, 1.0 - 1e-9, 1.0])
def test_release_budgets_grow_by_tau_and_sum_to_the_total(total, rounds, tau):
    budgets = release_budgets(total, rounds, tau)
    assert budgets.shape == (rounds,)
    assert budgets.dtype == np.float64
    assert np.all(budgets > 0)
    np.testing.assert_allclose(budgets[1:] * tau, budgets[:-1], rtol=1e-13)
    assert math.fsum(budgets) <= total
    assert math.fsum(budgets) >= total * (1 - 1e-14)


def test_a_schedule_of_many_rounds_neither_overflows_nor_loses_its_first_releases_silently():
    budgets = release_budgets(1.0, 100_000, 0.995)
    assert budgets[0] == pytest.approx(0.005 * math.exp(99_999 * math.log(0.995)), rel=1e-9)
    assert 1 - 1e-14 <= math.fsum(budgets) <= 1
    with pytest.raises(InputError, match=r"tau 0\.9 over 100000 rounds is too small for total ="):
        release_budgets(1.0, 100_000, 0.9)
    with pytest.raises(InputError, match="take a larger tau or fewer rounds"):
        advanced_epsilons(1.0, 1e-6, 100_000, 0.9)
    # The limit itself: one release fewer than are lost is fine.
    assert release_budgets(1.0, 100_000 - 93_298, 0.9)[0] > 0
    with pytest.raises(InputError, match=r"tau 0\.9 over 6703 rounds is too small for total ="):
        release_budgets(1.0, 100_000 - 93_298 + 1, 0.9)


def test_noise_multipliers_and_their_inverse():
    budgets = np.array([0.5, 2.0, 0.02, math.inf])
    multipliers = noise_multipliers(budgets)
    np.testing.assert_allclose(multipliers, [1.0, 0.5, 5.0, 0.0], rtol=1e-15)
    np.testing.assert_allclose(budgets_of(multipliers), budgets, rtol=1e-15)
    assert noise_multipliers(0.5) == pytest.approx(1.0, rel=1e-15)
    assert type(budgets_of(2.0)) is float
    assert budgets_of(math.inf) == 0.0
    assert budgets_of(1e-200) == math.inf
    tiny = release_budgets(1.0, 6000, 0.9)
    np.testing.assert_allclose(budgets_of(noise_multipliers(tiny)), tiny, rtol=1e-14)


# --- the classical mechanism and its composition --------------------------------------------------


@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1, 0.9])
def test_the_classical_mechanism_holds_up_to_epsilon_one(delta):
    epsilons = np.array([1e-3, 0.1, 0.5, 1.0])
    multipliers = mechanism_multipliers(epsilons, delta)
    np.testing.assert_allclose(
        multipliers * epsilons, math.sqrt(2 * math.log(1.25 / delta)), rtol=1e-14
    )
    for z, epsilon in zip(multipliers.tolist(), epsilons.tolist(), strict=True):
        assert gaussian_delta(budgets_of(z), epsilon) <= delta
    assert mechanism_multipliers(math.inf, delta) == 0.0


def test_composition_formulas():
    epsilons = np.array([0.1, 0.2, 0.3])
    assert basic_epsilon(epsilons) == pytest.approx(0.6, rel=1e-15)
    many = np.repeat(epsilons, 100)
    slack = 1e-6
    expected = sum(e * (math.exp(e) - 1) / (math.exp(e) + 1) for e in many.tolist())
    expected += math.sqrt(2 * math.log(1 / slack) * sum(e * e for e in many.tolist()))
    assert advanced_epsilon(many, slack) == pytest.approx(expected, rel=1e-13)
    assert advanced_epsilon(many, slack) < basic_epsilon(many)
    assert advanced_epsilon(epsilons, slack) == basic_epsilon(epsilons)  # too few releases
    assert advanced_epsilon([math.inf, 0.1], slack) == math.inf
    assert type(advanced_epsilon([1], slack)) is float


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 16.0])
@pytest.mark.parametrize(("rounds", "tau"), [(1, 1.0), (3, 0.5), (200, 0.985), (200, 1.0)])
def test_divided_epsilons_compose_to_the_whole(epsilon, rounds, tau):
    slack = 5e-6
    basic = basic_epsilons(epsilon, rounds, tau)
    advanced = advanced_epsilons(epsilon, slack, rounds, tau)
    for parts in (basic, advanced):
        assert parts.shape == (rounds,)
        assert parts.dtype == np.float64
        np.testing.assert_allclose(parts[1:] * math.sqrt(tau), parts[:-1], rtol=1e-13)
    assert epsilon * (1 - 1e-14) <= basic_epsilon(basic) <= epsilon
    assert epsilon * (1 - 1e-12) <= advanced_epsilon(advanced, slack) <= epsilon
    assert np.all(advanced >= basic)
    assert advanced_epsilons(math.inf, slack, 2, tau).tolist() == [math.inf] * 2


@given(
    st.floats(0.01, 20),
    some_deltas,
    st.integers(1, 400),
    st.floats(0.9, 1.0),
    st.sampled_from([advanced_epsilons, None]),
)
def test_composition_never_claims_less_than_the_exact_epsilon(epsilon, delta, rounds, tau, rule):
    if rule is None:
        epsilons, each = basic_epsilons(epsilon, rounds, tau), delta / rounds
    else:
        epsilons, each = rule(epsilon, delta / 2, rounds, tau), delta / (2 * rounds)
    if epsilons[-1] > 1:
        with pytest.raises(InputError, match="at most 1"):
            mechanism_multipliers(epsilons, each)
        return
    spent = math.fsum(budgets_of(mechanism_multipliers(epsilons, each)))
    assert gaussian_epsilon(spent, delta) <= epsilon


# --- what is refused ------------------------------------------------------------------------------

WITH_DELTA = [zcdp_epsilon, zcdp_budget, renyi_epsilon, gaussian_epsilon, gaussian_budget]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: zcdp_epsilon("1", 1e-5), "budget must be a number .* but it is '1'"),
        (lambda: zcdp_budget(1.0, 0.0), "delta must be greater than 0, but it is"),
        (lambda: renyi_epsilon(1.0, 1.0), "delta must be less than 1, but it is"),
        (lambda: gaussian_epsilon(-1.0, 1e-5), "budget must be at least 0, but it is -1"),
        (lambda: gaussian_budget(math.nan, 1e-5), "epsilon must be a number, but it is nan"),
        (lambda: release_budgets(1.0, 2.5, 1.0), "rounds must be a whole number, but it is 2.5"),
        (lambda: release_budgets(1.0, 3, 1.5), "tau must be at most 1, but it is 1.5"),
        (
            lambda: mechanism_multipliers(np.array([0.5, 1.0, 1.5]), 1e-5),
            "epsilons must be at most 1 for the classical Gaussian mechanism, but entry",
        ),
    ],
)
def test_mistakes_are_told_in_one_sentence(call, sentence):
    with pytest.raises(InputError, match=sentence):
        call()


# --- precision ------------------------------------------------------------------------------------


def test_the_precision_of_the_session_does_not_matter():
    assert not jax.config.jax_enable_x64
    given = jnp.float32(0.1)  # widened as it is, not rounded again
    for conversion in WITH_DELTA:
        found = conversion(given, 1e-5)
        assert type(found) is float
        assert found == conversion(float(given), 1e-5)
        assert found != conversion(0.1, 1e-5)
        assert found != float(np.float32(found))
    assert zcdp_epsilon(0.1, 1e-5) == pytest.approx(0.1 + 2 * math.sqrt(0.5 * math.log(10)))
    assert abs(zcdp_budget(1e-9, 0.5) - 1e-18 / (4 * math.log(2))) < 1e-27
    found = noise_multipliers(jnp.ones(3, jnp.float32))
    assert type(found) is np.ndarray
    assert found.dtype == np.float64


def test_values_inside_a_transformation_are_refused():
    with pytest.raises(
        InputError,
        match="budget must be known, but it is traced; call this outside",
    ):
        jax.jit(lambda budget: zcdp_epsilon(budget, 1e-5))(1.0)
