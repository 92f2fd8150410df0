"""Declared needs of functions and solvers; one sentence tells what lacks and who has it."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from functools import partial, wraps
from importlib import import_module
from types import UnionType
from typing import Any, Generic, NamedTuple, ParamSpec, Protocol, TypeVar, get_args

from fedjax_admm._checks import InputError, listed

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


class Needs(NamedTuple):
    """The capabilities that a function needs of its arguments `problem`, `solver` and `state`."""

    problem: tuple[type, ...] = ()
    solver: tuple[type, ...] = ()
    state: tuple[type, ...] = ()


def needs(
    *problem: type, solver: Sequence[type] = (), state: Sequence[type] = ()
) -> Callable[[Callable[Arguments, Answer]], Callable[Arguments, Answer]]:
    """Declare the needs of a measure or a direct method; calls check them, and so does a run.

    Args:
      *problem: capabilities of the argument called `problem`.
      solver: of the argument called `solver`.
      state: of the argument called `state`.

    Returns:
      A decorator; the function gets `requires`, the problem's capabilities, and `needs`.
    """
    declared = Needs(problem, tuple(solver), tuple(state))

    def declare(function: Callable[Arguments, Answer]) -> Callable[Arguments, Answer]:
        names = list(inspect.signature(function).parameters)
        who = function.__name__

        @wraps(function)
        def checked(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
            arguments = {**dict(zip(names, args, strict=False)), **kwargs}
            for role, capabilities in declared._asdict().items():
                if capabilities and role in arguments:
                    _check(who, role, arguments[role], capabilities)
            return function(*args, **kwargs)

        checked.requires = problem  # pyright: ignore[reportAttributeAccessIssue]
        checked.needs = declared  # pyright: ignore[reportAttributeAccessIssue]
        return checked

    return declare


def check_capabilities(solver: Any, problem: Any, *functions: Callable | None) -> None:
    """Check that a problem has the capabilities that a solver, its parts and measures need.

    Args:
      solver: with `requires`; a field that is an object with `requires` of its own adds to it.
      problem: any.
      *functions: measures and residuals, whose declared needs are checked too.
    """
    parts = (solver, *getattr(solver, "__dict__", {}).values())
    capabilities = [capability for part in parts for capability in getattr(part, "requires", ())]
    _check(type(solver).__name__, "problem", problem, capabilities)
    for function in functions:
        while isinstance(function, partial):
            function = function.func
        declared = getattr(function, "needs", None)
        if not isinstance(declared, Needs):
            continue
        who = getattr(function, "__name__", type(function).__name__)
        _check(who, "problem", problem, declared.problem)
        _check(who, "solver", solver, declared.solver)
        state = _state_of(type(solver))
        if declared.state and state is not None:
            _check(who, "state", state, declared.state)


def has(thing: Any, *capabilities: type) -> bool:
    """Whether an object, or a class, has all members of some capabilities."""
    return not _missing(thing, capabilities)


def members(capability: type) -> tuple[str, ...]:
    """Return the names of the methods and data that make up a capability."""
    names: dict[str, None] = {}
    for base in reversed(capability.__mro__):
        if base not in (object, Protocol, Generic):
            own = (*inspect.get_annotations(base), *vars(base))
            names |= dict.fromkeys(name for name in own if not name.startswith("_"))
    return tuple(names)


def _missing(thing: Any, capabilities: Iterable[type]) -> dict[str, str]:
    """Return the missing members, each with the first capability that asks for it."""
    asked = {}
    for capability in capabilities:
        for name in members(capability):
            asked.setdefault(name, capability.__name__)
    return {name: capability for name, capability in asked.items() if not _offers(thing, name)}


def _offers(thing: Any, name: str) -> bool:
    if isinstance(thing, type):
        return hasattr(thing, name) or name in getattr(thing, "__dataclass_fields__", {})
    # A property may compute: it is not asked.
    computed = isinstance(inspect.getattr_static(type(thing), name, None), property)
    return computed or getattr(thing, name, None) is not None


def _check(who: str, role: str, thing: Any, capabilities: Sequence[type]) -> None:
    """Check one argument of a function, or the problem of a solver."""
    missing = _missing(thing, capabilities)
    if not missing:
        return
    groups: dict[str, list[str]] = {}
    for name, capability in missing.items():
        groups.setdefault(capability, []).append(name)
    parts = [f"{listed(names)} ({capability})" for capability, names in groups.items()]
    what = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])}, and {parts[-1]}"
    kind = thing if isinstance(thing, type) else type(thing)
    them = "it" if len(missing) == 1 else "them"
    if not isinstance(thing, type) and all(hasattr(thing, name) for name in missing):
        are = "it is" if len(missing) == 1 else "they are"
        remedy = f"give {them} to what builds the {role}"
        sentence = f"but {are} None in this {kind.__name__}; {remedy}."
    else:
        owners = _owners(role, capabilities)
        have = "has" if len(owners) == 1 else "have"
        where = _ROOMS[role] if len(owners) != 1 else _ROOMS[role].replace("those", "that")
        rest = f"; {where}{listed(owners)} {have} {them}" if owners else ""
        sentence = f"which {'None' if thing is None else kind.__name__} lacks{rest}."
    raise InputError(f"{who} needs a {role} with {what}, {sentence}")


# The room of the owners, as the sentence calls it.
_ROOMS = {"problem": "problems.", "solver": "solvers.", "state": "those of solvers."}


def _owners(role: str, capabilities: Sequence[type]) -> list[str]:
    """Return the builders of the room whose classes have all capabilities.

    A class counts by the functions that build it from a user's arguments, else by its own name,
    but for a base of others.
    """
    room = import_module("fedjax_admm.problems" if role == "problem" else "fedjax_admm.solvers")
    # Problems have clients, and solvers have rounds.
    mark = "num_clients" if role == "problem" else "step"
    builders: dict[type, list[str]] = {}
    for name in room.__all__:
        made = getattr(room, name)
        for kind in (made,) if isinstance(made, type) else _built(name, made):
            if hasattr(kind, mark):
                builders.setdefault(kind, []).append(name)
    owners = []
    for kind, names in builders.items():
        owner = _state_of(kind) if role == "state" else kind
        base = names == [kind.__name__] and any(kind in each.__mro__[1:] for each in builders)
        if owner is not None and not base and has(owner, *capabilities):
            owners += [name for name in names if names == [kind.__name__] or name != kind.__name__]
    return sorted(set(owners))


def _built(name: str, function: Any) -> tuple[type, ...]:
    """Return the classes that a function makes of its arguments: neither drawn nor changed."""
    made = inspect.get_annotations(function) if callable(function) else {}
    kind = made.pop("return", None)
    drawn = name.startswith("draw_") or kind in made.values()
    kinds = get_args(kind) if isinstance(kind, UnionType) else (kind,)
    return () if drawn else tuple(kind for kind in kinds if isinstance(kind, type))


def _state_of(solver: type) -> type | None:
    """Return the class of a solver's state, where its `init` says it."""
    made = inspect.get_annotations(getattr(solver, "init", None) or object).get("return")
    return made if isinstance(made, type) and made is not Any else None
