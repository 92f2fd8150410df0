"""Checks of a user's input: one clear sentence, before anything is compiled.

Builders call these on concrete values. Under a transformation (`jax.vmap`, `jax.grad`, `jax.jit`)
the values are tracers and cannot be looked at, so the checks on values step aside.
"""

from collections.abc import Iterable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike


class InputError(ValueError):
    """A user's mistake, told in one sentence: the argument, its value, the remedy.

    `InputError("must be at least 1, but it is 0", argument="rounds", value=0, remedy="take more")`
    reads "rounds must be at least 1, but it is 0; take more." Whoever knows the argument by another
    name, as the command line does, tells the same mistake with `about("--rounds")`.
    """

    def __init__(
        self,
        told: str,
        *,
        argument: str | None = None,
        value: Any = None,
        remedy: str | None = None,
    ) -> None:
        """Keep what is told.

        Args:
          told: what is wrong; it goes on after the argument's name, or is a whole sentence where
            there is no argument. A full stop at its end may be left out.
          argument: the name of the argument that the mistake is in, as its caller wrote it.
          value: what was given.
          remedy: what to do about it, if `told` does not say so.
        """
        super().__init__(told)
        self.told, self.argument, self.value, self.remedy = told, argument, value, remedy

    def __str__(self) -> str:
        """Return the sentence."""
        words = self.told if self.argument is None else f"{self.argument} {self.told}"
        words = words.removesuffix(".")
        if self.remedy is not None:
            words = f"{words}; {self.remedy.removesuffix('.')}"
        return words if words.endswith("?") else f"{words}."

    def about(self, argument: str | None) -> "InputError":
        """Return the same mistake of an argument that is called otherwise."""
        return InputError(self.told, argument=argument, value=self.value, remedy=self.remedy)


def is_concrete(value: Any) -> bool:
    """Whether every array in the pytree `value` can be looked at now."""
    return not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(value))


def default_float() -> np.dtype:
    """The float dtype of the caller's session: float32, or float64 where x64 is enabled."""
    return np.dtype(jnp.result_type(float))


def number(
    name: str,
    value: ArrayLike,
    *,
    above: float = -np.inf,
    at_least: float = -np.inf,
    at_most: float = np.inf,
) -> jax.Array:
    """Turn a hyper-parameter into a strong float array, checked where it is concrete.

    Args:
      name: what the argument is called, for the message.
      value: a number or an array of numbers; floating arrays keep their dtype.
      above: the value must be strictly greater than this.
      at_least: the value must not be smaller than this.
      at_most: the value must not be greater than this.

    Returns:
      An array of the shape of `value`, never weakly typed (a weak type retraces).

    Raises:
      InputError: the value is not a finite number or is out of range.
    """
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jnp.floating):
        array = jax.lax.convert_element_type(value, value.dtype)
    else:
        try:
            array = jnp.array(value, dtype=default_float())
        except (TypeError, ValueError):
            raise InputError(
                f"must be a number, but it is {value!r}", argument=name, value=value
            ) from None
    # The value as given: inside a trace even the array of a constant is a tracer.
    if is_concrete(value):
        seen = np.asarray(value)
        limits = [
            (bool(np.all(np.isfinite(seen))), "finite"),
            (bool(np.all(seen > above)), f"greater than {above:g}"),
            (bool(np.all(seen >= at_least)), f"at least {at_least:g}"),
            (bool(np.all(seen <= at_most)), f"at most {at_most:g}"),
        ]
        for holds, wanted in limits:
            if not holds:
                raise InputError(
                    f"must be {wanted}, but it is {_shown(value)}", argument=name, value=value
                )
    return array


def scalar(name: str, value: ArrayLike, **limits: float) -> jax.Array:
    """Turn one number into a strong float array of shape (), as `number` does.

    Raises:
      InputError: as `number`; or it is an array of several numbers.
    """
    array = number(name, value, **limits)
    if array.ndim:
        raise InputError(
            f"must be one number, but it has shape {array.shape}",
            argument=name,
            value=value,
            remedy="use jax.vmap over several",
        )
    return array


def count(name: str, value: int, *, at_least: int = 1, at_most: int | None = None) -> int:
    """Check a static whole number, such as a number of rounds.

    Raises:
      InputError: the value is not a whole number or is out of range.
    """
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"must be a whole number, but it is {value!r}", argument=name, value=value)
    if value < at_least:
        raise InputError(
            f"must be at least {at_least}, but it is {value}", argument=name, value=value
        )
    if at_most is not None and value > at_most:
        raise InputError(
            f"must be at most {at_most}, but it is {value}", argument=name, value=value
        )
    return int(value)


def typed_key(key: Any) -> None:
    """Check that a key is one typed key.

    Raises:
      InputError: it is a raw or a stacked key, or none at all.
    """
    typed = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    if not typed:
        raise InputError(
            f"must be a typed key as jax.random.key makes it, but it is {key!r:.60}",
            argument="key",
            value=key,
        )
    if key.shape != ():
        raise InputError(
            f"must be one key, but it is a stack of shape {key.shape}",
            argument="key",
            value=key,
            remedy="use jax.vmap over keys",
        )


def finite_array(name: str, value: ArrayLike, shape: tuple[int | None, ...]) -> jax.Array:
    """Turn data into a float array of the given shape (None: any size) without NaN or infinity.

    Raises:
      InputError: the shape is another, or an entry is not finite (the first one is named).
    """
    array = jnp.asarray(value)
    if not jnp.issubdtype(array.dtype, jnp.floating):
        array = array.astype(default_float())
    fits = array.ndim == len(shape) and all(
        wanted is None or wanted == size for wanted, size in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted_shape = ", ".join("any" if size is None else str(size) for size in shape)
        raise InputError(
            f"must have shape ({wanted_shape}), but it has {array.shape}",
            argument=name,
            value=value,
        )
    if is_concrete(array):
        bad = np.argwhere(~np.isfinite(np.asarray(array)))
        if bad.size:
            place = tuple(int(index) for index in bad[0])
            raise InputError(
                f"must be finite, but entry {place} is {np.asarray(array)[place]}",
                argument=name,
                value=value,
                remedy="remove or repair that entry",
            )
    return array


def requirements(solver: Any, problem: Any) -> None:
    """Check that a problem offers everything that a solver and its parts declare in `requires`.

    Raises:
      InputError: an attribute is missing; the sentence names all that are.
    """
    parts = (solver, *vars(solver).values())
    needed = [name for part in parts for name in getattr(part, "requires", ())]
    missing = [name for name in needed if not hasattr(problem, name)]
    if missing:
        raise InputError(
            f"{type(solver).__name__} needs a problem that offers {listed(missing)}, "
            f"but {type(problem).__name__} does not."
        )


def listed(names: Iterable[str]) -> str:
    """Join names for a sentence: 'a', 'a and b', 'a, b and c'."""
    names = list(names)
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _shown(value: ArrayLike) -> str:
    """A value as a person would write it, shortened if it is long."""
    seen = np.asarray(value)
    if seen.ndim == 0:
        return f"{seen.item():g}"
    return " ".join(np.array2string(seen, threshold=6, precision=6).split())
