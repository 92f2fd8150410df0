"""What an experiment is: a name, what varies, problems, methods, measures and a figure.

All methods share each trial's problem (and the draws of who takes part), so that differences are
paired. Adding an experiment is adding a file to `experiments/`.
"""

import math
import shlex
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import InputError, count, default_float, listed, number, one_line
from fedjax_admm._threefry import one_loop
from fedjax_admm.traffic import Traffic
from fedjax_admm.trials import figures
from fedjax_admm.trials.engine import memory
from fedjax_admm.trials.experiments._methods import (
    Method,
    recorded_rounds,
    recording_interval,
    solve_alike,
)
from fedjax_admm.trials.experiments._mistakes import RAISED, described
from fedjax_admm.trials.experiments._names import (
    check_defaults,
    check_method_name,
    check_metric_names,
    check_name,
)
from fedjax_admm.trials.experiments._published import Published, titled
from fedjax_admm.trials.results import MESSAGES, NONFINITE_ROUND

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fedjax_admm.trials.results import Results

Settings = Mapping[str, Any]
"""The settings of an experiment by name."""


def setting_at(settings: Settings, name: str, swept: Any) -> Any:
    """Return a setting as it stands, or the swept number where that is what varies."""
    given = settings.get(name, ())
    return swept if isinstance(given, tuple) else given


def whole(name: str, values: Iterable[float]) -> list[int]:
    """Return a setting of several numbers as whole numbers."""
    wrong = [value for value in values if value % 1]
    if wrong:
        raise InputError(
            f"must hold whole numbers, but it holds {wrong[0]:g}", argument=name, value=wrong[0]
        )
    return [count(name, int(value)) for value in values]


ROUNDS = "rounds"
"""The settings that `problem` and `methods` get hold the number of rounds under this name."""

_SMALLER = "take fewer, or smaller settings"
_LARGEST = 2**31 - 1  # sizes are int32


@dataclass(frozen=True)
class Sweep:
    """The number that varies between the points of a figure."""

    name: str  # as in `--set name=0.1,0.2`
    label: str  # with its unit, for an axis
    values: tuple[float, ...]
    static: bool = False  # shapes may depend on a value: a float, with a part of the program


@dataclass(frozen=True)
class Origin:
    """Where an experiment was found that is not one of this package's own."""

    asked: str  # as a person named it: a plug-in's name, PATH.py, PATH.py:NAME or MODULE:NAME
    again: str  # what `run` takes to find it again, from any folder
    file: str | None = None  # its file's absolute path, if it stands in one
    digest: str | None = None  # SHA-256 of that file
    distribution: str | None = None  # the installed distribution of a plug-in, with its version


_TRACED = (
    jax.errors.ConcretizationTypeError,
    jax.errors.TracerArrayConversionError,
    jax.errors.TracerIntegerConversionError,
)
_SENT = {
    "numbers_up": "numbers sent by all clients",
    "numbers_down": "numbers sent to all clients",
}
_SENT_BITS = {"bits_up": "bits sent by all clients", "bits_down": "bits sent to all clients"}


def _usual_figure(results: "Results") -> "Figure":
    return figures.usual_figure(results)


