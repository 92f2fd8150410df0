"""Parts of all checks: selection, failures as sentences, and comparison of numbers."""

import dataclasses
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import InputError, default_float, one_line, one_of
from fedjax_admm._run import difference

Check = Callable[[Any], None]
SAFE = (
    "Both branches of a jnp.where are differentiated: no 0/0 and no root of 0 may stand in either; "
    "kernels.safe_norm and kernels.safe_ratio have none."
)
NO_BRANCH = "Take jnp.where in place of an if on values."


def make(bench: Any, checks: Mapping[str, Check], only: str | Sequence[str] | None) -> None:
    """Make all checks of a kind, or those that `only` names."""
    names = list(checks) if only is None else [only] if isinstance(only, str) else list(only)
    for name in names:
        one_of("only", name, checks)
    for name in names:
        checks[name](bench)


@contextmanager
def doing(what: str, remedy: str = "") -> Iterator[None]:
    """Turn an error of the checked code into a failure of `what`."""
    try:
        yield
    except AssertionError:
        raise
    except Exception as error:
        text = textwrap.shorten(str(error), 400, placeholder=" ...")
        if isinstance(error, jax.errors.KeyReuseError):
            remedy = "Split keys with jax.random.split, one part for every use."
            raise AssertionError(f"{what} uses a random key twice: {text}. {remedy}") from error
        raise AssertionError(
            f"{what} raised {type(error).__name__}: {text.removesuffix('.')}. {remedy}".rstrip()
        ) from error


def demand(holds: Any, sentence: str) -> None:
    """Assert; the sentence names the failure and its repair."""
    if not bool(holds):
        raise AssertionError(sentence)


def name_of(thing: Any) -> str:
    """Return the name of a function, or of the class of an object."""
    return getattr(thing, "__name__", type(thing).__name__)


def is_float(leaf: Any) -> bool:
    """Whether a leaf is made of floating numbers."""
    return jnp.issubdtype(jnp.result_type(leaf), jnp.floating)


def with_floats(tree: Any, change: Callable[[Any], Any]) -> Any:
    """Return a pytree whose floating leaves are changed."""
    return jax.tree.map(lambda leaf: change(leaf) if is_float(leaf) else leaf, tree)


def cast(tree: Any, dtype: Any) -> Any:
    """Return a pytree whose floating leaves have a dtype."""
    return with_floats(tree, lambda leaf: jnp.asarray(leaf, dtype))


def both_precisions(*trees: Any) -> Iterator[tuple[Any, ...]]:
    """Yield a dtype, float32 and float64 with x64 enabled, and the pytrees cast to it."""
    for dtype in (np.float32, np.float64):
        with jax.enable_x64(dtype is np.float64):
            yield (dtype, *(cast(tree, dtype) for tree in trees))


def dtype_of(tree: Any) -> np.dtype:
    """Return the dtype of the floating leaves of a pytree; without any, that of the session."""
    with jax.numpy_dtype_promotion("standard"):
        dtypes = [jnp.result_type(leaf) for leaf in jax.tree.leaves(tree) if is_float(leaf)]
        return np.dtype(jnp.result_type(*dtypes)) if dtypes else default_float()


def demand_no_static_numbers(part: Any) -> None:
    """Demand that no float of a dataclass is a part of its structure."""
    leaves = jax.tree.leaves(part)
    for field in dataclasses.fields(part) if dataclasses.is_dataclass(part) else ():
        value = getattr(part, field.name)
        demand(
            not isinstance(value, float | np.floating)
            or not np.isfinite(value)
            or any(value is leaf for leaf in leaves),
            f"{name_of(part)}.{field.name} is a static number ({value!r}): another value compiles "
            "again, and has no derivative; register it as a leaf, and keep static what counts or "
            "chooses.",
        )


def demand_kind(where: str, array: Any, shape: tuple[int, ...], dtype: Any) -> None:
    """Demand an array of a shape and a dtype."""
    demand(
        hasattr(array, "shape") and hasattr(array, "dtype"),
        f"{where} must return an array, but it returns {one_line(array)}.",
    )
    demand(
        array.shape == tuple(shape),
        f"{where} must return an array of shape {tuple(shape)}, but its shape is {array.shape}.",
    )
    demand(
        array.dtype == dtype,
        f"{where} must return {np.dtype(dtype).name} where its arguments are, but it returns "
        f"{array.dtype}; take the dtype of constants from the arguments, as "
        "jnp.asarray(1.0, points.dtype) does.",
    )


