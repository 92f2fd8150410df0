"""Ranges with offsets, gaps, clocks and paths: their maps, and solvers on them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from tests.reference import fsmdm as constants, range_offsets as reference

pytestmark = pytest.mark.usefixtures("x64")

CASES = {
    "blocked paths": {"offset_bounds": (0.0, np.inf), "offset_scale": 3.0},
    "several ranges": {},
    "prior": {"offset_scale": 2.0},
    "bounds": {"offset_bounds": (-0.5, 1.0)},
}
EACH = [
    pytest.param(case, path, marks=[] if number == 0 and path else [pytest.mark.thorough])
    for path in (False, True)
    for number, case in enumerate(CASES)
]


def drawn(path, seed=0, clients=5, times=4, ranges=3, **options):
    """Return a problem with gaps, and its truth."""
    generator = np.random.default_rng(seed)
    times = times if path else 1
    anchors = generator.uniform(-30, 30, (clients, 2))
    target = generator.uniform(-10, 10, (1, 2)) + np.arange(times)[:, None] * [2.0, 1.0]
    offset = generator.uniform(0, 3, clients)
    exact = np.linalg.norm(target[None] - anchors[:, None], axis=-1) + offset[:, None]
    distances = exact[..., None] + 0.3 * generator.standard_normal((clients, times, ranges))
    distances[generator.random(distances.shape) < 0.2] = np.nan
    problem = fa.problems.localization(
        anchors,
        distances if path else distances[:, 0],
        sigma=generator.uniform(0.5, 1.5, clients),
        target=target if path else target[0],
        path=path,
        **options,
    )
    return problem, target, offset


def priors_of(problem):
    """Return what is known of each offset, for the reference."""
    if problem.offsets is None:
        return [None] * problem.num_clients
    names = ("centre", "precision", "lower", "upper")
    return [
        {name: float(getattr(problem.offsets, name)[i]) for name in names}
        for i in range(problem.num_clients)
    ]


@pytest.mark.parametrize(("case", "path"), EACH)
def test_both_proxes_are_those_of_the_loop(case, path):
    problem, _, _ = drawn(path, **CASES[case])
    points = 20 * jax.random.normal(jax.random.key(1), (5, len(problem.start)))
    step = jnp.array([0.1, 1.0, 5.0, 20.0, 3.0])
    exact, _ = problem.prox(points, step, ())
    convex = problem.prox_convex_part(points, step)
    for mine, pull in ((exact, 0 * problem.steepness), (convex, problem.steepness)):
        for i, prior in enumerate(priors_of(problem)):
            parts = (problem.anchors, problem.ranges, problem.weights, step, pull)
            rows = np.asarray(points[i]).reshape(-1, 2)
            theirs, _ = reference.prox(rows, *(np.asarray(part[i]) for part in parts), prior)
            np.testing.assert_allclose(mine[i], theirs.ravel(), atol=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize(("case", "path"), EACH)
def test_no_point_and_no_offset_costs_less_than_the_prox(case, path):
    """The cost with the offset as a variable, near the minimiser and far from it."""
    problem, _, _ = drawn(path, seed=3, **CASES[case])
    points = 20 * jax.random.normal(jax.random.key(2), (5, len(problem.start)))
    step = jnp.full(5, 4.0)
    best, _ = problem.prox(points, step, ())

    def cost(model, offset):
        rows = model.reshape(5, -1, 1, 2) - problem.anchors[:, None, None]
        residual = jnp.linalg.norm(rows, axis=-1) + offset[:, None, None] - problem.ranges
        total = jnp.sum(problem.weights * jnp.abs(residual), (1, 2))
        if problem.offsets is not None:
            total += problem.offsets.precision * (offset - problem.offsets.centre) ** 2 / 2
        return total + jnp.sum((model - points) ** 2, 1) / (2 * step)

    least = cost(best, problem.offsets_at(best))
    np.testing.assert_allclose(
        least, problem.values(best) + jnp.sum((best - points) ** 2, 1) / (2 * step), rtol=1e-12
    )
    keys = jax.random.split(jax.random.key(3), 3)
    size = 10 ** jax.random.uniform(keys[0], (4000, 1, 1), minval=-4, maxval=1.5)
    models = best[None] + size * jax.random.normal(keys[1], (4000, *best.shape))
    offsets = jnp.zeros((4000, 5))
    if problem.offsets is not None:
        offsets = problem.offsets_at(best)[None] + size[..., 0] * jax.random.normal(
            keys[2], (4000, 5)
        )
        offsets = jnp.clip(offsets, problem.offsets.lower[None], problem.offsets.upper[None])
    assert jnp.all(jax.vmap(cost)(models, offsets) >= least[None] - 1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize(("case", "path"), EACH)
def test_gradients_are_derivatives_of_the_losses(case, path):
    problem, _, _ = drawn(path, seed=4, **CASES[case])
    points = 15 * jax.random.normal(jax.random.key(4), (5, len(problem.start)))
    direction = jax.random.normal(jax.random.key(5), points.shape)
    size = 1e-6
    both = problem.values(points + size * direction), problem.values(points - size * direction)
    slopes = jnp.sum(problem.gradients(points) * direction, 1)
    np.testing.assert_allclose(slopes, (both[0] - both[1]) / (2 * size), atol=1e-6)


@pytest.mark.parametrize("path", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_trajectory_of_fsmdm_is_that_of_the_loop(path):
    problem, _, _ = drawn(path, offset_scale=2.0)
    names = ("anchors", "ranges", "weights", "steepness", "start")
    arrays = {name: np.asarray(getattr(problem, name)) for name in names}
    truth = reference.fsmdm(
        arrays | {"priors": priors_of(problem)},
        rounds=50,
        server=lambda model, step: model / (1 + 0.01 * step),
        **constants.TUNED,
    )
    solver = fa.solvers.fsmdm("tuned", regularizer=fa.penalties.squared_l2(0.01))
    trace = fa.run(solver, problem, jax.random.key(0), rounds=50, measure=server_model).trace
    np.testing.assert_allclose(trace["model"], truth, atol=1e-9)


def server_model(solver, problem, state):
    return {"model": solver.estimate(state)}


@pytest.mark.thorough
def test_the_plain_problem_is_a_case_of_the_general_one():
    """One range without an offset has the losses and both maps of the paper's problem."""
    plain = fa.problems.draw_localization(
        jax.random.key(0), fa.problems.cauchy_noise(1.0), clients=6
    )
    general = fa.problems.localization(
        plain.anchors, plain.distances[:, None], start=plain.start, target=plain.target
    )
    assert isinstance(general, fa.problems.RangeLocalization)
    points = 20 * jax.random.normal(jax.random.key(1), (6, 3))
    step, mu = jnp.full(6, 3.0), jnp.full(6, 5.0)
    for name, arguments in (
        ("values", (points,)),
        ("gradients", (points,)),
        ("prox_convex_part", (points, step)),
        ("prox_concave_part", (points, step, mu)),
    ):
        both = (getattr(problem, name)(*arguments) for problem in (general, plain))
        np.testing.assert_allclose(*both, atol=1e-12, err_msg=name)


