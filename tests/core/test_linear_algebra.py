"""Eigenvalues and eigenvectors, against NumPy's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm._linear_algebra import eigh_by_rotations, top_eigenvalue, top_eigenvector

vectors = jax.jit(jax.vmap(top_eigenvector))
values = jax.jit(jax.vmap(top_eigenvalue))
decompose = jax.jit(eigh_by_rotations)


def stack(rng, count=20, size=6):
    factors = rng.standard_normal((count, size, 3))  # rank 3
    return factors @ factors.swapaxes(1, 2)


def test_equals_numpy(dtype):
    matrices = stack(np.random.default_rng(0))
    wanted_values, wanted = (part[..., -1] for part in np.linalg.eigh(matrices))
    found = np.asarray(vectors(jnp.asarray(matrices, dtype)), np.float64)
    assert found.shape == wanted.shape
    found = found * np.sign(np.sum(found * wanted, -1, keepdims=True))
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(found, wanted, atol=tolerance)
    eigenvalues = values(jnp.asarray(matrices, dtype))
    assert eigenvalues.dtype == dtype
    np.testing.assert_allclose(eigenvalues, wanted_values, rtol=tolerance)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("gap", [1e-3, 1e-6, 1e-9])
def test_a_small_gap_is_told_apart(gap):
    basis = np.linalg.qr(np.random.default_rng(1).standard_normal((5, 5)))[0]
    matrix = basis @ np.diag([1, 1 - gap, 0.5, 0.1, 0]) @ basis.T
    found = np.asarray(top_eigenvector(matrix))
    assert abs(found @ basis[:, 0]) == pytest.approx(1, abs=1e-12 / gap**0.5)


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_any_scale_and_zero(scale):
    matrices = jnp.asarray(scale * stack(np.random.default_rng(2)), jnp.float32)
    found = np.asarray(vectors(matrices))
    np.testing.assert_allclose(np.linalg.norm(found, axis=-1), 1, rtol=1e-5)
    np.testing.assert_array_equal(top_eigenvector(jnp.zeros((4, 4))), np.zeros(4))


# --- all eigenvectors ---


def assert_decomposes(found, matrices, unfinished=0.0):
    """Check eigenvalues, orthogonality and the product, relative to each matrix's norm.

    `unfinished` is what rotations may have left outside the diagonal.
    """
    found_values, found_vectors = (np.asarray(part, np.float64) for part in found)
    size = matrices.shape[-1]
    tolerance = 8 * size * np.finfo(found[0].dtype).eps
    norms = np.linalg.norm(matrices, 2, axis=(-2, -1))
    gaps = np.abs(np.sort(found_values) - np.linalg.eigvalsh(matrices)).max(-1)
    assert np.all(gaps <= tolerance * norms)
    gram = found_vectors.swapaxes(-1, -2) @ found_vectors
    assert np.abs(gram - np.eye(size)).max() <= tolerance
    product = found_vectors * found_values[..., None, :] @ found_vectors.swapaxes(-1, -2)
    allowed = max(tolerance, unfinished)
    assert np.all(np.abs(product - matrices).max((-2, -1)) <= allowed * norms)


def special_matrices(size):
    """Zero, multiples of the identity, repeated eigenvalues, low rank, and wide spectra."""
    rng = np.random.default_rng(size)
    basis = np.linalg.qr(rng.standard_normal((size, size)))[0]
    spectra = [
        np.arange(size) // 2 - 1.0,  # pairs
        np.where(np.arange(size) < 1, 1.0, -1.0),  # a reflection
        np.where(np.arange(size) < size // 2, 1.0, 0.0),  # a projection
        10.0 ** -np.arange(size),
        1 + 1e-6 * np.arange(size),
    ]
    symmetric = rng.standard_normal((size, size))
    matrices = [
        np.zeros((size, size)),
        3 * np.eye(size),
        np.ones((size, size)),
        np.diag(rng.integers(-2, 3, size)).astype(float),
        np.outer(symmetric[0], symmetric[0]),
        symmetric + symmetric.T,
        *((basis * spectrum) @ basis.T for spectrum in spectra),
    ]
    return np.stack([(matrix + matrix.T) / 2 for matrix in matrices])


@pytest.mark.kin(4)
@pytest.mark.parametrize("size", [1, 2, 3, 5, 10, 33])
def test_rotations_equal_numpy(size, dtype):
    """All kinds of matrices in one batch; at any scale."""
    # Among many equal eigenvalues rotations converge linearly, not quadratically.
    unfinished = 1e-7 if size > 10 else 0.0
    matrices = special_matrices(size).astype(dtype)
    found = decompose(jnp.asarray(matrices))
    assert [part.dtype for part in found] == [dtype, dtype]
    assert [part.shape for part in found] == [matrices.shape[:2], matrices.shape]
    assert_decomposes(found, matrices.astype(np.float64), unfinished)
    np.testing.assert_array_equal(found[0][0], np.zeros(size))
    np.testing.assert_array_equal(found[1][0], np.eye(size))
    for scale in (1e-12, 1e12):
        scaled = (scale * matrices).astype(dtype)
        again = decompose(jnp.asarray(scaled))
        assert_decomposes(again, scaled.astype(np.float64), unfinished)


def test_rotations_map_over_any_axes():
    matrices = jnp.asarray(special_matrices(5)[:6].reshape(2, 3, 5, 5), jnp.float32)
    found = decompose(matrices)
    assert found[0].shape == (2, 3, 5)
    assert_decomposes(found, np.asarray(matrices, np.float64))
    mapped = jax.jit(jax.vmap(jax.vmap(eigh_by_rotations)))(matrices)
    alone = decompose(matrices[1, 2])
    for part in (0, 1):
        np.testing.assert_allclose(mapped[part], found[part], atol=1e-5)
        np.testing.assert_allclose(alone[part], found[part][1, 2], atol=1e-5)


@pytest.mark.usefixtures("x64")
def test_derivatives_where_eigenvalues_differ():
    """The sum of the cubes of the eigenvalues is the trace of the cube; its derivative is 3 A^2."""
    symmetric = special_matrices(5)[5]
    gradient = jax.grad(lambda a: jnp.sum(decompose(a)[0] ** 3))(jnp.asarray(symmetric))
    wanted = 3 * symmetric @ symmetric
    np.testing.assert_allclose((gradient + gradient.T) / 2, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.thorough
@pytest.mark.parametrize("function", [top_eigenvector, eigh_by_rotations])
def test_batches_on_every_device_come_to_an_end(function):
    """A batched eigenvalue solver of LAPACK hangs here now and then."""
    mesh = jax.make_mesh((2,), ("trials",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("trials")
    matrices = np.tile(stack(np.random.default_rng(4)), (8, 1, 1)).astype(np.float32)
    sharded = jax.jit(
        jax.shard_map(
            lambda part: jax.lax.map(function, part, batch_size=4),
            mesh=mesh,
            in_specs=spec,
            out_specs=spec,
            check_vma=False,
        )
    )
    for _ in range(20):
        result = jax.block_until_ready(sharded(jnp.asarray(matrices)))
    if function is top_eigenvector:
        np.testing.assert_allclose(result, vectors(matrices), atol=1e-5)
    else:
        assert_decomposes(result, matrices.astype(np.float64))
