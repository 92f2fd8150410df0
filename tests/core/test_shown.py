"""Solvers, problems and penalties show their numbers, and the shapes of their arrays."""

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import fedjax_admm as fa


@fa.pytree_dataclass
class Anything:
    part: Any


def problem():
    return fa.problems.draw_localization(jax.random.key(0), fa.problems.cauchy_noise(1.0))


@pytest.mark.parametrize(
    ("part", "shown"),
    [
        (jnp.zeros((100, 7)), "float32[100,7]"),
        (jnp.float32(0.1), "0.1"),
        (jax.ShapeDtypeStruct((), jnp.float32), "float32[]"),
        (jax.random.key(0), "key<fry>[]"),
        ({"a": jnp.zeros(2)}, "{'a': float32[2]}"),
        (fa.Status(jnp.int32(3), 1, 0), "Status(converged=3, nonfinite=1, unsolved=0)"),
        (Anything(Anything(1)), "Anything(part=Anything(...))"),
        (jnp.sin, "sin"),
        ("x" * 1000, "'xxxxxxxxxxxx...xxxxxxxxxxxxx'"),
    ],
)
def test_parts_are_shown_without_their_arrays(part, shown):
    assert repr(Anything(part)) == f"Anything(part={shown})"


def test_numbers_and_shapes_are_told():
    assert repr(problem()) == (
        "Localization(anchors=float32[21,3], distances=float32[21], start=float32[3], "
        "target=float32[3])"
    )
    assert "sigma_psi=SqrtGrowth(scale=0.00707107)" in repr(fa.solvers.fsmdm())
    run = fa.run(fa.solvers.fsmdm(), problem(), jax.random.key(0), rounds=2)
    assert "estimate=float32[3]" in repr(run)


def test_a_run_says_how_it_went():
    run = fa.run(
        fa.solvers.fsmdm(),
        problem(),
        jax.random.key(0),
        rounds=20,
        every=5,
        measure=fa.measures.localization_error,
    )
    first, error, _, messages = str(run).splitlines()
    assert first == "20 rounds"
    begun, ended = run.trace["error"][0], run.trace["error"][-1]
    assert error == f"error: {begun:.4g} after 5 rounds, {ended:.4g} at the end"
    assert messages.startswith("420 messages each way")

    spoilt = run._replace(status=run.status._replace(nonfinite=jnp.int32(7), unsolved=jnp.int32(1)))
    told = str(spoilt)
    assert "the estimate is not finite from round 7 on: see docs/howto/symptoms.md" in told
    assert "1 inexact proximal step fell short" in told
    several = jax.tree.map(lambda *leaves: jnp.stack(leaves), run, spoilt, run)
    assert str(several).startswith("3 runs of 20 rounds\n1 is not finite from round 7 on")


def test_traced_objects_are_shown():
    seen = []
    jax.make_jaxpr(lambda solver: seen.append(repr(solver)) or solver.omega)(fa.solvers.fsmdm())
    assert "omega=float32[]" in seen[0]


def test_a_class_may_show_itself_otherwise():
    @fa.pytree_dataclass
    class Silent:
        part: Any

        def __repr__(self):
            return "Silent"

    assert repr(Silent(1)) == "Silent"
