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
            "loss must have a slope that is the derivative of its value, but",
        ),
        (
            changed(PseudoHuber, curvature=lambda self, p, y: jnp.ones_like(p)),
            "loss must have a curvature that is the derivative of its slope, but",
        ),
        (
            changed(PseudoHuber, largest_curvature=lambda self: 0.5),
            r"loss must have a largest_curvature\(\) that bounds",
        ),
        (
            changed(
                PseudoHuber,
                value=lambda self, p, y: student(p, y),
                slope=lambda self, p, y: 2 * (p - y) / (1 + (p - y) ** 2),
            ),
            "loss must have a curvature that is the derivative of its slope, but",
        ),
        (changed(PseudoHuber, labels=None).smooth, "must be one of fedjax_admm.losses"),
        (object(), "must be one of fedjax_admm.losses"),
        (PseudoHuber, "must be one of fedjax_admm.losses"),
        (
            type("Bare", (), {"slope": 0})(),
            r"loss must be one of fedjax_admm\.losses, such as losses\.squared\(\), or",
        ),
        (
            type("Plain", (PseudoHuber,), {})(),
            r"loss must be a pytree, but it is Plain\(width=1\.0\);",
        ),
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
