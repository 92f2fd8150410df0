"""Checks of a user's input: one clear sentence, before anything is compiled.

Builders call these on concrete values. Under a transformation (`jax.vmap`, `jax.grad`, `jax.jit`)
the values are tracers and cannot be looked at, so the checks on values step aside.
"""

import math
from collections.abc import Iterable, Mapping
from copy import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike

LARGEST_COUNT = 2**31 - 1  # what is counted on a device is int32


class InputError(ValueError):
    """A user's mistake, told in one sentence: the argument, its value, the remedy.

    `InputError("must be at least 1, but it is 0", argument="rounds", value=0, remedy="take more")`
    reads "rounds must be at least 1, but it is 0; take more." Other arguments that a sentence names
    stand in braces: `InputError("goes with {graph} wasserstein only", argument="threshold",
    others=["graph"])`. Whoever knows arguments by other names, as the command line does, tells the
    same mistake with `about("--rounds")` or `renamed({"threshold": "--threshold", ...})`.
    """

    def __init__(
        self,
        told: str,
        *,
        argument: str | None = None,
        value: Any = None,
        remedy: str | None = None,
        others: Mapping[str, str] | Iterable[str] = (),
    ) -> None:
        """Keep what is told.

        Args:
          told: what is wrong; it goes on after the argument's name, or is a whole sentence where
            there is no argument. A full stop at its end may be left out.
          argument: the name of the argument that the mistake is in, as its caller wrote it.
          value: what was given.
          remedy: what to do about it, if `told` does not say so.
          others: the arguments that `told` and `remedy` name in braces; a mapping says how each is
            written where nobody knows it by another name.
        """
        super().__init__(told)
        self.told, self.argument, self.value, self.remedy = told, argument, value, remedy
        self.others = (
            dict(others) if isinstance(others, Mapping) else {name: name for name in others}
        )

    def __str__(self) -> str:
        """Return the sentence."""
        words = self.told if self.argument is None else f"{self.argument} {self.told}"
        words = words.removesuffix(".")
        if self.remedy is not None:
            words = f"{words}; {self.remedy.removesuffix('.')}"
        for name, written in self.others.items():
            words = words.replace(f"{{{name}}}", written)
        return words if words.endswith("?") else f"{words}."

    def about(self, argument: str | None) -> "InputError":
        """Return the same mistake of an argument that is called otherwise."""
        found = copy(self)
        found.argument = argument
        return found

    def renamed(self, names: Mapping[str, str]) -> "InputError":
        """Return the same mistake, told with other names of its arguments where there are some."""
        found = self.about(names.get(self.argument or "", self.argument))
        found.others = {name: names.get(name, written) for name, written in self.others.items()}
        return found


def is_concrete(value: Any) -> bool:
    """Whether every array in the pytree `value` can be looked at now."""
    return not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(value))


def is_real(value: Any) -> bool:
    """Whether a value is a real number, or an array or a list of such; what is traced may be."""
    if not is_concrete(value):
        return True
    try:
        return _is_real_dtype(
            value.dtype if isinstance(value, jax.Array) else np.asarray(value).dtype
        )
    except (TypeError, ValueError):  # lists of different lengths
        return False


