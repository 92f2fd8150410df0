"""The top eigenvector, against NumPy's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm.linear_algebra import top_eigenvalue, top_eigenvector

vectors = jax.jit(jax.vmap(top_eigenvector))
values = jax.jit(jax.vmap(top_eigenvalue))


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


def test_several_top_eigenvectors_give_one_of_them(dtype):
    found = np.asarray(top_eigenvector(jnp.diag(jnp.array([2, 5, 1, 5], dtype))))
    assert np.linalg.norm(found) == pytest.approx(1)
    assert np.abs(found[[0, 2]]).max() < 1e-6


@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_any_scale_and_zero(scale):
    matrices = jnp.asarray(scale * stack(np.random.default_rng(2)), jnp.float32)
    found = np.asarray(vectors(matrices))
    np.testing.assert_allclose(np.linalg.norm(found, axis=-1), 1, rtol=1e-5)
    np.testing.assert_array_equal(top_eigenvector(jnp.zeros((4, 4))), np.zeros(4))


def test_a_batch_on_every_device_comes_to_an_end():
    """A batched eigenvalue solver of LAPACK hangs here now and then."""
    mesh = jax.make_mesh((2,), ("trials",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.sharding.PartitionSpec("trials")
    matrices = jnp.asarray(np.tile(stack(np.random.default_rng(3)), (8, 1, 1)), jnp.float32)
    sharded = jax.jit(
        jax.shard_map(
            lambda part: jax.lax.map(top_eigenvector, part, batch_size=4),
            mesh=mesh,
            in_specs=spec,
            out_specs=spec,
            check_vma=False,
        )
    )
    for _ in range(50):
        found = sharded(matrices)
    np.testing.assert_allclose(found, vectors(matrices), atol=1e-5)
