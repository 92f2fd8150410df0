"""Batches along the fastest axis against `jax.vmap`, by operation and by solver."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import fedjax_admm as fa
from fedjax_admm.lanes import lanes, suits_lanes

TRIALS = 5


def arithmetic(state):
    """Numbers, rows and tables, of the trial and common ones, entry by entry and summed."""
    x, y, count = state
    shift = jnp.arange(3.0) / (count + 1).astype(x.dtype)
    centre = (x * shift[None] - y[:, None]) / (1 + jnp.abs(x).sum())
    size = jnp.sqrt(jnp.sum(centre**2, -1))
    clipped = jnp.where(size[:, None] > 1, centre / size[:, None], jnp.clip(centre, -0.2, y.max()))
    return clipped.T.reshape(4, 3), jnp.concatenate([y[2:], jnp.array([0.5]), y[:1]]), count + 1


def products(state):
    """What `jax.vmap` batches: products, sorting, indexing, random numbers, branches."""
    x, y, count = state
    key = jax.random.fold_in(jax.random.key(0), count)
    x = x @ (x.T @ x) / 9 + jnp.sort(x, 0)[::-1] * jax.random.normal(key, (4, 3))
    y = lax.cond(count > 1, jnp.sin, jnp.cumsum, y).at[count % 4].add(x[count % 4, 0])
    return x / (1 + jnp.abs(x).max()), y + lax.cond(y[0] > 0, jnp.cos, jnp.sin, y), count + 1


def scanned(step):
    def loop(x, y):
        def turn(state, row):
            new = step(state)
            return new, (new[1] * row, new[2])

        start = (x, y, jnp.zeros((), jnp.int32))
        (x, y, count), (rows, counts) = lax.scan(turn, start, jnp.arange(6.0)[:, None] * y[None])
        return x, y, count, rows, counts

    return loop


def nested(x, y):
    """A loop in a loop that stops for all, in one that stops for each."""

    def inner(state):
        return lax.while_loop(lambda s: s[2] % 4 < 3, arithmetic, state)

    def each(state):
        return lax.while_loop(lambda s: s[0] > 0.1, lambda s: (s[0] / 2, s[1] + 1), (state, 0.0))

    def turn(state, _):
        x, y, count = inner((state[0], state[1], state[2]))
        return (x, y, count + 1), each(jnp.abs(x).max())

    (x, y, count), halved = lax.scan(turn, (x, y, jnp.zeros((), jnp.int32)), length=2)
    return x, y, count, halved


@pytest.mark.kin(1)
@pytest.mark.parametrize("function", [nested, scanned(arithmetic), scanned(products)])
def test_a_batch_in_lanes_is_that_of_vmap(function):
    rng = np.random.default_rng(0)
    x, y = (jnp.asarray(rng.standard_normal((TRIALS, *s)), jnp.float32) for s in ((4, 3), (4,)))
    for axes in ((0, 0), (0, None), (None, 0)):
        args = [v if axis == 0 else v[0] for v, axis in zip((x, y), axes, strict=True)]
        expected = jax.vmap(function, axes)(*args)
        found = jax.jit(jax.vmap(lanes(function), axes))(*args)
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 2e-5, 2e-6), found, expected)
    np.testing.assert_array_equal(lanes(function)(x[0], y[0])[0], function(x[0], y[0])[0])


def test_what_all_trials_share_is_computed_once():
    def loop(x):
        def turn(state, _):
            x, count = state
            return (x / jnp.sqrt(count[:, None]), count + 1), None

        return lax.scan(turn, (x, jnp.ones(7)), length=3)[0]

    program = jax.make_jaxpr(jax.vmap(lanes(loop)))(jnp.ones((TRIALS, 7, 2)))
    (scan,) = [equation for equation in program.eqns if equation.primitive.name == "scan"]
    assert [v.aval.shape for v in scan.outvars] == [(7, 2, TRIALS), (7,)]
    roots = [e for e in scan.params["jaxpr"].eqns if e.primitive.name == "sqrt"]
    assert [e.outvars[0].aval.shape for e in roots] == [(7, 1)]


def test_loops_of_products_do_not_suit_lanes():
    def program(function):
        return jax.make_jaxpr(function)(jnp.ones((4, 3)), jnp.ones(4))

    assert suits_lanes(program(scanned(arithmetic)))
    assert not suits_lanes(program(scanned(products)))
    assert not suits_lanes(program(lambda x, y: x.T @ y))  # no loop at all


def localised(key):
    drawn = fa.problems.draw_localization(key, fa.problems.cauchy_noise(1.0), clients=6)
    some = fa.participation.bernoulli(0.6)
    measure = fa.measures.localization_error
    result = fa.run(
        fa.solvers.fsmdm(), drawn, key, rounds=12, every=4, participation=some, measure=measure
    )
    return result.trace, result.status


@pytest.mark.thorough
def test_fsmdm_in_lanes_with_some_who_are_absent():
    def keys():
        return jax.random.split(jax.random.key(1), TRIALS)

    assert suits_lanes(jax.make_jaxpr(localised)(keys()[0]))
    with jax.debug_key_reuse(True):
        found = jax.jit(jax.vmap(lanes(localised)))(keys())
    expected = jax.jit(jax.vmap(localised))(keys())
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-5), found, expected)
