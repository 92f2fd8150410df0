"""Proximal maps of trees of arrays, such as the parameters of a network."""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import jax

from fedjax_admm.kernels._arguments import demand_proxes, matched
from fedjax_admm.kernels.compiling import Size, checked

TreeProx = Callable[..., Any] | Mapping[str, Callable[..., Any] | None]


@checked
def tree_prox(prox: TreeProx, tree: Any, step: Any, *parameters: Any) -> Any:
    """Proximal map of a sum over the leaves of a tree, `g(x) = sum_leaf g_leaf(x_leaf)`.

    `Prox(v; step)_leaf = Prox_leaf(v_leaf; step_leaf)`: the map of a separable sum takes every leaf
    apart.

    With a mapping of path patterns each leaf has a map of its own. A leaf's path are its keys,
    joined by `/`, such as `dense/kernel` or `layers/0/bias`; a pattern is one of a shell, where `*`
    stands for any characters, `/` included. The first pattern that fits decides, `None` leaves what
    it fits unchanged, and so does a leaf stay that none fits: `{"*/kernel": prox_l1, "*/norm/*":
    None}`.

    Derivative: that of the maps of the leaves.

    Args:
      prox: `prox(v, step, *parameters)` for every leaf, or a mapping from patterns to such.
      tree: points, a tree of arrays.
      step: a number, an array that broadcasts with every leaf, or a tree of such, of the structure
        of `tree` or of an upper part of it (then each stands for all leaves below).
      *parameters: the same for every leaf.

    Returns:
      Minimisers, in the structure of `tree`.

    Reference: Parikh and Boyd, 2014, section 2.1 (separable sum).
    """
    named = prox.values() if isinstance(prox, Mapping) else [prox]
    demand_proxes("tree_prox", *named)
    located, structure = jax.tree_util.tree_flatten_with_path(tree)
    if isinstance(prox, Mapping):
        maps = _maps_by_path(prox, [_path_text(path) for path, _ in located])
    else:
        maps = [prox] * len(located)
    try:
        steps = jax.tree.leaves(jax.tree.broadcast(step, tree))
    except ValueError:
        raise ValueError(
            "the step must be a number, an array, or a tree of the structure of the points or of "
            f"an upper part of it, but it has the structure {jax.tree.structure(step)} and the "
            f"points have {structure}."
        ) from None
    leaves = [
        point if leaf_prox is None else leaf_prox(*matched(point, _step(leaf_step)), *parameters)
        for leaf_prox, (_, point), leaf_step in zip(maps, located, steps, strict=True)
    ]
    return jax.tree.unflatten(structure, leaves)


@checked
def _step(step: Size) -> Size:
    return step


def _path_text(path: Any) -> str:
    return jax.tree_util.keystr(path, simple=True, separator="/")


def _maps_by_path(
    maps: Mapping[str, Callable[..., Any] | None], paths: list[str]
) -> list[Callable[..., Any] | None]:
    """Return the map of every path, that of the first pattern that fits it."""
    chosen = [next((p for p in maps if fnmatchcase(path, p)), None) for path in paths]
    for pattern in maps:
        if pattern in chosen:
            continue
        taken = [
            other for other, path in zip(chosen, paths, strict=True) if fnmatchcase(path, pattern)
        ]
        if taken:
            raise ValueError(
                f"the pattern {pattern!r} decides about no leaf, since all that fit it fit "
                f"{taken[0]!r} before; write it further up."
            )
        shown = ", ".join(map(repr, paths[:8])) + (", ..." if len(paths) > 8 else "")
        raise ValueError(f"the pattern {pattern!r} fits no leaf; the leaves are {shown or 'none'}.")
    return [None if pattern is None else maps[pattern] for pattern in chosen]
