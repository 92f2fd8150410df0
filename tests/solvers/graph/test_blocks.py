"""Rows that are replaced block by block are those that are replaced at once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import graphs
from fedjax_admm.solvers.graph import _blocks as blocks

ROWS, WIDTH = 103, 3


@pytest.fixture
def small(monkeypatch):
    """Make blocks of eight rows of everything."""
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 8 * WIDTH * 4)
    monkeypatch.setattr(blocks, "LEAST_BYTES", 0)


@pytest.fixture
def compiled_anew():
    """Compile programs with the blocks of a test, and no other test's with them."""
    jax.clear_caches()
    yield
    jax.clear_caches()


@pytest.mark.parametrize("whole", [1.0, np.ones(ROWS)], ids=["a number", "rows of its own"])
def test_every_row_is_replaced_once(small, whole):
    sizes = []

    def update(rows, factors):
        sizes.append(len(rows))
        return rows * factors[:, None] + 1

    rows = jnp.arange(ROWS * WIDTH, dtype=jnp.float32).reshape(ROWS, WIDTH)
    factors = jnp.linspace(-1, 1, ROWS)
    found = blocks.replace_rows(update, rows, (factors,), whole)
    np.testing.assert_array_equal(found, rows * factors[:, None] + 1)
    assert set(sizes) == ({8, ROWS % 8} if np.ndim(whole) == 0 else {ROWS})


@pytest.mark.thorough
def test_a_run_has_the_same_numbers_and_derivatives(small, compiled_anew, monkeypatch):
    graph = graphs.grid(5, 6)
    truth = jax.random.normal(jax.random.key(1), (graph.num_nodes, WIDTH))
    problem = fa.problems.draw_networked_regression(jax.random.key(2), graph, truth, share=0.6)
    active = fa.participation.bernoulli(0.7)

    def size(lam):
        solver = fa.solvers.gtv_primal_dual(problem, lam, ratio=2.0)
        run = fa.run(solver, problem, jax.random.key(3), rounds=9, participation=active)
        return jnp.sum(run.estimate**2), run.estimate

    def both():
        jax.clear_caches()
        found = jax.jit(jax.vmap(jax.value_and_grad(size, has_aux=True)))(jnp.array([0.01, 0.3]))
        return found[0][1], found[1]

    in_blocks = both()
    monkeypatch.setattr(blocks, "LEAST_BYTES", 2**40)
    at_once = both()
    assert (np.abs(at_once[1]) > 1e-3).all()
    for one, other in zip(in_blocks, at_once, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=2e-6)
