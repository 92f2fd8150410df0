"""Proximal maps of functions after linear maps, and of sums over blocks."""

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import demand_as_many, demand_proxes, matched, widened
from fedjax_admm.kernels.compiling import Scale, Size, checked, kernel

Prox = Callable[..., Array]


@checked
def precompose_orthogonal(
    prox: Prox,
    forward: Callable[[Array], Array],
    backward: Callable[[Array], Array],
    gain: Scale = 1.0,
) -> Prox:
    """Make the proximal map of `h(x) = g(Q x)` where `Q Q^T = gain I`.

    `Prox_h(v; step) = v + Q^T (Prox_g(Q v; gain step) - Q v) / gain`: for a rotation `Q^T Prox_g(Q
    v; step)`. Q may have more columns than rows, as a sum, a mask or one direction has. Derivative:
    that of the given map between Q and its transpose.

    Args:
      forward: `x -> Q x`, linear.
      backward: `y -> Q^T y`, its transpose.
      gain: positive: the number in `Q Q^T = gain I`.

    Reference: Combettes and Pesquet, 2011, table 10.1, property x (semi-orthogonal linear
    transform).
    """
    demand_proxes("precompose_orthogonal", prox)

    @kernel
    def precomposed(v: Array, step: Size, *parameters: Any) -> Array:
        (point,) = matched(v)
        v, step, square = matched(widened(point), step, gain)
        image = forward(v)
        change = prox(image, square * step, *parameters) - image
        return (v + backward(change) / square).astype(point.dtype)

    return precomposed


@checked
def epicompose(
    prox: Prox,
    forward: Callable[[Array], Array],
    backward: Callable[[Array], Array],
    gain: Scale = 1.0,
) -> Prox:
    """Make the proximal map of the image of g under L, `h(y) = min {g(x): L x = y}`.

    `Prox_h(v; step) = L Prox_g(L^T v / gain; step / gain)` where `L^T L = gain I`; h is infinite
    outside the range of L, as for copies of one vector that have to agree. Derivative: that of the
    given map between the transpose of L and L.

    Args:
      forward: `x -> L x`, linear.
      backward: `y -> L^T y`, its transpose.
      gain: positive: the number in `L^T L = gain I`.

    Reference: Bauschke and Combettes, 2017, definition 12.34 (infimal postcomposition); the map is
    derived in the comments.
    """
    demand_proxes("epicompose", prox)

    @kernel
    def composed(v: Array, step: Size, *parameters: Any) -> Array:
        # ||L x - v||^2 = gain ||x - L^T v / gain||^2 + what does not depend on x.
        (point,) = matched(v)
        v, step, square = matched(widened(point), step, gain)
        return forward(prox(backward(v) / square, step / square, *parameters)).astype(point.dtype)

    return composed


@checked
def separable(
    *proxes: Prox, sizes: Sequence[int] | None = None, axis: int = -1
) -> Callable[..., Any]:
    """Make the proximal map of a sum over blocks, `h(x_1, ..., x_k) = g_1(x_1) + ... + g_k(x_k)`.

    `Prox_h(v; step) = (Prox_1(v_1; step), ..., Prox_k(v_k; step))`. The blocks are arrays of their
    own, or parts of one array along an axis. Derivative: those of the given maps, block by block.

    Args:
      *proxes: the maps of the blocks, `prox(v, step, *parameters)`.
      sizes: how long each block is along `axis` of one array. If None, points are sequences of
        arrays, one for each block.
      axis: the axis along which one array is cut.

    Returns:
      The map of h, `separated(v, step, *parameters)`: the step is one number or a sequence with one
      for each block; the parameters are sequences, those of each block's map, or none at all. It
      returns a tuple of arrays, or one array if `sizes` are given.

    Reference: Parikh and Boyd, 2014, section 2.1 (separable sum).
    """
    demand_proxes("separable", *proxes)
    if sizes is not None:
        demand_as_many("sizes", sizes, proxes)
    ends = [sum((sizes or ())[: place + 1]) for place in range(len(proxes))]

    @kernel
    def separated(v: Any, step: Any, *parameters: Any) -> Any:
        if sizes is None:
            blocks = list(v)
        else:
            (v,) = matched(v)
            if v.shape[axis] != ends[-1]:
                raise ValueError(
                    f"the blocks have {ends[-1]} entries along axis {axis}, but the points have "
                    f"{v.shape[axis]}."
                )
            blocks = jnp.split(v, ends[:-1], axis)
        steps = list(step) if isinstance(step, list | tuple) else [step] * len(proxes)
        numbers = list(parameters) if parameters else [()] * len(proxes)
        for name, given in (("blocks", blocks), ("steps", steps), ("parameters", numbers)):
            demand_as_many(name, given, proxes)
        found = [
            prox(block, size, *more)
            for prox, block, size, more in zip(proxes, blocks, steps, numbers, strict=True)
        ]
        return tuple(found) if sizes is None else jnp.concatenate(found, axis)

    return separated
