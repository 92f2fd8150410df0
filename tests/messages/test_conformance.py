"""Everything that can happen to messages obeys its protocol: what `fedjax_admm.testing` checks."""

import inspect

import pytest

from fedjax_admm import messages
from fedjax_admm.messages import Exchange
from fedjax_admm.testing import check_exchange_part
from fedjax_admm.testing._exchange import EXCHANGE_CHECKS
from tests.messages.conformance import KINDS

# In the run that everybody makes: one of each kind.
QUICK = {
    ("channel", "differences, top_k", "bits"),
    ("aggregator", "trimmed_mean", "groups"),
    ("attack", "a_little_is_enough", "rows"),
    ("delay", "bounded_delay", "waits"),
}

# Of a builder's second row and further ones: what depends on its settings, and is cheap.
KIN = ("bits", "rows")
# `vmap` is for parts with loops, searches or a memory. Slopes of aggregators are compared with
# differences in test_aggregators.py.
EXAMPLES = {
    ("channel", "vmap"): ("qsgd", "low_rank", "error_feedback, top_k"),
    ("aggregator", "vmap"): ("trimmed_mean", "geometric_median", "krum"),
    ("attack", "vmap"): ("mimic", "stale_replay"),
    ("delay", "vmap"): ("lossy", "bounded_delay"),
    ("aggregator", "derivatives"): ("centred_clipping",),
}


def rows():
    """Yield the kind, the name and a check, for all that is made."""
    for kind, (_, table) in KINDS.items():
        seen = set()
        for name, case in table.items():
            for only in EXCHANGE_CHECKS[kind]:
                examples = EXAMPLES.get((kind, only), (name,))
                if name in examples and (case.builder not in seen or only in KIN):
                    yield kind, name, only
            seen.add(case.builder)


def test_every_check_is_made_of_something():
    made = {(kind, only) for kind, _, only in rows()}
    assert made == {(kind, only) for kind, checks in EXCHANGE_CHECKS.items() for only in checks}


def test_everything_public_is_in_a_table():
    """Every function of `messages` that makes something of a kind, and something is made by it."""
    listed = [case.builder for _, table in KINDS.values() for case in table.values()]
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
    [pytest.param(*row, marks=[] if row in QUICK else [pytest.mark.thorough]) for row in rows()],
)
def test_part(kind, name, only):
    case = KINDS[kind][1][name]
    check_exchange_part(case.part(), **case.options, only=only)
