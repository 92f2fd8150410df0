"""How many trials a chunk has, and that it is stored while the next one is computed."""

import jax
import jax.numpy as jnp
import pytest

from fedjax_admm._checks import InputError
from fedjax_admm._host._store import Chunks
from fedjax_admm.trials.engine import Layout, _layout, default_mesh, monte_carlo
from fedjax_admm.trials.engine._layout import CHUNK_SECONDS, Pace, bounded
from fedjax_admm.trials.engine._program import Program


def lengths(pace, trials, seconds):
    """Cut a run into chunks of which every trial takes so many seconds."""
    left, found = trials, []
    while left:
        found.append(pace.length(left))
        pace.took(found[-1], seconds * found[-1])
        left -= found[-1]
    return found


def test_chunks_grow_until_they_take_two_seconds():
    pace = Pace(Layout(10, 5000), 2, given=False)
    # 20 trials, then 32 times as many, then what takes two seconds; the rest comes at once.
    assert lengths(pace, 4400, CHUNK_SECONDS / 1000) == [20, 640, 1000, 1000, 1000, 740]
    assert lengths(Pace(Layout(10, 5000), 2, given=False), 1500, 1e-9) == [20, 640, 840]


@pytest.mark.parametrize("seconds", [0.0, 1e-9, 1.0])
def test_a_chunk_is_never_larger_than_the_program_nor_smaller_than_a_micro_batch(seconds):
    found = lengths(Pace(Layout(10, 60), 2, given=False), 203, seconds)
    assert sum(found) == 203
    assert all(length % 20 == 0 for length in found[:-1])
    assert max(found) <= 60
    assert min(found[:-1]) == 20


def flat(key):
    state, _ = jax.lax.scan(lambda carry, _: (carry + 1, None), jnp.zeros(1000), length=3)
    return {"state": state * jax.random.uniform(key)}


def test_results_bound_a_chunk_down_to_one_micro_batch(monkeypatch):
    monkeypatch.setattr(_layout, "CHUNK_BYTES", 4000 * 64)
    assert bounded(Layout(5, 1000), 2, 4000.0) == Layout(5, 60)
    assert bounded(Layout(5, 40), 2, 4000.0) == Layout(5, 40)
    assert bounded(Layout(50, 1000), 2, 4000.0) == Layout(50, 100)
    outcome = monte_carlo(
        *(flat, jax.random.key(0), 400), batch=2, mesh=default_mesh(2), progress=False
    )
    assert outcome.layout == Layout(2, 64)


def test_the_next_chunk_is_begun_before_one_is_stored(tmp_path, monkeypatch):
    seen, begin, save = [], Program.begin, Chunks.write

    def begun(self, start, length):
        seen.append(("begun", start))
        return begin(self, start, length)

    def saved(self, first, *what):
        seen.append(("stored", first))
        if first == 8:
            raise InputError("the disk is full.")
        save(self, first, *what)

    monkeypatch.setattr(Program, "begin", begun)
    monkeypatch.setattr(Chunks, "write", saved)
    with pytest.raises(InputError, match="the disk is full"):
        monte_carlo(
            flat,
            jax.random.key(0),
            16,
            batch=2,
            chunk=4,
            mesh=default_mesh(1),
            store=tmp_path / "chunks",
            progress=False,
        )
    order = [("begun", 0), ("begun", 4), ("stored", 0), ("begun", 8), ("stored", 4)]
    assert seen == [*order, ("begun", 12), ("stored", 8)]
    assert len(list(tmp_path.glob("chunks/*.npz"))) == 2