def real_array(name: str, value: Any) -> None:
    """Check that a value is an array of real numbers, or can be made one.

    Raises:
      InputError: it holds something else, has masked entries, its lists have several lengths, or a
        whole number is beyond int32, where JAX has no larger ones.
    """
    host = _real_numbers(name, value, "an array of numbers")
    if host is None or jax.dtypes.canonicalize_dtype(np.int64) == np.int64:
        return
    given = np.asarray(value).dtype
    if not (given.hasobject or np.issubdtype(given, np.integer)):
        return
    if host.size and not np.max(np.abs(host.astype(np.float64))) <= LARGEST_COUNT:
        told = f"must hold whole numbers up to {LARGEST_COUNT}, but it is {one_line(value)}"
        raise InputError(told, argument=name, value=value)


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
    host = _real_numbers(name, value, "a number")
    if host is not None and host.dtype == bool:
        raise InputError(
            f"must be a number, but it is {one_line(value)}", argument=name, value=value
        )
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jnp.floating):
        array = jax.lax.convert_element_type(value, value.dtype)
    else:
        array = _device_array(value if host is None else host, default_float())
    if host is not None:
        limits = [
            (lambda seen: np.isfinite(seen), "finite"),
            (lambda seen: seen > above, f"greater than {above:g}"),
            (lambda seen: seen >= at_least, f"at least {at_least:g}"),
            (lambda seen: seen <= at_most, f"at most {at_most:g}"),
        ]
        for holds, wanted in limits:
            if not np.all(holds(host)):
                raise InputError(
                    f"must be {wanted}, but it is {_shown(host)}", argument=name, value=value
                )
        _check_range(name, value, host, array.dtype)
        kept = _cast(host, array.dtype)
        for holds, wanted in limits:
            if not np.all(holds(kept)):
                raise InputError(
                    f"must be {wanted}, but {_shown(host)} is {_shown(kept)} in {array.dtype}",
                    argument=name,
                    value=value,
                    remedy=wider(array.dtype),
                )
    return array


