"""Runs in files: saved whole, loaded to the same bits, and known by what made them.

fa.save(run, "run.npz")                                   a Run, a state, or any pytree of arrays
run = fa.load("run.npz", like=fa.run(..., rounds=0))
run = fa.run(..., rounds=1000, checkpoint="run.npz")      writes while it runs, and goes on there
"""

import os
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedjax_admm._checks import InputError, count, listed, multiple, not_deleted
from fedjax_admm._host._digest import digest_of_arrays, digest_of_text
from fedjax_admm._host._jaxprs import constants
from fedjax_admm._host._trees import Leaves, kind_of, read_tree, write_tree
from fedjax_admm._run._progress import SHORTEST, check_untraced
from fedjax_admm._run._scan import scan_rounds
from fedjax_admm._version import __version__
from fedjax_admm.capabilities import shaped

_PROGRAM = "program (a function, a structure or a constant in it)"


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


def opened_checkpoint(
    path: Any,
    length: Any,
    arguments: tuple,
    measure: Any,
    every: int,
    rounds: int,
) -> dict[str, Any]:
    """Return how `scan_in_blocks` writes a run into a file, and the Run that is there already.

    Args:
      path: of the file.
      length: rounds of a block, or None.
      arguments: solver, problem, key, participation and start of the call.
      measure: of the call.
      every: of the call.
      rounds: of the call.
    """
    if not isinstance(path, str | os.PathLike) or not str(path):
        raise InputError("must be the path of a file", argument="checkpoint", value=path)
    check_untraced(arguments, argument="checkpoint", value=path)
    if length is not None:
        length = count("checkpoint_every", length, at_least=SHORTEST * every)
        multiple("checkpoint_every", length, "every", every)
    path = Path(path)
    identity, shapes = _identity(arguments, measure, every)
    done = _stored(path, identity, shapes) if path.exists() else None
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
    about = {"release": __version__, "run": identity}
    return {"length": length, "done": done, "write": lambda run: write_tree(path, run, about)}


def _stored(path: Path, identity: dict[str, str], shapes: Any) -> Any:
    """Return the Run that a file holds, if it is of the same call."""
    leaves = read_tree(path)
    stored = leaves.about.get("run")
    told = f"but {path} was written by something else"
    remedy = "give another path"
    if isinstance(stored, dict):
        others = [name for name in identity if identity[name] != stored.get(name)]
        if not others:
            return _like(leaves, shapes, path)
        verb = "differs" if len(others) == 1 else "differ"
        told = f"but {path} is of another, whose {listed(others)} {verb}"
        remedy = f"repeat the call as it was, or {remedy}"
    raise InputError(
        f"must be a file of this run, {told}", argument="checkpoint", value=path, remedy=remedy
    )


def _identity(arguments: tuple, measure: Any, every: int) -> tuple[dict[str, str], Any]:
    """Return what tells a call from others, in every process the same, and the shapes of its Run.

    These are the digests of its program, with the constants in it, and of the numbers of every
    argument; of what is on the host the arrays that are streamed, or what a function returns for
    the first client and the last.
    """
    names = ("solver", "problem", "key", "participation", "start")
    solver, problem, *others = arguments
    call = jax.jit(partial(scan_rounds, rounds=every, measure=measure, every=every))
    traced = call.trace(solver, shaped(problem), *others)
    identity = {_PROGRAM: digest_of_text(traced.lower(), "main", constants(traced.jaxpr))}
    for name, value in zip(names, arguments, strict=True):
        identity[name] = digest_of_arrays(filter(_is_stored, jax.tree.leaves(value)))
    source = getattr(getattr(problem, "data", None), "source", None)
    if source is not None:
        clients = source.clients
        if callable(clients):
            last = len(source.sizes) - 1  # a few stand for all, of which there may be millions
            clients = [clients(i) for i in sorted({last * n // 15 for n in range(16)})]
        identity["data"] = digest_of_arrays(jax.tree.leaves(clients))
    identity["release of fedjax-admm or of jax"] = f"{__version__}, {jax.__version__}"
    return identity, traced.out_info
