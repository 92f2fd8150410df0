"""What makes a kernel of a function of arrays: it is compiled once, and its numbers are checked.

Annotations declare the parameters. Arrays and numbers are arguments of the program; axes, counts
and choices are its structure, and each has a program of its own. Functions that a kernel takes have
programs too, which go with them.
"""

import inspect
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial, reduce, wraps
from operator import index, or_
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, TypeVar, Union, get_args, get_origin

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

Function = TypeVar("Function", bound=Callable[..., Any])


class Range(NamedTuple):
    """Which numbers a parameter may be; NaN may always be, and makes the result NaN.

    Attributes:
      words: what a number must be.
      broken: whether numbers are not, given the argument with which they are compared.
      other: the name of that argument.
      traced: whether traced numbers become NaN before the function sees them; else it does that.
    """

    words: str
    broken: Callable[[Any, Any], Any]
    other: str | None = None
    traced: bool = True


def _rises(weights: Any, axis: int) -> Any:
    last = weights.swapaxes(axis, -1) if weights.ndim > 1 else weights
    return (last[..., 1:] > last[..., :-1]).any() if weights.ndim else False


_LEAST_0 = Range("at least 0", lambda x, _: x < 0)
_ABOVE_0 = Range("greater than 0", lambda x, _: x <= 0)
# A number, or an array of any floating dtype: it never changes the dtype of a point.
Real = Array | float
Size = Annotated[Real, _LEAST_0]
Scale = Annotated[Real, _ABOVE_0]
# The same where a choice in front of a product would change its rounding.
OwnSize = Annotated[Real, _LEAST_0._replace(traced=False)]
Above1 = Annotated[Real, Range("greater than 1", lambda x, _: x <= 1)]
Share = Annotated[Real, Range("from 0 to 1", lambda x, _: (x < 0) | (x > 1))]
High = Annotated[Real, Range("at least low", lambda x, low: x < low, "low")]
Upper = Annotated[Real, Range("at least lower", lambda x, lower: x < lower, "lower")]
Falling = Annotated[Real, _LEAST_0, Range("in falling order", _rises, "axis")]
NotNaN = Annotated[Real, Range("a number", lambda x, _: x != x)]

_HOST = (int, float, np.integer, np.floating, np.ndarray)


class _Declared:
    """A function with what the annotations of its parameters say."""

    def __init__(self, function: Callable[..., Any]):
        self.function, self.signature = function, inspect.signature(function)
        parameters = self.signature.parameters.values()
        kinds = {part.name: list(_kinds(part.annotation)) for part in parameters}
        self.names = tuple(kinds)
        places = [i for i, part in enumerate(parameters) if part.kind is part.VAR_POSITIONAL]
        self.rest = places[0] if places else len(self.names)
        self.defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        self.numbers = {
            name: [kind for kind in kinds[name] if isinstance(kind, Range)]
            for name in kinds
            if float in kinds[name]
        }
        self.static = [name for name in kinds if kinds[name] and all(map(_is_choice, kinds[name]))]
        self.taken = {name: index if kinds[name] == [int] else _hashable for name in self.static}
        self.functions = [name for name in kinds if any(map(_is_function, kinds[name]))]

    def arguments(self, given: tuple[Any, ...], options: dict[str, Any]) -> dict[str, Any]:
        """Return arguments by name, numbers as Python's, and which of them are checked."""
        named = {**dict(zip(self.names[: self.rest], given, strict=False)), **options}
        if self.rest < len(self.names):
            named[self.names[self.rest]] = given[self.rest :]
        elif len(named) < len(given) + len(options):
            self.signature.bind(*given, **options)  # says which argument is one too many
        checked = []
        for name, value in named.items():
            if name in self.taken:
                named[name] = self.taken[name](value)
            elif name in self.numbers and isinstance(value, _HOST):
                if not isinstance(value, np.ndarray) or value.ndim == 0:
                    named[name] = value = float(value)
                for range_ in self.numbers[name]:
                    limit = self._limit(range_, named) if range_.other else None
                    if range_.other and not isinstance(limit, _HOST):
                        break
                    broken = range_.broken(value, limit)
                    if broken is not False and np.any(broken):
                        raise ValueError(_sentence(name, value, range_, limit, broken))
                else:
                    checked.append(name)
        named["checked"] = tuple(checked)
        return named

    def _limit(self, range_: Range, named: Mapping[str, Any]) -> Any:
        """Return the argument with which a number is compared, if there is one."""
        return named.get(range_.other, self.defaults.get(range_.other)) if range_.other else None

    def __call__(self, /, checked: tuple[str, ...], **named: Any) -> Any:
        """Call the function, with NaN for numbers out of range that nobody has checked."""
        for name, ranges in self.numbers.items():
            if name not in checked and named.get(name) is not None:
                for range_ in (range_ for range_ in ranges if range_.traced):
                    named[name] = _in_range(named[name], range_, self._limit(range_, named))
        if self.rest == len(self.names):
            return self.function(**named)
        more = named.pop(self.names[self.rest])
        first = [named.pop(name) for name in self.names[: self.rest]]
        return self.function(*first, *more, **named)


