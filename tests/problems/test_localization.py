"""Range localisation: what is drawn, what a problem offers, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import InputError
from fedjax_admm.problems.ranges._draws import MINIMUM_RANGE

RANDOM = np.random.default_rng(0)


def exact_distances(problem):
    return np.linalg.norm(np.asarray(problem.anchors - problem.target[None]), axis=1)


def draw(noise, clients=20_000, dim=3, seed=0, **options):
    return fa.problems.draw_localization(
        jax.random.key(seed), noise, clients=clients, dim=dim, **options
    )


@pytest.mark.kin(2)
@pytest.mark.parametrize("dim", [1, 2, 3, 4])
def test_geometry_is_uniform_in_the_cube(dim, dtype):
    problem = draw(fa.problems.no_noise(), dim=dim, half_width=7.0)
    anchors = np.asarray(problem.anchors)
    assert anchors.shape == (20_000, dim)
    assert problem.anchors.dtype == problem.distances.dtype == problem.start.dtype == dtype
    assert np.abs(anchors).max() <= 7
    np.testing.assert_allclose(anchors.mean(0), 0, atol=0.15)
    np.testing.assert_allclose(anchors.std(0), 7 / np.sqrt(3), rtol=0.02)
    exact = np.maximum(exact_distances(problem), MINIMUM_RANGE)
    np.testing.assert_allclose(problem.distances, exact, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(problem.start, np.zeros(dim))


def test_outliers_replace_ranges_with_their_probability():
    problem = draw(fa.problems.outlier_noise(0.2, largest=50.0))
    moved = np.abs(problem.distances - exact_distances(problem)) > 1e-3
    assert moved.mean() == pytest.approx(0.2, abs=0.01)
    outlying = np.asarray(problem.distances)[moved]
    assert outlying.max() <= 50
    assert outlying.mean() == pytest.approx(25, abs=0.7)


def test_a_larger_probability_only_adds_outliers():
    few, many = draw(fa.problems.outlier_noise(0.1)), draw(fa.problems.outlier_noise(0.3))
    np.testing.assert_array_equal(few.anchors, many.anchors)
    exact = exact_distances(few)
    is_few = np.abs(few.distances - exact) > 1e-3
    is_many = np.abs(many.distances - exact) > 1e-3
    assert np.all(is_many[is_few])
    np.testing.assert_array_equal(few.distances[is_few], many.distances[is_few])


def test_cauchy_errors_have_their_quartiles():
    problem = draw(fa.problems.cauchy_noise(0.5), half_width=1000.0)
    error = np.asarray(problem.distances) - exact_distances(problem)
    np.testing.assert_allclose(np.quantile(error, [0.25, 0.5, 0.75]), [-0.5, 0, 0.5], atol=0.03)


def test_gaussian_errors_have_their_deviation():
    problem = draw(fa.problems.gaussian_noise(0.5), half_width=1000.0)
    error = np.asarray(problem.distances) - exact_distances(problem)
    assert error.mean() == pytest.approx(0, abs=0.02)
    assert error.std() == pytest.approx(0.5, rel=0.03)


@pytest.mark.parametrize(
    ("noise", "sentence"),
    [
        (lambda key, d: d + RANDOM.normal(size=d.shape), "the same errors in every trial"),
        (lambda key, d: d + RANDOM.normal(), "the same errors in every trial"),
        (lambda key, d: d + np.random.default_rng(0).normal(size=d.shape), "do not come from its"),
        (
            lambda key, d: d + jax.random.normal(jax.random.key(3), d.shape),
            "do not come from its key",
        ),
        (lambda key, d: d[:3], r"must return ranges of the shape \(5,\)"),
    ],
)
def test_noise_of_ones_own_draws_by_its_key(noise, sentence):
    with pytest.raises(InputError, match=sentence):
        draw(noise, clients=5)
    laplace = lambda key, d: d + jax.random.laplace(key, d.shape)  # noqa: E731
    one, other = (draw(laplace, clients=5, seed=seed).distances for seed in (0, 1))
    assert not np.allclose(one, other)


def test_noise_of_ones_own_may_read_what_changes():
    factors = [1.0, 2.0]
    noise = lambda key, distances: factors[0] * distances  # noqa: E731
    first = draw(noise, clients=5)
    factors.pop(0)
    np.testing.assert_allclose(draw(noise, clients=5).distances, 2 * first.distances)


def test_ranges_are_never_below_a_millimetre():
    problem = draw(fa.problems.cauchy_noise(50.0))
    smallest = np.min(problem.distances)
    assert smallest == pytest.approx(MINIMUM_RANGE)
    assert np.mean(problem.distances == smallest) > 0.1


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_gradients_are_derivatives_where_there_are_any():
    problem = draw(fa.problems.cauchy_noise(1.0), clients=9)
    position = jnp.array([1.0, -2.0, 3.0])
    copies = jnp.broadcast_to(position, (9, 3))
    cost = jax.grad(lambda points: jnp.sum(problem.values(points)))
    np.testing.assert_allclose(problem.gradients(copies), cost(copies), atol=1e-12)
    np.testing.assert_allclose(problem.values(copies), np.abs(problem.residuals(position)))
    at_sensor = problem.gradients(problem.anchors)
    np.testing.assert_array_equal(at_sensor, np.zeros((9, 3)))


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_the_two_parts_make_the_cost():
    """Prox of Gamma and of minus the envelope of phi, against the functions by brute force."""
    problem = draw(fa.problems.outlier_noise(0.5), clients=6)
    points = 5 * jax.random.normal(jax.random.key(3), (6, 3))
    step, mu = jnp.full(6, 2.0), jnp.full(6, 3.0)

    def convex(x):
        return 2 * np.maximum(np.linalg.norm(x - problem.anchors, axis=1) - problem.distances, 0)

    def concave(z):
        length = np.linalg.norm(z - problem.anchors, axis=1)
        envelope = np.where(length <= 3, length**2 / 6, length - 1.5)
        return -(envelope - np.asarray(problem.distances))

    parts = (
        (convex, problem.prox_convex_part(points, step)),
        (concave, problem.prox_concave_part(points, step, mu)),
    )
    generator = np.random.default_rng(0)
    for function, found in parts:
        best = function(np.asarray(found)) + np.sum((found - points) ** 2, 1) / 4
        for scale in (0.01, 0.1, 1.0, 10.0):
            near = np.asarray(found) + scale * generator.normal(size=(500, 6, 3))
            costs = [function(x) + np.sum((x - points) ** 2, 1) / 4 for x in near]
            assert np.all(np.min(costs, 0) >= best - 1e-12)


def test_measurements_of_ones_own_start_at_the_mean_of_the_sensors():
    problem = fa.problems.localization([[0, 0], [2, 0], [1, 3]], [1, 2, 3])
    np.testing.assert_allclose(problem.start, [1, 1], rtol=1e-6)
    assert problem.target is None
    assert problem.num_clients == 3
    assert problem.dim == 2
    assert problem.values(jnp.zeros((3, 2))) == pytest.approx([1, 0, 10**0.5 - 3], rel=1e-5)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (
            lambda: fa.problems.localization(np.zeros((0, 2)), np.ones(0)),
            "anchors must hold at least one sensor, but its shape is (0, 2).",
        ),
        (
            lambda: fa.problems.localization([[0.0, 1.0], [np.nan, 2.0]], [1.0, 1.0]),
            "anchors must be finite, but entry (1, 0) is nan; remove or repair that entry.",
        ),
    ],
)
def test_mistakes_get_a_sentence(build, sentence):
    with pytest.raises(fa.InputError) as caught:
        build()
    assert str(caught.value) == sentence


def test_lengths_whose_squares_leave_the_range_are_refused():
    anchors = np.array([[0.0, 1.0], [3e16, 0.0]])
    with pytest.raises(InputError, match=r"anchors must not exceed 1e\+15 m.*larger unit"):
        fa.problems.localization(anchors, [1.0, 2.0])
