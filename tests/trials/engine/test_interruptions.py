"""A request to stop is held back, then obeyed; what was there before comes back."""

import signal

import jax
import numpy as np
import pytest

from fedjax_admm.trials.engine import ChunkStore, monte_carlo
from fedjax_admm.trials.engine._interruptions import SIGNALS, held_back

TRIALS, CHUNK = 12, 4


@pytest.fixture(autouse=True)
def ctrl_c():
    """Tests that run in the background of a script ignore Ctrl-C: here it counts."""
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, usual)


def handlers():
    return [signal.getsignal(number) for number in SIGNALS]


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_request_is_noted_and_the_handlers_come_back(number):
    before = handlers()
    with held_back() as interruption:
        assert not interruption.asked
        assert all(now != then for now, then in zip(handlers(), before, strict=True))
        signal.raise_signal(number)
        assert interruption.asked
        # The next one is no longer held back.
        assert handlers() == before
    assert handlers() == before


def test_a_second_ctrl_c_stops_at_once():
    with held_back() as interruption:
        signal.raise_signal(signal.SIGINT)
        assert interruption.asked
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_what_a_shell_has_switched_off_stays_off():
    """A job in the background of a script ignores Ctrl-C."""
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with held_back() as interruption:
            signal.raise_signal(signal.SIGINT)
            assert not interruption.asked
    finally:
        signal.signal(signal.SIGINT, usual)


# In the engine


class Asking(ChunkStore):
    """Raises signals while the second chunk is being stored."""

    def __init__(self, folder, *signals):
        super().__init__(folder)
        self.signals = signals

    def save(self, first, arrays):
        for kind in self.signals if first == CHUNK else ():
            signal.raise_signal(kind)
        super().save(first, arrays)


def draw(key):
    return {"number": jax.random.uniform(key)}


def simulate(store):
    key = jax.random.key(3)
    return monte_carlo(draw, key, TRIALS, batch=2, chunk=CHUNK, store=store, progress=False).arrays


def stored(store):
    return sorted(path.name for path in store.folder.glob("0*.npz"))


@pytest.mark.parametrize("kind", SIGNALS)
def test_a_run_stops_after_the_chunk_that_has_begun(tmp_path, kind):
    store = Asking(tmp_path / "chunks", kind)
    before = handlers()
    with pytest.raises(KeyboardInterrupt):
        simulate(store)
    assert stored(store) == ["000000-000004.npz", "000004-000008.npz"]
    assert handlers() == before
    arrays = simulate(ChunkStore(store.folder))
    np.testing.assert_array_equal(arrays["number"], simulate(None)["number"])