@dataclass(frozen=True, kw_only=True)
class Experiment:
    """Everything that `fedjax-admm run NAME` needs to know."""

    name: str
    title: str  # one line, for `list`
    paper: str = ""  # authors, title, where the claim stands
    findings: str = ""  # what our measurements say of the claim: a line each, the verdict first
    measured_on: str = "drawn"  # what `data` returns for the data that the findings are about
    topic: str = ""  # under which `list` shows it
    sweep: Sweep
    problem: Callable[[Settings, Any, jax.Array], Any]  # (settings, swept value, key) -> problem
    methods: Callable[[Settings, Any], Mapping[str, Method]]  # (settings, swept value) -> methods
    metrics: Mapping[str, str]  # metric -> label with unit; that of numbers sent may be left out
    figure: Callable[["Results"], "Figure"] = _usual_figure
    # Methods that the figure shows, in full or without their tasks; all if empty, or with --all
    shown: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)  # name -> default
    trials: int = 1000
    usual_seconds: float | None = None  # of the whole command, on two CPU cores
    rounds: int = 1000
    records: int = 10  # at most so many records per run
    quick: Mapping[str, int] = field(default_factory=lambda: {"trials": 60, "rounds": 200})
    data: Callable[[Settings], str] | None = None  # what data a run uses, in a few words
    # What the figure shows besides metrics, of the first trial: (settings, rounds, key) -> arrays
    details: Callable[[Settings, int, jax.Array], dict[str, jax.Array]] | None = None
    # What has to be said with every result, such as what is private: (settings, rounds) -> text
    statement: Callable[[Settings, int], str] | None = None
    published: Published | None = None  # what its paper prints; None where that has no such figure
    x64: bool = False  # whether float32 is not enough
    origin: Origin | None = None  # `find` fills it in; None for this package's own

    def __post_init__(self) -> None:
        """Check what could not be read back, or would be lost."""
        check_name("an experiment", self.name, (".", ".."), "/\\:")
        for name in ("trials", "rounds", "records"):
            count(name, getattr(self, name))
        check_defaults(self.name, self.sweep.name, self.sweep.values, self.settings)
        for name in self.metrics:
            check_name(f"a metric of {self.name}", name, (NONFINITE_ROUND, MESSAGES))

    def labels(self, traffic: Mapping[str, Traffic | None] | None = None) -> dict[str, str]:
        """Return the label of every metric, those of the numbers sent included.

        Args:
          traffic: of every method; those of bits are included where one of them states bits.
        """
        said = [sizes for sizes in (traffic or {}).values() if sizes is not None]
        compressed = any(sizes.up_bits is not None for sizes in said)
        sent = _SENT | (_SENT_BITS if compressed else {})
        return {**self.metrics, **{k: v for k, v in sent.items() if k not in self.metrics}}

    def draw(self, results: "Results") -> "Figure":
        """Return the figure of results: of the methods in `shown` alone, unless all are asked for.

        Of an unfinished run whose figure shows more than metrics, which comes with its end, it is
        the usual one. Of a run as published it is the first figure of the paper.
        """
        chosen = figures.figure_files(results.config).published
        if chosen and self.published is not None:
            return self.published.draw(self, results, chosen[0])
        if self.details is not None and not (results.finished or results.details):
            return _usual_figure(results)
        try:
            return self.figure(figures.with_methods(results, self.shown))
        except RAISED as error:
            if self.origin is None:
                raise
            file = Path(self.origin.file) if self.origin.file else None
            raise InputError(
                f"the figure of {self.name} cannot be drawn: {described(error, file)}",
                remedy="repair it and draw the results that are there with `fedjax-admm plot DIR "
                f"--experiment {shlex.quote(self.origin.asked)}`",
            ) from error

    def drawings(self, results: "Results") -> "dict[str, tuple[Figure, Results]]":
        """Return the figures that results ask for by name, and the results as they are titled."""
        names = figures.figure_files(results.config).published
        if not names:
            return {"figure": (self.draw(results), results)}
        draw = self.printed().draw
        return {name: (draw(self, results, name), titled(results, name)) for name in names}

    def printed(self) -> Published:
        """Return what the paper prints."""
        if self.published is None:
            told = f"cannot be had of {self.name}, which is no figure or table of its paper"
            raise InputError(told, argument="as_published", value=self.name)
        return self.published

    def defaults(self) -> dict[str, Any]:
        """Return every setting with its default, the sweep's values included."""
        return {self.sweep.name: self.sweep.values, **self.settings}

    def method_names(self) -> list[str]:
        """Return what its methods are called, by default."""
        first = self.sweep.values[0]
        settings = {**self.defaults(), self.sweep.name: (first,), ROUNDS: self.rounds}
        return list(self._methods(settings, first))

    def _methods(self, settings: Settings, value: Any) -> Mapping[str, Method]:
        """Return the methods by name."""
        methods = self.methods(settings, value)
        for name, method in methods.items():
            _check_method(self.name, name, method)
        return methods

    def words(self, settings: Settings, rounds: int) -> tuple[str | None, str]:
        """Return what has to be said with every result, and what data a run uses."""
        statement = self.statement and self.statement(settings, rounds)
        data = "drawn" if self.data is None else self.data(settings)
        return statement, data

    def resolve(self, given: Mapping[str, str]) -> dict[str, Any]:
        """Turn `name=value` texts into settings of the defaults' types."""
        settings = self.defaults()
        for name, text in given.items():
            if name not in settings:
                raise InputError(
                    f"{self.name} has no setting {name!r}; it has {listed(sorted(settings))}",
                    value=name,
                )
            settings[name] = _parse(name, text, settings[name])
            if isinstance(settings[name], tuple):
                _check_swept(name, text, settings[name])
        return settings

    def _problem_shapes(self, settings: Settings, value: Any) -> Any:
        try:
            key = jax.random.key(0)
            return jax.eval_shape(lambda key: self.problem(settings, value, key), key)
        except (MemoryError, OverflowError, jax.errors.JaxRuntimeError):
            raise InputError(
                f"the arrays of a trial of {self.name} with these settings are larger than any "
                "memory",
                remedy=_SMALLER,
            ) from None

    def trial(self, settings: Settings, rounds: int) -> Callable[[jax.Array], dict]:
        """Return the pure function of one trial: key -> arrays "method/metric", (sweep, round)."""
        every = recording_interval(rounds, self.records)
        settings = {**settings, ROUNDS: rounds}
        swept = settings[self.sweep.name]
        values = jnp.asarray(swept, default_float())

        def at(value: Any, problem_key: jax.Array, method_key: jax.Array) -> dict:
            problem = self.problem(settings, value, problem_key)

            def solve(method: Method) -> dict[str, jax.Array]:
                return method(problem, method_key, rounds, every)

            return self._named(solve_alike(self._methods(settings, value), solve))

        def trial(key: jax.Array) -> dict:
            # Other people's problems may draw what JAX draws from its own keys alone.
            keys = trial_keys(key if self.origin else one_loop(key))
            if self.sweep.static:
                rows = [at(value, *map(jax.random.clone, keys)) for value in swept]
                return jax.tree.map(lambda *row: jnp.stack(row), *rows)
            try:
                return jax.vmap(at, (0, None, None))(values, *keys)
            except _TRACED as error:
                file = self.origin and self.origin.file
                told = described(error, Path(file) if file else None).partition(":")[0]
                raise InputError(
                    f"{self.name}: {told}: {self.sweep.name}, which is swept, is a traced number, "
                    "on which neither a shape nor an `if` can depend",
                    remedy="write Sweep(..., static=True), or jnp.where in the place of `if`",
                ) from error

        return trial

    def _named(self, solved: Iterable[tuple[str, dict[str, jax.Array]]]) -> dict[str, jax.Array]:
        """Name what was measured "method/metric"; seen while the trial is traced."""
        solved = list(solved)
        for method, outcome in solved:
            check_metric_names(self.name, method, outcome)
        measured = {
            (method, metric): values
            for method, outcome in solved
            for metric, values in outcome.items()
        }
        found = {metric for _, metric in measured} - {NONFINITE_ROUND, MESSAGES}
        if not found & set(self.metrics):
            raise InputError(
                f"the methods of {self.name} measure {', '.join(sorted(found)) or 'nothing'}, but "
                f"its metrics are {', '.join(self.metrics) or 'none'}",
                remedy="name in `metrics` what the measures return",
            )
        return {f"{method}/{metric}": values for (method, metric), values in measured.items()}

    def recorded(self, rounds: int) -> np.ndarray:
        """Return how many rounds are done at each record of a run, shape (records,)."""
        return recorded_rounds(rounds, recording_interval(rounds, self.records))

    def traffic(self, settings: Settings, rounds: int | None = None) -> dict[str, Traffic | None]:
        """Return the message sizes of every method at the largest value, from shapes alone.

        Every swept value goes through the builders here, where they can see and check it (inside
        the trial it is a tracer), and the problem of a trial has to fit into memory.
        """
        settings = {**settings, ROUNDS: self.rounds if rounds is None else rounds}
        size, sizes = 0, {}
        for value in sorted(settings[self.sweep.name]):
            problem = self._problem_shapes(settings, value)
            size += memory.tree_bytes(problem)
            memory.check_memory(f"the problem of a trial of {self.name}", size, _SMALLER)
            methods = self._methods(settings, value)
            sizes = {name: method.traffic(problem) for name, method in methods.items()}
        return sizes


