"""Problems that need more than the memory are refused."""

from types import SimpleNamespace

import numpy as np
import pytest

from fedjax_admm._checks import InputError
from fedjax_admm.ratings import from_arrays
from fedjax_admm.trials.engine import memory
from fedjax_admm.trials.solve.networked import _fit as networked
from fedjax_admm.trials.solve.networked._rows import held_out_rows, rows_needed
from fedjax_admm.trials.solve.networked._settings import NetworkedSettings
from fedjax_admm.trials.solve.ratings import _fit as ratings
from fedjax_admm.trials.solve.ratings._settings import RatingsSettings


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """Be a machine of 8 GiB."""
    monkeypatch.setattr(memory, "host_bytes", lambda: 8 * 2**30)


def _observations(nodes, rows, columns):
    return SimpleNamespace(nodes=range(nodes), columns=range(columns), counts=np.full(nodes, rows))


def _table():
    random = np.random.default_rng(0)
    users = np.repeat(np.arange(1000), 5)
    items = np.tile(np.arange(5), 1000) + 5 * random.integers(0, 20, 5000)
    return from_arrays(users, items, random.integers(1, 6, 5000))


def _networked(**settings):
    return NetworkedSettings(node="n", target="y", features="a", **settings)


@pytest.mark.parametrize(
    ("check", "data", "settings", "told"),
    [
        (networked.check_size, _observations(2000, 300, 50), _networked(lam="auto"), None),
        (
            networked.check_size,
            _observations(10**5, 10, 2),
            _networked(),
            r"needs 111.9 GiB, but 8.0 GiB is free; take fewer splits, nodes or columns, "
            "or give the edges in a file with graph",
        ),
        (networked.check_size, _observations(10**5, 10, 2), _networked(graph="mine.csv"), None),
        (networked.check_size, _observations(100, 10, 10**4), _networked(), "coefficients needs"),
        (
            networked.check_size,
            _observations(100, 10, 2),
            _networked(splits=10**7),
            "10000000 splits of 100 nodes with 2 coefficients needs",
        ),
        (ratings.check_size, _table(), RatingsSettings(rank=50), None),
        (ratings.check_size, _table(), RatingsSettings(rank=10**6), "of rank 1000000 .* needs"),
    ],
)
def test_work_is_counted_before_it_starts(check, data, settings, told):
    if told is None:
        check(data, settings)
    else:
        with pytest.raises(InputError, match=told):
            check(data, settings)


def test_the_rows_that_a_node_needs_are_the_fewest():
    for validation in (0.999999999999, 0.999, 0.9, 2 / 3, 0.5, 0.33, 1e-300):
        rows = rows_needed(validation)
        assert rows - held_out_rows(rows, validation) >= 1
        if 2 < rows < 10**6:
            assert rows - 1 - held_out_rows(rows - 1, validation) < 1
