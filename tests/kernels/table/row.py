"""What the suite has to know of one proximal map or projection."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_admm.kernels as kernels
from tests.reference import (
    kernels as oldest,
    prox_chains,
    prox_elementwise,
    prox_groups,
    prox_losses,
    prox_matrices,
    prox_nonconvex,
    prox_vectors,
)

TWINS = (
    prox_elementwise,
    prox_nonconvex,
    prox_groups,
    prox_losses,
    prox_vectors,
    prox_matrices,
    prox_chains,
    oldest,
)

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


def twin_of(name: str) -> Callable[..., Any]:
    """Return the NumPy twin of a kernel: the function of the same name in `tests.reference`."""
    return next(getattr(module, name) for module in TWINS if hasattr(module, name))


def valued(name: str, *arguments: Any, **options: Any) -> "Row":
    """Return the row of a map whose value is the kernel `NAME_value`."""
    value = getattr(kernels, f"{name.removeprefix('prox_')}_value")
    return Row(name, *arguments, value=value, **options)


@dataclass(frozen=True, eq=False)
class Row:
    """One kernel with one kind of parameters, its twin and its value.

    Attributes:
      name: of the kernel, `kernel(v, step, *parameters, **static)`; a projection has no step.
      parameters: numbers, arrays or trees of arrays (a factor), after the step.
      twin: the same in NumPy, float64, written independently: `twin(points, step, *parameters,
        **static)` for points of the shape of `points`; that of the same name if None.
      weighted: whether the first parameter is a weight that the twin does not know: it multiplies
        the step.
      value: g in JAX, `value(x, *parameters, **static)`: entry by entry for a separable g, else a
        number for x of the shape of one row; infinite outside its domain. A projection may leave it
        out: then its twin is the judge.
      static: what is no array: axis, counts.
      steps: at which the map is compared with its twin and its value.
      points: shape (rows, dim); of matrices and images (rows, ...), with `value` None.
      kinks: entries of points where the map, at the first step, has a kink or a jump.
      convex: whether g is convex: then the map is firmly nonexpansive.
      idempotent: whether a projection leaves its own results alone; one that takes logarithms does
        not.
      powers: of s, by which the step and each parameter are multiplied so that the map of s v is s
        times the map of v: how the map is tried at 1e-30 and 1e30. None where g knows no such
        scaling: then the map is tried where it stands.
      rescaled: `rescaled(s)` returns the parameters instead, at the same step.
      tolerance: of the comparison with the twin in float64.
    """

    name: str
    parameters: tuple[Any, ...] = ()
    twin: Callable[..., Any] | None = None
    weighted: bool = False
    value: Callable[..., Any] | None = None
    static: Mapping[str, Any] = field(default_factory=dict)
    steps: tuple[float, ...] = (0.4, 5.0)
    points: np.ndarray = field(default_factory=lambda: POINTS)
    kinks: tuple[float, ...] = ()
    convex: bool = True
    idempotent: bool = True
    powers: tuple[float, ...] | None = None
    rescaled: Callable[[float], tuple[Any, ...]] | None = None
    tolerance: float = 1e-9

    @property
    def projection(self) -> bool:
        """Return whether the kernel has no step."""
        return self.name.startswith("project_")

    def scaled(self, s: float) -> tuple[float, tuple[Any, ...]] | None:
        """Return the factor of the step, and the parameters, of s v; None without a scaling."""
        if self.rescaled is not None:
            return 1.0, self.rescaled(s)
        if self.powers is None:
            return None
        step, *powers = self.powers
        parts = zip(self.parameters, powers, strict=True)
        # Powers 0 leave parameters as they are, whole numbers among them.
        return s**step, tuple(s**power * part if power else part for part, power in parts)

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
        if self.weighted:
            step, parameters = step * parameters[0], parameters[1:]
        parts = parameters if self.projection else (step, *parameters)
        wide = jax.tree.map(lambda part: np.asarray(part, np.float64), parts)
        twin = self.twin or twin_of(self.name)
        return np.asarray(twin(np.asarray(points, np.float64), *wide, **self.static))

    def __str__(self) -> str:
        """Return the name and the small parameters, for the test's name."""
        parts = [*self.parameters, *self.static.values()]
        named = [getattr(part, "__name__", part) for part in parts]
        shown = [str(n) for n in named if not isinstance(n, tuple) and np.ndim(n) == 0]
        step = f"@{self.steps[0]}" if len(self.steps) == 1 else ""
        return f"{self.name}{step}({', '.join(shown)})"
