"""Everything that can happen to messages obeys its protocol: what `fedjax_admm.testing` checks."""

import inspect

import pytest

from fedjax_admm import messages
from fedjax_admm.messages import Exchange
from tests.messages.conformance import KINDS

# In the run that everybody makes: some of each kind, and the checks in which most goes wrong.
QUICK = {
    ("channel", "differences, top_k", "kind"),
    ("channel", "qsgd", "bits"),
    ("aggregator", "coordinate_median", "absent"),
    ("aggregator", "multi_krum", "groups"),
    ("attack", "a_little_is_enough", "rows"),
    ("attack", "stale_replay", "kind"),
    ("delay", "bounded_delay, in order", "links"),
}


def test_everything_public_is_in_a_table():
    """Every function of `messages` that makes something of a kind, and something is made by it."""
    listed = [case.builder for _, table, _, _ in KINDS.values() for case in table.values()]
    names = {builder.__name__ for builder in listed}
    assert names == {
        name
        for name in messages.__all__
        if inspect.isfunction(getattr(messages, name)) and makes_a_part(getattr(messages, name))
    }


def makes_a_part(function) -> bool:
    """Whether what a function says that it returns has all members of a kind, or is one of two."""
    made = inspect.get_annotations(function).get("return")
    classes = getattr(made, "__args__", (made,))
    return any(
        isinstance(one, type) and one is not Exchange and all(has(one, member) for member in kind)
        for one in classes
        for kind, *_ in KINDS.values()
    )


def has(one: type, member: str) -> bool:
    """Whether a class has a member, a field included; classes themselves can all be called."""
    return any(member in {**vars(base), **inspect.get_annotations(base)} for base in one.__mro__)


@pytest.mark.parametrize(
    ("kind", "name", "only"),
    [
        pytest.param(
            kind,
            name,
            only,
            marks=[] if (kind, name, only) in QUICK else [pytest.mark.thorough],
        )
        for kind, (_, table, _, checks) in KINDS.items()
        for name in table
        for only in checks
    ],
)
def test_part(kind, name, only):
    _, table, check, _ = KINDS[kind]
    case = table[name]
    check(case.part(), **case.options, only=only)
