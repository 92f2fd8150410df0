"""Distances to sets, and their proximal maps, from the projection onto the set."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array

from fedjax_admm.kernels._arguments import demand_projections, matched, widened
from fedjax_admm.kernels._safe import safe_norm, scaled_norm
from fedjax_admm.kernels.compiling import Size, checked, kernel

Project = Callable[..., Array]


@checked
def distance_to(project: Project, axis: int = -1) -> Callable[..., Array]:
    """Make the distance to a set, `d(x) = min {||x - c||: c in C}`.

    `d(x) = ||x - P(x)||` with the projection P. Derivative: `(x - P(x)) / d(x)` outside the set, 0
    in it and on its boundary.

    Returns:
      `distance(x, *parameters)`, of the shape of the points without `axis`.

    Reference: Bauschke and Combettes, 2017, example 18.31 (with the gradient outside).
    """
    demand_projections("distance_to", project)

    @kernel
    def distance(x: Array, *parameters: Any) -> Array:
        (point,) = matched(x)
        x = widened(point)
        return safe_norm(x - project(x, *parameters), axis).astype(point.dtype)

    return distance


@checked
def squared_distance_to(project: Project, axis: int = -1) -> Callable[..., Array]:
    """Make half the squared distance to a set, `q(x) = min {||x - c||^2 / 2: c in C}`.

    `q(x) = ||x - P(x)||^2 / 2` with the projection P. Derivative: `x - P(x)`; smooth where C is
    convex.

    Returns:
      `squared(x, *parameters)`, of the shape of the points without `axis`.

    Reference: Bauschke and Combettes, 2017, corollary 12.31 (with the gradient).
    """
    demand_projections("squared_distance_to", project)

    @kernel
    def squared(x: Array, *parameters: Any) -> Array:
        (point,) = matched(x)
        x = widened(point)
        rest = x - project(x, *parameters)
        return (0.5 * jnp.sum(rest * rest, axis)).astype(point.dtype)

    return squared


@checked
def indicator_prox(project: Project) -> Callable[..., Array]:
    """Make the proximal map of the indicator of a set, `g(x) = 0` in C and infinite outside.

    `Prox(v; step) = P(v)`, whatever the step is: the way of a projection into `conjugate`,
    `tree_prox` and whatever else takes maps with a step. Ties: those of the projection. Derivative:
    that of the projection.

    Reference: Parikh and Boyd, 2014, section 1.2 (projections as proximal maps).
    """
    demand_projections("indicator_prox", project)

    @kernel
    def indicated(v: Array, step: Size, *parameters: Any) -> Array:
        return project(v, *parameters)

    return indicated


@checked
def distance_prox(project: Project, axis: int = -1) -> Callable[..., Array]:
    """Make the proximal map of the distance to a set, `g(x) = min {||x - c||: c in C}`.

    `Prox(v; step) = P(v)` where the distance `d = ||v - P(v)||` is at most the step, else `v - step
    (v - P(v)) / d`: towards the set by at most the step. It is right for every closed set, a
    nonconvex one too: a point that is nearer to v decides whatever the step is.

    Ties: those of the projection. Derivative at the kink `d = step`: that of the projection.

    Returns:
      `approached(v, step, *parameters)`, where the step has size 1 along `axis` or is a number.

    Reference: Beck, 2017, theorem 6.64 (example 6.43); for sets that are not convex derived in the
    comments.
    """
    demand_projections("distance_prox", project)

    @kernel
    def approached(v: Array, step: Size, *parameters: Any) -> Array:
        # min over c and x of ||x - c|| + ||x - v||^2 / (2 step): for a given c the minimum over x
        # is Huber's function of ||v - c||, which rises: the nearest c is the best one.
        (point,) = matched(v)
        v, step = matched(widened(point), step)
        nearest = project(v, *parameters)
        scaled, norm, size = scaled_norm(v - nearest, axis)
        outside = norm * size > step
        direction = scaled / jnp.where(outside, norm, 1.0)
        return jnp.where(outside, v - step * direction, nearest).astype(point.dtype)

    return approached


@checked
def squared_distance_prox(project: Project) -> Callable[..., Array]:
    """Make the proximal map of half the squared distance to a set, `g(x) = min ||x - c||^2 / 2`.

    `Prox(v; step) = v / (1 + step) + P(v) step / (1 + step)`, for every closed set. Ties: those of
    the projection. Derivative: that of the projection, averaged with the identity.

    Reference: Beck, 2017, example 6.65.
    """
    demand_projections("squared_distance_prox", project)

    @kernel
    def approached(v: Array, step: Size, *parameters: Any) -> Array:
        (point,) = matched(v)
        v, step = matched(widened(point), step)
        kept, taken = 1 / (1 + step), step / (1 + step)
        return (kept * v + taken * project(v, *parameters)).astype(point.dtype)

    return approached
