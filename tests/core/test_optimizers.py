"""Proximal maps in optax's chains: lassos, networks, paths, schedules, zeros that are exact."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import fedjax_admm as fa
from fedjax_admm import InputError, as_gradient_transformation, penalties, schedules
from fedjax_admm.kernels import prox_group_l2, prox_l1

WEIGHT, RATE = 0.3, 0.25


def lasso(samples=40, dim=12):
    rng = np.random.default_rng(0)
    x = rng.standard_normal((samples, dim))
    truth = np.where(np.arange(dim) < 3, 2.0, 0.0)
    return x, x @ truth + 0.1 * rng.standard_normal(samples)


def trained(optimizer, params, loss, steps):
    """Return the parameters after some steps of an optimiser, one compiled scan."""

    @jax.jit
    def run(params):
        def step(carry, _):
            params, state = carry
            updates, state = optimizer.update(jax.grad(loss)(params), state, params)
            return (optax.apply_updates(params, updates), state), None

        return jax.lax.scan(step, (params, optimizer.init(params)), None, length=steps)[0][0]

    with jax.numpy_dtype_promotion("standard"):  # which optax's Adam asks for
        return run(params)


@pytest.mark.thorough
def test_proximal_gradient_descent_solves_the_lasso(x64):
    linear_model = pytest.importorskip("sklearn.linear_model")
    x, y = lasso()
    known = linear_model.Lasso(alpha=WEIGHT, fit_intercept=False, tol=1e-14, max_iter=100000)
    known.fit(x, y)

    def loss(w):
        return jnp.sum((x @ w - y) ** 2) / (2 * y.size)

    optimizer = optax.chain(
        optax.sgd(RATE), fa.as_gradient_transformation(penalties.l1(WEIGHT), RATE)
    )
    found = trained(optimizer, jnp.ones(x.shape[1]), loss, 2000)
    np.testing.assert_allclose(found, known.coef_, atol=1e-9)
    assert 3 <= np.count_nonzero(found) < 12
    np.testing.assert_array_equal(found == 0, known.coef_ == 0)


def test_one_update_is_the_map_of_the_point_after_the_step():
    """A link gets what the links before have made of the gradient, the learning rate included."""
    params = {"kernel": jnp.asarray([[3.0, 4.0], [0.1, -0.2]]), "bias": jnp.asarray([0.3])}
    gradients = jax.tree.map(lambda leaf: 0.1 * leaf, params)
    maps = {"kernel": prox_group_l2, "bias": penalties.l1(0.5)}
    optimizer = optax.chain(optax.sgd(RATE), as_gradient_transformation(maps, RATE))
    updates, _ = optimizer.update(gradients, optimizer.init(params), params)
    found = optax.apply_updates(params, updates)
    moved = (1 - 0.1 * RATE) * params["kernel"][0]
    np.testing.assert_allclose(found["kernel"][0], moved * (1 - RATE / jnp.linalg.norm(moved)))
    np.testing.assert_array_equal(found["kernel"][1], [0, 0])
    np.testing.assert_allclose(found["bias"], [0.3 * (1 - 0.1 * RATE) - 0.5 * RATE], rtol=1e-6)


def test_the_zeros_are_exact_whatever_the_parameters():
    params = jnp.asarray(np.random.default_rng(2).standard_normal(1000), jnp.float32)
    link = as_gradient_transformation(lambda v, step: jnp.where(v > 0.4, v, 0), 1.0)
    updates, _ = link.update(0.1 * params, link.init(params), params)
    found = optax.apply_updates(params, updates)
    np.testing.assert_array_equal(found == 0, 1.1 * params <= 0.4)


def test_schedules_count_from_zero_as_those_of_optax_and_ours_from_one():
    falling = optax.piecewise_constant_schedule(0.5, {1: 0.5})  # 0.5, then 0.25
    for rate in (falling, schedules.geometric(0.5, 0.5)):
        link = as_gradient_transformation(prox_l1, rate)
        params, still = jnp.asarray([2.0]), jnp.zeros(1)
        state = link.init(params)
        for expected in (-0.5, -0.25):
            updates, state = link.update(still, state, params)
            np.testing.assert_allclose(updates, [expected])
        assert state.updates == 2
        assert state.updates.dtype == jnp.int32


def test_it_lives_with_the_wrappers_of_optax():
    params = {"a": jnp.asarray([2.0, 0.1]), "b": jnp.asarray([2.0, 0.1])}
    still = jax.tree.map(jnp.zeros_like, params)
    inner = as_gradient_transformation(prox_l1, 0.5)
    masked = optax.masked(inner, {"a": True, "b": False})
    parted = optax.multi_transform(
        {"sparse": inner, "rest": optax.identity()}, {"a": "sparse", "b": "rest"}
    )
    injected = optax.inject_hyperparams(as_gradient_transformation, static_args="prox")(
        {"a": prox_l1}, learning_rate=0.5
    )
    for optimizer in (masked, parted, injected):
        updates, _ = optimizer.update(still, optimizer.init(params), params)
        found = optax.apply_updates(params, updates)
        np.testing.assert_allclose(found["a"], [1.5, 0.0])
        np.testing.assert_array_equal(found["b"], params["b"])


def test_it_computes_in_the_wider_of_the_dtypes_of_parameters_and_updates():
    params, updates = jnp.ones(2, jnp.bfloat16), jnp.full(2, 2.0**-10, jnp.float32)
    link = as_gradient_transformation(penalties.l1(1.0), 0.25)
    found, _ = link.update(updates, link.init(params), params)
    assert found.dtype == jnp.float32
    np.testing.assert_array_equal(found, np.full(2, 2.0**-10 - 0.25))
    alike, _ = link.update(params, link.init(params), params)
    assert alike.dtype == jnp.bfloat16


def test_a_learning_rate_can_be_traced_and_derived():
    def after(rate):
        link = as_gradient_transformation(penalties.l1(2.0), rate)
        params = jnp.asarray([3.0, -3.0])
        updates, _ = link.update(jnp.zeros(2), link.init(params), params)
        return jnp.sum(updates * jnp.asarray([1.0, -1.0]))

    np.testing.assert_allclose(jax.grad(after)(0.5), -4.0)


def test_mistakes_get_a_sentence():
    link = as_gradient_transformation(prox_l1, 0.1)
    params = jnp.ones(2)
    with pytest.raises(InputError) as caught:
        link.update(params, link.init(params))
    assert str(caught.value) == (
        "params must be given; call optimizer.update(gradients, state, params)."
    )
    with pytest.raises(InputError, match=r"^prox must be a function prox\(v, step\), a pen"):
        as_gradient_transformation({"*": 0.1}, 0.1)
    astray = as_gradient_transformation({"kernel": prox_l1}, 0.1)
    with pytest.raises(ValueError, match="'kernel' fits no leaf; the leaves are ''"):
        astray.update(params, astray.init(params), params)
