"""Runs in files: saved whole, loaded to the same bits, and known by what made them.

fa.save(run, "run.npz")                                   a Run, a state, or any pytree of arrays
run = fa.load("run.npz", like=fa.run(..., rounds=0))
run = fa.run(..., rounds=1000, checkpoint="run.npz")      writes while it runs, and goes on there
"""

import dataclasses
import functools
import hashlib
import inspect
import os
import re
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import InputError, count, listed, multiple, not_deleted
from fedjax_admm._host._files import bytes_of
from fedjax_admm._host._trees import Leaves, kind_of, read_tree, write_tree
from fedjax_admm._run._progress import SHORTEST, check_untraced
from fedjax_admm._version import __version__


def save(tree: Any, path: str | os.PathLike[str]) -> None:
    """Write a Run, a state, or any other pytree of arrays, to one file.

    The file is whole or not there at any moment, an older one of the name is replaced, and its
    SHA-256 is written into it. It holds no pickle: `numpy.load` opens it, and reading it runs no
    code. Typed keys and types such as bfloat16 keep their type.

    Args:
      tree: its arrays and numbers are written; what is neither, such as the functions in a
        module, is left out.
      path: of the file.

    Raises:
      InputError: the file system refuses.
    """
    not_deleted("tree", tree)
    write_tree(
        path, jax.tree.map(lambda x: x if _is_stored(x) else None, tree), {"release": __version__}
    )


def load(path: str | os.PathLike[str], *, like: Any) -> Any:
    """Read what `save` has written, or a checkpoint of `run`.

    Args:
      path: of the file.
      like: a pytree of the structure, shapes and dtypes of what was saved: what a new
        `run(..., rounds=0)` returns, or what `jax.eval_shape` returns of the function that made it.
        The trace of a Run may have another number of records. What is neither array nor number is
        taken from here.

    Returns:
      The pytree: JAX arrays on the devices of `like`; NumPy arrays and numbers where it has these.

    Raises:
      InputError: there is no such file, it is damaged or has been changed, or it holds something
        else than `like`.
    """
    return _like(read_tree(path), like, path)


def _like(leaves: Leaves, like: Any, path: Any) -> Any:
    """Return the leaves of a file as a pytree; the first difference to it is named."""
    every, structure = jax.tree.flatten_with_path(like)
    entries = [(place, leaf) for place, leaf in every if _is_stored(leaf)]
    places = [jax.tree_util.keystr(place) for place, _ in entries]
    for i, (place, (_, leaf)) in enumerate(zip(places, entries, strict=True)):
        there, kind = leaves.kinds[i] if i < len(leaves.kinds) else ("nothing", "")
        asked = kind_of(leaf)
        if there == place and kind != asked and place.startswith(".trace["):
            kind = _without_records(kind, asked)
        if (there, kind) != (place, asked):
            _refuse(path, f"{there} {kind}".strip(), f"{place} {asked}", like)
    if len(leaves.kinds) > len(entries):
        _refuse(path, " ".join(leaves.kinds[len(entries)]), "nothing", like)
    arrays = iter(leaves.arrays)
    made = [_placed(next(arrays), leaf) if _is_stored(leaf) else leaf for _, leaf in every]
    return jax.tree.unflatten(structure, made)


def _is_stored(leaf: Any) -> bool:
    """Return whether a leaf is an array, the shape of one, or a number."""
    return hasattr(leaf, "dtype") or isinstance(leaf, bool | int | float | complex)


def _refuse(path: Any, there: str, asked: str, like: Any) -> None:
    raise InputError(
        f"{path} holds {there} where {asked} is expected: it is of another solver, problem or call",
        value=like,
        remedy="give what has the structure of what was saved",
    )


def _without_records(kind: str, asked: str) -> str:
    """Return a kind with one axis as long as in another, if both differ by that axis alone."""
    own, other = (re.fullmatch(r"([^\[]*)\[(.*)\]", text) for text in (kind, asked))
    if own is None or other is None or own[1] != other[1]:
        return kind
    sizes = [text[2].split(", ") for text in (own, other)]
    differ = [a != b for a, b in zip(*sizes, strict=False)]
    return asked if len(sizes[0]) == len(sizes[1]) and sum(differ) == 1 else kind


def _placed(array: Any, leaf: Any) -> Any:
    """Return an array of a file as the kind of array that stands in its place."""
    if isinstance(leaf, np.ndarray | np.generic):
        return array
    if isinstance(leaf, bool | int | float | complex):
        return array.item()
    return jax.device_put(array, getattr(leaf, "sharding", None))


# --- checkpoints of a run -------------------------------------------------------------------------


