"""Kernels that approximate: they return the point, and a variant of each what the point lacks."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from jax import Array

from fedjax_admm.kernels.compiling import checked, kernel

_GAP = "with_gap"  # the attribute of a kernel that holds its variant


def approximate(solve: Callable[..., tuple[Any, ...]]) -> Callable[..., Array]:
    """Make a kernel of a function that returns the points first, and what they lack after them.

    The kernel returns the points alone, as every kernel does, so that it fits where a map is
    wanted; `with_gap` has the whole.
    """

    @kernel
    @wraps(solve)
    def points(*arguments: Any, **options: Any) -> Array:
        return solve(*arguments, **options)[0]

    setattr(points, _GAP, kernel(solve))
    return points


@checked
def with_gap(kernel: Callable[..., Array]) -> Callable[..., Any]:
    """Return the variant of an approximate kernel that also returns the error of its points.

    `points, gap = with_gap(kernel)(v, ...)`, with the points that the kernel returns for the same
    arguments. The kernel's documentation states what the gap measures: the distance of the
    objective from its minimum, the largest error of a sum, or the residual of the optimality
    condition.

    Args:
      kernel: such as `prox_tv2d_isotropic`, `prox_trend_filter`, `project_transport`,
        `project_intersection` or `prox_absolute_loss`.

    Returns:
      The variant, which takes the arguments of the kernel and returns a tuple, the points first.

    Reference: Boyd and Vandenberghe, 2004, section 5.5.1 (certificates of suboptimality).
    """
    if not hasattr(kernel, _GAP):
        name = getattr(kernel, "__name__", repr(kernel))
        raise ValueError(f"with_gap takes an approximate kernel, but {name} has no gap.")
    return getattr(kernel, _GAP)
