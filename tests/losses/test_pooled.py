"""The central minimiser: against cvxpy, linear programs and closed forms, and awkward data."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import linprog

from fedjax_admm._checks import InputError
from fedjax_admm.losses import (
    Absolute,
    Logistic,
    Squared,
    absolute,
    huber,
    logistic,
    minimize_regression,
    quantile,
    squared,
)
from tests.bits import hangs_on_rounding
from tests.losses.own import Insensitive, PseudoHuber, SquaredHinge

SAMPLES, DIM, CLIENTS = 2500, 8, 50
ROWS, COLUMNS = 64, 4  # small problems; padded to the shape of the large ones, to compile once
LOSSES = {"squared": squared, "absolute": absolute, "huber": huber, "logistic": logistic}

solve_each = jax.jit(jax.vmap(minimize_regression, (None, None, None, None, 0, 0)))


def loss_of(name, threshold=0.1):
    return huber(threshold) if name == "huber" else LOSSES[name]()


def padded(x, y, c, dtype=np.float64):
    """Add samples of weight zero, that would matter otherwise, and columns of zeros."""
    x, y, c = (np.asarray(part, dtype) for part in (x, y, c))
    room = SAMPLES - len(y)
    x = np.pad(x, ((0, room), (0, DIM - x.shape[1])))
    x[SAMPLES - room :] = 7
    return x, np.pad(y, (0, room), constant_values=1), np.pad(c, (0, room))


def solved(x, y, c, loss, l1=0.0, l2=0.0, dtype=np.float64):
    """Solve a small problem."""
    columns = np.shape(x)[1]
    found = minimize_regression(
        *padded(x, y, c, dtype), loss, np.asarray(l1, dtype), np.asarray(l2, dtype)
    )
    assert found.w.dtype == found.residual.dtype == dtype
    np.testing.assert_array_equal(found.w[columns:], 0)
    return np.asarray(found.w[:columns]), float(found.residual)


def value(w, x, y, c, loss, l1=0.0, l2=0.0):
    """F(w), by NumPy."""
    p = x @ w
    if isinstance(loss, Squared):
        losses = (p - y) ** 2
    elif isinstance(loss, Absolute):
        losses = np.abs(p - y)
    elif isinstance(loss, Logistic):
        losses = np.logaddexp(0, -y * p)
    else:
        r, t = np.abs(p - y), float(loss.threshold)
        losses = np.where(r <= t, r**2 / 2, t * (r - t / 2))
    return c @ losses + l1 * np.abs(w).sum() + l2 * w @ w


@cache
def pooled(seed=0):
    """The pooled data of the experiments: clients with as many samples each, weights 1 / M."""
    rng = np.random.default_rng(seed)
    x, truth = rng.normal(size=(SAMPLES, DIM)), rng.normal(size=DIM)
    y = x @ truth + np.sqrt(0.1) * rng.normal(size=SAMPLES)
    labels = np.where(rng.uniform(size=SAMPLES) < 1 / (1 + np.exp(-x @ truth)), 1.0, -1.0)
    return x, y, labels, np.full(SAMPLES, CLIENTS / SAMPLES)


def by_cvxpy(x, y, c, name, threshold, l1, l2):
    cvxpy = pytest.importorskip("cvxpy")
    w = cvxpy.Variable(x.shape[1])
    r = x @ w - y
    losses = {
        "squared": lambda: cvxpy.square(r),
        "absolute": lambda: cvxpy.abs(r),
        "huber": lambda: cvxpy.huber(r, threshold) / 2,
        "logistic": lambda: cvxpy.logistic(-cvxpy.multiply(y, x @ w)),
    }[name]()
    objective = c @ losses + l1 * cvxpy.norm1(w) + l2 * cvxpy.sum_squares(w)
    tight = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas"), 1e-11)
    task = cvxpy.Problem(cvxpy.Minimize(objective))
    task.solve(solver="CLARABEL", **tight)
    assert task.status == "optimal"
    return w.value


# --- the optimum ---


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "l1", "l2"),
    [
        ("squared", None, 1.0),  # the elastic net: l1 from the data
        ("absolute", 0.0, 0.0),
        ("squared", 0.0, 1.0),
        ("logistic", 0.0, 0.5),
        ("huber", 0.0, 0.0),
        ("squared", 5.0, 0.0),
        ("absolute", 3.0, 0.0),
        ("absolute", 0.0, 1.0),
        ("logistic", 1.0, 0.0),
        ("huber", 1.0, 0.0),
    ],
)
@pytest.mark.usefixtures("x64")
def test_equals_cvxpy(name, l1, l2):
    x, y, labels, c = pooled()
    l1 = 0.001 * np.abs(x.T @ y).max() if l1 is None else l1
    y = labels if name == "logistic" else y
    w, residual = solved(x, y, c, loss_of(name), l1, l2)
    wanted = by_cvxpy(x, y, c, name, 0.1, l1, l2)
    assert np.linalg.norm(w - wanted) < 1e-8 * np.linalg.norm(wanted)
    assert residual < 1e-14


def by_linear_program(x, y, c, l1=0.0, level=None):
    """Least absolute deviations, or quantiles, as a linear program in u, v >= 0 and w."""
    n, dim = x.shape
    above, below = (1, 1) if level is None else (1 - level, level)
    cost = np.concatenate([above * c, below * c, np.full(2 * dim, l1)])
    fits = np.hstack([np.eye(n), -np.eye(n), -x, x])  # u - v = x w - y
    tight = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    result = linprog(cost, A_eq=fits, b_eq=-y, bounds=(0, None), method="highs", options=tight)
    assert result.status == 0
    return result.x[2 * n : 2 * n + dim] - result.x[2 * n + dim :]


def draw_small(rng, kind):
    """Samples of one of several kinds, some of them with weight zero."""
    n = int(rng.integers(8, ROWS))
    x = rng.normal(size=(n, COLUMNS))
    y = x @ rng.normal(size=COLUMNS) + rng.laplace(size=n)
    c = np.ones(n)
    if kind == "whole numbers":
        x, y = rng.integers(-2, 3, x.shape).astype(float), rng.integers(-3, 4, n).astype(float)
    elif kind == "columns of all sizes":
        x = x * np.array([1e3, 1e-3, 1, 10])
    elif kind == "constant column":
        x[:, 0] = 1
    elif kind == "duplicates":
        x, y = x[np.arange(n) // 3], y[np.arange(n) // 2]
    elif kind == "weights of all sizes":
        c = 10.0 ** rng.integers(-3, 4, n) * (rng.uniform(size=n) < 0.8)
    elif kind == "outliers":
        y[:3] = 1e6
    return x, y, c


@pytest.mark.thorough
@pytest.mark.kin(1)
@pytest.mark.parametrize("l1", [0.0, 0.3])
@pytest.mark.parametrize(
    "kind",
    [
        "normal",
        "whole numbers",
        "columns of all sizes",
        "constant column",
        "duplicates",
        "weights of all sizes",
        "outliers",
    ],
)
@pytest.mark.usefixtures("x64")
def test_absolute_deviations_reach_the_value_of_the_linear_program(kind, l1):
    rng = np.random.default_rng([len(kind), int(10 * l1)])
    for _ in range(6):
        x, y, c = draw_small(rng, kind)
        w, residual = solved(x, y, c, absolute(), l1)
        wanted = value(by_linear_program(x, y, c, l1), x, y, c, absolute(), l1)
        assert value(w, x, y, c, absolute(), l1) <= wanted * (1 + 1e-10)
        assert residual < 1e-11


@pytest.mark.kin(1)
@pytest.mark.parametrize("penalties", [(0.0, 0.2), (0.5, 0.0), (0.5, 0.2)])
@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("kind", ["columns of all sizes", "weights of all sizes", "outliers"])
@pytest.mark.usefixtures("x64")
def test_the_subgradient_is_zero(kind, name, penalties):
    """Optimality from the definition, where the targets and the entries of w are not met."""
    rng = np.random.default_rng([len(kind), len(name)])
    l1, l2 = penalties
    x, y, c = draw_small(rng, kind)
    y = np.where(y > 0, 1.0, -1.0) if name == "logistic" else y
    loss = loss_of(name, 0.5)
    w, residual = solved(x, y, c, loss, l1, l2)
    assert residual < 1e-11
    p = x @ w
    slopes = c * np.asarray(loss.slope(jnp.asarray(p), jnp.asarray(y)))
    slack = np.zeros(COLUMNS)  # by how much the subgradient may differ from these slopes
    if name == "absolute":
        met = np.abs(p - y) < 1e-9 * (np.abs(p) + np.abs(y))
        slopes, slack = np.where(met, 0, slopes), np.abs(x[met]).T @ c[met]
    at_zero = np.abs(w) < 1e-9 * np.abs(w).max()
    slack = slack + l1 * at_zero
    gradient = x.T @ slopes + 2 * l2 * w + l1 * np.where(at_zero, 0, np.sign(w))
    assert np.all(np.abs(gradient) <= slack + 1e-10 * (np.abs(x).T @ (c * (np.abs(y) + 1))))


@pytest.mark.parametrize("l1", [0.0, pytest.param(0.3, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("level", [0.5, 0.1, pytest.param(0.97, marks=pytest.mark.thorough)])
@pytest.mark.usefixtures("x64")
def test_quantiles_reach_the_value_of_the_linear_program(level, l1):
    rng = np.random.default_rng([int(100 * level), int(10 * l1)])
    for kind in ("normal", "columns of all sizes", "weights of all sizes", "outliers"):
        x, y, c = draw_small(rng, kind)
        w, residual = solved(x, y, c, quantile(level), l1)
        best = by_linear_program(x, y, c, l1, level)

        def total(w, x=x, y=y, c=c):
            r = x @ w - y
            return c @ np.maximum(-level * r, (1 - level) * r) + l1 * np.abs(w).sum()

        assert total(w) <= total(best) * (1 + 1e-9)
        assert residual < 1e-10


@pytest.mark.kin(2)
@pytest.mark.parametrize("penalties", [(0.0, 0.2), (0.5, 0.0), (0.5, 0.2), (0.0, 0.0)])
@pytest.mark.parametrize("loss", [PseudoHuber(0.7), SquaredHinge()], ids=["huber", "hinge"])
@pytest.mark.usefixtures("x64")
def test_a_smooth_loss_of_ones_own_is_minimised(loss, penalties):
    """The subgradient is zero."""
    l1, l2 = penalties
    x, y, c = draw_small(np.random.default_rng(3), "normal")
    y = np.where(y > 0, 1.0, -1.0) if loss.labels else y
    w, residual = solved(x, y, c, loss, l1, l2)
    assert residual < 1e-11
    slopes = c * np.asarray(loss.slope(jnp.asarray(x @ w), jnp.asarray(y)))
    at_zero = np.abs(w) < 1e-9 * np.abs(w).max()
    gradient = x.T @ slopes + 2 * l2 * w + l1 * np.where(at_zero, 0, np.sign(w))
    assert np.all(np.abs(gradient) <= l1 * at_zero + 1e-9 * (np.abs(x).T @ c))


# --- float32 ---


@pytest.mark.thorough
@pytest.mark.kin(1)
@pytest.mark.parametrize(
    ("name", "l2", "tolerance"),
    [("absolute", 0.0, 1e-3), ("squared", 1.0, 1e-5), ("logistic", 0.5, 1e-5)],
)
def test_float32_is_near(name, l2, tolerance):
    x, y, labels, c = pooled()
    y = labels if name == "logistic" else y
    w, residual = solved(x, y, c, loss_of(name), 0.0, l2, dtype=np.float32)
    assert residual < 5e-6
    with jax.enable_x64(True):
        wanted, _ = solved(x, y, c, loss_of(name), 0.0, l2)
    assert np.linalg.norm(w - wanted) < tolerance * np.linalg.norm(wanted)


# --- under transformations ---


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["absolute", "logistic"])
@pytest.mark.usefixtures("x64")
def test_a_batch_over_penalties_equals_one_by_one(name):
    """With l1 = 0, where rows are switched off, beside l1 so great that the model is zero."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(ROWS, COLUMNS)), rng.normal(size=ROWS)
    y = np.sign(y) if name == "logistic" else y
    c, loss = np.ones(ROWS), loss_of(name)
    data = padded(x, y, c)
    l1, l2 = np.array([0, 0.1, 0, 2, 1e4]), np.array([0, 0, 0.3, 0.3, 0])
    batch = solve_each(*data, loss, l1, l2)
    assert batch.w.shape == (5, DIM)
    assert float(jnp.max(batch.residual)) < 1e-14
    for i in range(5):
        alone = minimize_regression(*data, loss, l1[i], l2[i])
        np.testing.assert_allclose(batch.w[i], alone.w, atol=1e-9)
    np.testing.assert_array_equal(batch.w[4], 0)
    assert np.abs(batch.w[0, :COLUMNS]).min() > 0