class Checkpoint(NamedTuple):
    """A file into which a run, or a search, is written while it runs."""

    path: Path
    identity: dict[str, str]  # by part of the call: a digest of what it was given

    def read(self, like: Any) -> Any:
        """Return the Run that the file holds, like one that is given; None without a file.

        Raises:
          InputError: the file is of another run, or damaged.
        """
        if not self.path.exists():
            return None
        leaves = read_tree(self.path)
        identity = leaves.about.get("run")
        if not isinstance(identity, dict):
            raise InputError(
                f"must be a file of a run, but {self.path} was written by something else",
                argument="checkpoint",
                value=self.path,
                remedy="give another path",
            )
        others = [name for name in self.identity if self.identity[name] != identity.get(name)]
        if others:
            verb = "differs" if len(others) == 1 else "differ"
            raise InputError(
                f"must be a file of this run, but {self.path} is of another, whose "
                f"{listed(others)} {verb}",
                argument="checkpoint",
                value=self.path,
                remedy="repeat the call as it was, or give another path",
            )
        return _like(leaves, like(), self.path)

    def write(self, run: Any) -> None:
        """Write a Run into the file."""
        write_tree(self.path, run, {"release": __version__, "run": self.identity})


def opened_checkpoint(
    path: Any,
    length: Any,
    like: Callable[[], Any],
    arguments: tuple,
    named: dict[str, Any],
    rounds: int,
) -> dict[str, Any]:
    """Return how `scan_in_blocks` writes a run into a file, and the Run that is there already.

    Args:
      path: of the file.
      length: rounds of a block, or None.
      like: returns a Run with the shapes of this one.
      arguments: solver, problem, key, participation and start of the call.
      named: its measure and its `every`.
      rounds: of the call.
    """
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise InputError("must be the path of a file", argument="checkpoint", value=path)
    check_untraced(arguments, argument="checkpoint", value=path)
    every = named["every"]
    if length is not None:
        length = count("checkpoint_every", length, at_least=SHORTEST * every)
        multiple("checkpoint_every", length, "every", every)
    names = ("solver", "problem", "key", "participation", "start")
    call = dict(zip(names, arguments, strict=True)) | named
    file = Checkpoint(Path(path), identity_of(call))
    done = file.read(like)
    if done is not None:
        ended = done.trace["round"].shape[0] * every
        if ended > rounds:
            raise InputError(
                f"must be at least {ended}, which {path} holds already, but it is {rounds}",
                argument="rounds",
                value=rounds,
                remedy="give another path",
            )
        what = f"goes on after {ended} of {rounds} rounds"
        if ended == rounds:
            what = f"holds all {rounds} rounds; nothing is computed"
        print(f"{path} {what}.", file=sys.stderr)
    return {"length": length, "done": done, "write": file.write}


def identity_of(call: Mapping[str, Any]) -> dict[str, str]:
    """Return a digest of every argument of a call, and the releases that compute it."""
    releases = f"fedjax-admm {__version__}, jax {jax.__version__}"
    digests = {name: _digest(value) for name, value in call.items()}
    return {**digests, "release of fedjax-admm or of jax": releases}


def _digest(value: Any) -> str:
    digest = hashlib.sha256()
    for piece in _pieces(value, {}):
        digest.update(piece if isinstance(piece, memoryview) else f"{piece};".encode())
    return digest.hexdigest()


def _pieces(value: Any, seen: dict[int, Any]) -> Iterator[str | memoryview]:
    """Yield what tells a value from others, in every process the same.

    A function is its code, its defaults and what it closes over; what it reads from its module is
    left out. An object of a foreign class that is neither a dataclass nor a pytree is its class.
    """
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        yield repr(value)
        return
    yield f"{type(value).__module__}.{type(value).__qualname__}"
    if isinstance(value, np.memmap):
        # Reading it whole could take hours: its name, its size and its date stand for it.
        about = os.stat(str(value.filename))
        yield f"{value.dtype}{value.shape}{about.st_size}{about.st_mtime_ns}"
        return
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        yield f"{value.dtype}{value.shape}"
        if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        yield bytes_of(np.asarray(value))
        return
    if id(value) in seen:
        return
    seen[id(value)] = value  # held, so that no other object gets its number
    for part in _parts(value):
        yield from _pieces(part, seen)


def _parts(value: Any) -> Iterator[Any]:
    """Yield the parts of an object."""
    if isinstance(value, types.CodeType):
        yield from (value.co_code, value.co_names, value.co_consts)
    elif isinstance(value, type | types.ModuleType):
        yield f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}"
    elif isinstance(value, functools.partial):
        yield from (value.func, value.args, value.keywords)
    elif isinstance(value, types.MethodType):
        yield from (value.__func__, value.__self__)
    elif hasattr(value, "__wrapped__"):
        yield inspect.unwrap(value)
    elif isinstance(value, types.FunctionType):
        cells = (cell.cell_contents for cell in value.__closure__ or () if cell != types.CellType())
        yield from (value.__code__, value.__defaults__, value.__kwdefaults__, *cells)
    elif isinstance(value, Mapping):
        yield from sorted(value.items(), key=lambda item: repr(item[0]))
    elif isinstance(value, set | frozenset):
        yield from sorted(map(repr, value))
    elif isinstance(value, tuple | list):
        yield from value
    elif dataclasses.is_dataclass(value):
        yield from (getattr(value, field.name, None) for field in dataclasses.fields(value))
    elif not isinstance(value, jax.tree_util.PyTreeDef):
        yield from (leaf for leaf in jax.tree.leaves(value) if leaf is not value)
    else:
        yield re.sub(r" at 0x[0-9a-f]+", "", str(value))
