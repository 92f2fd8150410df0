"""The clients' data as a user gives them, checked and turned into arrays."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import (
    bool_array,
    every_client,
    finite_array,
    is_concrete,
    leading,
    of_shape,
    real_array,
    refuse,
    refuse_entries,
    several,
    shapes_of,
    whole_numbers,
)
from fedjax_admm.problems._client_data import (
    ClientData,
    GeneratedData,
    StackedData,
    bucketed,
    compacted,
    stacked,
    whole,
)
from fedjax_admm.problems._streamed import Streamed, StreamedData, client_at, streamed_data

_LEAVE_OUT = "leave that client out"
_BY_CLIENT = "a list holds one pytree per client"
_AXES = ("clients", "samples")


def client_data(data: Any, mask: Any, sizes: Any, dtype: Any) -> ClientData:
    """Return the clients' data, whatever form they have."""
    if isinstance(data, Streamed):
        return _streamed_clients(data, mask, sizes, dtype)
    by_client = _is_by_client(data) and (mask is None or isinstance(data, list))
    refuse(mask is not None and (callable(data) or by_client), "mask", "is for stacked data")
    if callable(data):
        return _generated(data, sizes)
    refuse(sizes is not None, "sizes", "is for data that a function makes", remedy="use mask")
    return _listed_clients(list(data), dtype) if by_client else _stacked_clients(data, mask, dtype)


def _is_by_client(data: Any) -> bool:
    """Return whether data have a part for each client, and no arrays of all."""
    return isinstance(data, list) or (
        type(data) is tuple and not any(_is_array(part) for part in data)
    )


def _generated(make: Callable, sizes: Any) -> GeneratedData:
    made = shapes_of("data", make, {"a client's number": jnp.zeros((), jnp.int32)})
    (rows,) = leading("data", made, "samples")
    counts = whole_numbers("sizes", sizes, at_least=1, at_most=rows)
    numbers = jnp.arange(counts.size, dtype=jnp.int32)
    return GeneratedData(jnp.asarray(counts, jnp.int32), numbers, make)


def _streamed_clients(data: Streamed, mask: Any, sizes: Any, dtype: Any) -> StreamedData:
    """Return clients that stay on the host, of which only the first one is read."""
    clients = list(data.clients) if _is_by_client(data.clients) else data.clients
    refuse(mask is not None, "mask", "is not for streamed arrays, all of which count")
    made = callable(clients)
    refuse(sizes is not None and not made, "sizes", "is for data that a function makes")
    if isinstance(clients, list):
        counts = np.array([len(jax.tree.leaves(one)[0]) for one in _checked_clients(clients)])
    elif made:
        counts = np.asarray(whole_numbers("sizes", sizes, at_least=1))
    else:
        number, samples = leading(
            "data", _arrays("data", clients, np.asarray), *_AXES, remedy=_BY_CLIENT
        )
        counts = np.full(number, samples)
    first = _arrays("data[0]", client_at(clients, 0), np.asarray)
    (samples,) = leading("data[0]", first, "samples")
    refuse(samples != counts[0], "sizes", f"must hold {samples} for client 0", int(counts[0]))
    one = _in_dtype("data", jax.tree.map(lambda leaf: leaf[:1], first), dtype)
    like = jax.eval_shape(lambda one: one, jax.tree.map(jnp.asarray, one))
    return streamed_data(clients, counts, like, data.prefetch)


def _listed_clients(data: Sequence[Any], dtype: Any) -> ClientData:
    arrays = _checked_clients(data)
    arrays = [_in_dtype(f"data[{i}]", client, dtype) for i, client in enumerate(arrays)]
    return bucketed(arrays) if is_concrete(data) else _padded(arrays)


def _checked_clients(data: Sequence[Any]) -> list[Any]:
    """Return the arrays of a list of clients, which agree in structure, shapes and dtypes."""
    refuse(not data, "data", "must hold a client, but it is empty")
    convert = np.asarray if is_concrete(data) else jnp.asarray
    arrays = [_arrays(f"data[{i}]", client, convert) for i, client in enumerate(data)]
    first = _described(arrays[0])
    for i, client in enumerate(arrays):
        described = _described(client)
        told = f"must have the structure, shapes and dtypes of data[0] ({first}), but it has"
        refuse(described != first, f"data[{i}]", f"{told} {described}")
        leading(f"data[{i}]", client, "samples", remedy="leave clients without samples out")
    return arrays


def _padded(clients: Sequence[Any]) -> StackedData:
    """Return clients that are traced, as inside a trial, padded to the size of the largest."""
    sizes = np.array([jax.tree.leaves(client)[0].shape[0] for client in clients], np.int32)

    def longest(*parts: jax.Array) -> jax.Array:
        return jnp.stack(
            [
                jnp.pad(part, [(0, sizes.max() - part.shape[0])] + [(0, 0)] * (part.ndim - 1))
                for part in parts
            ]
        )

    return stacked(jax.tree.map(longest, *clients), jnp.asarray(sizes))


