"""How the problem of a trial is solved: what a method is, and the kinds that experiments share."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm._run._results import Measure
from fedjax_admm._run._rounds import run
from fedjax_admm.capabilities import check_capabilities
from fedjax_admm.participation import Everyone, Participation
from fedjax_admm.protocol import Solver
from fedjax_admm.traffic import Traffic
from fedjax_admm.trials.experiments._names import check_measured
from fedjax_admm.trials.results import MESSAGES, NONFINITE_ROUND


class Method(Protocol):
    """One way to solve the problem of a trial; a pytree whose numbers are leaves."""

    def __call__(
        self, problem: Any, key: jax.Array, rounds: int, every: int
    ) -> dict[str, jax.Array]:
        """Return each metric after every one of `recorded_rounds(rounds, every)`."""
        ...

    def posed(self, problem: Any, key: jax.Array, rounds: int) -> tuple[Any, Any, jax.Array]:
        """Return the problem, the solver and the key that `run` gets in a call of this method.

        They are what a deployment of the method needs. Here the problem and the key are the call's
        own. The solver is None where the method is not one run of a solver on one problem.
        """
        return problem, getattr(self, "solver", None), key

    def traffic(self, problem: Any) -> Traffic | None:
        """Return the sizes of the messages by shapes alone; None for a method without a solver."""
        problem, solver, _ = jax.eval_shape(
            lambda problem: self.posed(problem, jax.random.key(0), 1), problem
        )
        if solver is None:
            return None
        check_capabilities(solver, problem)
        return solver.traffic(problem)


@pytree_dataclass
class SolverMethod(Method):
    """A federated solver, measured while it runs."""

    solver: Solver
    measure: Measure = field(metadata={"static": True})
    participation: Participation = field(default_factory=Everyone)

    def __call__(self, problem, key, rounds, every):
        """Run the solver; the first non-finite round is 0 where all are finite."""

        def advance(start, rounds, every):
            result = run(
                self.solver,
                problem,
                key,
                rounds=rounds,
                participation=self.participation,
                measure=self.measure,
                every=every,
                start=start,
            )
            check_measured(result.trace.keys() - {MESSAGES})
            return result.state, {**result.trace, NONFINITE_ROUND: result.status.nonfinite[None]}

        _, trace = recorded(advance, None, rounds, every)
        bad = trace.pop(NONFINITE_ROUND)
        return {
            **{name: value for name, value in trace.items() if name != "round"},
            NONFINITE_ROUND: bad[jnp.argmax(bad > 0)],
        }


@pytree_dataclass
class AdaptedMethod(Method):
    """A solver whose constants come from the problem, or that sees the problem otherwise.

    `adapt` is static: methods that share it (one function object) are compiled once.
    """

    adapt: Callable[[Any], tuple[Any, Solver]] = field(metadata={"static": True})
    measure: Measure = field(metadata={"static": True})
    participation: Participation = field(default_factory=Everyone)

    def __call__(self, problem, key, rounds, every):
        """Run the solver on the adapted problem, as `SolverMethod` does."""
        problem, solver = self.adapt(problem)
        method = SolverMethod(solver, self.measure, self.participation)
        return method(problem, key, rounds, every)

    def posed(self, problem, key, rounds):
        """Return the adapted problem, and the solver for it."""
        return *self.adapt(problem), key


@pytree_dataclass
class DirectMethod(Method):
    """A method without rounds: its answer stands at every record."""

    solve: Callable[[Any], Any] = field(metadata={"static": True})
    measure: Callable[[Any, Any], Mapping[str, jax.Array]] = field(metadata={"static": True})

    def __call__(self, problem, key, rounds, every):
        """Solve once and repeat the measures."""
        answer = self.solve(problem)
        return at_every_record(self.measure(problem, answer), answer, rounds, every)


def recording_interval(rounds: int, records: int) -> int:
    """Return after how many rounds each there is a record, so that there are at most `records`.

    All intervals are equal if that leaves at least half as many; else the last one is shorter.
    """
    every = -(-rounds // records)
    shares = (
        rounds // number for number in range(min(records, rounds), 0, -1) if rounds % number == 0
    )
    even = next(shares)  # the smallest divisor of the rounds that is as large
    return even if even <= 2 * every else every


def recorded_rounds(rounds: int, every: int) -> np.ndarray:
    """Return how many rounds are done at each record, shape (records,); all at the last one."""
    return np.minimum(every * np.arange(1, -(-rounds // every) + 1), rounds)


def recorded(
    advance: Callable[[Any, int, int], tuple[Any, dict[str, jax.Array]]],
    state: Any,
    rounds: int,
    every: int,
) -> tuple[Any, dict[str, jax.Array]]:
    """Advance by a number of rounds that need not be a multiple of `every`.

    Args:
      advance: `(state, rounds, every) -> (state, trace)`, where `every` divides `rounds`.
      state: the state to begin with.
      rounds: how many rounds.
      every: after how many of them each there is a record; the last record may come sooner.

    Returns:
      The last state, and the trace of all records.
    """
    rest = rounds % every
    state, trace = advance(state, rounds - rest, every)
    if rest:
        state, last = advance(state, rest, rest)
        trace = {name: jnp.concatenate([value, last[name]]) for name, value in trace.items()}
    return state, trace


def at_every_record(
    metrics: Mapping[str, jax.Array], answer: Any, rounds: int, every: int
) -> dict[str, jax.Array]:
    """Return the metrics of a method without rounds: they stand at every record.

    Args:
      metrics: what was measured, once.
      answer: arrays that were computed; round 1 is the first non-finite one where they are not
        finite.
      rounds: how many rounds the other methods run.
      every: after how many of them each they are recorded.
    """
    check_measured(metrics)
    shape = recorded_rounds(rounds, every).shape
    finite = [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(answer)]
    bad = ~jnp.all(jnp.stack(finite))
    return {
        **{name: jnp.broadcast_to(value, shape) for name, value in metrics.items()},
        NONFINITE_ROUND: bad.astype(jnp.int32),
    }


def solve_alike(
    methods: Mapping[str, Any], solve: Callable[[Any], dict[str, jax.Array]]
) -> Iterator[tuple[str, dict[str, jax.Array]]]:
    """Yield the name of every method and what `solve(method)` returns.

    Methods of equal structure run stacked, as one compiled program: side by side, or one after the
    other where they have the attribute `in_turn`, so that a `jax.lax.switch` over one of their
    numbers computes a single branch.
    """
    groups: dict[Any, list[str]] = {}
    for name, method in methods.items():
        leaves, structure = jax.tree.flatten(method)
        shapes = tuple((leaf.shape, leaf.dtype) for leaf in leaves)
        groups.setdefault((structure, shapes), []).append(name)
    for names in groups.values():
        together = _stacked([methods[name] for name in names])
        if getattr(methods[names[0]], "in_turn", False):
            outcome = jax.lax.map(solve, together)
        else:
            outcome = jax.vmap(solve)(together)
        for i, name in enumerate(names):
            yield name, {metric: values[i] for metric, values in outcome.items()}


def _stacked(methods: Sequence[Any]) -> Any:
    """Stack the leaves of methods of equal structure; a method without leaves gets an axis too."""
    if not jax.tree.leaves(methods[0]):
        return _Repeated(methods[0], jnp.zeros(len(methods)))
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *methods)


@pytree_dataclass
class _Repeated:
    """A method without numbers of its own, with a leaf to vmap over."""

    method: Any
    axis: jax.Array

    def __call__(self, problem, key, rounds, every):
        return self.method(problem, key, rounds, every)
