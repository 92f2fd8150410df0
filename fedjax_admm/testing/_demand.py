"""What checks have in common, and what they demand: a failure is an `AssertionError`."""

import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import one_of, refuse, registered
from fedjax_admm._run._checks import difference

Only = str | Sequence[str] | None
SAFE = "Neither branch of a jnp.where may have 0/0 or a root of 0; kernels.safe_norm has none."
_REMEDIES = {
    jax.errors.KeyReuseError: "Split keys with jax.random.split, one part for every use.",
    jax.errors.ConcretizationTypeError: "Take jnp.where in place of an if on values.",
}


def make(bench: Any, checks: Mapping[str, Callable[[Any], None]], only: Only) -> None:
    """Make all checks of a kind, or those that `only` names; an error in one is its failure."""
    for name in checks if only is None else [only] if isinstance(only, str) else only:
        one_of("only", name, checks)
        try:
            checks[name](bench)
        except AssertionError:
            raise
        except Exception as error:
            remedy = [text for kind, text in _REMEDIES.items() if isinstance(error, kind)]
            text = textwrap.shorten(str(error), 400, placeholder=" ...").removesuffix(".")
            sentence = f"The check {name!r} of {bench.name} raised {type(error).__name__}: {text}."
            raise AssertionError(" ".join([sentence, *remedy])) from error


@partial(jax.jit, static_argnums=0)
def ask(method: str, thing: Any, *arguments: Any) -> Any:
    """Call a method, compiled once for all objects of a form."""
    return getattr(thing, method)(*arguments)


def named(*checks: Callable[[Any], None]) -> dict[str, Callable[[Any], None]]:
    """Return checks by their functions' names."""
    return {check.__name__.strip("_"): check for check in checks}


def fits(argument: str, value: Any, expected: str, holds: bool) -> None:
    """Refuse what is not of the kind that is checked, or whose class is registered as no pytree."""
    wrong = isinstance(value, type) or not holds
    refuse(wrong, argument, f"must be {expected}", value)
    registered(argument, value)


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


