"""Projection onto the intersection of convex sets of which each has its projection."""

from collections.abc import Callable, Sequence

import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import demand_projections, matched, widened
from fedjax_admm.kernels._gaps import approximate
from fedjax_admm.kernels._loops import scan


@approximate
def project_intersection(
    v: Array,
    projections: Sequence[Callable[[Array], Array]],
    iterations: int = 100,
    axis: int | tuple[int, ...] = -1,
) -> tuple[Array, Array]:
    """Project onto the intersection of convex sets, `C = C_1 & ... & C_k`, by Dykstra's algorithm.

    From `x = v` and `p_i = 0`, in turns `x_new = P_i(x + p_i)`, `p_i = x + p_i - x_new` for each
    set, a fixed number of times: the limit is `Prox(v; step)`, the nearest point of the
    intersection (alternating projections, without the `p_i`, end at some other point of it). The
    residual tells how far the result is from the sets; the result belongs to the last of them.
    Convergence is linear for polyhedra in the end, but a point far away may take rounds in
    proportion to its distance before anything moves, and sets that touch at a small angle take
    many. Sets without a common point: the residual does not fall to 0.

    Derivative: that of the iterations, unrolled in a scan, in whatever arrays the projections hold;
    reverse mode stores k + 1 points for each iteration.

    Args:
      projections: functions of points in the shape of `v`, and of the dtype of `v` (float32 for
        float16 and bfloat16), each the projection onto one set; at least one.
      iterations: rounds over all sets.
      axis: the axis or the axes that hold a point, over which the residual is taken.

    Returns:
      The projections, shape and dtype of `v`; from `with_gap` the residual too, the largest entry
      of `|x - P_i(x)|` over all sets, shape of `v` without `axis`.

    Reference: J. P. Boyle and R. L. Dykstra, "A method for finding projections onto the
    intersection of convex sets in Hilbert spaces", Advances in Order Restricted Statistical
    Inference, Lecture Notes in Statistics 37, 1986.
    """
    demand_projections("project_intersection", *projections)
    if not projections:
        raise ValueError("projections must hold at least one projection, but it is empty.")
    (v,) = matched(v)
    start = widened(v)

    def turn(carry, _):
        x, shifts = carry
        new_shifts = []
        for project, shift in zip(projections, shifts, strict=True):
            moved = x + shift
            x = project(moved)
            new_shifts.append(moved - x)
        return (x, tuple(new_shifts)), None

    shifts = tuple(jnp.zeros_like(start) for _ in projections)
    (x, _), _ = scan(turn, (start, shifts), length=iterations)
    apart = [jnp.max(jnp.abs(x - project(x)), axis) for project in projections]
    residual = jnp.max(jnp.stack(apart), 0)
    return x.astype(v.dtype), residual.astype(v.dtype)
