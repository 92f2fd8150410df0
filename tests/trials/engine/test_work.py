"""What a run computes at least is counted before it begins; runs without end are refused."""

import jax
import jax.numpy as jnp
import pytest

from fedjax_admm import InputError
from fedjax_admm.trials.engine import _work, default_mesh, monte_carlo

DIM = 1000


def looped(turns):
    def trial(key):
        start = jax.random.uniform(key, (DIM,))
        return {"end": jax.lax.fori_loop(0, turns, lambda _, x: x * 1.5, start).sum()}

    return trial


def numbers(function, *arguments):
    return _work.numbers(jax.make_jaxpr(function)(*arguments))


def test_turns_of_loops_count_and_the_largest_branch():
    x = jnp.zeros(DIM)
    assert numbers(lambda x: x * 2 + 1, x) == 2 * DIM
    # What a sum reads, and not what it returns.
    assert numbers(jnp.sum, x) == DIM
    # Functions of JAX that are compiled by themselves count once, loops as often as they turn.
    assert numbers(jax.jit(jnp.sin), x) == DIM
    scanned = numbers(lambda x: jax.lax.scan(lambda c, _: (jnp.sin(c), None), x, length=70), x)
    assert scanned == 70 * DIM
    nested = numbers(
        lambda x: jax.lax.map(lambda y: jax.lax.fori_loop(0, 10**9, lambda _, z: z * y, y), x), x
    )
    assert 1e9 * DIM <= nested < 3e9 * DIM
    branches = (lambda y: y, lambda y: jnp.sin(jnp.cos(y)), lambda y: -y)
    assert numbers(lambda x: jax.lax.switch(1, branches, x), x) <= 2 * DIM + 10
    # How often it turns is known to nobody.
    turned = numbers(lambda x: jax.lax.while_loop(lambda y: y[0] < 1, jnp.exp, x), x)
    assert DIM <= turned < 2 * DIM


def refused(turns, trials, **options):
    with pytest.raises(InputError) as caught:
        monte_carlo(looped(turns), jax.random.key(0), trials, **options)
    return str(caught.value)


def test_a_run_without_end_is_refused_before_it_is_compiled(monkeypatch, tmp_path):
    def compiled(*_, **__):
        raise AssertionError

    monkeypatch.setattr("fedjax_admm.trials.engine._monte_carlo.compile_trials", compiled)
    for turns, trials in [(2**31 - 2, 10**9), (10**5, 2**31 - 1), (2**31 - 2, 10**7)]:
        told = refused(turns, trials, store=tmp_path / "store")
        assert told.startswith(f"{trials} trials would take ")
        assert "at least on this machine; take fewer trials, rounds or local updates" in told
    assert not list(tmp_path.glob("store/*.npz"))


def test_trials_that_are_there_do_not_count(monkeypatch, tmp_path):
    options = {"batch": 1, "chunk": 2, "progress": False, "store": tmp_path / "store"}
    monte_carlo(looped(100), jax.random.key(0), 4, **options)
    seconds = _work.least_seconds(jax.make_jaxpr(looped(100))(jax.random.key(0)), 1)
    monkeypatch.setattr(_work, "LONGEST", 2.5 * seconds)
    monte_carlo(looped(100), jax.random.key(0), 6, **options)
    assert refused(100, 9, **options).startswith("3 trials would take")


def test_a_long_run_says_so_before_it_begins(monkeypatch, capsys):
    options = {"batch": 2, "mesh": default_mesh(1)}
    monte_carlo(looped(100), jax.random.key(0), 8, **options)
    assert not capsys.readouterr().err
    seconds = _work.least_seconds(jax.make_jaxpr(looped(100))(jax.random.key(0)), 8)
    monkeypatch.setattr(_work, "PER_CORE", _work.PER_CORE * seconds / (4 * 86_400))
    monte_carlo(looped(100), jax.random.key(0), 8, **options)
    assert capsys.readouterr().err == (
        "These 8 trials take 4 days at least on this machine, the first chunk of 2 trials "
        "24 hours.\n"
    )
    monte_carlo(looped(100), jax.random.key(0), 8, progress=False, **options)
    assert not capsys.readouterr().err


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (61.0, "61 seconds"),
        (7300.0, "2 hours"),
        (86_400 * 40, "40 days"),
        (1e12, "31,688 years"),
        (1e40, "3e+32 years"),
    ],
)
def test_times_are_told_as_people_say_them(seconds, words):
    assert _work.shown(seconds) == words
