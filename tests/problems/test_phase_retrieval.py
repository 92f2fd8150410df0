"""Robust phase retrieval: what is built and offered, what is drawn and where it starts."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import kernels, trees
from fedjax_admm.problems._phase_retrieval import BOXES
from tests.reference import hfsad as reference

TRIALS = 200
SNRS = (20.0, -20.0)
STEP = np.array([0.01, 0.1, 1.0] * 10)


def small(box="clip", clients=30, dim=3, seed=0):
    """Clients on both sides of every kink, in a box that binds for many of them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(clients, dim)) * (rng.uniform(size=(clients, dim)) < 0.8)
    y = rng.normal(size=clients) * 3
    return fa.problems.phase_retrieval(x, y, start=np.ones(dim), radius=0.8, box=box)


prox = jax.jit(lambda problem, points, step: problem.prox(points, step, ())[0])


def points_of(problem, seed=1, scale=1.0):
    return scale * np.random.default_rng(seed).normal(size=(problem.num_clients, problem.dim))


# --- what is built ---


@pytest.mark.parametrize("box", BOXES)
def test_results_keep_the_dtype(box, x64):
    """Float32 data in a session with float64: strict promotion refuses any mixture."""
    problem = fa.problems.phase_retrieval(
        np.eye(2, dtype=np.float32), [1, 4], start=[1, 0], box=box
    )
    points, ones = problem.x, jnp.ones(2, jnp.float32)
    found = jax.eval_shape(
        lambda problem: {
            "values": problem.values(points),
            "gradients": problem.gradients(points),
            "smoothed_gradients": problem.smoothed_gradients(points, ones),
            "prox": problem.prox(points, ones, problem.prox_memory(points))[0],
            "project": problem.project(points),
        },
        problem,
    )
    assert {part.dtype for part in found.values()} == {jnp.dtype("float32")}
    assert found.pop("values").shape == (2,)
    assert {part.shape for part in found.values()} == {(2, 2)}


