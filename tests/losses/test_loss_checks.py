"""What is said of a sample loss of one's own that is not what it says."""

import jax
import jax.numpy as jnp
import pytest

from fedjax_admm import InputError
from fedjax_admm.losses import check_sample_loss, quantile
from tests.losses.own import Insensitive, PseudoHuber, SquaredHinge, changed, student


@pytest.mark.parametrize("loss", [PseudoHuber(), PseudoHuber(0.3), Insensitive(), SquaredHinge()])
def test_good_ones_pass(loss):
    check_sample_loss(loss)


@pytest.mark.thorough
def test_numbers_that_are_traced_are_believed_and_constants_are_checked_inside_a_trace():
    def widened(width):
        check_sample_loss(PseudoHuber(width))
        check_sample_loss(PseudoHuber(0.5))
        with pytest.raises(InputError, match="derivative of its value"):
            check_sample_loss(changed(PseudoHuber, slope=lambda self, p, y: y - p))
        return width

    jax.jit(widened)(jnp.ones(()))


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (
            changed(PseudoHuber, slope=lambda self, p, y: -PseudoHuber.slope(self, p, y)),
            r"loss must have a slope that is the derivative of its value, but at the prediction "
            r"-27 and the target -2 Mine.slope is 0.9992\d*, and the derivative is -0.9992\d*\.",
        ),
        (
            changed(Insensitive, 0.0, slope=lambda self, p, y: 1.5 * jnp.sign(p - y)),
            "Mine.slope is -1.5, and the derivative is -1",
        ),
        (
            changed(
                Insensitive, 0.0, slope=lambda self, p, y: jnp.sign(p - y) + jnp.where(p == y, 2, 0)
            ),
            "Mine.slope is 2, and the derivative lies between -1 and 1",
        ),
        (
            changed(Insensitive, 0.0, smooth=True),
            "must have a continuous slope where Mine.smooth is True, but at the prediction -2 and "
            "the target -2 it jumps from -1 to 1; let smooth be False",
        ),
        (
            changed(PseudoHuber, curvature=lambda self, p, y: jnp.ones_like(p)),
            "must have a curvature that is the derivative of its slope, but .* Mine.curvature is 1",
        ),
        (
            changed(PseudoHuber, largest_curvature=lambda self: 0.5),
            "must have a largest_curvature.* says 0.5 and has 1 at the prediction -2",
        ),
        (
            changed(PseudoHuber, largest_curvature=lambda self: None),
            "largest_curvature\\(\\) that is a number",
        ),
        (
            changed(
                PseudoHuber,
                value=lambda self, p, y: student(p, y),
                slope=lambda self, p, y: 2 * (p - y) / (1 + (p - y) ** 2),
            ),
            "must be convex in the prediction, but at the target -2 Mine.slope falls from",
        ),
        (
            changed(PseudoHuber, value=lambda self, p, y: jnp.sum(p - y)),
            r"must be elementwise, but Mine.value of arrays of shape \(3, 13\)",
        ),
        (
            changed(PseudoHuber, value=lambda self, p, y: jnp.log(p - y)),
            "must be finite, but Mine.value is (nan|-inf) at the prediction",
        ),
        (changed(PseudoHuber, labels=None).smooth, "must be one of fedjax_admm.losses"),
        (object(), "must be one of fedjax_admm.losses"),
        (PseudoHuber, "must be one of fedjax_admm.losses"),
        (
            type("Bare", (), {"slope": 0})(),
            "Bare has no value, curvature, largest_curvature, smooth",
        ),
        (type("Plain", (PseudoHuber,), {})(), "Plain is registered as none; register the class"),
    ],
)
def test_others_are_refused_in_one_sentence(loss, message):
    with pytest.raises(InputError, match=message) as caught:
        check_sample_loss(loss)
    assert str(caught.value).count("\n") == 0


@pytest.mark.thorough
def test_ours_cost_nothing(monkeypatch):
    monkeypatch.setattr(jax, "enable_x64", None)
    check_sample_loss(quantile(0.3))
