"""Problems on networks: padding, scales, weights, access, random draws, mistakes."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from fedjax_admm import InputError
from fedjax_admm._run._rounds import run
from fedjax_admm.graphs import Graph
from fedjax_admm.losses import LassoLoss, LogisticLoss, TrainedLoss
from fedjax_admm.problems import (
    draw_networked_regression,
    networked_logistic,
    networked_regression,
    networked_training,
    with_access,
)
from fedjax_admm.solvers import gtv_primal_dual

SIZES = [3, 1, 5, 2]
SOME = np.array([True, False, True, True])


def chain(nodes):
    heads = np.arange(nodes - 1, dtype=np.int32)
    return Graph(
        jnp.asarray(heads), jnp.asarray(heads + 1), jnp.ones(nodes - 1, float), num_nodes=nodes
    )


def ragged(seed=0):
    rng = np.random.default_rng(seed)
    features = [rng.standard_normal((m, 2)) for m in SIZES]
    return features, [rng.standard_normal(m) for m in SIZES]


def trajectory(problem, rounds=50):
    """Models after every tenth round, with steps that do not depend on the problem."""
    solver = gtv_primal_dual(problem, 0.3, ratio=1.0)
    result = run(solver, problem, jax.random.key(0), rounds=rounds, every=10, measure=look)
    return np.asarray(result.trace["w"])


def look(solver, problem, state):
    return {"w": state.nodes.w}


# --- builders -----------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", ["mean", "sum"])
@pytest.mark.parametrize("kind", ["squared", "lasso", "logistic"])
@pytest.mark.usefixtures("x64")
def test_scales_and_node_weights(kind, scale):
    """The loss of a node is its weight times the mean or the sum over its samples."""
    features, targets = ragged()
    targets = [np.where(y > 0, 1.0, -1.0) for y in targets]
    weights = np.array([1.0, 0.5, 3.0, 7.0])
    if kind == "logistic":
        problem = networked_logistic(chain(4), features, targets, scale=scale, node_weights=weights)
        assert isinstance(problem.local, LogisticLoss)
    else:
        options = {"l1": 0.7} if kind == "lasso" else {}
        problem = networked_regression(
            chain(4), features, targets, scale=scale, node_weights=weights, ridge=0.2, **options
        )
    w = np.random.default_rng(1).standard_normal((4, 2))
    found = problem.values(jnp.asarray(w))
    for i, (x, y) in enumerate(zip(features, targets, strict=True)):
        each = np.logaddexp(0, -y * (x @ w[i])) if kind == "logistic" else (x @ w[i] - y) ** 2
        wanted = weights[i] * (each.mean() if scale == "mean" else each.sum())
        if kind != "logistic":
            wanted += 0.2 * w[i] @ w[i]
        if kind == "lasso":
            wanted += 0.7 * np.abs(w[i]).sum()
        assert float(found[i]) == pytest.approx(wanted, rel=1e-12)


def test_regularisers_may_differ_from_node_to_node():
    features, targets = ragged()
    problem = networked_regression(
        chain(4),
        features,
        targets,
        ridge=np.array([0.0, 1.0, 2.0, 3.0]),
        l1=np.arange(4.0),
        accessible=SOME,
        inner_steps=7,
    )
    assert isinstance(problem.local, LassoLoss)
    np.testing.assert_allclose(problem.local.smooth.ridge, [0, 0, 2, 3])
    np.testing.assert_allclose(problem.local.l1, [0, 0, 2, 3])
    assert problem.local.steps == 7
    assert networked_regression(chain(4), features, targets, l1=0.0).local.steps == 200


@pytest.mark.kin(2)
@pytest.mark.parametrize("build", [networked_regression, networked_logistic])
@pytest.mark.parametrize("nothing", ["nan", "empty", "wide", "short"])
@pytest.mark.usefixtures("x64")
def test_data_that_are_not_accessible_are_not_looked_at(build, nothing):
    features, targets = ragged()
    targets = [np.where(y > 0, 1.0, -1.0) for y in targets]
    clean = build(chain(4), features, targets, accessible=SOME)
    hidden = {
        "nan": (np.full((1, 2), np.nan), np.full(1, np.nan)),
        "empty": ([], []),
        "wide": (np.ones((9, 5)), np.ones(9)),
        "short": (np.ones((3, 2)), np.zeros(1)),
    }[nothing]
    features[1], targets[1] = hidden
    problem = build(chain(4), features, targets, accessible=SOME)
    for one, other in zip(jax.tree.leaves(problem), jax.tree.leaves(clean), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(problem.accessible, SOME)
    np.testing.assert_array_equal(trajectory(problem), trajectory(clean))
    w = jnp.ones((4, 2))
    assert problem.values(w)[1] == 0
    np.testing.assert_array_equal(problem.gradients(w)[1], 0)
    np.testing.assert_array_equal(problem.minimizers()[1], 0)


def square_loss(w, x, y):
    return (jnp.sum(x * w) - y) ** 2


def test_training_takes_arrays(dtype):
    rng = np.random.default_rng(0)
    x, y = (jnp.asarray(rng.standard_normal(s), dtype) for s in ((3, 4, 2), (3, 4)))
    present = np.array([[1, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 1]], bool)
    problem = networked_training(
        chain(3),
        x,
        y,
        square_loss,
        np.array([1.0, -1.0]),
        present=present,
        accessible=np.array([True, False, True]),
        rate=0.3,
        steps=4,
        solo_steps=9,
        warm=False,
        anchored=False,
    )
    assert isinstance(problem.local, TrainedLoss)
    np.testing.assert_allclose(
        problem.local.weights, [[0.5, 0.5, 0, 0], [0, 0, 0, 0], [0, 0, 0, 1]]
    )
    np.testing.assert_array_equal(problem.start, [[1, -1]] * 3)
    for leaf in (problem.start, problem.local.rate, problem.local.anchor, problem.local.weights):
        assert leaf.dtype == dtype
    assert problem.local.anchor == 0
    assert not problem.local.warm
    assert (problem.local.steps, problem.local.solo_steps) == (4, 9)
    own = networked_training(chain(3), x, y, square_loss, rng.standard_normal((3, 2)))
    assert own.local.anchor == 1
    assert own.local.warm
    assert own.local.optimizer is optax.sgd
    np.testing.assert_allclose(own.local.weights, 0.25)


# --- mistakes -----------------------------------------------------------------------------------


def regression(features=None, targets=None, **options):
    x, y = ragged()
    return networked_regression(
        chain(4), x if features is None else features, y if targets is None else targets, **options
    )


def swapped(index, value, which=0):
    """The ragged features (or targets) with those of one node exchanged."""
    parts = ragged()[which]
    parts[index] = value
    return parts


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"features": swapped(2, np.ones((5, 3)))},
            r"features\[2\] must have shape \(any, 2\), but it has \(5, 3\)",
        ),
        ({"scale": "median"}, "scale must be one of 'mean' and 'sum', but it is 'median'"),
        ({"accessible": np.zeros(4, bool)}, "accessible must mark at least one node"),
        (
            {"accessible": np.ones(4)},
            r"accessible must be True or False, but its dtype is float32\.",
        ),
        (
            {"node_weights": np.array([1.0, 0.0, 1.0, 1.0])},
            r"node_weights must be greater than 0, but it is \[1\., 0\., 1\., 1\.\]\.",
        ),
    ],
)
def test_mistakes_in_regression_get_a_sentence(options, sentence):
    with pytest.raises(InputError, match=sentence):
        regression(**options)


@pytest.mark.parametrize(
    ("targets", "sentence"),
    [
        (
            [0.0, 1.0, 1.0],
            r"targets must hold -1 and 1, but entry \(0, 0\) is 0;",
        ),
        (
            [1.0, -1.0, 2.0],
            r"targets must hold -1 and 1, but entry \(0, 2\) is 2;",
        ),
    ],
)
def test_labels_are_minus_one_and_one(targets, sentence):
    features, labels = ragged()
    labels = [np.sign(y) for y in labels]
    labels[0] = np.array(targets)
    with pytest.raises(InputError, match=sentence):
        networked_logistic(chain(4), features, labels)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"present": np.ones((3, 3), bool)},
            r"present must have shape \(3, 4\), but it has \(3, 3\)",
        ),
        (
            {"present": np.arange(3)[:, None] * np.ones((1, 4)) > 0},
            "present must hold a sample of every node, but node 0 has none; mark it as not",
        ),
    ],
)
def test_mistakes_in_training_get_a_sentence(options, sentence):
    arguments = {"features": np.ones((3, 4, 2)), "targets": np.ones((3, 4)), "start": np.ones(2)}
    arguments |= options
    with pytest.raises(InputError, match=sentence):
        networked_training(chain(3), sample_loss=square_loss, **arguments)


def test_training_data_that_are_not_accessible_may_be_nan():
    """As in regression: what is not accessible is not looked at."""
    x, y = np.ones((3, 4, 2)), np.ones((3, 4))
    x[1], y[1] = np.nan, np.nan
    reached = np.array([True, False, True])
    problem = networked_training(chain(3), x, y, square_loss, np.ones(2), accessible=reached)
    w = jnp.ones((3, 2))
    assert np.all(np.isfinite(problem.values(w)))
    assert np.all(np.isfinite(problem.gradients(w)))
    assert problem.values(w)[1] == 0


# --- random draws -------------------------------------------------------------------------------

TRUTH = np.where(np.arange(400)[:, None] < 200, [2.0, 2.0], [-2.0, 2.0])


@pytest.mark.thorough
def test_draws_without_noise_are_exact(dtype):
    problem = draw_networked_regression(
        jax.random.key(0), chain(5), np.asarray(TRUTH[198:203], dtype), samples=3
    )
    assert np.all(problem.accessible)
    for leaf in jax.tree.leaves((problem.local, problem.start, problem.truth)):
        assert leaf.dtype == dtype
    tolerance = 1e-12 if dtype == "float64" else 1e-4
    exact = jax.jit(lambda p: (p.values(p.truth), p.minimizers()))
    values, alone = exact(problem)
    np.testing.assert_allclose(values, 0, atol=tolerance)
    np.testing.assert_allclose(alone, problem.truth, atol=tolerance)


# --- other accessible nodes ---------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("options", [{}, {"scale": "sum"}, {"ridge": 0.3}])
@pytest.mark.usefixtures("x64")
def test_other_access_is_building_anew(options):
    features, targets = ragged()
    whole = networked_regression(chain(4), features, targets, **options)
    changed = with_access(whole, SOME)
    anew = networked_regression(chain(4), features, targets, accessible=SOME, **options)
    np.testing.assert_array_equal(changed.accessible, anew.accessible)
    np.testing.assert_allclose(trajectory(changed), trajectory(anew), rtol=0, atol=1e-13)
    w = jnp.asarray(np.random.default_rng(0).standard_normal((4, 2)))
    for one, other in (
        (changed.values(w), anew.values(w)),
        (changed.gradients(w), anew.gradients(w)),
        (changed.minimizers(), anew.minimizers()),
        (changed.local.curvature(), anew.local.curvature()),
        (changed.local.gram(), anew.local.gram()),
        (changed.local.conjugates(w, 3.0), anew.local.conjugates(w, 3.0)),
        (changed.local.typical_norm(), anew.local.typical_norm()),
    ):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)
    # Nothing but access changes.
    np.testing.assert_array_equal(changed.local.basis, whole.local.basis)
    assert changed.graph is whole.graph


@pytest.mark.parametrize("options", [{}, {"scale": "sum"}, {"ridge": 0.3}])
@pytest.mark.usefixtures("x64")
def test_node_weights_may_come_later(options):
    features, targets = ragged()
    weights = np.array([1.0, 0.3, 4.0, 9.0])
    whole = networked_regression(chain(4), features, targets, **options)
    changed = with_access(whole, SOME, weights)
    anew = networked_regression(
        chain(4), features, targets, accessible=SOME, node_weights=weights, **options
    )
    np.testing.assert_allclose(trajectory(changed), trajectory(anew), rtol=0, atol=1e-12)
    w = jnp.asarray(np.random.default_rng(0).standard_normal((4, 2)))
    np.testing.assert_allclose(changed.values(w), anew.values(w), rtol=1e-12)
    np.testing.assert_allclose(changed.local.curvature(), anew.local.curvature(), rtol=1e-12)


def test_access_of_other_losses_gets_a_sentence():
    features, targets = ragged()
    for problem in (
        networked_regression(chain(4), features, targets, l1=0.1),
        networked_logistic(chain(4), features, [np.sign(y) for y in targets]),
    ):
        name = type(problem.local).__name__
        sentence = f"problem must have a squared loss, but it has {name}; build the problem anew"
        with pytest.raises(InputError, match=sentence):
            with_access(problem, SOME)


def test_access_cannot_be_added_where_the_data_were_left_out():
    """The data of a node that was not accessible are gone."""
    features, targets = ragged()
    problem = networked_regression(chain(4), features, targets, accessible=SOME)
    with pytest.raises(InputError, match="accessible"):
        with_access(problem, np.ones(4, bool))


# --- the interface ------------------------------------------------------------------------------


@pytest.mark.thorough
def test_single_precision_in_a_double_session():
    """Data in float32 stay so where float64 is enabled, whatever the weights of the graph."""
    features, targets = ragged()
    with jax.enable_x64(True), jax.numpy_dtype_promotion("standard"):
        graph = chain(4)
        assert graph.weights.dtype == np.float64
        problem = networked_regression(
            graph, [x.astype(np.float32) for x in features], [y.astype(np.float32) for y in targets]
        )
        solver = gtv_primal_dual(problem, 0.3, ratio=1.0)
        result = run(solver, problem, jax.random.key(0), rounds=10)
        assert result.estimate.dtype == np.float32
