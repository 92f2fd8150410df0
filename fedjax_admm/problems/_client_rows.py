"""Samples given as one array per client, checked and padded to the largest client."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import InputError, finite_array, several


class ClientRows(NamedTuple):
    """The samples of all clients, 0 where a client has fewer than the largest one."""

    features: np.ndarray  # shape=(clients, samples, dim)
    columns: list[np.ndarray]  # shape=(clients, samples) each
    sizes: np.ndarray  # shape=(clients,), int32: samples of each client


def client_rows(
    features: Sequence[ArrayLike],
    clients: int,
    *,
    called: str = "client",
    read: np.ndarray | None = None,
    empty: str = "leave that client out",
    **columns: Sequence[ArrayLike],
) -> ClientRows:
    """Stack one array (samples, dim) per client, and columns of one number per sample.

    Args:
      features: the arrays.
      clients: how many arrays there must be.
      called: the name of a client in sentences.
      read: bool, shape (clients,): whose arrays are read; the others have no sample.
      empty: the remedy for a client without samples.
      **columns: by name, one array (samples,) per client.
    """
    for name, arrays in {"features": features, **columns}.items():
        several(name, arrays, f"one array per {called}")
        if len(arrays) != clients or not clients:
            raise InputError(
                f"must hold one array per {called} ({clients or 'at least one'}), but it holds "
                f"{len(arrays)}",
                argument=name,
                value=arrays,
            )
    places = range(clients) if read is None else np.flatnonzero(read).tolist()
    parts = {n: finite_array(f"features[{n}]", features[n], (None, None)) for n in places}
    dim = parts[places[0]].shape[1]
    for n, part in parts.items():
        finite_array(f"features[{n}]", part, (None, dim))
        if not part.size:
            raise InputError(
                f"must hold at least one sample and one column, but its shape is {part.shape}",
                argument=f"features[{n}]",
                value=features[n],
                remedy=empty,
            )
    sizes = np.zeros(clients, np.int32)
    sizes[list(places)] = [len(part) for part in parts.values()]
    dtype = np.result_type(*(part.dtype for part in parts.values()))
    x = np.zeros((clients, sizes.max(), dim), dtype)
    stacked = [np.zeros(x.shape[:2], dtype) for _ in columns]
    for n, part in parts.items():
        x[n, : sizes[n]] = part
        for column, (name, arrays) in zip(stacked, columns.items(), strict=True):
            column[n, : sizes[n]] = finite_array(f"{name}[{n}]", arrays[n], (int(sizes[n]),))
    return ClientRows(x, stacked, sizes)


def check_labels(targets: np.ndarray, present: np.ndarray, given: Sequence[ArrayLike]) -> None:
    """Check that the targets (clients, samples) of samples that are present are -1 or 1."""
    wrong = np.argwhere(present & (np.abs(targets) != 1))
    if wrong.size:
        i, j = (int(place) for place in wrong[0])
        raise InputError(
            f"must hold -1 and 1, but entry {j} is {targets[i, j]:g}",
            argument=f"targets[{i}]",
            value=given[i],
            remedy="classes 0 and 1 become 2 * targets - 1",
        )
