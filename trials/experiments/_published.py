"""What an experiment shows of its paper as printed: the figures, and the run that they need."""

from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fedjax_admm._checks import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fedjax_admm.trials.experiments._experiment import Experiment
    from fedjax_admm.trials.results import Results


@dataclass(frozen=True, kw_only=True)
class Published:
    """Figures and tables of a paper, and what differs in the run that they need.

    A default run serves too where it has the methods, the settings and the records that a figure
    shows.
    """

    figures: "Mapping[str, Callable[[Results], Figure]]"  # "figure-3" or "table-1" -> what draws it
    changes: Mapping[str, Any] = field(default_factory=dict)  # fields of `Experiment` that differ

    def run(self, experiment: "Experiment") -> "Experiment":
        """Return the experiment with the settings, methods and trials of the paper.

        The findings of an experiment are about its default run.
        """
        changes = {**self.changes, "findings": ""} if self.changes else {}
        return replace(experiment, **changes)

    def draw(self, experiment: "Experiment", results: "Results", name: str) -> "Figure":
        """Return a figure or a table by its name, which its title says.

        Raises:
          InputError: the run does not have what the figure shows.
        """
        config = results.config
        try:
            for setting, value in self.changes.get("settings", {}).items():
                found = config["settings"].get(setting)
                value = list(value) if isinstance(value, tuple) else value  # as JSON has it
                if found != value and not config.get("as_published"):
                    raise InputError(f"this run has {setting} {found}, not {value}", value=found)
            return self.figures[name](titled(results, name))
        except InputError as error:
            error = copy(error)
            error.mistake = f"{name} as published cannot be drawn from this run: {error}"
            error.argument = None
            error.remedy = f"run `fedjax-admm run {experiment.name} --as-published`"
            raise error from None


def titled(results: "Results", name: str) -> "Results":
    """Return results whose figure says in its title which one of the paper it is.

    A name such as "figure-1-consensus" is that of what we add to Figure 1.
    """
    kind, number, *ours = name.split("-")
    said = [*ours, "beside", kind.capitalize()] if ours else [kind]
    words = " ".join([*said, number, "as published"])
    title = f"{words[:1].upper()}{words[1:]}: {results.config['title']}"
    config = {**results.config, "title": title}
    return replace(results, config=config | {"verdict": ""})
