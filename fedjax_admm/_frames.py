"""Numbers with named axes for pandas and xarray, which are imported on first use."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from fedjax_admm._checks import InputError, refuse


def optional(module: str, use: str) -> Any:
    """Return pandas or xarray, which are no dependencies, for a use that the sentence names."""
    try:
        return import_module(module)
    except ImportError:
        raise InputError(
            f"{use} needs {module}, which is not installed", remedy=f"pip install {module}"
        ) from None


def tidy_frame(axes: Mapping[str, Any], columns: Mapping[str, Any], use: str) -> Any:
    """Return a DataFrame with a row per place on some axes.

    Args:
      axes: the name of each axis and its coordinates, the outermost first.
      columns: arrays whose shape is that of the axes.
      use: the call that needs it.

    Returns:
      A column per axis and one per array.
    """
    pandas = optional("pandas", use)
    places = np.meshgrid(*(np.asarray(each) for each in axes.values()), indexing="ij")
    coordinates = {name: place.ravel() for name, place in zip(axes, places, strict=True)}
    return pandas.DataFrame(
        coordinates | {name: np.ravel(array) for name, array in columns.items()}
    )


def trace_axes(trace: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the axes of a trace: "run" for all batched axes in one, and "round".

    Runs that stop by themselves have recorded other rounds each: "record" counts their records.
    """
    rounds = np.asarray(trace["round"])
    flat = rounds.reshape(-1, rounds.shape[-1])
    batch = {"run": np.arange(len(flat))} if rounds.ndim > 1 else {}
    shared = np.all(flat == flat[:1])
    return batch | ({"round": flat[0]} if shared else {"record": np.arange(flat.shape[1])})


def trace_frame(trace: Mapping[str, Any]) -> Any:
    """Return a trace as a DataFrame; see `Run.to_dataframe`."""
    axes = trace_axes(trace)
    size = np.size(trace["round"])
    columns = {name: np.asarray(each) for name, each in trace.items() if name not in axes}
    for name, each in columns.items():
        told = f"the metric {name!r} is an array per round, which a table has no column for"
        refuse(each.size != size, None, told, remedy="use to_xarray()")
    return tidy_frame(axes, columns, "to_dataframe()")


def trace_dataset(trace: Mapping[str, Any]) -> Any:
    """Return a trace as a Dataset; see `Run.to_xarray`."""
    axes = trace_axes(trace)
    shape = tuple(map(len, axes.values()))
    columns = {name: np.asarray(each) for name, each in trace.items() if name not in axes}
    behind = np.ndim(trace["round"])
    return dataset(
        axes,
        {name: each.reshape(shape + each.shape[behind:]) for name, each in columns.items()},
        {},
        "to_xarray()",
    )


def dataset(
    axes: Mapping[str, Any], arrays: Mapping[str, Any], about: Mapping[str, Any], use: str
) -> Any:
    """Return arrays as an xarray Dataset.

    Args:
      axes: the name of each leading axis and its coordinates.
      arrays: by name; further axes are called after the array.
      about: attributes.
      use: the call that needs it.
    """
    xarray = optional("xarray", use)
    shared = tuple(axes)
    return xarray.Dataset(
        {
            name: (
                (*shared, *(f"{name}_{i}" for i in range(np.ndim(array) - len(shared)))),
                np.asarray(array),
            )
            for name, array in arrays.items()
        },
        coords=dict(axes),
        attrs=dict(about),
    )
