"""Schedules that are wrong in one way each, and good ones."""

from dataclasses import field
from typing import Any

import jax.numpy as jnp
import pytest

from fedjax_admm import InputError, schedules
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.testing import SCHEDULE_CHECKS, check_schedule
from tests.testing.own import changed


@pytree_dataclass
class Decay:
    """`scale / sqrt(k)`."""

    scale: Any

    def __call__(self, count):
        return self.scale / jnp.sqrt(jnp.asarray(count).astype(self.scale.dtype))


@pytree_dataclass
class StaticDecay:
    """The same with a number that is part of the structure."""

    scale: float = field(metadata={"static": True})
    like: Any = field(default_factory=lambda: jnp.ones(()))

    def __call__(self, count):
        return self.scale * self.like / jnp.sqrt(jnp.asarray(count).astype(self.like.dtype))


def decay(**members):
    return changed(Decay, **members)(jnp.asarray(2.0))


def values(self, count):
    return Decay.__call__(self, count)


BROKEN = {
    "sums": (
        {"__call__": lambda self, count: jnp.sum(values(self, count))},
        "elementwise",
        r"MineDecay of counts of shape \(2, 3\) must return an array of shape \(2, 3\), but its",
    ),
    "depends on the others": (
        {"__call__": lambda self, count: values(self, count) / jnp.max(values(self, count))},
        "elementwise",
        "MineDecay of the count 2 alone and among others differ: the number is 1 and 0.7",
    ),
    "is negative": (
        {"__call__": lambda self, count: 1 - values(self, count)},
        "elementwise",
        r"must be positive, but at count 1 it is -1; pass positive=False",
    ),
    "is infinite": (
        {"__call__": lambda self, count: values(self, count - 1)},
        "elementwise",
        r"must be finite, but at \(0, 0\) it is inf. Counts begin at 1",
    ),
    "has a dtype of its own": (
        {"__call__": lambda self, count: values(self, count).astype(jnp.float32)},
        "dtype",
        "with numbers of dtype float64 must return float64 where its arguments are, but it "
        "returns float32; take the dtype",
    ),
    "branches": (
        {"__call__": lambda self, count: values(self, count) if count[0, 0] > 1 else count * 0.5},
        "jit",
        "MineDecay under jax.jit raised .*Take jnp.where in place of an if",
    ),
    "has no derivative": (
        {
            "__call__": lambda self, count: (
                values(self, count) + jnp.where(count > 0, 0, jnp.sqrt(self.scale - self.scale))
            )
        },
        "gradient",
        r"The derivative of MineDecay by .*scale must be finite, but it is nan",
    ),
}


@pytest.mark.kin(4)
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_one_is_caught(name):
    members, check, message = BROKEN[name]
    with pytest.raises(AssertionError, match=f"(?s){message}"):
        check_schedule(decay(**members), only=check)


def test_good_ones_pass():
    check_schedule(decay())
    check_schedule(schedules.schedule(lambda k, a: -a * jnp.log(k), a=1.0), positive=False)


@pytest.mark.thorough
def test_a_static_number_passes_but_for_what_it_cannot():
    check_schedule(StaticDecay(2.0))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"schedule": 0.1}, r"schedule must be a schedule, as schedules.constant\(0.1\)"),
        ({"schedule": Decay}, "schedule must be a schedule"),
        ({"schedule": lambda k: k}, "is a plain function; make a schedule of it"),
        ({"schedule": schedules.constant(1.0), "counts": [0, 1]}, "whole numbers from 1"),
        ({"schedule": schedules.constant(1.0), "counts": [0.5]}, "whole numbers from 1"),
        ({"schedule": schedules.constant(1.0), "only": "x"}, "only must be one of 'elementwise'"),
    ],
)
def test_wrong_arguments_are_input_errors(given, message):
    with pytest.raises(InputError, match=message):
        check_schedule(given.pop("schedule"), **given)


def test_the_docstring_names_every_check():
    assert all(f"`{name}`" in (check_schedule.__doc__ or "") for name in SCHEDULE_CHECKS)
