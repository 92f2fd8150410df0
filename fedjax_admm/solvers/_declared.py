"""Fields that solvers alone declare: schedules, regularizers, exchanges, and numbers left to a run.

    rate: jax.Array = positive(curvature=lambda largest: 0.2 / largest)

A number that is None follows from the largest curvature of the losses, which a run estimates before
the first round and fills in.
"""

import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import partial
from typing import Any

import jax

from fedjax_admm._checks import InputError, declared, one_line
from fedjax_admm.messages import Identity, Mean, Prompt, check_exchange
from fedjax_admm.penalties import zero
from fedjax_admm.schedules import as_schedule


def scheduled() -> Any:
    """Declare a schedule: one of ours, an optax schedule, a function of the count, or a number."""
    return declared(partial(as_schedule, above=0))


def regularized() -> Any:
    """Declare g, a penalty at the server; None stands for no penalty."""
    return declared(lambda _, value: check_regularizer(value), default=zero)


def exchanged(*checks: Callable[[Any], Any]) -> Any:
    """Declare what happens to messages; None stands for nothing.

    Args:
      *checks: of the exchange, such as `mean_alone(...)`.
    """

    def checked(_: str, given: Any) -> Any:
        for check in checks:
            check(given)
        return check_exchange(given)

    return declared(checked, default=lambda: check_exchange(None))


def mean_alone(why: str) -> Callable[[Any], Any]:
    """Return the check of an exchange without an aggregator; `why` ends the sentence."""
    return partial(
        _check_exchange,
        lambda chosen: isinstance(chosen.aggregator, Mean),
        f"must have no aggregator but the mean, because {why}",
        "leave the aggregator out",
    )


def prompt_alone(why: str) -> Callable[[Any], Any]:
    """Return the check of an exchange without delays; `why` ends the sentence."""
    return partial(
        _check_exchange,
        lambda chosen: isinstance(chosen.delay, Prompt),
        f"must not delay messages, because {why}",
        "leave the delay out",
    )


def up_alone(why: str, remedy: str) -> Callable[[Any], Any]:
    """Return the check of an exchange without a channel down; `why` ends the sentence."""
    return partial(
        _check_exchange,
        lambda chosen: isinstance(chosen.down, Identity),
        f"must have no channel down, because {why}",
        remedy,
    )


def unchanged(why: str) -> Callable[[Any], Any]:
    """Return the check that nothing happens to messages; `why` ends the sentence."""
    return partial(
        _check_exchange,
        lambda chosen: chosen.plain,
        f"must leave messages as they are, because {why}",
        "leave one of the two out",
    )


def _check_exchange(allows: Callable[[Any], bool], told: str, remedy: str, given: Any) -> Any:
    chosen = check_exchange(given)
    if not allows(chosen):
        others = re.findall(r"{(\w+)}", told)
        raise InputError(told, argument="exchange", value=given, remedy=remedy, others=others)
    return chosen


def check_regularizer(regularizer: Any) -> Any:
    """Return a penalty, no penalty if it is None."""
    if regularizer is None:
        return zero()
    if isinstance(regularizer, type) or not hasattr(regularizer, "prox"):
        raise InputError(
            f"must be a penalty such as penalties.l1(0.1), but it is {one_line(regularizer)}",
            argument="regularizer",
            value=regularizer,
        )
    return regularizer


def open_fields(solver: Any) -> list[str]:
    """Return the arguments of a solver, and of the parts of it, that follow from the curvature."""
    if not is_dataclass(solver):
        return []
    found = []
    for each in fields(solver):
        value = getattr(solver, each.name)
        if value is None and "curvature" in each.metadata:
            found.append(each.metadata.get("argument") or each.name)
        elif not each.metadata.get("static"):
            found += open_fields(value)
    return found


def filled(solver: Any, curvature: jax.Array) -> Any:
    """Return a solver whose numbers that follow from the curvature, shape (), are filled in."""
    if not is_dataclass(solver) or not open_fields(solver):
        return solver
    values = {}
    for each in fields(solver):
        value = getattr(solver, each.name)
        if value is None and "curvature" in each.metadata:
            values[each.name] = each.metadata["curvature"](curvature)
        elif not each.metadata.get("static"):
            values[each.name] = filled(value, curvature)
    return replace(solver, **values)  # pyright: ignore[reportArgumentType]
