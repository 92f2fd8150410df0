"""Runs that tell how far they are: the same bits, interruptions, what is shown where."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import (
    InputError,
    graphs,
    key_reuse_allowed,
    losses,
    participation,
    privacy,
    solvers,
)
from tests.bits import same_bits
from tests.solvers.private.cases import WITHOUT_OPTIMUM

ROUNDS = 44
LINE = f"of {ROUNDS} rounds"


def on_star():
    noise = fa.problems.cauchy_noise(1.0)
    return fa.problems.draw_localization(jax.random.key(0), noise)


def on_graph():
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((4, 5, 2)), rng.standard_normal((4, 5))
    graph = graphs.from_edges(4, [(0, 1), (1, 2), (2, 3)])
    with WITHOUT_OPTIMUM:
        return fa.problems.consensus_regression(graph, list(x), list(y), losses.squared(), l2=0.5)


def noisy(rounds=ROUNDS):
    plan = privacy.zcdp_plan(2.0, 1e-5, rounds)
    return solvers.private_subgradient(privacy.gaussian_release(plan, 50.0), step_size=0.1)


def estimate(solver, problem, state):
    return {"estimate": solver.estimate(state)}


def distance(solver, problem, state):
    """Residual: how far the server is from the clients."""
    return jnp.max(jnp.abs(state.clients.x - state.server[None]))


FAMILIES = {
    "star": (solvers.fsmdm, on_star, participation.bernoulli(0.5), 2),
    "private": (noisy, on_graph, participation.everyone(), 1),
    "peers": (lambda: solvers.extra(0.05), on_graph, participation.markov_on_off(0.2, 0.3), 1),
}


@pytest.fixture
def interrupt_after(monkeypatch):
    """Have Ctrl-C arrive while the block after so many is computed, however fast it is."""

    def arm(blocks):
        waited = jax.block_until_ready  # once per block
        done = iter([False] * blocks)

        def wait(values):
            if next(done, True):
                raise KeyboardInterrupt
            return waited(values)

        monkeypatch.setattr(jax, "block_until_ready", wait)

    return arm


@pytest.mark.bits
@pytest.mark.kin(1)
@pytest.mark.parametrize("family", FAMILIES)
def test_blocks_have_the_bits_of_one_run(family, capsys):
    build, draw, process, every = FAMILIES[family]
    arguments = (build(), draw(), jax.random.key(3))
    traced = []

    def measure(solver, problem, state):
        traced.append(solver)
        return {"estimate": solver.estimate(state)}

    options = {"participation": process, "measure": measure, "every": every}
    whole = fa.run(*arguments, rounds=ROUNDS, **options)
    assert capsys.readouterr() == ("", "")
    once = len(traced)
    shown = fa.run(*arguments, rounds=ROUNDS, progress=True, **options)
    assert len(traced) == 3 * once  # two programs
    same_bits(shown, whole)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 4
    assert lines[-1] == f"{ROUNDS} {LINE}"


@pytest.mark.bits
@pytest.mark.parametrize("tolerance", [1.0, 0.0], ids=["converges", "does not"])
def test_run_until_ends_at_the_same_round(tolerance):
    arguments = (solvers.fsmdm(), on_star(), jax.random.key(3))
    options = {"residual": distance, "tolerance": tolerance, "max_rounds": 600, "every": 3}
    whole = fa.run_until(*arguments, **options)
    assert bool(whole.status.converged) == (tolerance > 0)
    assert int(whole.state.index) > 12  # more than the first blocks
    same_bits(whole, fa.run_until(*arguments, progress=True, **options))
    start = fa.run(*arguments, rounds=5).state
    same_bits(
        fa.run_until(*arguments, start=start, **options),
        fa.run_until(*arguments, start=start, progress=True, **options),
    )
    # Where the residual is small enough, nothing is done.
    if tolerance:
        again = fa.run_until(*arguments, start=whole.state, progress=True, **options)
        chex.assert_trees_all_equal(again.state, whole.state)
        assert int(again.status.converged) == int(whole.status.converged)


@pytest.mark.kin(1)
@pytest.mark.parametrize("at", [2.0, 30.0])
def test_first_nonfinite_round_is_that_of_one_run(at):
    bad = fa.schedule(lambda k, at: jnp.where(k == at, jnp.nan, 1.0), at=at)
    arguments = (solvers.fed_subgradient(bad), on_star(), jax.random.key(3))
    shown = fa.run(*arguments, rounds=ROUNDS, progress=True)
    assert int(shown.status.nonfinite) == at
    until = fa.run_until(
        *arguments, residual=constant, tolerance=0.5, max_rounds=ROUNDS, progress=True
    )
    assert int(until.status.nonfinite) == int(until.state.index) == at


def constant(solver, problem, state):
    return jnp.ones(())


@pytest.mark.thorough
@pytest.mark.bits
@pytest.mark.parametrize("blocks", [1, 5])
def test_an_interrupted_run_gives_what_is_done_and_goes_on(blocks, interrupt_after, capsys):
    arguments = (solvers.fsmdm(), on_star(), jax.random.key(3))
    options = {"participation": participation.bernoulli(0.5), "measure": estimate}
    whole = fa.run(*arguments, rounds=ROUNDS, **options)
    interrupt_after(blocks)
    part = fa.run(*arguments, rounds=ROUNDS, progress=True, **options)
    done = int(part.state.index)
    assert 0 < done < ROUNDS
    assert capsys.readouterr().err.splitlines()[-1] == (
        f"Interrupted after {done} of {ROUNDS} rounds; these are returned, and "
        f"start=run.state, rounds={ROUNDS - done} goes on from there."
    )
    np.testing.assert_array_equal(part.trace["round"], np.arange(1, done + 1))
    rest = fa.run(*arguments, rounds=ROUNDS - done, start=part.state, **options)
    same_bits(rest.state, whole.state)
    for name, values in whole.trace.items():
        same_bits(np.concatenate([part.trace[name], rest.trace[name]]), values)


@pytest.mark.bits
def test_an_interrupted_search_for_a_small_residual_goes_on(interrupt_after, capsys):
    arguments = (solvers.fsmdm(), on_star(), jax.random.key(3))
    options = {"residual": distance, "tolerance": 0.0, "max_rounds": ROUNDS}
    interrupt_after(2)
    part = fa.run_until(*arguments, progress=True, **options)
    assert 0 < int(part.trace["round"][0]) < ROUNDS
    assert "start=run.state goes on" in capsys.readouterr().err
    rest = fa.run_until(*arguments, start=part.state, **options)
    same_bits(rest.state, fa.run_until(*arguments, **options).state)


def test_before_the_first_block_ctrl_c_is_ctrl_c():
    def interrupted(solver, problem, state):  # as it is traced
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fa.run(
            *(solvers.fsmdm(), on_star(), jax.random.key(3)),
            rounds=ROUNDS,
            measure=interrupted,
            progress=True,
        )


class TestKeys:
    @pytest.fixture(autouse=True)
    def keys_serve_again(self):
        """Have keys watched here, as they are for users."""

    def test_blocks_are_one_use_of_a_key(self, interrupt_after, monkeypatch):
        arguments, key = (noisy(), on_graph()), jax.random.key(20_001)
        interrupt_after(1)
        part = fa.run(*arguments, key, rounds=ROUNDS, progress=True)
        monkeypatch.undo()
        left = ROUNDS - int(part.state.index)
        assert left > 0
        with pytest.raises(InputError, match="round 1 on for something else"):
            fa.run(noisy(50), on_graph(), key, rounds=2)
        rest = fa.run(*arguments, key, rounds=left, start=part.state, progress=True)
        whole = fa.run(*arguments, key, rounds=ROUNDS, progress=True)
        same_bits(rest.state, whole.state)
        with pytest.raises(InputError, match=f"round {ROUNDS - left + 1} on for something else"):
            fa.run(noisy(50), on_graph(), key, rounds=2, start=part.state)
        with key_reuse_allowed():
            fa.run(noisy(50), on_graph(), key, rounds=2)


def test_what_is_traced_cannot_tell():
    solver, problem, key = solvers.fsmdm(), on_star(), jax.random.key(3)
    refused = pytest.raises(InputError, match="progress needs rounds that are computed, but this")

    def last(key):
        return fa.run(solver, problem, key, rounds=4, progress=True).estimate

    def until(key):
        options = {"residual": distance, "tolerance": 0.1, "max_rounds": 4}
        return fa.run_until(solver, problem, key, progress=True, **options).estimate

    for function in (last, until):
        with refused:
            jax.jit(function)(key)
        with refused:
            jax.vmap(function)(jax.random.split(jax.random.key(4)))
    with refused:
        jax.jit(lambda: last(key))()
    with refused:
        jax.grad(
            lambda beta: jnp.sum(
                fa.run(solvers.fsmdm(beta=beta), problem, key, rounds=4, progress=True).estimate
            )
        )(100.0)


def test_a_terminal_has_a_bar(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    fa.run(solvers.fsmdm(), on_star(), jax.random.key(3), rounds=ROUNDS, progress=True)
    out, err = capsys.readouterr()
    assert out == ""
    assert f"{ROUNDS} of {ROUNDS}," in err
