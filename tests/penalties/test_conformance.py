"""Every penalty: its prox minimises, its certificate holds, dtypes stay, derivatives are finite."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import penalties
from fedjax_admm.testing import check_penalty
from tests.bits import same_bits
from tests.builders import builders
from tests.kernels.calls import EVENTS

# Rows long and short; entries on kinks, far away and at zero.
POINTS = np.array(
    [[-6.3, -2.0, -0.7], [0.0, 0.2, 1.0], [1.9, 3.1, 6.0], [0.0, 0.0, 0.0], [0.05, -0.02, 0.01]]
)


# Two rows that are matrices of two rows and three columns, and one with equal singular values.
MATRICES = np.array(
    [[3.0, -1.0, 0.5, 2.0, 0.1, -4.0], [0.1, 0.2, -0.1, 0.0, 0.3, 0.1], [1.0, 0, 0, 0, 1, 0]]
)


@dataclass(frozen=True)
class Case:
    """A penalty of models."""

    build: Callable[[], Any]
    smooths: bool = True  # whether its modulus can be smoothed
    points: np.ndarray = field(default_factory=lambda: POINTS)


MODELS = {
    "zero": Case(penalties.zero),
    "l1": Case(lambda: penalties.l1(0.8)),
    "group_l2": Case(lambda: penalties.group_l2(0.6)),
    "mcp": Case(lambda: penalties.mcp(1.1, 1.8, 0.9)),
    "scad": Case(lambda: penalties.scad(1.1, 3.0, 0.9)),
    "elastic_net": Case(lambda: penalties.elastic_net(0.5, 0.7)),
    "squared_l2": Case(lambda: penalties.squared_l2(0.7)),
    "box": Case(lambda: penalties.box(-1.0, 2.0)),
    "non_negative": Case(penalties.non_negative),
    "non_negative_l1": Case(lambda: penalties.non_negative_l1(0.8)),
    "huber_norm": Case(lambda: penalties.huber_norm(0.8, 1.5)),
    "l0": Case(lambda: penalties.l0(0.9), smooths=False, points=4 * POINTS),
    "log_sum": Case(lambda: penalties.log_sum(0.9, 0.7), smooths=False),
    "capped_l1": Case(lambda: penalties.capped_l1(0.9, 1.3)),
    "sparse_group": Case(lambda: penalties.sparse_group(0.4, 0.6), smooths=False),
    "group_mcp": Case(lambda: penalties.group_mcp(1.1, 1.8, 0.9)),
    "group_scad": Case(lambda: penalties.group_scad(1.1, 3.0, 0.9)),
    "group_l0": Case(lambda: penalties.group_l0(0.9), smooths=False),
    "slope": Case(lambda: penalties.slope([0.9, 0.5, 0.2]), smooths=False),
    "linf": Case(lambda: penalties.linf(0.8), smooths=False),
    "simplex": Case(lambda: penalties.simplex(2.0), smooths=False),
    "l1_ball": Case(lambda: penalties.l1_ball(2.5)),
    "l2_ball": Case(lambda: penalties.l2_ball(2.5)),
    "total_variation": Case(lambda: penalties.total_variation(0.6), smooths=False),
    "fused_lasso": Case(lambda: penalties.fused_lasso(0.3, 0.6), smooths=False),
    "nuclear": Case(lambda: penalties.nuclear(0.6, 2, 3), smooths=False, points=MATRICES),
    "motion": Case(lambda: penalties.motion(3, 0.6), points=MATRICES),
    "motion_variation": Case(
        lambda: penalties.motion_variation(3, 0.6, order=1), smooths=False, points=MATRICES
    ),
    "add": Case(lambda: penalties.add(penalties.group_l2(0.6), penalties.l1(0.4)), smooths=False),
}


def test_every_penalty_is_in_a_table():
    assert set(builders(penalties, "value", "prox", "optimality")) == set(MODELS)
    edges = set(builders(penalties, "values", "conjugate", "prox_conjugate"))
    assert edges == {
        "network_lasso",
        "entrywise_l1",
        "mocha",
        "squared_difference",
        "quadratic_difference",
    }
    known = set(MODELS) | edges
    assert set(builders(penalties, "prox")) | set(builders(penalties, "prox_conjugate")) == known


@pytest.fixture(params=MODELS)
def case(request):
    return MODELS[request.param]


def test_the_certificate_holds_at_the_prox_and_nowhere_else(case):
    check_penalty(case.build(), points=case.points, only="certificate")


@pytest.mark.kin(4)
def test_a_second_call_compiles_nothing_and_has_the_bits_of_a_jitted_one(case):
    """Some maps took eight times as long as their program outside of `jax.jit`."""
    x = jnp.asarray(case.points, jnp.float32)
    arguments = {"value": (x,), "prox": (x, 0.5), "optimality": (x, x)}
    if case.smooths:
        arguments["smoothed_prox"] = (x, 0.5, 0.1)
    penalty = case.build()
    for name, given in arguments.items():
        once = getattr(penalty, name)(*given)
        traced = len(EVENTS)
        getattr(case.build(), name)(*given)
        assert len(EVENTS) == traced, EVENTS[traced:]
        same_bits(
            jax.jit(lambda penalty, given, name=name: getattr(penalty, name)(*given))(
                penalty, given
            ),
            once,
        )
    with pytest.raises(ValueError, match=r"step must be at least 0, but it is -1\.0\."):
        penalty.prox(x, -1.0)


@pytest.mark.thorough
def test_penalty(case):
    """At short and long steps too; what else is checked the kernels prove of themselves."""
    check_penalty(
        case.build(),
        points=case.points,
        steps=(0.01, 0.4, 40.0),
        only=("dtype", "minimises", "certificate", "derivatives"),
    )


def test_the_table_knows_what_can_be_smoothed(case):
    assert hasattr(case.build(), "smoothed_prox") == case.smooths


@pytest.mark.thorough
def test_every_row_may_have_a_step_of_its_own(case):
    """Solvers on trees ask for the prox at steps of shape (nodes, 1)."""
    penalty, points = case.build(), case.points.astype(np.float32)
    steps = np.linspace(0.3, 3.0, len(points), dtype=np.float32)
    found = prox(penalty, points, steps[:, None])
    wanted = [prox(penalty, row, step) for row, step in zip(points, steps, strict=True)]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    if case.smooths:
        mu = np.full((len(points), 1), 0.2, np.float32)
        smoothed = np.asarray(smoothed_prox(penalty, points, steps[:, None], mu))
        last = smoothed_prox(penalty, points[-1], steps[-1], mu[0, 0])
        np.testing.assert_allclose(smoothed[-1], last, rtol=1e-5, atol=1e-6)


@jax.jit
def prox(penalty, points, step):
    return penalty.prox(points, step)


@jax.jit
def smoothed_prox(penalty, points, step, mu):
    return penalty.smoothed_prox(points, step, mu)
