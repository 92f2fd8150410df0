"""Follow a problem that changes: a few warm-started rounds per sample, one scan over samples.

    state <- carry(state);   `rounds` rounds of the solver on the problem of sample k;   measure

Reference: A. Simonetto, E. Dall'Anese, S. Paternain, G. Leus, G. B. Giannakis, "Time-varying convex
optimization: time-structured algorithms and applications", Proceedings of the IEEE 108(11), 2020.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from fedjax_admm._checks import InputError, count, leading
from fedjax_admm._host._programs import compiled
from fedjax_admm._run._checks import checked_call
from fedjax_admm._run._key_uses import key_use
from fedjax_admm._run._results import Measure, RoundState
from fedjax_admm._run._rounds import run
from fedjax_admm.participation import Everyone, Participation
from fedjax_admm.protocol import Solver


class Tracked(NamedTuple):
    """What `track` returns."""

    estimates: Any  # the solver's estimate after the rounds of every sample: leading axis = samples
    trace: dict[str, jax.Array]  # leading axis = samples: what was measured, "messages"
    state: Any  # the solver's state after the last sample


def track(
    solver: Solver,
    problems: Any,
    key: jax.Array,
    *,
    rounds: int,
    participation: Participation | None = None,
    measure: Measure | None = None,
    carry: Callable[[Any], Any] | None = None,
) -> Tracked:
    """Follow a problem that changes from sample to sample by a few rounds for each.

    The first sample begins with the solver's first state, each further one with the state of the
    sample before. What clients count of their own rounds, and schedules of it, go on over samples:
    FSMDM, whose smoothing falls with them, follows far more closely than if it began anew with
    every sample. The number of the round, by which `fed_subgradient` steps, begins anew.

    Args:
      solver: as in `run`. What its first state takes from the problem, such as a curvature, is that
        of the first sample.
      problems: a problem whose leaves have a leading axis of samples: `jax.vmap` over a builder
        gives one.
      key: a typed key; sample k has `fold_in(key, k)`. That of a private solver must serve once, as
        in `run`.
      rounds: how many rounds each sample gets. The plan of a private solver must have as many
        releases as all samples together get rounds.
      participation: who takes part in each round; everyone if None.
      measure: what to record after the rounds of each sample, as in `run`.
      carry: what becomes of the solver's state between two samples, such as a shift of a window of
        positions by one time; a function of the module level, state -> state. Nothing if None.

    Returns:
      A tuple of `estimates`, `trace` and `state`: the first two have a leading axis of samples.

    Raises:
      InputError: leaves of the problems differ in their leading axis, there are fewer planned
        releases than rounds in all, or as `run` does; nothing has been compiled then.
    """
    rounds = count("rounds", rounds)
    (samples,) = leading("problems", problems, "samples", remedy="build them with jax.vmap")
    participation = Everyone() if participation is None else participation
    arguments, total = (solver, problems, key, participation), samples * rounds
    first = jax.tree.map(lambda leaf: leaf[0], problems)
    one = (solver, first, key, participation, None)
    call, _ = checked_call(one, "measure", measure, rounds, keeps=False)
    try:
        if (check := getattr(solver, "check", None)) is not None:
            check(first, total)
    except InputError as mistake:
        raise mistake.renamed({"rounds": "rounds times samples"}) from None
    course = (participation, rounds, carry and Partial(carry))  # what decides messages, besides
    use = key_use(*arguments[:3], course, None, total) if call.hides else None
    found = _compiled(*arguments, rounds=rounds, measure=measure, carry=carry)
    if use is not None:
        use.remember(RoundState(jnp.asarray(total, jnp.int32), (), found.state))
    return found


def _tracked(solver, problems, key, participation, *, rounds, measure, carry) -> Tracked:
    samples = jax.tree.leaves(problems)[0].shape[0]

    def advance(problem: Any, index: jax.Array, start: RoundState | None) -> tuple[RoundState, Any]:
        done = run(
            solver,
            problem,
            jax.random.fold_in(key, index),
            rounds=rounds,
            participation=participation,
            measure=measure,
            every=rounds,
            start=start,
        )
        trace = {name: value[0] for name, value in done.trace.items() if name != "round"}
        return done.state._replace(fingerprint=None), (done.estimate, trace)

    def sample(state: RoundState, inputs: Any) -> tuple[RoundState, Any]:
        index, problem = inputs
        kept = state.solver if carry is None else carry(state.solver)
        return advance(problem, index, RoundState(jnp.zeros_like(index), state.participation, kept))

    first = jax.tree.map(lambda leaf: leaf[0], problems)
    rest = jax.tree.map(lambda leaf: leaf[1:], problems)
    state, begun = advance(first, jnp.zeros((), jnp.int32), None)
    state, others = jax.lax.scan(sample, state, (jnp.arange(1, samples, dtype=jnp.int32), rest))
    joined = jax.tree.map(lambda one, more: jnp.concatenate([one[None], more]), begun, others)
    estimates, trace = joined
    return Tracked(estimates, trace, state.solver)


_compiled = compiled(_tracked)