def demand_same_form(where: str, what: str, old: Any, new: Any) -> None:
    """Demand that a state keeps its structure, shapes and dtypes."""
    change = difference(old, new)
    demand(
        not change,
        f"{where} must return {what} with the structure, shapes and dtypes of the one that it is "
        f"given, for jax.lax.scan, but {change}.",
    )


def demand_stacked(where: str, tree: Any, number: int) -> None:
    """Demand that all leaves have a leading axis of a length, that of clients or senders."""
    for path, leaf in jax.tree.leaves_with_path(tree):
        demand(
            leaf.shape[:1] == (number,),
            f"{where} must be stacked over {number} of them, but "
            f"{jax.tree_util.keystr(path) or 'it'} has shape {leaf.shape}.",
        )


def demand_close(
    where: str, result: Any, expected: Any, rtol: float, atol: float, remedy: str = ""
) -> None:
    """Demand that two pytrees agree, entry by entry, to `atol + rtol |expected|`."""
    results, others = jax.tree.leaves_with_path(result), jax.tree.leaves(expected)
    for (path, one), other in zip(results, others, strict=True):
        one, other = plain(one), plain(other)
        shapes = f"{where} differ: their shapes are {one.shape} and {other.shape}."
        demand(one.shape == other.shape, shapes)
        if not np.issubdtype(other.dtype, np.inexact):
            off = one != other
        else:
            with np.errstate(invalid="ignore"):
                apart = np.abs(one - other) > atol + rtol * np.abs(other)
            off = (apart & (one != other)) | (np.isnan(one) != np.isnan(other))
        if np.any(off):
            place = tuple(int(i) for i in np.argwhere(off)[0])
            leaf = f" of {jax.tree_util.keystr(path)}" if path else ""
            entry = f"entry {place}{leaf}" if leaf or place else "the number"
            sentence = f"{where} differ: {entry} is {one[place]:.9g} and {other[place]:.9g}."
            raise AssertionError(f"{sentence} {remedy}".rstrip())


def demand_finite(where: str, tree: Any, remedy: str = "") -> None:
    """Demand that all floating leaves are finite."""
    for path, leaf in jax.tree.leaves_with_path(tree):
        if not is_float(leaf):
            continue
        array = plain(leaf)
        if not np.all(np.isfinite(array)):
            place = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
            at = f" {jax.tree_util.keystr(path)}" if path else ""
            at += f" at {place}" if place else ""
            sentence = f"{where} must be finite, but{at} it is {array[place]}."
            raise AssertionError(f"{sentence} {remedy}".rstrip())


def demand_count(where: str, value: Any) -> None:
    """Demand a whole Python number that is not negative."""
    demand(
        type(value) is int and value >= 0,
        f"{where} must be a whole Python number that is not negative, but it is {value!r}.",
    )


def demand_bool(where: str, value: Any) -> None:
    """Demand a Python bool."""
    demand(
        type(value) is bool,
        f"{where} must be True or False, a part of the structure, but it is {value!r}.",
    )


def stack(trees: Sequence[Any]) -> Any:
    """Stack pytrees along a new first axis."""

    def together(*leaves: Any) -> jax.Array:
        if not jnp.issubdtype(jnp.result_type(leaves[0]), jax.dtypes.prng_key):
            return jnp.stack(leaves)
        # A key that is stacked counts as used.
        return jax.random.wrap_key_data(jnp.stack([jax.random.key_data(key) for key in leaves]))

    return jax.tree.map(together, *trees)


def plain(leaf: Any) -> np.ndarray:
    """Return a leaf as a NumPy array that can be compared; typed keys as their data."""
    if jnp.issubdtype(jnp.result_type(leaf), jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    array = np.asarray(leaf)
    known = array.dtype.kind in "biuf"
    return array if known and array.dtype != np.float16 else array.astype(np.float64)


def row_text(numbers: Any) -> str:
    """Write a row of numbers."""
    return np.array2string(np.asarray(numbers), precision=4, separator=", ", threshold=6)


def unfit(argument: str, value: Any, expected: str) -> InputError:
    """Return the mistake of a wrong argument of a check."""
    return InputError(
        f"must be {expected}, but it is {one_line(value)}", argument=argument, value=value
    )


def demand_pytree(argument: str, value: Any) -> None:
    """Refuse an object whose class is not registered as a pytree."""
    if jax.tree_util.all_leaves([value]):
        raise InputError(
            f"must be a pytree, but {name_of(value)} is registered as none",
            argument=argument,
            value=value,
            remedy="decorate the class with fedjax_admm.pytree_dataclass",
        )