def test_no_lapack():
    """Its batched routines wait for ever on several devices of a CPU."""
    x, y = jnp.ones((3, 5, 2)), jnp.ones((3, 5))
    batch = jax.jit(jax.vmap(lambda x, y: minimize_regression(x, y, y, absolute(), 1.0, 1.0)))
    assert "lapack" not in batch.lower(x, y).as_text()


# --- units ---


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["squared", "absolute", "huber"])
@pytest.mark.usefixtures("x64")
def test_units_do_not_matter(name):
    rng = np.random.default_rng(6)
    x = rng.normal(size=(40, COLUMNS))
    y, c = x @ rng.normal(size=COLUMNS) + rng.laplace(size=40), rng.uniform(size=40)
    l1, l2 = 0.4, 0.2
    wanted, _ = solved(x, y, c, loss_of(name), l1, l2)
    degree = 1 if name == "absolute" else 2
    for targets, features, weights in ((1e6, 1, 1), (1, 1e3, 1), (1, 1e-3, 1), (1e-8, 1e3, 1e-7)):
        unit = targets / features
        w, residual = solved(
            features * x,
            targets * y,
            weights * c,
            loss_of(name, 0.1 * targets),
            l1 * weights * targets**degree / unit,
            l2 * weights * targets**degree / unit**2,
        )
        np.testing.assert_allclose(w / unit, wanted, rtol=1e-10)
        assert residual < 1e-14


