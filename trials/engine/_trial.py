"""What a trial returns: arrays by name, however deep they lie in dictionaries."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr

from fedjax_admm._checks import InputError

Trial = Callable[[jax.Array], Mapping[str, Any]]
"""`trial(key) -> dict`: of arrays and numbers, and of such dicts, whose names join to "a/b"."""


class Traced(NamedTuple):
    """A trial as a program, traced once for its plan and for every lowering."""

    names: tuple[str, ...]  # of what it returns, in the trial's own order
    program: ClosedJaxpr  # key -> arrays
    function: Callable[[jax.Array], list[jax.Array]]  # what the program was traced from


def traced(trial: Trial, key: jax.Array) -> Traced:
    """Trace a trial with a key like this one."""
    names: list[str] = []

    def listed(key: jax.Array) -> list[jax.Array]:
        arrays = named_arrays(trial)(key)
        names[:] = arrays
        return list(arrays.values())

    program = jax.make_jaxpr(listed)(key)
    return Traced(tuple(names), program, listed)


def named_arrays(trial: Trial) -> Callable[[jax.Array], dict[str, jax.Array]]:
    """Return a trial that returns arrays by name, in the trial's own order."""

    def named(key: jax.Array) -> dict[str, jax.Array]:
        returned = trial(key)
        if not isinstance(returned, Mapping):
            raise _mistake(f"a {type(returned).__name__}", returned)
        arrays: dict[str, jax.Array] = {}
        for name, array in _leaves(returned, ""):
            if name in arrays:
                raise _mistake(f"two arrays of the name {name!r}", returned)
            arrays[name] = array
        return arrays

    return named


def _leaves(returned: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, jax.Array]]:
    for key, value in returned.items():
        if not isinstance(key, str):
            raise _mistake(f"one with the key {key!r}, which is no text", returned)
        name = prefix + key
        value = value._asdict() if hasattr(value, "_asdict") else value  # a named tuple
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{name}/")
        else:
            yield name, _array(name, value)


def _array(name: str, value: Any) -> jax.Array:
    if isinstance(value, jax.Array):
        if jnp.issubdtype(value.dtype, jax.dtypes.prng_key):
            raise _mistake(f"a key as {name!r}", value, "return jax.random.key_data of it")
        return value
    if value is None:
        raise _mistake(f"None as {name!r}", value, "leave it out")
    if not isinstance(value, list | tuple):
        with contextlib.suppress(TypeError):
            return jnp.array(value)
    kind = f"a {type(value).__name__} as {name!r}"
    raise _mistake(kind, value, "make it one array, or a dict of arrays")


def _mistake(what: str, value: Any, remedy: str | None = None) -> InputError:
    return InputError(
        f"must return a dict of arrays, but it returns {what}",
        argument="trial",
        value=value,
        remedy=remedy,
    )