def kernel(function: Function) -> Function:
    """Compile a function of arrays once per structure, and check its numbers before.

    Numbers of Python and NumPy that are out of range are refused, others become NaN. Float64 arrays
    are computed with in float64, wherever the kernel is called. Under an outer transformation
    nothing is left of the program but the function.

    A function that takes functions has a program for each, which holds none of them and goes with
    them. Of traced arrays it is called as it is, for their derivatives need the functions later.
    """
    declared = _Declared(function)
    programs: dict[Any, Callable[..., Any]] = {}

    def run(**named: Any) -> Any:
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(named)):
            return declared(**named)
        taken = {name: named.pop(name) for name in declared.functions}
        flat, shape = jax.tree.flatten(taken, is_leaf=callable)
        key = (shape, *(weakref.ref(one, lambda _: programs.pop(key, None)) for one in flat))
        if key not in programs:
            held = jax.tree.unflatten(shape, [_held(one) for one in key[1:]])
            programs[key] = _jitted(partial(declared, **held), declared)
        return programs[key](**named)

    return _called(declared, run if declared.functions else _jitted(declared, declared))


def checked(function: Function) -> Function:
    """Check the numbers of a function that makes a kernel, or that works in NumPy."""
    declared = _Declared(function)
    return _called(declared, declared)


def published(function: Function, package: str) -> Function:
    """Return a function as users import it from a package: a kernel, unless it is one already."""
    if hasattr(function, "__wrapped__"):
        return function
    found = kernel(function)
    found.__module__ = package
    return found


def _called(declared: _Declared, run: Callable[..., Any]) -> Any:
    @wraps(declared.function)
    def called(*given: Any, **options: Any) -> Any:
        named = declared.arguments(given, options)
        if jax.sharding.get_abstract_mesh().manual_axes:
            return declared(**named)  # within `shard_map` JAX cannot transpose all programs
        if is_double(named):
            with jax.enable_x64(True):
                return run(**named)
        return run(**named)

    shown: Any = called  # what is read needs no ranges
    shown.__annotations__ = {
        name: _plain(kind) for name, kind in declared.function.__annotations__.items()
    }
    shown.__signature__ = declared.signature.replace(
        parameters=[
            part.replace(annotation=_plain(part.annotation))
            for part in declared.signature.parameters.values()
        ]
    )
    return shown


def _jitted(function: Callable[..., Any], declared: _Declared) -> Callable[..., Any]:
    def named(**arguments: Any) -> Any:
        return function(**arguments)

    named.__name__ = named.__qualname__ = declared.function.__name__
    return jax.jit(named, static_argnames=(*declared.static, "checked"), inline=True)


def is_double(arguments: Any) -> bool:
    """Return whether there are float64 arrays where they are not enabled."""
    if jax.config.jax_enable_x64:  # pyright: ignore[reportAttributeAccessIssue]
        return False
    for leaf in jax.tree.leaves(arguments):
        if isinstance(leaf, Array) and leaf.dtype == np.float64:
            return True
    return False


def _held(held: Callable[[], Any]) -> Callable[..., Any]:
    """Return what calls a function, without holding it."""

    def function(*arguments: Any, **options: Any) -> Any:
        return held()(*arguments, **options)

    function.__name__ = name_of(held())
    return function


def name_of(function: Any) -> str:
    """Return the name of a function inside `functools.partial` and `jax.jit`."""
    while isinstance(function, partial):
        function = function.func
    return getattr(inspect.unwrap(function), "__name__", "") if callable(function) else ""


def _in_range(number: Any, range_: Range, limit: Any) -> Array:
    """Return a number, NaN where it is out of a range."""
    number = jnp.asarray(number)
    if jnp.issubdtype(number.dtype, jnp.complexfloating):
        return number  # which the function refuses
    if not jnp.issubdtype(number.dtype, jnp.floating):
        number = number.astype(jnp.result_type(float))
    with jax.numpy_rank_promotion("allow"):
        limit = limit.astype(number.dtype) if isinstance(limit, Array) else limit
        return jnp.where(range_.broken(number, limit), jnp.nan, number)


def _sentence(name: str, value: Any, range_: Range, limit: Any, broken: Any) -> str:
    wrong = np.broadcast_to(value, np.shape(broken))[broken][0] if np.ndim(broken) else value
    wrong = wrong if np.ndim(wrong) == 0 else wrong.tolist()
    beside = f" and {range_.other} is {limit}" if range_.other else ""
    return f"{name} must be {range_.words}, but it is {wrong}{beside}."


def _hashable(choice: Any) -> Any:
    return tuple(choice) if isinstance(choice, list) else choice


def _kinds(annotation: Any) -> Sequence[Any]:
    """Return what an argument may be, and its ranges."""
    if get_origin(annotation) is Annotated:
        kind, *ranges = get_args(annotation)
        return [*_kinds(kind), *ranges]
    if get_origin(annotation) in (Union, UnionType):
        return [kind for part in get_args(annotation) for kind in _kinds(part)]
    return [annotation]


def _plain(annotation: Any) -> Any:
    """Return an annotation without ranges."""
    if get_origin(annotation) in (Union, UnionType):
        return reduce(or_, map(_plain, get_args(annotation)))
    return get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation


def _is_choice(kind: Any) -> bool:
    return kind in (int, bool, str, NoneType) or get_origin(kind) is tuple or kind == Sequence[int]


def _is_function(kind: Any) -> bool:
    inside = get_args(kind)[0] if get_origin(kind) is Sequence and get_args(kind) else kind
    return get_origin(inside) is Callable
