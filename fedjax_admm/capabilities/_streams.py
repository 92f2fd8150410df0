"""Problems whose samples are on the host, of which a program has those of some clients only."""

from dataclasses import replace
from typing import Any


def streams(problem: Any) -> bool:
    """Return whether the samples of a problem are on the host."""
    return getattr(getattr(problem, "data", None), "source", None) is not None


def shaped(problem: Any) -> Any:
    """Return a problem for `jax.eval_shape`: of samples on the host it has the shapes."""
    return replace(problem, data=problem.data.shaped()) if streams(problem) else problem
