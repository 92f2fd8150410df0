"""What an experiment is: a name, what varies, problems, methods, measures and a figure.

All methods share each trial's problem (and the draws of who takes part), so that differences are
paired. Adding an experiment is adding a file to `experiments/`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import jax
import jax.numpy as jnp

from fedjax_admm._checks import InputError, default_float, listed
from fedjax_admm._pytrees import register_dataclass
from fedjax_admm._run import Measure, run
from fedjax_admm.participation import Everyone, Participation
from fedjax_admm.protocol import Solver
from fedjax_admm.traffic import Traffic
from fedjax_admm.trials.results import NONFINITE_ROUND

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fedjax_admm.trials.results import Results

Settings = Mapping[str, Any]

ROUNDS = "rounds"
"""The settings that `problem` and `methods` get hold the number of rounds under this name."""


class Method(Protocol):
    """One way to solve the problem of a trial; a pytree whose numbers are leaves."""

    def __call__(
        self, problem: Any, key: jax.Array, rounds: int, every: int
    ) -> dict[str, jax.Array]:
        """Return each metric at each record, shape (rounds // every,)."""
        ...

    def traffic(self, problem: Any) -> Traffic | None:
        """Return the sizes of the messages; None for a method that sends none."""
        ...


@register_dataclass
@dataclass(frozen=True, eq=False)
class SolverMethod:
    """A federated solver, measured while it runs."""

    solver: Solver
    measure: Measure = field(metadata={"static": True})
    participation: Participation = field(default_factory=Everyone)

    def __call__(self, problem, key, rounds, every):
        """Run the solver; the first non-finite round is 0 where there is none."""
        result = run(
            self.solver,
            problem,
            key,
            rounds=rounds,
            participation=self.participation,
            measure=self.measure,
            every=every,
        )
        trace = {name: value for name, value in result.trace.items() if name != "round"}
        return {**trace, NONFINITE_ROUND: result.status.nonfinite}

    def traffic(self, problem):
        """Return what the solver says."""
        return self.solver.traffic(problem)


@register_dataclass
@dataclass(frozen=True, eq=False)
class AdaptedMethod:
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

    def traffic(self, problem):
        """Return what the solver says."""
        problem, solver = jax.eval_shape(self.adapt, problem)
        return solver.traffic(problem)


@register_dataclass
@dataclass(frozen=True, eq=False)
class DirectMethod:
    """A method without rounds: its answer stands at every record."""

    solve: Callable[[Any], jax.Array] = field(metadata={"static": True})
    measure: Callable[[Any, jax.Array], Mapping[str, jax.Array]] = field(metadata={"static": True})

    def __call__(self, problem, key, rounds, every):
        """Solve once and repeat the measures."""
        answer = self.solve(problem)
        records = (rounds // every,)
        metrics = self.measure(problem, answer)
        bad = ~jnp.all(jnp.isfinite(answer))
        return {
            **{name: jnp.broadcast_to(value, records) for name, value in metrics.items()},
            NONFINITE_ROUND: bad.astype(jnp.int32),
        }

    def traffic(self, problem):
        """Return None: nothing is sent round by round."""
        return None


@dataclass(frozen=True)
class Sweep:
    """The number that varies between the points of a figure."""

    name: str  # as in `--set name=0.1,0.2`
    label: str  # with its unit, for an axis
    values: tuple[float, ...]


@dataclass(frozen=True)
class Experiment:
    """Everything that `fedjax-admm run NAME` needs to know."""

    name: str
    title: str  # one line, for `list`
    paper: str  # authors, title, where the claim stands
    findings: str  # what our measurements say of the claim, plainly
    sweep: Sweep
    problem: Callable[[Settings, Any, jax.Array], Any]  # (settings, swept value, key) -> problem
    methods: Callable[[Settings, Any], dict[str, Any]]  # (settings, swept value) -> methods
    metrics: Mapping[str, str]  # metric -> label with unit
    figure: Callable[["Results"], "Figure"]
    settings: Mapping[str, Any] = field(default_factory=dict)  # name -> default
    trials: int = 1000
    rounds: int = 1000
    records: int = 10  # at most so many records per run
    quick: Mapping[str, int] = field(default_factory=lambda: {"trials": 60, "rounds": 200})
    data: Callable[[Settings], str] | None = None  # what data a run uses, in a few words
    # What the figure shows besides metrics, of the first trial: (settings, rounds, key) -> arrays
    details: Callable[[Settings, int, jax.Array], dict[str, jax.Array]] | None = None
    # What has to be said with every result, such as what is private: (settings, rounds) -> text
    statement: Callable[[Settings, int], str] | None = None
    x64: bool = False  # whether float32 is not enough

    def defaults(self) -> dict[str, Any]:
        """Return every setting with its default, the sweep's values included."""
        return {self.sweep.name: self.sweep.values, **self.settings}

    def method_names(self) -> list[str]:
        """Return what its methods are called, by default."""
        first = self.sweep.values[0]
        settings = {**self.defaults(), self.sweep.name: (first,), ROUNDS: self.rounds}
        return list(self.methods(settings, first))

    def resolve(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Turn `name=value` texts into settings of the defaults' types.

        Raises:
          InputError: an unknown name, or a value that is not of the default's type.
        """
        settings = self.defaults()
        for name, text in given.items():
            if name not in settings:
                raise InputError(
                    f"{self.name} has no setting {name!r}; it has {listed(sorted(settings))}."
                )
            settings[name] = _parse(name, text, settings[name])
        return settings

    def trial(self, settings: Settings, rounds: int) -> Callable[[jax.Array], dict]:
        """Return the pure function of one trial: key -> arrays "method/metric", (sweep, round)."""
        every = recording_interval(rounds, self.records)
        settings = {**settings, ROUNDS: rounds}
        values = jnp.asarray(settings[self.sweep.name], default_float())

        def at(value: jax.Array, problem_key: jax.Array, method_key: jax.Array) -> dict:
            problem = self.problem(settings, value, problem_key)
            methods = self.methods(settings, value)
            measured = {}
            for names in _alike(methods):
                together = _stacked([methods[name] for name in names])

                def solve(method):
                    return method(problem, method_key, rounds, every)

                outcome = jax.vmap(solve)(together)
                for place, name in enumerate(names):
                    for metric, stacked in outcome.items():
                        measured[f"{name}/{metric}"] = stacked[place]
            return measured

        def trial(key: jax.Array) -> dict:
            problem_key, method_key = trial_keys(key)
            return jax.vmap(at, (0, None, None))(values, problem_key, method_key)

        return trial

    def traffic(self, settings: Settings, rounds: int | None = None) -> dict[str, Traffic | None]:
        """Return the message sizes of every method, without computing anything.

        Every swept value goes through the builders here, where they can see and check it: inside
        the trial it is a tracer.

        Raises:
          InputError: a setting or a swept value does not fit.
        """
        settings = {**settings, ROUNDS: self.rounds if rounds is None else rounds}
        sizes = {}
        for value in settings[self.sweep.name]:
            problem = jax.eval_shape(
                lambda key, value=value: self.problem(settings, value, key), jax.random.key(0)
            )
            methods = self.methods(settings, value)
            sizes = {name: method.traffic(problem) for name, method in methods.items()}
        return sizes


def trial_keys(key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the keys of a trial's problem and of its methods."""
    problem_key, method_key = jax.random.split(key)
    return problem_key, method_key


def recording_interval(rounds: int, records: int) -> int:
    """Return the smallest divisor of `rounds` that gives at most `records` records."""
    return next(
        every for every in range(1, rounds + 1) if rounds % every == 0 and rounds <= every * records
    )


def _alike(methods: Mapping[str, Any]) -> list[list[str]]:
    """Group methods of equal structure: they run stacked, as one compiled program."""
    groups: dict[Any, list[str]] = {}
    for name, method in methods.items():
        leaves, structure = jax.tree.flatten(method)
        shapes = tuple((leaf.shape, leaf.dtype) for leaf in leaves)
        groups.setdefault((structure, shapes), []).append(name)
    return list(groups.values())


def _stacked(methods: Sequence[Any]) -> Any:
    """Stack the leaves of methods of equal structure; a method without leaves gets an axis too."""
    if not jax.tree.leaves(methods[0]):
        return _Repeated(methods[0], jnp.zeros(len(methods)))
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *methods)


@register_dataclass
@dataclass(frozen=True, eq=False)
class _Repeated:
    """A method without numbers of its own, with a leaf to vmap over."""

    method: Any
    axis: jax.Array

    def __call__(self, problem, key, rounds, every):
        return self.method(problem, key, rounds, every)


def _parse(name: str, text: str, default: Any) -> Any:
    """Read a setting's text as the type of its default."""
    try:
        if isinstance(default, tuple):
            value = tuple(float(part) for part in text.split(","))
        else:
            value = type(default)(text)
    except ValueError:
        kinds = {int: "a whole number", float: "a number", tuple: "numbers with commas"}
        wanted = kinds.get(type(default), "a text")
        raise InputError(f"{name} must be {wanted}, but it is {text!r}.") from None
    numbers = value if isinstance(value, tuple) else (value,)
    if any(isinstance(part, float) and not math.isfinite(part) for part in numbers):
        raise InputError(f"{name} must be finite, but it is {text!r}.")
    return value