def test_a_missing_range_costs_that_range():
    problem, _, _ = drawn(False, offset_scale=2.0)
    missing = ~np.asarray(problem.measured)
    assert missing.any()
    assert np.all(np.asarray(problem.residuals(problem.start))[missing] == 0)
    estimate = fa.run(fa.solvers.fsmdm("tuned"), problem, jax.random.key(0), rounds=20).estimate
    assert np.all(np.isfinite(estimate))


@pytest.mark.parametrize("path", [pytest.param(False, marks=pytest.mark.thorough), True])
def test_differences_of_ranges_find_the_target_and_the_clock(path):
    """Exact differences to the first anchor: its distance is minus the common offset."""
    generator = np.random.default_rng(5)
    anchors = generator.uniform(-30, 30, (7, 2))
    target = np.array([[4.0, -9.0], [6.0, -7.0]])[: 2 if path else 1]
    exact = np.linalg.norm(target[None] - anchors[:, None], axis=-1)
    differences = exact - exact[:1]
    problem = fa.problems.localization(
        anchors, differences if path else differences[:, 0], clock=True, path=path
    )
    solver = fa.solvers.fed_admm(rho=0.3, local=fa.solvers.local_prox())
    model = fa.run(solver, problem, jax.random.key(0), rounds=400).estimate
    np.testing.assert_allclose(problem.positions(model), target, atol=1e-3)
    np.testing.assert_allclose(problem.clock_offsets(model), -exact[0], atol=1e-3)


def test_known_scales_are_divided_out():
    problem, _, _ = drawn(False, offset_scale=2.0)
    scale = np.linspace(0.9, 1.2, 5)
    scaled = fa.problems.localization(
        problem.anchors,
        np.where(problem.measured, problem.ranges, np.nan)[:, 0] * scale[:, None],
        scale=scale,
    )
    np.testing.assert_allclose(
        scaled.ranges, np.where(problem.measured, problem.ranges, 0), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"offset_bounds": (1.0, 0.0)},
            "offset_bounds must be a lower bound below an upper one, but it is (1.0, 0.0).",
        ),
        (
            {"offset_scale": 0.0},
            "offset_scale must be greater than 0, but it is 0.",
        ),
        (
            {"sigma": np.ones(4)},
            "sigma must have shape () or (3,) or (3, 2), but it has (4,).",
        ),
        (
            {"offset_centre": 1.0},
            "offset_centre is the mean of a prior, and goes with offset_scale only.",
        ),
    ],
)
def test_mistakes_get_a_sentence(options, sentence):
    anchors = [[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]]
    with pytest.raises(fa.InputError) as caught:
        fa.problems.localization(anchors, np.ones((3, 2)), **options)
    assert str(caught.value) == sentence


def test_a_path_with_a_constant_velocity_is_found_with_its_offsets():
    """Few ranges at each time, offsets of some metres: the penalty at the server ties the times."""
    generator = np.random.default_rng(7)
    anchors = generator.uniform(-30, 30, (4, 2))
    path = np.linspace([-15.0, -5.0], [15.0, 10.0], 12)
    offset = np.array([0.0, 2.0, 1.0, 3.0])
    distances = np.linalg.norm(path[None] - anchors[:, None], axis=-1) + offset[:, None]
    distances[generator.random(distances.shape) < 0.3] = np.nan
    problem = fa.problems.localization(anchors, distances, offset_scale=20.0, path=True)
    solver = fa.solvers.fed_admm(
        rho=0.1, local=fa.solvers.local_prox(), regularizer=fa.penalties.motion(12, 0.1)
    )
    model = fa.run(solver, problem, jax.random.key(0), rounds=1500).estimate
    error = np.linalg.norm(problem.positions(model) - path, axis=1)
    assert np.median(error) < 0.5
