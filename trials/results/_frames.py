"""Results for pandas and xarray: all trials, and their summary."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_admm._checks import InputError, listed
from fedjax_admm._frames import dataset, optional, tidy_frame

if TYPE_CHECKING:
    from fedjax_admm.trials.results._contract import Results

_METHOD = "method"
_ABOUT = ("experiment", "title", "parameter", "parameter_label", "seed")


def trials_frame(results: "Results", method: str | None, metric: str | None) -> Any:
    """Return a DataFrame with a row per method, metric, sweep value, trial and round.

    Methods and metrics are categories, and whole numbers have as many bits as they need: at 8 bytes
    of each, and as many of a pointer to each text, four fifths of it would be repetition.
    """
    pandas = optional("pandas", "to_dataframe()")
    for name, known in ((method, results.methods), (metric, results.config["metrics"])):
        if name is not None and name not in known:
            told = f"these results have no {name!r}; they have {listed(known)}"
            raise InputError(told, value=name)
    if method is not None and metric is not None:
        results.values(method, metric)  # which says so if it was not measured
    chosen = {
        name: array
        for name, array in results.arrays.items()
        if method in (None, name.rpartition("/")[0]) and metric in (None, name.rpartition("/")[2])
    }
    pairs = [(own, of) for own, _, of in (name.rpartition("/") for name in chosen)]
    categories = [list(dict.fromkeys(names)) for names in zip(*pairs, strict=True)]
    tables = []
    for (own, of), array in zip(pairs, chosen.values(), strict=True):
        axes = {
            results.config["parameter"]: results.sweep,
            "trial": _smallest(np.arange(array.shape[1])),
            "round": _smallest(results.rounds),
        }
        table = tidy_frame(axes, {"value": _whole(array, results)}, "to_dataframe()")
        for place, (name, told) in enumerate(((_METHOD, own), ("metric", of))):
            codes = np.full(len(table), categories[place].index(told), np.int16)
            table.insert(place, name, pandas.Categorical.from_codes(codes, categories[place]))
        tables.append(table)
    return pandas.concat(tables, ignore_index=True)


def _smallest(numbers: np.ndarray) -> np.ndarray:
    """Return whole numbers that are not negative in the smallest type that holds them."""
    return numbers.astype(np.min_scalar_type(int(np.max(numbers, initial=0))))


def trials_dataset(results: "Results") -> Any:
    """Return a Dataset with an array per metric over method, sweep value, trial and round."""
    first = next(iter(results.arrays.values()))
    axes = {
        _METHOD: results.methods,
        "sweep": results.sweep,
        "trial": np.arange(first.shape[1]),
        "round": results.rounds,
    }
    metrics = {name.rpartition("/")[2] for name in results.arrays}
    absent = np.full((len(results.sweep), first.shape[1], len(results.rounds)), np.nan)
    arrays = {
        metric: np.stack(
            [
                _whole(results.values(method, metric), results)
                if results.has(method, metric)
                else absent
                for method in results.methods
            ]
        )
        for metric in results.config["metrics"]
        if metric in metrics
    }
    about = {name: results.config[name] for name in _ABOUT if name in results.config}
    found = dataset(axes, arrays, about, "to_xarray()")
    for metric in arrays:
        found[metric].attrs["long_name"] = results.label(metric)
    found["sweep"].attrs["long_name"] = results.config["parameter_label"]
    return found


def _whole(array: np.ndarray, results: "Results") -> np.ndarray:
    """Return an array over all rounds: what has one number per trial stays what it is."""
    return np.broadcast_to(array, (*array.shape[:2], len(results.rounds)))


def summary_frame(columns: Mapping[str, np.ndarray]) -> Any:
    """Return the columns of a `Summary` as a DataFrame: a row per entry, with its place."""
    shape = np.shape(next(iter(columns.values())))
    axes = {f"axis_{i}": np.arange(size) for i, size in enumerate(shape)} or {"axis_0": [0]}
    return tidy_frame(axes, columns, "to_dataframe()")


def summary_dataset(columns: Mapping[str, np.ndarray]) -> Any:
    """Return the columns of a `Summary` as a Dataset."""
    shape = np.shape(next(iter(columns.values())))
    axes = {f"axis_{i}": np.arange(size) for i, size in enumerate(shape)}
    return dataset(axes, columns, {}, "to_xarray()")
