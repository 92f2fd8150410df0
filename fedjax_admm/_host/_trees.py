"""Pytrees of arrays in one file: without pickle, whole or not there, and with a digest.

The file is an archive of `write_arrays`. Its leaves are called "0", "1", and so on, and its member
about.json tells their places in the pytree, types and shapes, and the SHA-256 of everything. Typed
keys are stored as their numbers, and bfloat16 and its kin as their bits.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm._host._files import digest_of, read_archive, write_arrays


class Leaves(NamedTuple):
    """What a file of a pytree holds."""

    arrays: list[Any]  # NumPy arrays, and JAX arrays of typed keys
    kinds: list[list[str]]  # of each: its place in the pytree, its type and shape
    about: dict[str, Any]  # what went with the pytree when it was written


def kind_of(leaf: Any) -> str:
    """Return type and shape of an array or a number, as "float32[3, 2]"."""
    leaf = leaf if hasattr(leaf, "dtype") else np.asarray(leaf)
    return f"{leaf.dtype}{list(leaf.shape)}"


def write_tree(path: str | os.PathLike[str], tree: Any, about: Mapping[str, Any]) -> None:
    """Write a pytree of arrays to a file, in the place of an older one.

    Args:
      path: where it shall be.
      tree: its leaves are arrays or numbers; typed keys may be among them.
      about: what goes with them, as JSON holds it.

    Raises:
      InputError: the file system refuses.
    """
    entries = jax.tree.leaves_with_path(tree)
    arrays = {f"{i}": _stored(leaf) for i, (_, leaf) in enumerate(entries)}
    keys = {name: leaf for name, (_, leaf) in zip(arrays, entries, strict=True) if _is_key(leaf)}
    content = {
        **about,
        "leaves": [[jax.tree_util.keystr(place), kind_of(leaf)] for place, leaf in entries],
        "keys": {name: str(jax.random.key_impl(key)) for name, key in keys.items()},
    }
    write_arrays(Path(path), arrays, {**content, "digest": digest_of(content, arrays)})


def read_tree(path: str | os.PathLike[str]) -> Leaves:
    """Read what `write_tree` has written.

    Raises:
      InputError: there is no such file, or it is damaged or has been changed.
    """
    arrays, about = read_archive(Path(path))
    digest, kinds = about.pop("digest", None), about.get("leaves")
    if not isinstance(kinds, list) or digest_of(about, arrays) != digest:
        raise InputError(
            f"{path} is damaged or has been changed, or fedjax-admm has not written it",
            argument="path",
            value=str(path),
            remedy="take an older copy of it",
        )
    for name, kind in about.pop("keys").items():
        arrays[name] = jax.random.wrap_key_data(jnp.asarray(arrays[name]), impl=kind)
    return Leaves([arrays[f"{i}"] for i in range(len(kinds))], about.pop("leaves"), about)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _stored(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)