def _stacked_clients(data: Any, mask: Any, dtype: Any) -> StackedData:
    arrays = _in_dtype("data", _arrays("data", data), dtype)
    shape = leading("data", arrays, *_AXES, remedy=_BY_CLIENT)
    if mask is None:
        return whole(arrays, *shape)
    there = bool_array("mask", mask, shape)
    every_client("mask", there.any(1), "sample", _LEAVE_OUT)
    return compacted(arrays, there)


def _is_array(part: Any) -> bool:
    return hasattr(part, "shape") or np.isscalar(part)


def _described(tree: Any) -> str:
    leaves, structure = jax.tree.flatten(tree)
    shapes = ", ".join(f"{leaf.dtype}{list(leaf.shape[1:])} per sample" for leaf in leaves)
    return f"{structure}: {shapes}".removeprefix("PyTreeDef")


def _in_dtype(name: str, tree: Any, dtype: Any) -> Any:
    """Return arrays with floating ones in the parameters' dtype, which rounds none of them."""

    def cast(leaf: Any) -> Any:
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            return leaf
        own = jax.dtypes.canonicalize_dtype(leaf.dtype)  # float64 is float32 where JAX has none
        refuse(
            not np.can_cast(own, dtype, "safe"),
            name,
            f"holds {own} numbers, which {dtype} parameters would round",
            remedy=f"begin with parameters of {own}, or cast the data",
        )
        return leaf.astype(dtype)

    return jax.tree.map(cast, tree)


def held_out_samples(held_out: Any, dtype: Any) -> Any:
    """Return held-out samples: arrays with one leading axis of samples."""
    arrays = _in_dtype("held_out", _arrays("held_out", held_out), dtype)
    leading("held_out", arrays, "samples")
    return arrays


def _on_device(leaf: Any) -> jax.Array:
    """Return a copy on the device; `jnp.asarray` compiles a program for each new NumPy shape."""
    return jax.device_put(np.array(leaf)) if isinstance(leaf, np.ndarray) else jnp.asarray(leaf)


def _arrays(name: str, tree: Any, convert: Callable[[Any], Any] = _on_device) -> Any:
    """Return the leaves of a pytree as arrays; complex ones are left to the user's loss."""

    def array(leaf: Any) -> Any:
        if not np.iscomplexobj(leaf):
            real_array(name, leaf)
        return convert(leaf)

    return jax.tree.map(array, tree)


def entry_name(path: tuple[Any, ...]) -> Any:
    """Return the name or the number of the outermost entry on a path; None for a single leaf."""
    if not path:
        return None
    kinds = (kind for kind in ("key", "name", "idx") if hasattr(path[0], kind))
    return getattr(path[0], next(kinds))


def one_client(data: ClientData) -> Any:
    """Return the samples of the first client, padded."""
    zero = np.zeros(1, np.int32)
    if isinstance(data, StreamedData) and data.source is not None:
        return first_row(data.source.rows(zero).samples)
    return first_row(data.take(jnp.asarray(zero)).each(lambda client: client.samples))


def one_sample(data: ClientData) -> Any:
    """Return the first sample of the first client."""
    return first_row(one_client(data))


def first_row(tree: Any) -> Any:
    """Return the first row of every array."""
    return jax.tree.map(lambda leaf: leaf[0], tree)


# --- samples as one array per client, for problems with losses of ours ---


class ClientRows(NamedTuple):
    """The samples of all clients, 0 where a client has fewer than the largest one."""

    features: np.ndarray  # shape=(clients, samples, dim)
    columns: list[np.ndarray]  # shape=(clients, samples) each
    sizes: np.ndarray  # shape=(clients,), int32: samples of each client


def client_rows(
    features: Sequence[ArrayLike],
    columns: Mapping[str, Sequence[ArrayLike]],
    clients: int,
    *,
    called: str = "client",
    read: np.ndarray | None = None,
    empty: str = _LEAVE_OUT,
) -> ClientRows:
    """Stack one array (samples, dim) per client, and columns of one number per sample.

    Args:
      features: the arrays.
      columns: by name, one array (samples,) per client.
      clients: how many arrays there must be.
      called: the name of a client in sentences.
      read: bool, shape (clients,): whose arrays are read; the others have no sample.
      empty: the remedy for a client without samples.
    """
    for name, arrays in {"features": features, **columns}.items():
        several(name, arrays, f"one array per {called}")
        told = f"must hold one array per {called} ({clients or 'at least one'}), but it holds"
        refuse(len(arrays) != clients or not clients, name, f"{told} {len(arrays)}")
    places = range(clients) if read is None else np.flatnonzero(read).tolist()
    parts = {n: finite_array(f"features[{n}]", features[n], (None, None)) for n in places}
    dim = parts[places[0]].shape[1]
    for n, part in parts.items():
        of_shape(f"features[{n}]", part, (None, dim))
        told = f"must hold at least one sample and one column, but its shape is {part.shape}"
        refuse(not part.size, f"features[{n}]", told, remedy=empty)
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


def check_labels(targets: np.ndarray, present: np.ndarray) -> None:
    """Check that the targets (clients, samples) of samples that are present are -1 or 1."""
    remedy = "classes 0 and 1 become 2 * targets - 1"
    wrong = present & (np.abs(targets) != 1)
    refuse_entries(wrong, "targets", "must hold -1 and 1", targets, remedy)