def scalar(name: str, value: ArrayLike, **limits: float) -> jax.Array:
    """Turn one number into a strong float array of shape (), as `number` does.

    Raises:
      InputError: the value is not a finite number, is out of range, or is an array.
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


def count(name: str, value: int, *, at_least: int = 1, at_most: float | None = None) -> int:
    """Check a static whole number, such as a number of rounds; at most 2^31 - 1 where none is said.

    Raises:
      InputError: the value is traced, is not a whole number, or is out of range.
    """
    if isinstance(value, Tracer):
        raise InputError(
            "must be known before anything is traced, but it is traced",
            argument=name,
            value=value,
            remedy="mark it as static, as jax.jit(..., static_argnames=...) does",
        )
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)
    if not whole:
        raise InputError(
            f"must be a whole number, but it is {one_line(value)}", argument=name, value=value
        )
    most = LARGEST_COUNT if at_most is None else at_most
    for holds, wanted in (
        (value >= at_least, f"least {at_least}"),
        (value <= most, f"most {most}"),
    ):
        if not holds:
            raise InputError(
                f"must be at {wanted}, but it is {one_line(value)}", argument=name, value=value
            )
    return int(value)


def multiple(name: str, value: int, of: str, unit: int) -> None:
    """Check that a whole number is a multiple of another one, such as rounds of `every`.

    Raises:
      InputError: the number is no multiple; the sentence names the nearest positive one.
    """
    if value % unit:
        nearest = max(unit, (value + unit // 2) // unit * unit)
        raise InputError(
            f"must be a multiple of {{{of}}} ({unit}), but it is {value}",
            argument=name,
            value=value,
            remedy=f"the nearest one is {nearest}",
            others=[of],
        )


def not_deleted(name: str, value: Any) -> None:
    """Check that all arrays of a pytree still hold their numbers.

    Raises:
      InputError: a function that may destroy its arguments was given one of them.
    """
    for leaf in jax.tree.leaves(value):
        if isinstance(leaf, jax.Array) and not isinstance(leaf, Tracer) and leaf.is_deleted():
            raise InputError(
                f"holds an array of shape {leaf.shape} that has been deleted, as jax.jit does with "
                "what is donated to it",
                argument=name,
                value=value,
                remedy="donate a copy",
            )


def typed_key(key: Any) -> None:
    """Check that a key is one typed key.

    Raises:
      InputError: `key` is a raw key, a stack of keys, no key at all, or has been deleted.
    """
    typed = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    if not typed:
        raise InputError(
            f"must be a typed key as jax.random.key makes it, but it is {one_line(key)}",
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
    not_deleted("key", key)


def finite_array(name: str, value: ArrayLike, shape: tuple[int | None, ...]) -> jax.Array:
    """Turn data into a float array of the given shape (None: any size) without NaN or infinity.

    Raises:
      InputError: the value is no array of numbers, has another shape, or has an entry that is not
        finite (the first one is named).
    """
    host = _real_numbers(name, value, f"an array of numbers of shape {shape_text(shape)}")
    if isinstance(value, jax.Array):
        array = value
        if not jnp.issubdtype(array.dtype, jnp.floating):
            array = array.astype(default_float())
    elif host is None:  # a list with traced entries
        array = jnp.asarray(value)
        if not jnp.issubdtype(array.dtype, jnp.floating):
            array = array.astype(default_float())
    else:
        floating = jnp.issubdtype(host.dtype, jnp.floating)
        kept = jax.dtypes.canonicalize_dtype(host.dtype) if floating else default_float()
        array = _device_array(host, kept)
    fits = array.ndim == len(shape) and all(
        wanted is None or wanted == size for wanted, size in zip(shape, array.shape, strict=True)
    )
    if not fits:
        raise InputError(
            f"must have shape {shape_text(shape)}, but it has {array.shape}",
            argument=name,
            value=value,
        )
    if host is not None:
        bad = np.argwhere(~np.isfinite(host))
        if bad.size:
            place = tuple(int(index) for index in bad[0])
            raise InputError(
                f"must be finite, but entry {place} is {host[place]}",
                argument=name,
                value=value,
                remedy="remove or repair that entry",
            )
        _check_range(name, value, host, array.dtype)
    return array


def one_of(name: str, value: Any, choices: Iterable[str]) -> None:
    """Check that a value is one of a few words.

    Raises:
      InputError: the value is none of the choices; the sentence names all of them.
    """
    choices = list(choices)
    if not isinstance(value, str) or value not in choices:
        raise InputError(
            f"must be one of {listed(map(repr, choices))}, but it is {one_line(value)}",
            argument=name,
            value=value,
        )


def per_client(name: str, value: ArrayLike, clients: int, called: str = "client") -> jax.Array:
    """Return a number that is not negative for each client, from one for all or one for each.

    Args:
      name: what the argument is called, for the message.
      value: shape () or (clients,).
      clients: how many there are.
      called: what a client is called where this is about, such as "node".

    Returns:
      Shape (clients,).

    Raises:
      InputError: a number is negative or not finite, or there is another number of them.
    """
    numbers = number(name, value, at_least=0)
    if numbers.shape not in ((), (clients,)):
        raise InputError(
            f"must have shape () or ({clients},), but it has {numbers.shape}",
            argument=name,
            value=value,
            remedy=f"give one number for all {called}s, or one per {called}",
        )
    return jnp.broadcast_to(numbers, (clients,))


def listed(names: Iterable[str]) -> str:
    """Join names for a sentence: 'a', 'a and b', 'a, b and c'."""
    names = list(names)
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def shape_text(shape: Iterable[int | str | None]) -> str:
    """Write a shape as Python does: '(4,)' or '(any, 3)', where None stands for any size."""
    sizes = ["any" if size is None else str(size) for size in shape]
    return f"({sizes[0]},)" if len(sizes) == 1 else f"({', '.join(sizes)})"


def one_line(value: Any) -> str:
    """Write a value of any kind on one line, shortened if it is long."""
    try:
        words = " ".join(f"{value!r:.400}".split())
    except Exception:  # a whole number of many thousand digits, or a class that cannot show itself
        words = f"of the type {type(value).__name__}"
    return words if len(words) <= 80 else f"{words[:77]}..."


def _real_numbers(name: str, value: Any, wanted: str) -> np.ndarray | None:
    """Return numbers as they were given, on the host; None where something of them is traced.

    Raises:
      InputError: the value is no real number nor an array or a list of such, or has masked entries.
    """
    if not is_concrete(value):
        return None
    not_deleted(name, value)
    if any(np.ma.is_masked(leaf) for leaf in jax.tree.leaves(value)):
        raise InputError(
            "has masked entries, which would be taken for numbers",
            argument=name,
            value=value,
            remedy="fill them or leave them out",
        )
    try:
        if isinstance(value, jax.Array) and not _is_real_dtype(value.dtype):
            raise TypeError
        host = np.asarray(value)
        if host.dtype == object and all(type(part) is int for part in host.ravel()):
            host = np.array([_as_float(part) for part in host.ravel()]).reshape(host.shape)
        if not _is_real_dtype(host.dtype):
            raise TypeError
        if host.dtype == np.longdouble:  # JAX has none
            host = _cast(host, np.float64)
        if not host.dtype.isnative:  # nor numbers of another machine's order of bytes
            host = host.astype(host.dtype.newbyteorder("="))
    except (TypeError, ValueError):  # no numbers, or lists of different lengths
        raise InputError(
            f"must be {wanted}, but it is {one_line(value)}", argument=name, value=value
        ) from None
    return host


def _is_real_dtype(dtype: Any) -> bool:
    kinds = (jnp.floating, jnp.integer, jnp.bool_)
    real = any(jnp.issubdtype(dtype, kind) for kind in kinds)
    return real and np.dtype(dtype).kind != "m"  # lengths of time count among the integers


def _as_float(whole: int) -> float:
    """Return a whole number of any size as a float; infinite beyond its range."""
    try:
        return float(whole)
    except OverflowError:
        return math.inf if whole > 0 else -math.inf


def _cast(host: np.ndarray, dtype: Any) -> np.ndarray:
    with np.errstate(all="ignore"):
        return host.astype(dtype)


def _device_array(host: Any, dtype: Any) -> jax.Array:
    """Return a strong array of a dtype; what leaves its range was, or will be, refused."""
    return jnp.array(_cast(host, dtype) if isinstance(host, np.ndarray) else host, dtype=dtype)


def _check_range(name: str, value: Any, host: np.ndarray, dtype: Any) -> None:
    """Check that finite numbers neither overflow nor vanish where they are cast to a float dtype.

    An array may hold entries that vanish, as similarities do, but not only such.

    Raises:
      InputError: a number is infinite in that dtype; or one alone, or all of an array, is 0 in it.
    """
    kinds = jnp.finfo(dtype)
    kept, size = _cast(host, dtype), np.abs(_cast(host, np.promote_types(host.dtype, np.float64)))
    over = np.isfinite(size) & ~np.isfinite(kept)
    if np.any(over):
        raise InputError(
            f"must not exceed {float(kinds.max):g}, the largest number of {np.dtype(dtype)}, but "
            f"it is {host[over].flat[0]:g}",
            argument=name,
            value=value,
            remedy=wider(dtype),
        )
    # Machines take smaller ones for 0; but float16, with which they compute in float32, keeps them.
    tiny = kinds.smallest_subnormal if dtype == np.float16 else kinds.smallest_normal
    there, least = size[size > 0], float(tiny)
    if there.size and np.all(there < least):
        raise InputError(
            f"is too small: {np.max(there):g} counts as 0 in {np.dtype(dtype)}, where numbers "
            f"begin at {least:g}",
            argument=name,
            value=value,
            remedy=wider(dtype),
        )


def wider(dtype: Any) -> str:
    """Return what to do about a number that does not fit a dtype."""
    remedy = "take another unit"
    return remedy if np.dtype(dtype) == np.float64 else f"{remedy}, or compute in float64"


def _shown(value: ArrayLike) -> str:
    """A value as a person would write it, shortened if it is long."""
    seen = np.asarray(value)
    if seen.ndim == 0:
        return f"{seen.item():g}"
    return " ".join(np.array2string(seen, threshold=6, precision=6).split())
