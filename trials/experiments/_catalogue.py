"""This package's own experiments by name, without importing what they compute with.

Every module below this folder whose name is public lists its own in `EXPERIMENTS`, a tuple of calls
`Experiment(name="...", title="...", ...)`, or of a partial of it. What `fedjax-admm list` shows are
texts and numbers that stand in the module's source, and are read there, so that a module is
imported only when one of its experiments is asked for. A module that is written in another way is
imported.
"""

import ast
import pkgutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fedjax_admm._shown import short_repr
from fedjax_admm.trials import experiments

if TYPE_CHECKING:
    from fedjax_admm.trials.experiments._experiment import Experiment, Origin

_NEEDED, _BESIDE = ("name", "title", "paper", "trials"), ("usual_seconds", "findings")
_USUAL_TRIALS = 1000  # what an experiment has that names no number of them


@short_repr
class Headline(NamedTuple):
    """What `fedjax-admm list` says of an experiment, in the words of `Experiment`."""

    name: str
    title: str
    paper: str = ""
    trials: int = _USUAL_TRIALS
    usual_seconds: float | None = None
    findings: str = ""
    origin: "Origin | None" = None


class Catalogue(Mapping[str, "Experiment"]):
    """The experiments of this package: their modules are imported when one is taken out."""

    def __init__(self) -> None:
        """Read the modules, in the order of their names."""
        self._read = {headline.name: (module, headline) for module, headline in _headlines()}

    def __getitem__(self, name: str) -> "Experiment":
        """Return an experiment by name; KeyError where there is none."""
        module = self._read[name][0]
        return next(each for each in import_module(module).EXPERIMENTS if each.name == name)

    def __contains__(self, name: object) -> bool:
        """Return whether there is an experiment of that name."""
        return name in self._read

    def __iter__(self) -> Iterator[str]:
        """Go through the names."""
        return iter(self._read)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._read)

    def headlines(self) -> list[Headline]:
        """Return what `list` says of each."""
        return [headline for _, headline in self._read.values()]


def _headlines() -> Iterator[tuple[str, Headline]]:
    """Yield every experiment's module and headline, in the order of the modules' names."""
    modules = sorted(
        module.name
        for module in pkgutil.walk_packages(experiments.__path__, f"{experiments.__name__}.")
        if not (module.ispkg or module.name.rpartition(".")[2].startswith("_"))
    )
    for module in modules:
        told = stated(module)
        if told is None:
            own = import_module(module).EXPERIMENTS
            told = [_of(each) for each in own]
        for headline in told:
            yield module, headline


def _of(experiment: "Experiment") -> Headline:
    return Headline(**{name: getattr(experiment, name) for name in _NEEDED + _BESIDE})


def stated(module: str) -> list[Headline] | None:
    """Return the headlines of the experiments of a module as its source states them.

    Returns:
      None where one of them does not stand there as texts and numbers: as arguments by name of a
      call of `Experiment` or of a partial of it, or as names of such texts.
    """
    values = _assigned(module)
    listed = values.get("EXPERIMENTS")
    if not isinstance(listed, ast.Tuple | ast.List):
        return None
    found = [_headline(call, values) for call in listed.elts]
    return None if None in found else [each for each in found if each is not None]


def _assigned(module: str) -> dict[str, ast.expr]:
    """Return what a module assigns to its names; it may take them from others of this folder."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return {}
    values: dict[str, ast.expr] = {}
    for node in ast.parse(Path(spec.origin).read_bytes()).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            values |= {each.id: node.value for each in targets if isinstance(each, ast.Name)}
        elif isinstance(node, ast.ImportFrom) and _is_sibling(node.module):
            texts = [each for each in node.names if each.name.isupper()]
            there = _assigned(str(node.module)) if texts else {}
            values |= {each.name: there[each.name] for each in texts if each.name in there}
    return values


def _is_sibling(module: str | None) -> bool:
    """Whether a module may hold experiments too: their private parts hold no text for `list`."""
    folder, _, last = (module or "").rpartition(".")
    return f"{folder}.".startswith(f"{experiments.__name__}.") and not last.startswith("_")


def _headline(call: ast.expr, values: Mapping[str, ast.expr]) -> Headline | None:
    arguments = _arguments(call, values)
    if arguments is None:
        return None
    said: dict[str, Any] = {}
    for name in arguments.keys() & set(_NEEDED + _BESIDE):
        value = arguments[name]
        if isinstance(value, ast.Name):
            value = values.get(value.id)
        if isinstance(value, ast.Constant):
            said[name] = value.value
        elif name in _NEEDED:
            return None
    return Headline(**said) if {"name", "title"} <= said.keys() else None


def _arguments(call: ast.expr, values: Mapping[str, ast.expr]) -> dict[str, ast.expr] | None:
    """Return the arguments of a call of `Experiment`, those that a partial gives included."""
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Name)):
        return None
    given = {each.arg: each.value for each in call.keywords if each.arg is not None}
    if len(given) < len(call.keywords):
        return None
    match call.func.id, call.args:
        case ("Experiment", []) | ("partial", [ast.Name(id="Experiment")]):
            return given
        case (name, []) if name in values:
            usual = _arguments(values[name], values)
            return None if usual is None else usual | given
    return None