def trial_keys(key: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the keys of a trial's problem and of its methods."""
    problem_key, method_key = jax.random.split(key)
    return problem_key, method_key


def _check_method(experiment: str, name: str, method: Any) -> None:
    """Check a method's name, and that it can be called: a solver alone cannot."""
    check_method_name(experiment, name)
    if not callable(method):
        raise InputError(
            f"the method {name!r} of {experiment} must be a Method, but it is {one_line(method)}",
            value=method,
            remedy="write SolverMethod(solver, measure)",
        )


def _check_swept(name: str, text: str, values: tuple[float, ...]) -> None:
    """Check that numbers are all different, in the dtype of the session too."""
    found, times = np.unique(np.asarray(number(name, np.asarray(values))), return_counts=True)
    if np.any(times > 1):
        twice = f"one twice, which is {found[np.argmax(times)]} in {found.dtype}"
        raise InputError(
            f"must hold each number once, but it holds {twice}",
            argument=name,
            value=text,
            remedy="leave one out",
        )


def _parse(name: str, text: str, default: Any) -> Any:
    """Read a setting's text as the type of its default."""
    try:
        if isinstance(default, tuple):
            value = tuple(float(part) for part in text.split(","))
        elif isinstance(default, bool):  # any text but none would count as True
            value = {"True": True, "False": False}[text]
        else:
            value = type(default)(text)
    except (KeyError, ValueError):
        kinds = {int: "a whole number", float: "a number", tuple: "numbers with commas"}
        kinds |= {bool: "True or False"}
        kind = kinds.get(type(default), "a text")
        raise InputError(
            f"must be {kind}, but it is {one_line(text)}", argument=name, value=text
        ) from None
    numbers = value if isinstance(value, tuple) else (value,)
    if any(isinstance(part, float) and not math.isfinite(part) for part in numbers):
        raise InputError(f"must be finite, but it is {one_line(text)}", argument=name, value=text)
    if isinstance(value, int) and not isinstance(value, bool):
        count(name, value, at_least=-_LARGEST, at_most=_LARGEST)
    return value