@pytest.mark.thorough
@pytest.mark.parametrize("size", [1e-15, 1e15])
def test_extreme_units_of_float32(size):
    """Their squares would leave the range of the numbers."""
    rng = np.random.default_rng(7)
    x = rng.normal(size=(40, COLUMNS))
    y, c = x @ np.array([1, 2, 3, 4]) + rng.normal(size=40), np.ones(40)
    wanted, _ = solved(x, y, c, squared(), dtype=np.float32)
    for features, targets in ((size, 1), (1, size), (size, size)):
        w, residual = solved(features * x, targets * y, c, squared(), dtype=np.float32)
        np.testing.assert_allclose(w * (features / targets), wanted, rtol=1e-4)
        assert residual < 1e-6


# --- awkward data ---


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.usefixtures("x64")
def test_more_columns_than_samples(name):
    rng = np.random.default_rng(8)
    x, y, c = rng.normal(size=(2, COLUMNS)), np.array([1.0, -1.0]), np.ones(2)
    loss = loss_of(name)
    w, residual = solved(x, y, c, loss, l2=0.05)
    assert residual < 1e-14
    # w = x^T forces / (2 l2): no part outside the rows' span, and the slopes are the forces.
    forces = np.linalg.solve(x @ x.T, -2 * 0.05 * x @ w)
    np.testing.assert_allclose(w, -x.T @ forces / 0.1, atol=1e-12)
    if name == "absolute":
        assert np.all(np.abs(forces) <= 1 + 1e-12)
        assert np.all(np.abs(x @ w - y) * (1 - np.abs(forces)) < 1e-12)
    else:
        np.testing.assert_allclose(forces, loss.slope(x @ w, jnp.asarray(y)), atol=1e-12)
    # Without a penalty there are many minimisers; all fit the data.
    if name != "logistic":
        w, residual = solved(x, y, c, loss)
        np.testing.assert_allclose(x @ w, y, atol=1e-12)
        assert residual < 1e-12