def plain(leaf: Any) -> np.ndarray:
    """Return a leaf as a NumPy array that can be compared; typed keys as their data."""
    if jnp.issubdtype(jnp.result_type(leaf), jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    array = np.asarray(leaf)
    return array if array.dtype.kind in "biu" else array.astype(np.float64)


def row(numbers: Any) -> str:
    """Write a row of numbers, or a number."""
    return np.array2string(np.asarray(numbers, np.float32).squeeze(), separator=", ", threshold=6)


def slopes(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the derivatives of the sum of all squared results by the floating leaves."""
    leaves, structure = jax.tree.flatten(arguments)

    def total(floats):
        given = structure.unflatten([floats.get(i, leaf) for i, leaf in enumerate(leaves)])
        results = jax.tree.leaves(function(*given))
        return sum((jnp.sum(leaf**2) for leaf in results if is_float(leaf)), 0.0)

    floats = {i: leaf for i, leaf in enumerate(leaves) if is_float(leaf)}
    found = jax.jit(jax.grad(total))(floats)
    return structure.unflatten([found.get(i) for i in range(len(leaves))])


def that(holds: Any, sentence: str) -> None:
    """Demand that something holds."""
    if not holds:
        raise AssertionError(sentence)


def batch(where: str, part: Any, call: Callable[[Any, jax.Array], Any]) -> None:
    """Demand one trace of `call(part, key)` for all numbers of a part, and the same in a batch."""
    traces, leaves = [], jax.tree.leaves(part)
    for name, value in getattr(part, "__dict__", {}).items():
        fixed = isinstance(value, float) and value < np.inf and all(x is not value for x in leaves)
        sentence = f"{name_of(part)}.{name} is a static number ({value!r}): another value compiles "
        that(not fixed, f"{sentence}again, and has no derivative; register it as a leaf.")

    def scaled(factor: jax.Array) -> Any:
        return with_floats(part, lambda leaf: leaf * factor.astype(jnp.result_type(leaf)))

    @jax.jit
    def alone(part, key):
        traces.append(key)
        return call(part, key)

    factors, keys = jnp.asarray([1.0, 0.9, 0.8]), jax.random.split(jax.random.key(1), 3)
    together = jax.jit(jax.vmap(lambda f, key: call(scaled(f), key)))(factors, keys)
    for i, key in enumerate(keys):
        one = jax.tree.map(lambda leaf, i=i: leaf[i], together)
        close(f"{where} in a batch and alone", one, alone(scaled(factors[i]), key), 1e-4, 1e-4)
    sentence = f"{where} was traced {len(traces)} times for three values of its numbers; make each "
    that(len(traces) == 1, f"{sentence}a leaf, and an array of one dtype.")


def kind(where: str, array: Any, shape: tuple[int, ...], dtype: Any) -> None:
    """Demand an array of a shape and a dtype."""
    found = getattr(array, "dtype", None), getattr(array, "shape", None)
    wanted = f"{where} must return {np.dtype(dtype).name} of shape {shape}, but it returns "
    sentence = f"{wanted}{found[0]} of shape {found[1]}; take the dtype from the arguments."
    that(found == (dtype, shape), sentence)


def same_form(where: str, old: Any, new: Any) -> None:
    """Demand that a state keeps its structure, shapes and dtypes."""
    change = difference(old, new)
    sentence = f"{where} must keep its structure, shapes and dtypes, for jax.lax.scan, but "
    that(not change, f"{sentence}{change}.")


def stacked(where: str, tree: Any, number: int) -> None:
    """Demand that all leaves have a leading axis of a length, that of clients or senders."""
    shapes = [np.shape(leaf) for leaf in jax.tree.leaves(tree)]
    sentence = f"{where} must have a leading axis of {number}, but the shapes are {shapes}."
    that(all(shape[:1] == (number,) for shape in shapes), sentence)


def close(where: str, result: Any, expected: Any, rtol: float, atol: float, remedy="") -> None:
    """Demand that two pytrees agree, entry by entry, to `atol + rtol |expected|`."""
    results, others = jax.tree.leaves_with_path(result), jax.tree.leaves(expected)
    for (path, one), other in zip(results, others, strict=True):
        one, other = plain(one), plain(other)
        that(one.shape == other.shape, f"{where} have shapes {one.shape} and {other.shape}.")
        near = (rtol, atol) if other.dtype.kind == "f" else (0, 0)
        for at in map(tuple, np.argwhere(~np.isclose(one, other, *near, equal_nan=True))[:1]):
            numbers = f"{_at(path, at)} is {one[at]:.9g} and {other[at]:.9g}"
            raise AssertionError(f"{where} differ: {numbers}. {remedy}".rstrip())


def finite(where: str, tree: Any, remedy: str = "") -> None:
    """Demand that all floating leaves are finite."""
    for path, leaf in jax.tree.leaves_with_path(tree):
        for at in map(tuple, np.argwhere(~np.isfinite(plain(leaf)))[:1]):
            number = f"{_at(path, at)} is {plain(leaf)[at]}"
            raise AssertionError(f"{where} must be finite, but {number}. {remedy}".rstrip())


def _at(path: Any, place: tuple[Any, ...]) -> str:
    """Write the words that lead to an entry of a leaf."""
    return f"{jax.tree_util.keystr(path)} {tuple(map(int, place)) or ''}".strip() or "it"


def count(where: str, value: Any) -> None:
    """Demand a whole Python number that is not negative."""
    whole = type(value) is int and value >= 0
    that(whole, f"{where} must be a whole Python number, 0 or more, but it is {value!r}.")


def lowest(where: str, function: str, v: Any, step: float, tries: Any, values: Any) -> None:
    """Demand that the first of tries (tries, rows, dim) minimises, given values (tries, rows)."""
    v, tries = np.asarray(v), np.asarray(tries)
    costs = np.asarray(values) + np.sum((tries - v) ** 2, -1) / (2 * step)
    costs = np.where(np.isnan(costs), np.inf, costs)
    low, best = costs.min(0), costs.argmin(0)
    worse = costs[0] > low + 1e-9 * (1 + np.abs(low))
    k = int(np.argmax(np.where(worse, costs[0] - np.where(worse, low, 0), -np.inf)))
    what = f"{where} must minimise {function}(x) + |x - v|^2 / (2 step), but at v = {row(v[k])} and"
    what += f" step = {step:g} it returns {row(tries[0, k])} with the objective {costs[0, k]:.9g}, "
    what += f"while x = {row(tries[best[k], k])} has {low[k]:.9g}. Is the step multiplied where it "
    that(not worse[k], f"{what}should divide, or a branch missing?")
