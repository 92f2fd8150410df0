"""Parts of all checks: their selection, errors as failures, dtypes, and wrong arguments."""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import InputError, default_float, one_line, one_of

SAFE = (
    "Both branches of a jnp.where are differentiated: no 0/0 and no root of 0 may stand in either; "
    "kernels.safe_norm and kernels.safe_ratio have none."
)
NO_BRANCH = "Take jnp.where in place of an if on values."


def make(
    bench: Any, checks: Mapping[str, Callable[[Any], None]], only: str | Sequence[str] | None
) -> None:
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
        if isinstance(error, jax.errors.KeyReuseError):
            remedy = "Split keys with jax.random.split, one part for every use."
        text = textwrap.shorten(str(error), 400, placeholder=" ...").removesuffix(".")
        sentence = f"{what} raised {type(error).__name__}: {text}. {remedy}".rstrip()
        raise AssertionError(sentence) from error


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


def plain(leaf: Any) -> np.ndarray:
    """Return a leaf as a NumPy array that can be compared; typed keys as their data."""
    if jnp.issubdtype(jnp.result_type(leaf), jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    array = np.asarray(leaf)
    known = array.dtype.kind in "biuf"
    return array if known and array.dtype != np.float16 else array.astype(np.float64)


def row_text(numbers: Any) -> str:
    """Write a row of numbers, or a number."""
    numbers = np.squeeze(numbers)
    if not numbers.ndim:
        return f"{numbers:.4g}"
    return np.array2string(numbers, precision=4, separator=", ", threshold=6)


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
