"""Turning what a user calls the clients' data into arrays, with the checks of it."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import (
    InputError,
    is_concrete,
    listed,
    one_line,
    real_array,
    shapes_of,
)
from fedjax_admm.problems._client_data import (
    ClientData,
    GeneratedData,
    StackedData,
    bucketed,
    compacted,
    stacked,
)


def client_data(data: Any, mask: Any, sizes: Any, dtype: Any) -> ClientData:
    """Return the clients' data, whatever form they have."""
    if callable(data):
        return _generated(data, mask, sizes)
    if sizes is not None:
        raise InputError(
            "is for data that a function makes", argument="sizes", value=sizes, remedy="use mask"
        )
    if isinstance(data, list) or (
        type(data) is tuple and mask is None and not any(_is_array(part) for part in data)
    ):
        if mask is not None:
            raise InputError(
                "is for stacked data, but data is a list of clients", argument="mask", value=mask
            )
        return _listed_clients(data, dtype)
    return _stacked_clients(data, mask, dtype)


def _generated(make: Callable, mask: Any, sizes: Any) -> GeneratedData:
    if mask is not None:
        raise InputError(
            "is for stacked data, but data is a function",
            argument="mask",
            value=mask,
            remedy="use sizes",
        )
    if sizes is None:
        raise InputError(
            "must say how many samples each client has, shape (clients,), because data is a "
            "function",
            argument="sizes",
            value=sizes,
        )
    made = shapes_of("data", make, {"a client's number": jnp.zeros((), jnp.int32)})
    leaves = jax.tree.leaves(made)
    rows = {leaf.shape[:1] for leaf in leaves}
    if len(rows) != 1 or () in rows:
        raise InputError(
            "must make arrays with one leading axis of samples, but their shapes are "
            f"{listed(str(leaf.shape) for leaf in leaves)}",
            argument="data",
            value=make,
        )
    number = np.asarray(sizes)
    longest = rows.pop()[0]
    wrong = number.ndim != 1 or not np.issubdtype(number.dtype, np.integer) or number.size == 0
    if wrong or number.min() < 1 or number.max() > longest:
        raise InputError(
            f"must hold a whole number from 1 to {longest} for every client, as many as data makes,"
            f" but it is {one_line(sizes)}",
            argument="sizes",
            value=sizes,
        )
    numbers = jnp.arange(number.size, dtype=jnp.int32)
    return GeneratedData(jnp.asarray(number.astype(np.int32)), numbers, make)


def _listed_clients(data: Sequence[Any], dtype: Any) -> ClientData:
    if not data:
        raise InputError("must hold a client, but it is empty", argument="data", value=data)
    traced = not is_concrete(data)
    arrays_of = _device_arrays if traced else _host_arrays
    arrays = [arrays_of(f"data[{i}]", client) for i, client in enumerate(data)]
    first = _described(arrays[0])
    for i, client in enumerate(arrays):
        described = _described(client)
        if described != first:
            raise InputError(
                f"must have the structure, shapes and dtypes of data[0] ({first}), but it has "
                f"{described}",
                argument=f"data[{i}]",
                value=data[i],
            )
        lengths = {leaf.shape[:1] for leaf in jax.tree.leaves(client)}
        if () in lengths:
            raise InputError(
                "must hold arrays with a leading axis of samples, but one has no axis",
                argument=f"data[{i}]",
                value=data[i],
            )
        if len(lengths) > 1:
            raise InputError(
                f"must have arrays with equally many samples, but they have "
                f"{listed(str(length) for (length,) in sorted(lengths))}",
                argument=f"data[{i}]",
                value=data[i],
            )
        if lengths == {(0,)}:
            raise InputError(
                "must hold at least one sample, but it holds none",
                argument=f"data[{i}]",
                value=data[i],
                remedy="leave that client out",
            )
    arrays = [_in_dtype(f"data[{i}]", client, dtype) for i, client in enumerate(arrays)]
    return _padded(arrays) if traced else bucketed(arrays)


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
    arrays = _in_dtype("data", _device_arrays("data", data), dtype)
    leaves = jax.tree.leaves(arrays)
    heads = {leaf.shape[:2] for leaf in leaves}
    if len(heads) != 1 or len(next(iter(heads))) != 2:
        raise InputError(
            "must be a list with one pytree per client, or a pytree of arrays (clients, samples, "
            f"...), but its arrays have the shapes {listed(str(leaf.shape) for leaf in leaves)}",
            argument="data",
            value=data,
        )
    clients, samples = heads.pop()
    if not (clients and samples):
        raise InputError(
            f"must hold clients and samples, but there are {clients} and {samples}",
            argument="data",
            value=data,
        )
    if mask is None:
        return stacked(arrays, jnp.full(clients, samples, jnp.int32))
    there = jnp.asarray(mask)
    if there.shape != (clients, samples) or there.dtype != bool:
        raise InputError(
            f"must be bool of shape ({clients}, {samples}), but it is {there.dtype} of shape "
            f"{there.shape}",
            argument="mask",
            value=mask,
        )
    if is_concrete(there):
        empty = np.flatnonzero(~np.asarray(there).any(1))
        if empty.size:
            raise InputError(
                f"must leave every client a sample, but client {empty[0]} has none",
                argument="mask",
                value=mask,
                remedy="leave that client out",
            )
    return compacted(arrays, there)


