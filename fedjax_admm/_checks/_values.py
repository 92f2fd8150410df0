"""Checks of a user's numbers and arrays: one sentence, before anything is compiled.

Builders call these on concrete values. Under a transformation (`jax.vmap`, `jax.grad`, `jax.jit`)
the values are tracers, which have no numbers, so that the checks of values do nothing.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.typing import ArrayLike

Shape = tuple[int | None, ...]
LARGEST_COUNT = 2**31 - 1  # counts on a device are int32
_STATIC = "mark it as static, as jax.jit(..., static_argnames=...) does"


class InputError(ValueError):
    """A user's mistake in one sentence: the argument, what is wrong with it, the remedy.

    `InputError("must be at least 1, but it is 0", "rounds", "take more")` reads "rounds must be at
    least 1, but it is 0; take more." Other arguments of a sentence stand in braces:
    `InputError("goes with {graph} wasserstein only", "threshold")`. The command line, which knows
    arguments by other names, tells the same mistake with `about("--rounds")` or
    `renamed({"threshold": "--threshold", ...})`.
    """

    def __init__(
        self,
        mistake: str,
        argument: str | None = None,
        remedy: str | None = None,
        *,
        value: Any = None,
        others: Mapping[str, str] | Iterable[str] = (),
    ) -> None:
        """Keep the parts of the sentence.

        Args:
          mistake: what is wrong. It follows the argument's name; without one it is a sentence.
          argument: the name of the argument, as its caller wrote it.
          remedy: the repair.
          value: the argument.
          others: how arguments in braces are written until they are renamed; as they stand there
            by default.
        """
        super().__init__(mistake)
        self.mistake, self.argument, self.value, self.remedy = mistake, argument, value, remedy
        self.others = dict(others) if isinstance(others, Mapping) else {}

    def __str__(self) -> str:
        """Return the sentence."""
        words = self.mistake if self.argument is None else f"{self.argument} {self.mistake}"
        words = words.removesuffix(".")
        if self.remedy is not None:
            words = f"{words}; {self.remedy.removesuffix('.')}"
        words = re.sub(r"{([a-z]\w*)}", lambda name: self.others.get(name[1], name[1]), words)
        return words if words.endswith("?") else f"{words}."

    def about(self, argument: str | None) -> "InputError":
        """Return the same mistake of an argument with another name."""
        other = copy(self)
        other.argument = argument
        return other

    def renamed(self, names: Mapping[str, str]) -> "InputError":
        """Return the same mistake with other names of its arguments."""
        other = self.about(names.get(self.argument or "", self.argument))
        other.others = {**self.others, **names}
        return other


def refuse(
    wrong: Any,
    argument: str | None,
    mistake: str | Callable[[], str],
    *value: Any,
    remedy: str | Callable[[], str] | None = None,
) -> None:
    """Raise `InputError` where something is wrong; what is traced passes.

        refuse(clients > users, "clients", f"must be at most {users}", clients, remedy="take less")

    Args:
      wrong: whether it is wrong.
      argument: the name of the argument; None where the mistake is a whole sentence.
      mistake: what is wrong with it, or a function that says it, where only a mistake has words.
      *value: what "but it is" shows behind the mistake, if given.
      remedy: the repair, likewise.
    """
    if isinstance(wrong, Tracer) or not wrong:
        return
    told, repair = (part() if callable(part) else part for part in (mistake, remedy))
    shown = f", but it is {one_line(value[0])}" if value else ""
    raise InputError(f"{told}{shown}", argument, repair, value=value[0] if value else None)


def refuse_entries(
    wrong: Any,
    argument: str | None,
    mistake: str,
    values: Any,
    remedy: str | None = None,
    entry: str = ", but entry",
) -> None:
    """Raise `InputError` with the first wrong entry of an array, if there is one, and its value."""
    if is_concrete(wrong) and np.any(wrong):
        place = tuple(np.argwhere(wrong)[0].tolist())
        shown = _shown(np.asarray(values)[place])
        where = f"{entry} {place[0] if len(place) == 1 else place}" if place else ", but it"
        raise InputError(f"{mistake}{where} is {shown}", argument, remedy)


class NotHereError(InputError):
    """Samples that are on the host are asked for inside of a program."""

    clients: tuple[int, ...] | None = None  # whose samples these are, where that is known


def is_concrete(value: Any) -> bool:
    """Whether no leaf of the pytree `value` is traced."""
    return not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(value))


def is_real(value: Any) -> bool:
    """Whether a value is a real number, or an array or a list of such; traced ones pass."""
    try:
        return not is_concrete(value) or _is_real_dtype(_dtype_of(value))
    except (TypeError, ValueError):  # lists of different lengths
        return False


def real_array(name: str, value: Any) -> None:
    """Check that a value is an array of real numbers, whose whole numbers JAX can hold."""
    host = _real_numbers(name, value, "an array of numbers")
    narrow = jax.dtypes.canonicalize_dtype(np.int64) != np.int64
    if host is not None and narrow and np.issubdtype(host.dtype, np.integer):
        wrong = np.any(np.abs(host) > LARGEST_COUNT)
        refuse(wrong, name, f"must hold whole numbers up to {LARGEST_COUNT}", value)


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
    below: float = np.inf,
) -> jax.Array:
    """Turn a hyper-parameter into a strong float array, checked where it is concrete.

    Args:
      name: the name of the argument.
      value: a number or an array of numbers; floating arrays keep their dtype.
      above: an exclusive lower limit.
      at_least: an inclusive lower limit.
      at_most: an inclusive upper limit.
      below: an exclusive upper limit.

    Returns:
      An array of the shape of `value`, never weakly typed (a weak type retraces).
    """
    host = _real_numbers(name, value, "a number")
    refuse(host is not None and host.dtype == bool, name, "must be a number", value)
    if isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jnp.floating):
        array = jax.lax.convert_element_type(value, value.dtype)
    else:
        array = _device_array(value if host is None else host, default_float())
    if host is not None:
        for holds, range_text in (
            (np.isfinite(host), "finite"),
            (host > above, f"greater than {above:g}"),
            (host >= at_least, f"at least {at_least:g}"),
            (host <= at_most, f"at most {at_most:g}"),
            (host < below, f"less than {below:g}"),
        ):
            if not np.all(holds):
                raise InputError(f"must be {range_text}, but it is {_shown(host)}", name)
        _check_range(name, host, array.dtype)
    return array


def scalar(name: str, value: ArrayLike, **limits: float) -> jax.Array:
    """Turn one number into a strong float array of shape (), as `number` does."""
    array = number(name, value, **limits)
    several = f"must be one number, but it has shape {array.shape}"
    refuse(array.ndim, name, several, remedy="use jax.vmap over several")
    return array


def count(name: str, value: int, *, at_least: int = 1, at_most: float | None = None) -> int:
    """Check a static whole number, such as a number of rounds; at most 2^31 - 1 by default."""
    traced = "must be known before anything is traced, but it is traced"
    refuse(isinstance(value, Tracer), name, traced, remedy=_STATIC)
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    most = LARGEST_COUNT if at_most is None else at_most
    refuse(not whole, name, "must be a whole number", value)
    refuse(value < at_least, name, f"must be at least {at_least}", value)
    refuse(value > most, name, f"must be at most {most}", value)
    return int(value)


def multiple(name: str, value: int, of: str, unit: int) -> None:
    """Check that a whole number is a multiple of another one, such as rounds of `every`."""
    nearest = max(unit, (value + unit // 2) // unit * unit)
    remedy = f"the nearest one is {nearest}"
    refuse(value % unit, name, f"must be a multiple of {{{of}}} ({unit})", value, remedy=remedy)


def not_deleted(name: str, value: Any) -> None:
    """Check that no array of a pytree was donated."""
    for leaf in jax.tree.leaves(value):
        if isinstance(leaf, jax.Array) and not isinstance(leaf, Tracer) and leaf.is_deleted():
            told = f"holds an array of shape {leaf.shape} that has been deleted, as jax.jit does"
            raise InputError(f"{told} with what is donated to it", name, "donate a copy")


def typed_key(key: Any) -> None:
    """Check that a key is one typed key."""
    typed = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    refuse(not typed, "key", "must be a typed key as jax.random.key makes it", key)
    several = f"must be one key, but it is a stack of shape {key.shape}"
    refuse(key.shape, "key", several, remedy="use jax.vmap over keys")
    not_deleted("key", key)


def batchable_key(key: Any) -> None:
    """Check that a key is one typed key whose numbers `jax.vmap` does not change."""
    typed_key(key)
    kind = str(jax.random.key_impl(key))
    told = f"must give the same numbers in a batch, but those of the kind {kind} depend on it"
    remedy = 'take one of impl="threefry2x32", the default of jax.random.key'
    refuse(kind in ("rbg", "unsafe_rbg"), "key", told, remedy=remedy)


def finite_array(name: str, value: ArrayLike, shape: tuple[int | None, ...]) -> jax.Array:
    """Turn data into a finite float array of the given shape (None: any size)."""
    host = _real_numbers(name, value, f"an array of numbers of shape {shape_text(shape)}")
    if isinstance(value, jax.Array) or host is None:  # a list may have traced entries
        array = jnp.asarray(value)
        if not jnp.issubdtype(array.dtype, jnp.floating):
            array = array.astype(default_float())
    else:
        floating = jnp.issubdtype(host.dtype, jnp.floating)
        dtype = jax.dtypes.canonicalize_dtype(host.dtype) if floating else default_float()
        array = _device_array(host, dtype)
    of_shape(name, array, shape)
    if host is not None:
        remedy = "remove or repair that entry"
        refuse_entries(~np.isfinite(host), name, "must be finite", host, remedy)
        _check_range(name, host, array.dtype)
    return array


def of_shape(name: str, value: Any, *shapes: Shape, remedy: str | None = None) -> None:
    """Check that an array has one of a few shapes, where None stands for any size."""
    seen = np.shape(value)
    fits = any(
        len(seen) == len(shape)
        and all(want in (None, size) for size, want in zip(seen, shape, strict=True))
        for shape in shapes
    )
    texts = " or ".join(map(shape_text, shapes))
    refuse(not fits, name, f"must have shape {texts}, but it has {seen}", remedy=remedy)


def one_of(name: str, value: Any, choices: Iterable[str]) -> None:
    """Check that a value is one of a few words."""
    choices = list(choices)
    wrong = not isinstance(value, str) or value not in choices
    refuse(wrong, name, f"must be one of {listed(map(repr, choices))}", value)


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
    except Exception:  # a whole number of thousands of digits, or a class that cannot show itself
        words = f"of the type {type(value).__name__}"
    return words if len(words) <= 80 else f"{words[:77]}..."


def wider(dtype: Any) -> str:
    """Return the remedy for a number that does not fit a dtype."""
    remedy = "take another unit"
    return remedy if np.dtype(dtype) == np.float64 else f"{remedy}, or compute in float64"


def _real_numbers(name: str, value: Any, kind: str) -> np.ndarray | None:
    """Return numbers on the host; None where a part is traced."""
    if not is_concrete(value):
        return None
    not_deleted(name, value)
    masked = any(np.ma.is_masked(leaf) for leaf in jax.tree.leaves(value))
    refuse(masked, name, "has masked entries", remedy="fill them or leave them out")
    refuse(not is_real(value), name, f"must be {kind}", value)
    host = np.asarray(value)
    return host.astype(host.dtype.newbyteorder("="), copy=False)


def _dtype_of(value: Any) -> Any:
    return value.dtype if isinstance(value, jax.Array) else np.asarray(value).dtype


def _is_real_dtype(dtype: Any) -> bool:
    return any(jnp.issubdtype(dtype, kind) for kind in (jnp.floating, jnp.integer, jnp.bool_))


def _cast(host: np.ndarray, dtype: Any) -> np.ndarray:
    with np.errstate(all="ignore"):
        return host.astype(dtype)


def _device_array(host: Any, dtype: Any) -> jax.Array:
    """Return a strong array of a dtype; `_check_range` refuses overflows."""
    if isinstance(host, np.ndarray):
        # The cast copies; `jnp.array` would compile a program that copies once more.
        return jnp.asarray(_cast(host, dtype), dtype=dtype)
    return jnp.array(host, dtype=dtype)


def _check_range(name: str, host: np.ndarray, dtype: Any) -> None:
    """Check that a cast to a float dtype neither overflows nor makes all of the numbers vanish."""
    kinds = jnp.finfo(dtype)
    size = np.abs(_cast(host, np.promote_types(host.dtype, np.float64)))
    over = host[np.isfinite(size) & ~np.isfinite(_cast(host, dtype))]
    if over.size:
        limit = f"must not exceed {float(kinds.max):g}, the largest number of {np.dtype(dtype)}"
        raise InputError(f"{limit}, but it is {over.flat[0]:g}", name, wider(dtype))
    # Machines take subnormal numbers for 0; but float16, with which they compute in float32, not.
    least = float(kinds.smallest_subnormal if dtype == np.float16 else kinds.smallest_normal)
    most = np.max(size, initial=0)
    if 0 < most < least:
        told = f"is too small: {most:g} counts as 0 in {np.dtype(dtype)}, where numbers begin"
        raise InputError(f"{told} at {least:g}", name, wider(dtype))


def _shown(value: np.ndarray) -> str:
    if value.ndim == 0:
        return f"{value.item():g}" if value.dtype.kind == "f" else str(value.item())
    return " ".join(np.array2string(value, threshold=6, precision=6, separator=", ").split())
