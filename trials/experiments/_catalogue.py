"""This package's own experiments by name, without importing what they compute with.

Every module below this folder whose name is public lists its own in `EXPERIMENTS`, a tuple of calls
`Experiment(name="...", title="...", ...)`, or of a partial of it. What `fedjax-admm list` shows are
texts and numbers in the module's source, and they are read there: a module is imported only when
one of its experiments is taken out.
"""

import ast
import pkgutil
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fedjax_admm._shown import short_repr
from fedjax_admm.trials import experiments

if TYPE_CHECKING:
    from fedjax_admm.trials.experiments._experiment import Experiment, Origin


@short_repr
class Headline(NamedTuple):
    """What `fedjax-admm list` says of an experiment, in the words of `Experiment`."""

    name: str
    title: str
    paper: str = ""
    trials: int = 1000
    usual_seconds: float | None = None
    findings: str = ""
    origin: "Origin | None" = None


class Catalogue(Mapping[str, "Experiment"]):
    """The experiments of this package: their modules are imported when one is taken out."""

    def __init__(self) -> None:
        """Read the modules, in the order of their names."""
        self._read = {
            headline.name: (module, headline)
            for module in _modules()
            for headline in stated(module)
        }

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
        """Return the headline of each."""
        return [headline for _, headline in self._read.values()]


@cache
def _modules() -> list[str]:
    """Return the names of the modules that list experiments, sorted."""
    found = pkgutil.walk_packages(experiments.__path__, f"{experiments.__name__}.")
    return sorted(
        each.name
        for each in found
        if not (each.ispkg or each.name.rpartition(".")[2].startswith("_"))
    )


def stated(module: str) -> list[Headline]:
    """Return the headlines of the experiments of a module as its source states them."""
    values = _assigned(module)
    headlines = []
    for call in values["EXPERIMENTS"].elts:
        arguments = _arguments(call, values)
        fields = {name: arguments[name] for name in Headline._fields if name in arguments}
        fields = {
            name: values[value.id] if isinstance(value, ast.Name) else value
            for name, value in fields.items()
        }
        headlines.append(Headline(**{name: value.value for name, value in fields.items()}))
    return headlines


def _assigned(module: str) -> dict[str, Any]:
    """Return the expressions that a module assigns to its names, or takes from other modules."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    values: dict[str, Any] = {}
    for node in ast.parse(Path(spec.origin).read_bytes()).body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            values |= {each.id: node.value for each in targets if isinstance(each, ast.Name)}
        elif isinstance(node, ast.ImportFrom) and node.module in _modules():
            there = _assigned(node.module)
            values |= {each.name: there[each.name] for each in node.names if each.name in there}
    return values


def _arguments(call: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call of `Experiment`, those that a partial gives included."""
    given = {each.arg: each.value for each in call.keywords}
    built = call.args[0] if call.args else call.func  # partial(Experiment, ...)
    return _arguments(values[built.id], values) | given if built.id in values else given
