"""Arrays of trials, as chunks hold them, turned into those of the result contract."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedjax_admm.traffic import Traffic, totals
from fedjax_admm.trials.results._arrays import NONFINITE_ROUND
from fedjax_admm.trials.results._contract import MESSAGES, Results


def collected(
    config: Mapping[str, Any], arrays: Mapping[str, np.ndarray], rounds: np.ndarray
) -> Results:
    """Return the results of trials: their axes in the contract's order, messages as numbers sent.

    Args:
      config: the configuration of their run.
      arrays: by "method/metric", with axes (trial, sweep, round).
      rounds: how many rounds are done at each record, shape (round,), int.
    """
    found: dict[str, np.ndarray] = {}
    nonfinite: dict[str, np.ndarray] = {}
    compressed = any(sizes and sizes["up_bits"] is not None for sizes in config["traffic"].values())
    for method, sizes in config["traffic"].items():
        for name, values in arrays.items():
            owner, _, metric = name.rpartition("/")
            if owner != method:
                continue
            values = np.swapaxes(values, 0, 1)
            if metric == NONFINITE_ROUND:
                nonfinite[method] = values
            elif metric == MESSAGES:
                sent = totals(Traffic(**sizes), values, rounds)
                found |= {f"{method}/numbers_up": sent.up, f"{method}/numbers_down": sent.down}
                if compressed:
                    found |= {
                        f"{method}/bits_up": sent.up_bits,
                        f"{method}/bits_down": sent.down_bits,
                    }
            else:
                found[name] = values
    sweep = np.asarray(config["settings"][config["parameter"]], np.float64)
    return Results(config, sweep, rounds, found, nonfinite)


def rounds_of_records(rounds: int, records: int) -> np.ndarray:
    """Return how many rounds are done at each record, from their number alone, shape (records,).

    A run records every `k` rounds and at its end, ceil(rounds / k) times; where `k` divides the
    rounds or is itself ceil(rounds / n), it follows from that number as ceil(rounds / records).
    """
    every = -(-rounds // records)
    return np.minimum(every * np.arange(1, records + 1), rounds)
