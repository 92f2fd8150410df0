"""What the table does not ask of matrices: decompositions, equal singular values, polytopes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm.kernels as kernels
from tests.reference import prox_matrices as reference

decompose = jax.jit(kernels.svd_by_rotations)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5)], ids=str)
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_rotations_give_singular_values_and_vectors(shape, scale):
    rng = np.random.default_rng(0)
    low = rng.standard_normal((shape[0], 1)) @ rng.standard_normal((1, shape[1]))
    kinds = [rng.standard_normal(shape), np.zeros(shape), np.eye(*shape), np.ones(shape), low]
    matrices = (np.stack(kinds) * scale).astype(np.float32)
    left, values, right = (np.asarray(part, np.float64) for part in decompose(matrices))
    wide = matrices.astype(np.float64)
    wanted = np.linalg.svd(wide, compute_uv=False)
    np.testing.assert_allclose(values, wanted, rtol=1e-5, atol=1e-5 * scale)
    product = left * values[:, None] @ right.swapaxes(1, 2)
    np.testing.assert_allclose(product, wide, atol=1e-5 * scale)
    for found in (left[0], right[0], left[2], right[2]):
        np.testing.assert_allclose(found.T @ found, np.eye(3), atol=1e-5)


MAPS = {
    "nuclear": lambda v, t: kernels.prox_nuclear(v, t),
    "rank": lambda v, t: t * kernels.project_rank(v, 2),
    "spectral ball": kernels.project_spectral_ball,
    "nuclear ball": kernels.project_nuclear_ball,
    "mcp": lambda v, t: kernels.prox_spectral_mcp(v, t, 1.0, 3.0),
    "psd": lambda v, t: t * kernels.project_psd(v),
    "log det": kernels.prox_log_det,
    "stiefel": lambda v, t: t * kernels.project_stiefel(v),
    "value": lambda v, t: t * kernels.nuclear_value(v),
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", MAPS)
def test_derivatives_of_both_modes_are_finite_differences(name, x64):
    function, rng = MAPS[name], np.random.default_rng(1)
    matrix, moved = rng.standard_normal((2, 4, 4))
    there = jax.jit(function)
    along = jax.jit(lambda p, t: jax.jvp(function, p, t)[1])
    modes = jax.jit(lambda p: [way(function, (0, 1))(*p) for way in (jax.jacfwd, jax.jacrev)])
    width = 1e-6
    for step in (0.7, 2.0):
        ahead = there(matrix + width * moved, step + width)
        behind = there(matrix - width * moved, step - width)
        primals, tangents = (jnp.asarray(matrix), jnp.asarray(step)), (jnp.asarray(moved), 1.0)
        found = along(primals, tangents)
        np.testing.assert_allclose(found, (ahead - behind) / (2 * width), atol=1e-7)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), *modes(primals))


@pytest.mark.thorough
@pytest.mark.parametrize("name", MAPS)
def test_derivatives_are_finite_where_singular_values_are_equal_or_zero(name):
    special = np.stack([np.zeros((4, 4)), np.eye(4), -0.7 * np.eye(4), np.ones((4, 4))])
    special, function = special.astype(np.float32), MAPS[name]

    def slopes(v, step):
        return [mode(function, (0, 1))(v, step) for mode in (jax.jacfwd, jax.jacrev)]

    every = jax.jit(jax.vmap(slopes, (0, None)))
    for step in (0.0, 0.7):
        for found in jax.tree.leaves(every(special, np.float32(step))):
            assert np.all(np.isfinite(found))
    bent = jax.jit(jax.vmap(jax.hessian(lambda v: jnp.sum(function(v, 0.7) ** 2))))
    assert np.all(np.isfinite(bent(special)))


def test_the_derivative_at_equal_singular_values_is_the_limit(x64):
    """The threshold of 2 I is smooth there: along skew matrices it turns, by 1/2."""
    moved = np.array([[0.3, 1.0], [-0.5, 0.2]])
    slope = jax.jit(lambda t: jax.jvp(lambda v: kernels.prox_nuclear(v, 1.0), (2 * jnp.eye(2),), t))
    found = slope((jnp.asarray(moved),))[1]
    even, odd = (moved + moved.T) / 2, (moved - moved.T) / 2
    np.testing.assert_allclose(found, even + odd / 2, atol=1e-12)


def test_both_decompositions_agree_and_no_other_is_taken():
    v = jnp.asarray(np.random.default_rng(2).standard_normal((3, 4)), jnp.float32)
    one, other = (
        jax.jit(kernels.prox_nuclear, static_argnames="decomposition")(v, 0.5, decomposition=way)
        for way in ("lapack", "rotations")
    )
    np.testing.assert_allclose(one, other, atol=1e-5)
    with pytest.raises(ValueError, match="rotations"):
        kernels.prox_nuclear(v, 0.5, decomposition="qr")
    for wrong in (jnp.ones(3), jnp.ones((2, 3))):
        with pytest.raises(ValueError, match="shape"):
            kernels.project_psd(wrong)
    with pytest.raises(ValueError, match="rank"):
        kernels.project_rank(v, -1)


def test_weights_shrink_large_singular_values_less(x64):
    v = np.random.default_rng(3).standard_normal((2, 3, 2))
    weights = np.array([[[0.1, 0.7]]])
    found = jax.jit(kernels.prox_nuclear)(v, 1.0, weights)
    np.testing.assert_allclose(found, reference.prox_nuclear(v, weights), atol=1e-12)


@pytest.mark.thorough
def test_no_frame_is_lost_at_low_rank(x64):
    matrices = np.stack([np.zeros((4, 3)), np.ones((4, 3)), np.eye(4, 3) * [1.0, 0.0, 0.0]])
    found = np.asarray(jax.jit(kernels.project_stiefel)(matrices))
    np.testing.assert_allclose(found.swapaxes(1, 2) @ found, [np.eye(3)] * 3, atol=1e-12)
    inner = np.sum(found * matrices, (1, 2))
    np.testing.assert_allclose(inner, np.linalg.svd(matrices)[1].sum(-1), atol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_no_number_stays_none_and_ends(bad):
    """The other matrix of a batch does not notice."""
    v = np.ones((2, 3, 3), np.float32)
    v[0, 1, 1] = bad
    for kernel in (lambda v: kernels.prox_nuclear(v, 0.5), kernels.project_psd):
        found = np.asarray(jax.jit(kernel)(v))
        assert np.all(np.isnan(found[0]))
        assert np.all(np.isfinite(found[1]))


@pytest.mark.thorough
def test_values_are_sums_over_singular_values_and_eigenvalues(x64):
    v = np.random.default_rng(4).standard_normal((2, 3, 4))
    sizes = np.linalg.svd(v, compute_uv=False)
    for found, wanted in (
        (kernels.nuclear_value(v), sizes),
        (kernels.spectral_mcp_value(v, 1.0, 3.0), kernels.mcp_value(sizes, 1.0, 3.0)),
        (kernels.spectral_scad_value(v, 1.0, 3.0), kernels.scad_value(sizes, 1.0, 3.0)),
        (kernels.spectral_log_det_value(v, 1.0, 0.5), np.log1p(sizes / 0.5)),
    ):
        np.testing.assert_allclose(found, np.sum(wanted, -1), rtol=1e-10)
    gram = v @ v.swapaxes(1, 2)
    wanted = -np.linalg.slogdet(gram)[1]
    np.testing.assert_allclose(kernels.log_det_value(gram), wanted, rtol=1e-10)
    assert np.all(np.isinf(kernels.log_det_value(-gram)))


# --- transport polytopes ---

ROWS, COLUMNS = np.array([0.5, 1.0, 0.2]), np.array([0.4, 0.3, 0.6, 0.4])
PLANS = {"euclidean": kernels.project_transport, "entropic": kernels.project_kl_transport}
told_of_logarithms = jax.jit(kernels.with_gap(kernels.project_kl_birkhoff))


@pytest.mark.thorough
@pytest.mark.parametrize("name", PLANS)
def test_derivatives_of_plans_are_finite_differences(name, x64):
    """By the marginals along directions that keep both masses equal."""

    def plan(v, rows, columns):
        return PLANS[name](v, rows, columns)

    there, slope = jax.jit(plan), jax.jit(lambda p, t: jax.jvp(plan, p, t)[1])
    rng, width = np.random.default_rng(5), 1e-6
    for size in (0.2, 3.0):
        point = (size * rng.standard_normal((3, 4)), ROWS, COLUMNS)
        more = rng.standard_normal(4)
        moved = (rng.standard_normal((3, 4)), np.full(3, more.sum() / 3), more)
        ends = [
            there(*(p + sign * width * m for p, m in zip(point, moved, strict=True)))
            for sign in (1, -1)
        ]
        found = slope(tuple(map(jnp.asarray, point)), tuple(map(jnp.asarray, moved)))
        np.testing.assert_allclose(found, (ends[0] - ends[1]) / (2 * width), atol=1e-7)
        forward = jax.jit(jax.jacfwd(plan, (0, 1, 2)))(*point)
        backward = jax.jit(jax.jacrev(plan, (0, 1, 2)))(*point)
        for one, other in zip(forward, backward, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-9)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [7, 8])
def test_marginals_of_plans_in_blocks_have_one_derivative_in_both_directions(seed, x64):
    """Fewer than nine positive entries do not connect ten rows and columns.

    The forward and the reverse derivative are transposed to each other; along a change of the
    marginals that the blocks can carry they are that of the plan.
    """
    rng = np.random.default_rng(seed)
    v, weights = 3 * rng.normal(size=(5, 5)), rng.uniform(0.5, 1.5, (5, 5))
    rows, columns = rng.normal(size=(2, 5))

    @jax.jit
    def slopes(sums, moved):
        def plan(rows, columns):
            return kernels.project_transport(v, rows, columns)

        there, forward = jax.jvp(plan, sums, moved)
        return there, forward, jax.vjp(plan, *sums)[1](weights)

    ones = (np.ones(5), np.ones(5))
    point, forward, reverse = slopes(ones, (rows, columns))
    assert np.sum(point > 1e-9) < 9
    total = reverse[0] @ rows + reverse[1] @ columns
    np.testing.assert_allclose(np.sum(weights * forward), total, rtol=1e-9)
    moved = (rows, np.sum(forward, 0))
    width = 1e-6
    ends = [slopes(tuple(1 + sign * width * part for part in moved), moved)[0] for sign in (1, -1)]
    forward = slopes(ones, moved)[1]
    np.testing.assert_allclose(forward, (ends[0] - ends[1]) / (2 * width), atol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("name", PLANS)
def test_a_residual_tells_what_cannot_be(name):
    plan = jax.jit(kernels.with_gap(PLANS[name]))
    v = np.ones((3, 4), np.float32)
    point, missed = plan(v, ROWS.astype(np.float32), COLUMNS.astype(np.float32))
    assert missed < 1e-6
    _, missed = plan(v, ROWS.astype(np.float32), 2 * COLUMNS.astype(np.float32))
    np.testing.assert_allclose(missed, 0.6, rtol=1e-5)
    point, missed = plan(np.nan * v, ROWS.astype(np.float32), COLUMNS.astype(np.float32))
    assert np.all(np.isnan(point))
    assert np.isnan(missed)
    with pytest.raises(ValueError, match="axes"):
        PLANS[name](jnp.ones(3), 1.0, 1.0)


@pytest.mark.thorough
def test_sharp_kernels_and_empty_cells(x64):
    costs = np.random.default_rng(6).random((12, 12))
    point, missed = told_of_logarithms(-300 * costs)
    assert missed < 1e-10
    np.testing.assert_allclose(np.sum(point, 0), 1, atol=1e-10)
    allowed = np.where(np.tri(4) + np.eye(4, k=1) > 0, 0.0, -np.inf)
    point, missed = told_of_logarithms(allowed)
    assert missed < 1e-10
    assert np.all(np.asarray(point)[np.isneginf(allowed)] == 0)


# --- against a solver that knows none of the formulas ---


@pytest.mark.thorough
def test_a_solver_of_convex_problems_finds_the_same(x64):
    cvxpy = pytest.importorskip("cvxpy")
    v = 2 * np.random.default_rng(7).standard_normal((3, 3))
    x, s = cvxpy.Variable((3, 3)), cvxpy.Variable((3, 3), symmetric=True)
    near = cvxpy.sum_squares(x - v)
    flat = [cvxpy.sum(x, 1) == [0.5, 1, 1.5], cvxpy.sum(x, 0) == 1, x >= 0]
    problems = [
        (kernels.prox_nuclear(v, 0.7), x, cvxpy.normNuc(x) + near / 1.4, []),
        (kernels.project_nuclear_ball(v, 1.5), x, near, [cvxpy.normNuc(x) <= 1.5]),
        (kernels.project_spectral_ball(v, 1.5), x, near, [cvxpy.sigma_max(x) <= 1.5]),
        (kernels.project_psd(v), s, cvxpy.sum_squares(s - v), [s >> 0]),
        (kernels.project_transport(v, np.array([0.5, 1, 1.5]), 1.0), x, near, flat),
        (
            kernels.prox_log_det(v, 0.7),
            s,
            -cvxpy.log_det(s) + cvxpy.sum_squares(s - (v + v.T) / 2) / 1.4,
            [],
        ),
        (
            kernels.project_kl_transport(v, np.array([0.5, 1, 1.5]), 1.0),
            x,
            cvxpy.sum(cvxpy.kl_div(x, np.exp(v))),
            flat,
        ),
    ]
    for found, variable, objective, constraints in problems:
        cvxpy.Problem(cvxpy.Minimize(objective), constraints).solve(solver="CLARABEL")
        np.testing.assert_allclose(found, variable.value, atol=1e-4)
