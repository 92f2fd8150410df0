"""Results for pandas and xarray: all trials, and their summary."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from fedjax_admm._checks import InputError, listed
from fedjax_admm._frames import dataset, optional, tidy_frame

if TYPE_CHECKING:
    from fedjax_admm.trials.results._contract import Results

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
    arrays = {
        (own, name): array
        for own, name, array in _by_method(results)
        if method in (None, own) and metric in (None, name)
    }
    categories = [list(dict.fromkeys(names)) for names in zip(*arrays, strict=True)]
    tables = []
    for names, array in arrays.items():
        axes = {
            results.config["parameter"]: results.sweep,
            "trial": _smallest(np.arange(array.shape[1])),
            "round": _smallest(results.rounds),
        }
        table = tidy_frame(axes, {"value": _whole(array, results)}, "to_dataframe()")
        for place, column in enumerate(("method", "metric")):
            codes = np.full(len(table), categories[place].index(names[place]), np.int16)
            table.insert(place, column, pandas.Categorical.from_codes(codes, categories[place]))
        tables.append(table)
    return pandas.concat(tables, ignore_index=True)


def trials_dataset(results: "Results") -> Any:
    """Return a Dataset with an array per metric over method, sweep value, trial and round."""
    shape = (len(results.sweep), results.trials, len(results.rounds))
    axes = {
        "method": results.methods,
        "sweep": results.sweep,
        "trial": np.arange(results.trials),
        "round": results.rounds,
    }
    absent = np.full(shape, np.nan)
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
        if any(results.has(method, metric) for method in results.methods)
    }
    about = {name: results.config[name] for name in _ABOUT if name in results.config}
    table = dataset(axes, arrays, about, "to_xarray()")
    for metric in arrays:
        table[metric].attrs["long_name"] = results.label(metric)
    table["sweep"].attrs["long_name"] = results.config["parameter_label"]
    return table


def summary_frame(columns: Mapping[str, np.ndarray]) -> Any:
    """Return the columns of a `Summary` as a DataFrame: a row per entry, with its place."""
    return tidy_frame(_places(columns) or {"axis_0": [0]}, columns, "to_dataframe()")


def summary_dataset(columns: Mapping[str, np.ndarray]) -> Any:
    """Return the columns of a `Summary` as a Dataset."""
    return dataset(_places(columns), columns, {}, "to_xarray()")


def _places(columns: Mapping[str, np.ndarray]) -> dict[str, Any]:
    shape = np.shape(next(iter(columns.values())))
    return {f"axis_{i}": np.arange(size) for i, size in enumerate(shape)}


def _by_method(results: "Results") -> list[tuple[str, str, np.ndarray]]:
    """Return method, metric and array of every metric."""
    return [
        (method, metric, array)
        for name, array in results.arrays.items()
        for method, _, metric in [name.rpartition("/")]
    ]


def _smallest(numbers: np.ndarray) -> np.ndarray:
    """Return whole numbers that are not negative in the smallest type that holds them."""
    return numbers.astype(np.min_scalar_type(int(np.max(numbers, initial=0))))


def _whole(array: np.ndarray, results: "Results") -> np.ndarray:
    """Return an array over all rounds; a metric of one number per trial is repeated."""
    return np.broadcast_to(array, (*array.shape[:2], len(results.rounds)))