@pytest.mark.parametrize("name", ["squared", "absolute", "huber"])
@pytest.mark.usefixtures("x64")
def test_data_that_are_fitted_exactly(name):
    rng = np.random.default_rng(9)
    x, truth = rng.normal(size=(30, COLUMNS)), rng.normal(size=COLUMNS)
    w, residual = solved(x, x @ truth, np.ones(30), loss_of(name))
    np.testing.assert_allclose(w, truth, rtol=1e-12)
    assert residual < 1e-14


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.usefixtures("x64")
def test_a_great_l1_leaves_nothing(name):
    """The model is zero just from the largest slope at zero on, and exactly for greater ones."""
    rng = np.random.default_rng(11)
    x, y, c = rng.normal(size=(31, COLUMNS)), rng.normal(size=31), np.ones(31)
    y = np.sign(y) if name == "logistic" else y
    loss = loss_of(name)
    slopes = np.asarray(loss.slope(jnp.zeros(31), jnp.asarray(y)))
    most = np.abs(x.T @ slopes).max()
    w, residual = solved(x, y, c, loss, 1.01 * most)
    assert np.abs(w).max() < 1e-13
    assert residual < 1e-14
    w, _ = solved(x, y, c, loss, 0.99 * most)
    assert np.abs(w).max() > 1e-4
    w, residual = solved(x, y, c, loss, 1e9)
    np.testing.assert_array_equal(w, 0)
    assert residual < 1e-14


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.usefixtures("x64")
def test_nothing_to_learn_from(name):
    """No weight at all, no feature, targets of zero: the model is zero, and that is optimal."""
    rng = np.random.default_rng(12)
    x, y, c = rng.normal(size=(9, COLUMNS)), np.ones(9), np.ones(9)
    loss = loss_of(name)
    cases = [(x, y, 0 * c, 0.0, 0.0), (x, y, 0 * c, 1.0, 1.0), (0 * x, y, c, 0.0, 0.0)]
    if name != "logistic":
        cases += [(x, 0 * y, c, 0.0, 0.0), (x, 0 * y, c, 1.0, 0.0)]
    for features, targets, weights, l1, l2 in cases:
        w, residual = solved(features, targets, weights, loss, l1, l2)
        np.testing.assert_array_equal(w, 0)
        assert residual < 1e-14


