"""What the suite has to know of one proximal map or projection."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_admm.kernels as kernels

# Rows long and short; entries on usual kinks, far away, and at zero.
POINTS = np.array(
    [[-6.3, -2.0, -0.7], [0.0, 0.2, 1.0], [1.9, 3.1, 6.0], [0.0, 0.0, 0.0], [0.05, -0.02, 0.01]]
)


def cast(parameters, dtype):
    """Return numbers as arrays of a dtype; what counts (integers) keeps its own."""
    return tuple(
        jax.tree.map(
            lambda part: (
                jnp.asarray(part, dtype)
                if jnp.issubdtype(jnp.result_type(part), jnp.floating)
                else jnp.asarray(part)
            ),
            parameters,
        )
    )


@partial(jax.jit, static_argnums=0)
def _mapped(prox, points, step, parameters):
    return prox(points, step, *parameters)


@cache
def prox_of(name: str, projection: bool, static: tuple[tuple[str, Any], ...]) -> Callable[..., Any]:
    """Return a kernel as `prox(v, step, *parameters)`."""
    kernel = getattr(kernels, name)

    def prox(v, step, *parameters):
        parts = parameters if projection else (step, *parameters)
        return kernel(v, *parts, **dict(static))

    prox.__name__ = name
    return prox


def weighted(twin):
    """Return the twin of a kernel with a weight, which multiplies the step."""
    return lambda v, step, weight, *parts, **static: twin(v, step * weight, *parts, **static)


@dataclass(frozen=True, eq=False)
class Row:
    """One kernel with one kind of parameters, its twin and its value.

    Attributes:
      name: of the kernel, `kernel(v, step, *parameters, **static)`; a projection has no step.
      twin: the same in NumPy, float64, written independently: `twin(points, step, *parameters,
        **static)` for points of the shape of `points`.
      value: g in JAX, `value(x, *parameters, **static)`: entry by entry for a separable g, else a
        number for x of the shape of one row; infinite outside its domain. A projection may leave it
        out: then its twin is the judge.
      parameters: numbers, arrays or trees of arrays (a factor), after the step.
      static: what is no array: axis, counts.
      steps: at which the map is compared with its twin and its value.
      points: shape (rows, dim); of matrices and images (rows, ...), with `value` None.
      kinks: entries of points where the map, at the first step, has a kink or a jump.
      convex: whether g is convex: then the map is firmly nonexpansive.
      projection: whether the kernel is a projection without a step.
      idempotent: whether a projection leaves its own results alone; one that takes logarithms does
        not.
      scaled: `scaled(s)` returns `(step factor, parameters)` such that the map of s v at the step
        times that factor, with those parameters, is s times the map of v: how the map is tried at
        1e-30 and 1e30. None where g knows no such scaling: then the map is tried where it stands.
      tolerance: of the comparison with the twin in float64.
    """

    name: str
    twin: Callable[..., Any]
    value: Callable[..., Any] | None = None
    parameters: tuple[Any, ...] = ()
    static: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[float, ...] = (0.4, 5.0)
    points: np.ndarray = field(default_factory=lambda: POINTS)
    kinks: tuple[float, ...] = ()
    convex: bool = True
    projection: bool = False
    idempotent: bool = True
    scaled: Callable[[float], tuple[float, tuple[Any, ...]]] | None = None
    tolerance: float = 1e-9

    @property
    def prox(self) -> Callable[..., Any]:
        """Return the map as `prox(v, step, *parameters)`.

        It is the same function for all rows that differ in their numbers only, so that they share
        compiled programs.
        """
        return prox_of(self.name, self.projection, tuple(self.static.items()))

    @cached_property
    def penalty(self) -> Callable[..., Any] | None:
        """Return the value as `value(x, *parameters)`, always the same function."""
        if self.value is None:
            return None
        value = self.value

        def penalty(x, *parameters):
            return value(x, *parameters, **self.static)

        penalty.__name__ = f"value of {self.name}"
        return penalty

    def image(self, points, step, parameters=None, dtype=np.float64) -> np.ndarray:
        """Return what the kernel makes of points, compiled."""
        numbers = cast(self.parameters if parameters is None else parameters, dtype)
        points, step = np.asarray(points, dtype), np.asarray(step, dtype)
        return np.asarray(_mapped(self.prox, points, step, numbers))

    def expected(self, points, step, parameters=None) -> np.ndarray:
        """Return what the twin makes of points, float64."""
        parameters = self.parameters if parameters is None else parameters
        parts = parameters if self.projection else (step, *parameters)
        wide = jax.tree.map(lambda part: np.asarray(part, np.float64), parts)
        return np.asarray(self.twin(np.asarray(points, np.float64), *wide, **self.static))

    def __str__(self) -> str:
        """Return the name and the small parameters, for the test's name."""
        parts = [*self.parameters, *self.static.values()]
        named = [getattr(part, "__name__", part) for part in parts]
        told = [str(n) for n in named if not isinstance(n, tuple) and np.ndim(n) == 0]
        step = f"@{self.steps[0]}" if len(self.steps) == 1 else ""
        return f"{self.name}{step}({', '.join(told)})"
