"""Which arrays of a user's parameters are trained, and where they stand in a vector.

    federated(loss, rows, module)                           what is no floating array stays as it is
    federated(loss, rows, start, train=lambda path: "adapter" in path)
    federated(loss, rows, start, train={"body": False, "head": True})

Equinox, Flax NNX and others keep functions, flags and counters beside the weights of a module. What
is no array is a part of the structure of the problem, and arrays that are not trained are data of
it. Neither is in the vectors of a solver, and so neither travels.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import one_line, real_array, refuse
from fedjax_admm._pytrees import FlatLayout
from fedjax_admm.problems._client_arrays import entry_name


def flat_layout(start: Any, shared: Any, train: Any) -> tuple[FlatLayout, jax.Array, jax.Array]:
    """Return where parameters stand, and the first ones that travel and that do not."""
    entries, structure = jax.tree.flatten_with_path(start)
    refuse(not entries, "start", "must hold parameters, but it is empty")
    inside = _inside_classes(start)
    plain = [_is_plain(leaf, own) for (_, leaf), own in zip(entries, inside, strict=True)]
    asked = _trained(start, entries, train)
    names = [f"start{jax.tree_util.keystr(path)}" for path, _ in entries]
    trained = []
    for i, (_, leaf) in enumerate(entries):
        if not plain[i] or not asked[i] or (inside[i] and not _is_floating(leaf)):
            if train is not None and asked[i] and not callable(train) and inside[i] is False:
                _check_floating(names[i], leaf)
            continue
        _check_floating(names[i], leaf)
        trained.append(i)
    told = "must leave a floating array that is trained, but there is none"
    refuse(not trained, "start" if train is None else "train", told)
    leaves = {i: jnp.asarray(leaf) for i, (_, leaf) in enumerate(entries) if plain[i]}
    kinds = sorted({str(leaves[i].dtype) for i in trained})
    told = f"must have one dtype, but its arrays have {kinds}"
    refuse(len(kinds) > 1, "start", told)
    frozen = {i: leaf for i, leaf in leaves.items() if i not in trained}
    for i, leaf in frozen.items():
        wide = _is_floating(leaf) and jnp.promote_types(leaf.dtype, kinds[0]) != kinds[0]
        told = f"must not be wider than the arrays that are trained ({kinds[0]})"
        refuse(wide, names[i], told, leaf.dtype, remedy="cast it")
    paths = [entries[i][0] for i in trained]
    travels = dict(zip(trained, _travelling(paths, shared), strict=True))
    order = [i for i in trained if travels[i]]
    stays = [i for i in trained if not travels[i]]
    layout = FlatLayout(
        frozen,
        structure,
        tuple(jnp.shape(leaves[i]) if i in leaves else () for i in range(len(entries))),
        (*order, *stays),
        tuple((i, leaf) for i, (_, leaf) in enumerate(entries) if not plain[i]),
    )
    flat = layout.flat([leaves.get(i, leaf) for i, (_, leaf) in enumerate(entries)])
    dim = sum(leaves[i].size for i in order)
    return layout, flat[:dim], flat[dim:]


def shapes_of_parameters(layout: FlatLayout, start: Any) -> Any:
    """Return the parameters with shapes for arrays, and static leaves as they are."""
    static = dict(layout.static)
    leaves = jax.tree.leaves(start)
    shapes = [
        static[i] if i in static else jax.typeof(jnp.asarray(leaf)) for i, leaf in enumerate(leaves)
    ]
    return jax.tree.unflatten(layout.structure, shapes)


def _inside_classes(start: Any) -> list[bool]:
    """Return for every leaf whether it is in an object of a class, such as a module."""

    def is_object(part: Any) -> bool:
        return not isinstance(part, dict | list | tuple | None)

    tops = jax.tree.leaves(start, is_leaf=is_object)
    return [leaf is not top for top in tops for leaf in jax.tree.leaves(top)]


def _is_plain(leaf: Any, inside: bool) -> bool:
    """Return whether a leaf is an array; numbers are, but for those in an object."""
    if isinstance(leaf, jax.Array | np.ndarray | np.generic):
        return True
    return not inside and not callable(leaf) and not isinstance(leaf, str)


def _is_floating(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jnp.floating)


def _check_floating(name: str, leaf: Any) -> None:
    real_array(name, leaf)
    dtype = jnp.asarray(leaf).dtype
    remedy = "write it with decimal points, or cast it; constants belong into the loss"
    told = f"must hold floating numbers, but its dtype is {dtype}"
    refuse(not jnp.issubdtype(dtype, jnp.floating), name, told, remedy=remedy)


def _trained(start: Any, entries: Sequence[tuple[Any, Any]], train: Any) -> list[bool]:
    """Return for every leaf whether the filter has it trained."""
    if train is None:
        return [True] * len(entries)
    if callable(train):
        asked = [train(jax.tree_util.keystr(p, simple=True, separator="/")) for p, _ in entries]
    else:
        asked = jax.tree.leaves(jax.tree.map(lambda t, part: [t] * _size(part), train, start))
    wrong = [value for value in asked if not isinstance(value, bool | np.bool_)]
    told = f"must be bools, or a function that returns one, but there is {one_line(wrong)}"
    refuse(wrong or len(asked) != len(entries), "train", told)
    return [bool(value) for value in asked]


def _size(part: Any) -> int:
    return len(jax.tree.leaves(part))


def _travelling(paths: Sequence[Any], shared: Any) -> list[bool]:
    """Return for every leaf of the parameters whether it travels."""
    if shared is None:
        return [True] * len(paths)
    names = [shared] if isinstance(shared, str | int) else list(shared)
    entries = [entry_name(path) for path in paths]
    told = f"must name entries of start, which are {one_line(list(dict.fromkeys(entries)))}"
    refuse(not names or set(names) - set(entries), "shared", told, shared)
    return [entry in names for entry in entries]