@hangs_on_rounding
@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_separable_classes_have_no_minimiser(precision):
    rng = np.random.default_rng(13)
    x = rng.normal(size=(60, COLUMNS))
    y, c = np.sign(x @ np.array([1, -2, 0.5, 1])), np.ones(60)
    with jax.enable_x64(precision == np.float64):
        _, residual = solved(x, y, c, logistic(), dtype=precision)
        assert not residual < 1e-3
        # A penalty makes one.
        w, residual = solved(x, y, c, logistic(), l2=1e-3, dtype=precision)
        slopes = -y / (1 + np.exp(y * (x @ w)))
        gradient = x.T @ slopes + 2e-3 * w
        roundings = 100 * np.finfo(precision).eps
        assert np.abs(gradient).max() < roundings * (np.abs(x).T @ np.abs(slopes)).max()
        assert residual < roundings


# --- the certificate ---


@pytest.mark.usefixtures("x64")
def test_the_residual_tells_when_it_is_not_done():
    rng = np.random.default_rng(15)
    x, y, c = rng.normal(size=(40, COLUMNS)), np.sign(rng.normal(size=40)), np.ones(40)
    loss = logistic()
    best, residual = solved(x, y, c, loss, 1.0, 0.1)
    assert residual < 1e-14
    found = minimize_regression(*padded(x, y, c), loss, 1.0, 0.1, iterations=3)
    excess = value(np.asarray(found.w[:COLUMNS]), x, y, c, loss, 1.0, 0.1)
    excess = excess / value(best, x, y, c, loss, 1.0, 0.1) - 1
    assert 1e-14 < excess < 100 * float(found.residual)
    assert 1e-8 < float(found.residual) < 1e-1


# --- input ---


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.ones((2, 0))}, "features must have rows and columns"),
        ({"features": [[1.0], [np.nan]]}, "features must be finite"),
        ({"targets": [1.0]}, r"targets must have shape \(2,\)"),
        (
            {"targets": [1.0, 0.5]},
            "targets must be -1 and 1 for Logistic, but entry 1",
        ),
        ({"weights": [1.0, -1.0]}, "weights must be at least 0"),
        (
            {"loss": "squared"},
            r"loss must be one of fedjax_admm\.losses, such as",
        ),
        (
            {"loss": Insensitive()},
            r"loss must be smooth, or one of fedjax_admm\.losses, but it is",
        ),
        ({"loss": SquaredHinge(), "targets": [1.0, 0.5]}, "must be -1 and 1 for SquaredHinge"),
    ],
)
def test_refuses(change, message):
    given = {
        "features": [[1.0], [2.0]],
        "targets": [1.0, -1.0],
        "weights": [1.0, 1.0],
        "loss": logistic(),
        "l1": 0.0,
        "l2": 1.0,
    }
    with pytest.raises(InputError, match=message):
        minimize_regression(**(given | change))
