"""Fields of solvers: schedules, penalties, exchanges, and numbers that follow from the curvature.

    rate: jax.Array = positive(curvature=lambda largest: 0.2 / largest)

If such a number is None, a run computes it from the largest curvature of the losses, which it
estimates before the first round.
"""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

import jax

from fedjax_admm._checks import declared, having, refuse
from fedjax_admm.messages import Identity, Mean, Prompt, check_exchange
from fedjax_admm.penalties import zero
from fedjax_admm.schedules import as_schedule, constant

# What some solvers ask of an exchange: the condition, the sentence up to its reason, the remedy.
_EXCHANGE_RULES = {
    "mean_alone": (
        lambda exchange: isinstance(exchange.aggregator, Mean),
        "must have no aggregator but the mean",
        "leave the aggregator out",
    ),
    "prompt_alone": (
        lambda exchange: isinstance(exchange.delay, Prompt),
        "must not delay messages",
        "leave the delay out",
    ),
    "up_alone": (
        lambda exchange: isinstance(exchange.down, Identity),
        "must have no channel down",
        "give it as up, which every message to neighbours passes",
    ),
}


def scheduled(of_number: Callable[[jax.Array], Any] = constant) -> Any:
    """Declare a schedule: one of ours, an optax schedule, a function of the count, or a number."""
    return declared(partial(as_schedule, of_number=of_number, above=0))


check_regularizer = having("prox", kind="a penalty such as penalties.l1(0.1)", default=zero)


def regularized() -> Any:
    """Declare g, a penalty at the server; None stands for no penalty."""
    return declared(check_regularizer, default=zero)


def exchanged(**reasons: str) -> Any:
    """Declare the exchange; None stands for none.

    Args:
      **reasons: the rules of `_EXCHANGE_RULES` that it must obey, and why, which ends the sentence.
    """
    return declared(partial(check_exchange_obeys, **reasons), default=lambda: check_exchange(None))


def check_exchange_obeys(name: str, value: Any, **reasons: str) -> Any:
    """Return the exchange that a value stands for, which obeys rules for these reasons."""
    exchange = check_exchange(value)
    for rule, reason in reasons.items():
        allows, sentence, remedy = _EXCHANGE_RULES[rule]
        refuse(not allows(exchange), name, f"{sentence}, because {reason}", remedy=remedy)
    return exchange


def open_fields(solver: Any) -> list[str]:
    """Return the arguments of a solver, and of the parts of it, that follow from the curvature."""
    if not is_dataclass(solver):
        return []
    names = []
    for each in fields(solver):
        value = getattr(solver, each.name)
        if value is None and "curvature" in each.metadata:
            names.append(each.metadata.get("argument") or each.name)
        elif not each.metadata.get("static"):
            names += open_fields(value)
    return names


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
    return with_values(solver, values)


def with_values(part: Any, values: dict[str, Any]) -> Any:
    """Return a solver, or a part of it, with other values of some attributes, unchecked."""
    made = object.__new__(type(part))
    made.__dict__.update({**vars(part), **values})
    return made


def at_round(part: Any, index: jax.Array) -> Any:
    """Return a solver whose parts that ask for the number of the round, shape (), have it.

    They ask by a field of the metadata `round`; the number counts from 0.
    """
    if not is_dataclass(part) or not _asks_for_round(part):
        return part
    values = {}
    for each in fields(part):
        value = getattr(part, each.name)
        if each.metadata.get("round"):
            values[each.name] = index
        elif not each.metadata.get("static"):
            values[each.name] = at_round(value, index)
    return with_values(part, values)


def _asks_for_round(part: Any) -> bool:
    return is_dataclass(part) and any(
        each.metadata.get("round")
        or (not each.metadata.get("static") and _asks_for_round(getattr(part, each.name)))
        for each in fields(part)
    )
