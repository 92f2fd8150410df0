"""This package's own experiments by name, without importing what they compute with.

Every module below this folder whose name is public lists its own in `EXPERIMENTS`. The texts and
numbers that `fedjax-admm list` shows stand in a file beside it: `fsmdm.toml` beside `fsmdm.py`,
with a table per experiment, in the same order, and above them what all have in common. A module is
imported only when one of its experiments is taken out.
"""

import tomllib
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from fedjax_admm.trials.experiments._experiment import Experiment, Origin

_FOLDER = Path(__file__).parent


class Headline(NamedTuple):
    """What `fedjax-admm list` says of an experiment, in the words of `Experiment`."""

    name: str
    title: str
    paper: str = ""
    trials: int = 1000
    usual_seconds: float | None = None
    findings: str = ""
    measured_on: str = "drawn"
    topic: str = ""
    origin: "Origin | None" = None


class Catalogue(Mapping[str, "Experiment"]):
    """The experiments of this package: their modules are imported when one is taken out."""

    def __init__(self) -> None:
        """Read the texts, in the order of the modules' names."""
        modules = {
            ".".join(path.relative_to(_FOLDER).with_suffix("").parts): path
            for path in _FOLDER.rglob("[!_]*.toml")
        }
        self._read = {
            name: (module, Headline(**fields))
            for module in sorted(modules)
            for name, fields in texts(modules[module]).items()
        }

    def __getitem__(self, name: str) -> "Experiment":
        """Return an experiment by name; KeyError where there is none."""
        module = import_module(f"{__package__}.{self._read[name][0]}")
        return next(each for each in module.EXPERIMENTS if each.name == name)

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


def texts(path: str | Path) -> dict[str, dict[str, Any]]:
    """Return the arguments of `Experiment` that the file beside a module holds, by name."""
    read = tomllib.loads(Path(path).with_suffix(".toml").read_text("utf-8"))
    common = {name: value for name, value in read.items() if not isinstance(value, dict)}
    experiments = {
        name: {**common, **table, "name": name}
        for name, table in read.items()
        if isinstance(table, dict)
    }
    return {
        name: {field: _text(value) for field, value in experiment.items()}
        for name, experiment in experiments.items()
    }


def _text(value: Any) -> Any:
    """Return a text without line breaks; a list of texts becomes one line each."""
    if isinstance(value, list):
        return "\n".join(map(_text, value))
    return " ".join(value.split()) if isinstance(value, str) else value


def meanings(experiment: str) -> dict[str, str]:
    """Return the meaning and unit of this package's settings by name; the family's come first."""
    tables = tomllib.loads((_FOLDER / "_settings.toml").read_text("utf-8"))
    family = experiment.partition("-")[0]
    return {**tables["all"], **tables.get(family, {}), **tables.get(experiment, {})}