def _is_array(part: Any) -> bool:
    return hasattr(part, "shape") or np.isscalar(part)


def _described(tree: Any) -> str:
    leaves, structure = jax.tree.flatten(tree)
    told = [f"{leaf.dtype}{list(leaf.shape[1:])} per sample" for leaf in leaves]
    return f"{structure}: {', '.join(told)}".removeprefix("PyTreeDef")


def _in_dtype(name: str, tree: Any, dtype: Any) -> Any:
    """Return arrays with floating ones in the parameters' dtype, which rounds none of them."""

    def cast(leaf: Any) -> Any:
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            return leaf
        given = jax.dtypes.canonicalize_dtype(leaf.dtype)  # float64 is float32 where JAX has none
        if not np.can_cast(given, dtype, "safe"):
            raise InputError(
                f"holds {given} numbers, which {dtype} parameters would round",
                argument=name,
                value=tree,
                remedy=f"begin with parameters of {given}, or cast the data",
            )
        return leaf.astype(dtype)

    return jax.tree.map(cast, tree)


def _host_arrays(name: str, tree: Any) -> Any:
    """Return the arrays of a client on the host."""

    def array(leaf: Any) -> np.ndarray:
        if not np.iscomplexobj(leaf):  # a loss of one's own may know what to do with those
            real_array(name, leaf)
        given = np.asarray(leaf)
        if given.ndim == 0 or given.dtype == object:
            raise InputError(
                f"must hold arrays with a leading axis of samples, but it holds {one_line(leaf)}",
                argument=name,
                value=tree,
            )
        return given

    found = jax.tree.map(array, tree)
    if not jax.tree.leaves(found):
        raise InputError("must hold an array, but it holds none", argument=name, value=tree)
    return found


def held_out_samples(held_out: Any, dtype: Any) -> Any:
    """Return held-out samples: arrays with one leading axis of samples."""
    arrays = _in_dtype("held_out", _device_arrays("held_out", held_out), dtype)
    rows = {leaf.shape[:1] for leaf in jax.tree.leaves(arrays)}
    if len(rows) > 1 or rows & {(), (0,)}:
        shapes = listed(str(leaf.shape) for leaf in jax.tree.leaves(arrays))
        raise InputError(
            f"must hold arrays with one leading axis of samples, of which there is one at least, "
            f"but their shapes are {shapes}",
            argument="held_out",
            value=held_out,
        )
    return arrays


def _device_arrays(name: str, tree: Any) -> Any:
    """Return arrays on the device, which may be traced."""

    def array(leaf: Any) -> jax.Array:
        if not np.iscomplexobj(leaf):  # a loss of one's own may know what to do with those
            real_array(name, leaf)
        try:
            return jnp.asarray(leaf)
        except (TypeError, ValueError, OverflowError):
            raise InputError(
                f"must hold arrays, but it holds {one_line(leaf)}", argument=name, value=tree
            ) from None

    found = jax.tree.map(array, tree)
    if not jax.tree.leaves(found):
        raise InputError("must hold an array, but it holds none", argument=name, value=tree)
    return found


def one_client(data: ClientData) -> Any:
    """Return the samples of the first client, padded."""
    found = data.take(jnp.zeros(1, jnp.int32)).each(lambda client: client.samples)
    return first_row(found)


def one_sample(data: ClientData) -> Any:
    """Return the first sample of the first client."""
    return first_row(one_client(data))


def first_row(tree: Any) -> Any:
    """Return the first row of every array."""
    return jax.tree.map(lambda leaf: leaf[0], tree)
