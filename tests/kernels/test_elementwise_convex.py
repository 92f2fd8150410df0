"""Convex kernels of one number: parameters at zero, the whole range of a dtype, orders."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm.kernels as kernels
from fedjax_admm import penalties
from tests.reference import kernels as reference, prox_elementwise as twins

# --- parameters at zero: what is learnt from there must move ---


def test_a_radius_and_a_weight_learnt_from_zero_move_for_both_signs(dtype):
    points = jnp.asarray([-2.0, 2.0], dtype)
    zero = jnp.zeros((), dtype)
    for function, slopes in (
        (lambda t: kernels.project_linf_ball(points, t), (-1, 1)),
        (lambda t: kernels.project_box(points, -t, t), (-1, 1)),
        (lambda t: penalties.l1(t).prox(points, jnp.asarray(0.5, dtype)), (0.5, -0.5)),
        (lambda t: penalties.l1(jnp.ones((), dtype)).prox(points, t), (1, -1)),
        (lambda t: kernels.prox_elastic_net(points, 0.5, t, 0.0), (0.5, -0.5)),
        (lambda t: kernels.prox_huber(points, 0.5, t), (0.5, -0.5)),
    ):
        np.testing.assert_allclose(jax.jacfwd(function)(zero), slopes, rtol=1e-6)


# --- the dtype is that of the point ---


# --- the whole range ---


def spread(dtype, count=400):
    """Points, and three positive numbers, of all sizes of a dtype; at half of them sizes near 1.

    At a third of the points a multiple of the step stands, where terms of a result cancel.
    """
    rng = np.random.default_rng(7)
    low, high = (-4, 4.7) if dtype == "float16" else (-30, 30)
    sizes = 10.0 ** rng.uniform(low, high, (4, count))
    sizes[:, ::2] = 10.0 ** rng.uniform(-1, 1, (4, (count + 1) // 2))
    v, step, *others = sizes
    v = np.where(rng.random(count) < 0.3, step * rng.uniform(0, 3, count), v)
    v = np.clip(v * rng.choice([-1, 1], count), -(10.0**high), 10.0**high)
    return [jnp.asarray(numbers, dtype) for numbers in (v, step, *others)]


RANGE = {
    # name: its parameters, made of positive numbers of all sizes
    "prox_l1": lambda a, b: (),
    "prox_elastic_net": lambda a, b: (a, b),
    "prox_squared_l2": lambda a, b: (a,),
    "prox_huber": lambda a, b: (a,),
    "prox_pinball": lambda a, b: (a / (1 + a),),
    "prox_sum_positive": lambda a, b: (),
    "prox_hinge": lambda a, b: (),
    "prox_squared_hinge": lambda a, b: (),
    "prox_logistic": lambda a, b: (),
    "prox_cross_entropy": lambda a, b: (a / (1 + a),),
    "prox_poisson": lambda a, b: (a,),
    "prox_log_barrier": lambda a, b: (a,),
    "prox_kl": lambda a, b: (a,),
    "prox_entropy": lambda a, b: (),
    "prox_non_negative_squared_l2": lambda a, b: (a,),
    "prox_box_l1": lambda a, b: (b, -a, a),
    "prox_box_squared_l2": lambda a, b: (b, -a, a),
}
QUICK = {"prox_logistic", "prox_kl", "prox_poisson"}


def twin(name):
    return getattr(twins, name, None) or getattr(
        reference, name.replace("prox_l1", "soft_threshold")
    )


@pytest.mark.thorough
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.thorough) for n in RANGE]
)
def test_results_are_as_accurate_as_their_data(name, dtype, x64):
    """To a few roundings of the result and of what is given, at every size of it."""
    kernel = getattr(kernels, name)
    v, step, a, b = spread(dtype)
    arguments = (v, step, *RANGE[name](a, b))
    found = np.asarray(jax.jit(kernel)(*arguments), np.float64)
    wide = [jnp.asarray(argument, jnp.float64) for argument in arguments]
    expected = twin(name)(*(np.asarray(argument) for argument in wide))

    def moved_by(place):
        tangents = [jnp.where(place == k, w, 0.0) for k, w in enumerate(wide)]
        return jax.jvp(kernel, wide, tangents)[1]

    conditioned = sum(np.abs(moved_by(place)) for place in range(len(wide)))
    info = jnp.finfo(dtype)
    slack = 6 * float(info.eps) * (np.abs(expected) + conditioned) + 2 * float(info.tiny)
    fits = np.abs(expected) < float(info.max)
    assert np.mean(fits) > 0.9
    wrong = fits & ~(np.abs(found - expected) <= slack)
    shown = [np.asarray(w)[wrong][:4] for w in (*wide, found, expected, slack)]
    assert not np.any(wrong), shown


@pytest.mark.parametrize("name", ["prox_logistic", "prox_entropy", "prox_huber", "prox_hinge"])
def test_infinite_points_keep_their_side(name):
    numbers = (0.5,) if name == "prox_huber" else ()
    found = getattr(kernels, name)(jnp.asarray([-jnp.inf, jnp.inf]), 0.4, *numbers)
    np.testing.assert_array_equal(found, [0.0 if name == "prox_entropy" else -np.inf, np.inf])


def test_infinite_parameters_have_a_sense():
    points = jnp.asarray([-3.0, 2.0])
    np.testing.assert_allclose(kernels.prox_huber(points, 1.0, jnp.inf), [-1.5, 1.0])
    slopes = jax.grad(lambda v, s: jnp.sum(kernels.prox_huber(v, s, jnp.inf)), (0, 1))(points, 1.0)
    np.testing.assert_allclose(slopes[0], [0.5, 0.5])
    np.testing.assert_allclose(slopes[1], 0.25)
    found = kernels.prox_box_l1(points, 1.0, 0.5, -jnp.inf, jnp.inf)
    np.testing.assert_allclose(found, [-2.5, 1.5])
    np.testing.assert_allclose(kernels.project_box(points, -jnp.inf, jnp.inf), points)


# --- the equations behind the roots ---


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("prox_cross_entropy", (0.3,)), ("prox_kl", (1.3,)), ("prox_poisson", (3.0,))],
)
def test_derivatives_of_roots_hold_for_every_order(name, parameters, x64):
    kernel = getattr(kernels, name)

    def slope(v, step):
        return jax.grad(kernel, 1)(v, step, *parameters)

    second = jax.jit(jax.vmap(jax.grad(slope, (0, 1))))
    v, step, width = jnp.asarray([-3.0, 0.4, 5.0]), jnp.asarray([0.5, 2.0, 7.0]), 1e-5
    slopes = jax.jit(jax.vmap(slope))
    by_v = (slopes(v + width, step) - slopes(v - width, step)) / (2 * width)
    by_step = (slopes(v, step + width) - slopes(v, step - width)) / (2 * width)
    np.testing.assert_allclose(second(v, step), (by_v, by_step), rtol=1e-6, atol=1e-8)