def test_builders_can_be_mapped(x64):
    """Under vmap the values cannot be looked at, and the checks on them step aside."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 60, 5)), rng.uniform(1, 2, (2, 60))
    tree = trees.from_counts([20, 40])
    starts = jax.jit(jax.vmap(lambda x, y: fa.problems.phase_retrieval(x, y, tree).start))(x, y)
    for found, *data in zip(starts, x, y, strict=True):
        wanted = reference.spectral_start(*data)
        np.testing.assert_allclose(up_to_sign(found, wanted), wanted, rtol=1e-8)


X, Y = np.ones((3, 2)), np.ones(3)


def build(x=X, y=Y, *args, **options):
    return fa.problems.phase_retrieval(x, y, *args, **options)


def draw(**options):
    return fa.problems.draw_phase_retrieval(jax.random.key(0), **options)


@pytest.mark.parametrize(
    ("mistake", "sentence"),
    [
        (
            lambda: build(X, Y, trees.star(2)),
            "tree must have one leaf per client of the data (3), but it has 2.",
        ),
        (
            lambda: build(start=[0, 0]),
            "start must not be zero, where every loss is stationary (a spectral one "
            "is, where x or y are); give another one.",
        ),
    ],
)
def test_mistakes_get_a_sentence(mistake, sentence):
    with pytest.raises(fa.InputError) as caught:
        mistake()
    assert str(caught.value) == sentence


# --- what a problem offers ---


def test_values_are_the_losses_at_the_clients_own_points(x64):
    problem = small()
    points = points_of(problem)
    rows = zip(points, problem.x, problem.y, strict=True)
    losses = [abs(y - (x @ model) ** 2) for model, x, y in rows]
    np.testing.assert_allclose(problem.values(points), losses, rtol=1e-13)


def test_gradients_are_derivatives_where_there_are_any(x64):
    problem = small()
    points = jnp.asarray(points_of(problem))
    wanted = jax.grad(lambda points: jnp.sum(problem.values(points)))(points)
    np.testing.assert_allclose(problem.gradients(points), wanted, rtol=1e-12)


def test_gradients_at_the_kinks_are_zero():
    problem = fa.problems.phase_retrieval([[2, 0], [0, 3], [1, 1]], [4, -1, 1], start=[1, 1])
    exact = jnp.array([[1.0, 7.0], [5.0, 0.0], [3.0, -2.0]])
    np.testing.assert_array_equal(problem.gradients(exact), np.zeros((3, 2)))
    np.testing.assert_array_equal(problem.smoothed_gradients(exact, jnp.ones(3)), np.zeros((3, 2)))


def test_smoothed_gradients_are_those_of_the_smoothed_losses(x64):
    """Against the NumPy reference, and against finite differences of the smoothed losses."""
    problem = small()
    points = points_of(problem)
    mu = np.tile([1e-6, 0.3, 20.0], 10)
    found = np.asarray(problem.smoothed_gradients(points, mu))
    rows = list(zip(points, np.asarray(problem.x), np.asarray(problem.y), mu, strict=True))
    wanted = [reference.phase_gradient(w, x, float(y), m) for w, x, y, m in rows]
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)
    size = 1e-6
    for gradient, (w, x, y, m) in zip(found, rows, strict=True):
        for axis in range(3):
            ends = [
                reference.smoothed_abs(float(y - (x @ (w + side * np.eye(3)[axis])) ** 2), m)
                for side in (size, -size)
            ]
            slope = (ends[0] - ends[1]) / (2 * size)
            assert gradient[axis] == pytest.approx(slope, rel=1e-6, abs=1e-6)


def test_each_box_has_its_kernel(x64):
    points = points_of(small(), scale=1.5)
    found = {box: np.asarray(prox(small(box), points, STEP)) for box in BOXES}
    problem = small()
    row = (points, STEP, problem.x, problem.y)
    free = jax.jit(kernels.prox_phase_residual)(*row)
    boxed = jax.jit(kernels.prox_phase_residual_box)(*row, 0.8)
    np.testing.assert_allclose(found["none"], free, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found["clip"], np.clip(free, -0.8, 0.8), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found["exact"], boxed, rtol=1e-12, atol=1e-14)
    assert np.max(np.abs(found["exact"] - found["clip"])) > 0.1
    wanted = [
        reference.phase_prox(v, float(step), x, float(y), 0.8)
        for v, step, x, y in zip(points, STEP, np.asarray(problem.x), problem.y, strict=True)
    ]
    np.testing.assert_allclose(found["clip"], wanted, rtol=1e-12, atol=1e-14)


# --- the spectral start ---

spectral = jax.jit(fa.problems.spectral_start)


def up_to_sign(found, wanted):
    found = np.asarray(found)
    return found if found @ wanted >= 0 else -found


def test_spectral_start_equals_the_reference(x64):
    for trial in range(6):
        snr = SNRS[trial % 2]
        x, y, _ = reference.phase_trial(0, trial, snr, clusters=3, clients=20, dim=5)
        wanted = reference.spectral_start(x, y)
        np.testing.assert_allclose(up_to_sign(spectral(x, y), wanted), wanted, rtol=1e-8)


@pytest.mark.parametrize("positive", [0, 6, 29])
def test_spectral_start_where_the_median_is_negative(positive, dtype):
    """The mean of |y| stands in: the start is finite, not zero, and of that length."""
    rng = np.random.default_rng(positive)
    x = rng.normal(size=(60, 5)).astype(dtype)
    y = np.where(np.arange(60) < positive, 1, -1) * rng.exponential(size=60)
    assert np.median(y) < 0
    start = spectral(x, y.astype(dtype))
    assert start.dtype == dtype
    assert np.all(np.isfinite(start))
    level = np.mean(np.abs(y))
    assert np.median(np.square(x @ start)) == pytest.approx(level, rel=1e-5)
    if positive:  # otherwise no direction is better than another
        scale = 1 / np.sqrt(np.mean(x**2, 0))
        moment = (x.T * np.clip(y, 0, 3 * level)) @ x
        top = scale * np.linalg.eigh(scale[:, None] * moment * scale)[1][:, -1]
        wanted = top * np.sqrt(level / np.median(np.square(x @ top)))
        np.testing.assert_allclose(up_to_sign(start, wanted), wanted, rtol=1e-3, atol=1e-4)


def test_spectral_start_is_zero_where_nobody_measures(dtype):
    x = np.random.default_rng(0).normal(size=(60, 5))
    y = (x[:, [0, 2, 3]] @ [1, -2, 3]) ** 2
    wanted = np.zeros(5)
    wanted[[0, 2, 3]] = reference.spectral_start(x[:, [0, 2, 3]], y)
    x[:, [1, 4]] = 0
    start = spectral(x.astype(dtype), y.astype(dtype))
    np.testing.assert_allclose(up_to_sign(start, wanted), wanted, rtol=1e-4)


# --- what is drawn ---


@pytest.fixture(scope="module")
def draws():
    """The same keys at both SNRs with all starts, in float64: problems (trials, SNRs, ...)."""

    def draw(key, snr):
        def once(**options):
            return fa.problems.draw_phase_retrieval(jax.random.clone(key), snr, **options)

        return once(), once(signed=True, start="near"), once(start="random")

    batched = jax.jit(jax.vmap(jax.vmap(draw, (None, 0)), (0, None)))
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(7), TRIALS)
        return jax.tree.map(np.asarray, batched(keys, jnp.array(SNRS)))


@pytest.fixture(scope="module")
def drawn(draws):
    """Trials with the defaults."""
    return with_noise(draws[0])


@pytest.fixture(scope="module")
def signed(draws):
    """The same trials with signed noise, and a start near the signal."""
    return with_noise(draws[1])


def with_noise(problem):
    projection = np.sum(problem.x * problem.truth[..., None, :], -1) ** 2
    parts = {name: getattr(problem, name) for name in ("x", "y", "truth", "start")}
    return SimpleNamespace(**parts, projection=projection, noise=problem.y - projection)


@pytest.mark.thorough
def test_the_signal_has_eight_entries_anywhere(drawn):
    present = drawn.truth[:, 0] != 0
    np.testing.assert_array_equal(np.sum(present, 1), 8)
    share = 8 / 25
    error = np.sqrt(share * (1 - share) / TRIALS)
    assert np.max(np.abs(np.mean(present, 0) - share)) < 4 * error
    entries = drawn.truth[:, 0][present]
    assert np.mean(entries) == pytest.approx(0, abs=4 / np.sqrt(8 * TRIALS))
    assert np.mean(entries**2) == pytest.approx(1, abs=4 * np.sqrt(2 / (8 * TRIALS)))


@pytest.mark.thorough
def test_vectors_keep_twenty_entries_the_same_within_a_cluster(drawn):
    present = (drawn.x[:, 0] != 0).reshape(TRIALS, 5, 50, 25)
    kept = present[:, :, 0]
    np.testing.assert_array_equal(present, np.broadcast_to(kept[:, :, None], present.shape))
    np.testing.assert_array_equal(np.sum(kept, -1), 20)
    error = np.sqrt(0.8 * 0.2 / (5 * TRIALS))
    assert np.max(np.abs(np.mean(kept, (0, 1)) - 0.8)) < 4 * error
    equal = [np.all(kept[:, a] == kept[:, b], -1) for a in range(5) for b in range(a)]
    assert np.mean(equal) < 0.01  # one in 53130 by chance
    entries = drawn.x[:, 0].reshape(TRIALS, 5, 50, 25)[present]
    assert np.mean(entries) == pytest.approx(0, abs=4 / np.sqrt(entries.size))
    assert np.mean(entries**2) == pytest.approx(1, abs=4 * np.sqrt(2 / entries.size))


def test_with_one_key_the_snr_scales_the_noise_and_nothing_else(drawn):
    np.testing.assert_array_equal(drawn.x[:, 0], drawn.x[:, 1])
    np.testing.assert_array_equal(drawn.truth[:, 0], drawn.truth[:, 1])
    # Beside large intensities small noise keeps fewer digits.
    np.testing.assert_allclose(drawn.noise[:, 1], 100 * drawn.noise[:, 0], rtol=1e-9, atol=1e-10)


def test_the_noise_has_its_moments(drawn):
    """In units of 1 / rate: exponential, with ten times the mean in one case in ten."""
    rate = np.sqrt(21.8 / np.mean(drawn.projection[:, 0], -1)) * 10
    unit = drawn.noise[:, 0] * rate[:, None]
    assert np.min(unit) > -1e-9
    count = unit.size
    assert np.mean(unit) == pytest.approx(1.9, abs=4 * np.sqrt((21.8 - 1.9**2) / count))
    fourth = 0.9 * 24 + 0.1 * 24e4
    assert np.mean(unit**2) == pytest.approx(21.8, abs=4 * np.sqrt((fourth - 21.8**2) / count))
    for level in (0.1, 1.0, 3.0, 10.0, 40.0):
        beyond = 0.9 * np.exp(-level) + 0.1 * np.exp(-level / 10)
        error = np.sqrt(beyond * (1 - beyond) / count)
        assert np.mean(unit > level) == pytest.approx(beyond, abs=4 * error)


@pytest.mark.parametrize("index", [0, 1])
def test_the_snr_is_that_of_the_definition(index, drawn):
    """Mean (x^T w)^2 over mean noise^2, in expectation: averaged as noise over signal."""
    ratio = np.mean(drawn.noise[:, index] ** 2, -1) / np.mean(drawn.projection[:, index], -1)
    ratio = ratio * 10 ** (SNRS[index] / 10)
    fourth = 0.9 * 24 + 0.1 * 24e4
    error = np.sqrt((fourth / 21.8**2 - 1) / (250 * TRIALS))
    assert np.mean(ratio) == pytest.approx(1, abs=4 * error)


def test_signed_noise_has_the_same_sizes_and_random_signs(drawn, signed):
    np.testing.assert_array_equal(signed.x, drawn.x)
    np.testing.assert_allclose(np.abs(signed.noise), drawn.noise, rtol=1e-9, atol=1e-10)
    positive = signed.noise[:, 0] > 0
    np.testing.assert_array_equal(positive, signed.noise[:, 1] > 0)
    assert np.mean(positive) == pytest.approx(0.5, abs=2 / np.sqrt(positive.size))
    large = drawn.noise[:, 0] > np.median(drawn.noise[:, 0])
    assert np.mean(positive[large]) == pytest.approx(0.5, abs=2 / np.sqrt(np.sum(large)))


# --- where it starts ---


@pytest.mark.thorough
def test_near_starts_are_at_their_distance_in_any_direction(signed):
    start, truth = signed.start[:, 0], signed.truth[:, 0]
    away = (start - truth) / np.linalg.norm(truth, axis=-1, keepdims=True)
    np.testing.assert_allclose(np.linalg.norm(away, axis=-1), 0.3, rtol=1e-12)
    np.testing.assert_allclose(reference.relative_error(start, truth), 0.09, rtol=1e-12)
    error = 0.3 / np.sqrt(25 * TRIALS)  # of one entry's mean
    assert np.max(np.abs(np.mean(away, 0))) < 4 * error
    assert np.mean(away @ np.ones(25)) == pytest.approx(0, abs=4 * error * 5)
    np.testing.assert_array_equal(signed.start[:, 1], start)


def test_random_starts_are_standard_normal(draws):
    start, truth = draws[2].start[:, 0], draws[2].truth[:, 0]
    assert np.mean(start) == pytest.approx(0, abs=4 / np.sqrt(start.size))
    assert np.mean(start**2) == pytest.approx(1, abs=4 * np.sqrt(2 / start.size))
    # It knows nothing of the signal.
    assert np.mean(start * truth) == pytest.approx(0, abs=4 * np.sqrt(8 / 25 / start.size))
    np.testing.assert_array_equal(draws[2].start[:, 1], start)


@pytest.mark.parametrize(("index", "wanted", "recorded"), [(0, 0.414, 0.363), (1, 1.84, 1.67)])
def test_spectral_starts_are_as_far_off_as_those_of_the_reference(index, wanted, recorded, drawn):
    """`wanted` is the mean of 3000 draws of the reference, `recorded` that of its first 50."""
    assert np.all(np.isfinite(drawn.start))
    errors = reference.relative_error(drawn.start[:, index], drawn.truth[:, index])
    deviation = np.std(errors)
    assert np.mean(errors) == pytest.approx(wanted, abs=4 * deviation / np.sqrt(TRIALS))
    both = deviation * np.sqrt(1 / TRIALS + 1 / 50)
    assert np.mean(errors) == pytest.approx(recorded, abs=4 * both)
