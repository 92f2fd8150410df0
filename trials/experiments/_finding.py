"""Experiments by name: this package's own, those of plug-ins, and those of a user's own files.

Every module below this folder whose name is public lists its own: a new paper is a new file. An
installed distribution offers more by entry points of the group `fedjax_admm.experiments`; each
loads an `Experiment`, a sequence of them, or a module with `EXPERIMENT` or `EXPERIMENTS`.
"""

import difflib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import metadata
from typing import TYPE_CHECKING, Any

from fedjax_admm._checks import InputError, one_line
from fedjax_admm.trials.experiments._catalogue import Catalogue, Headline

if TYPE_CHECKING:
    from fedjax_admm.trials.experiments._experiment import Experiment

GROUP = "fedjax_admm.experiments"


@cache
def built_in() -> "Mapping[str, Experiment]":
    """Return this package's own experiments by name, in the order of the modules' names."""
    return Catalogue()


def all_experiments() -> "dict[str, Experiment]":
    """Return every experiment by name: this package's own, then those of plug-ins."""
    known = built_in()
    return dict(known) | _plugins(known)[0]


def headlines() -> "Sequence[Headline | Experiment]":
    """Return the name, title, paper, usual trials and origin of every experiment.

    None of this package's own is imported.
    """
    known = built_in()
    own = known.headlines() if isinstance(known, Catalogue) else known.values()
    return [*own, *_plugins(known)[0].values()]


def refused_plugins() -> dict[str, str]:
    """Return by its name why a plug-in cannot be used, in a sentence each."""
    return _plugins(built_in())[1]


def find(name: str) -> "Experiment":
    """Return the experiment of a name.

    Args:
      name: that of one of this package's own or of a plug-in; or `PATH.py` or `PATH.py:NAME`; or
        `package.module:NAME`, where NAME is the experiment's or that of a variable.
    """
    from fedjax_admm.trials.experiments._own import in_file, in_module

    path, _, member = name.rpartition(":")
    if name.endswith(".py"):
        return _free(in_file(name, name, None))
    if path.endswith(".py"):
        return _free(in_file(name, path, member or None))
    known = built_in()
    if name in known:  # without looking at plug-ins
        return known[name]
    if member and all(part.isidentifier() for part in path.split(".")):
        return _free(in_module(name, path, member))
    added, refused = _plugins(known)
    if name in added:
        return added[name]
    if name in refused:
        raise InputError(refused[name], value=name)
    missing = f"there is no experiment {one_line(name)}"
    if os.path.isfile(f"{name}.py"):
        raise InputError(missing, value=name, remedy=f"did you mean {name}.py?")
    near = difflib.get_close_matches(name, [*known, *added])
    raise InputError(
        missing,
        value=name,
        remedy=f"did you mean {' or '.join(near)}?"
        if near
        else "name one that `fedjax-admm list` shows, PATH.py, PATH.py:NAME, or "
        "package.module:NAME",
    )


def find_again(config: Mapping[str, Any], asked: str | None = None) -> "Experiment":
    """Return the experiment of a run, which may have changed since then.

    A folder of results may be somebody else's, and an experiment is a program: the file that
    `config` names is never imported. Without `asked` only installed experiments are found, this
    package's own and those of plug-ins.

    Args:
      config: as `config.json` holds it.
      asked: the experiment as `find` takes it, where the user has named it; of a file with several,
        the one of the run.
    """
    name, source = config["experiment"], config.get("source")
    if asked is not None:
        experiment = find(f"{asked}:{name}" if asked.endswith(".py") else asked)
        if experiment.name != name:
            raise InputError(
                f"must be {name!r}, of which these results are, but it is {experiment.name!r}",
                argument="experiment",
                value=asked,
            )
        return experiment
    if source and source["distribution"] is None:
        raise InputError(
            f"{name} stands in {(source['file'] or source['again'])!r}, a program that is "
            "run only where it is named",
            value=source["again"],
            remedy="if you trust it, name it with {experiment}",
            others=["experiment"],
        )
    known = all_experiments() if source else built_in()
    if name in known:
        return known[name]
    if not source:
        raise InputError(f"there is no experiment {name!r} in fedjax-admm", value=name)
    raise InputError(
        f"the experiment {name} came with {source['distribution']}, which does not offer it here",
        value=name,
        remedy="install that",
    )


def _free(experiment: "Experiment") -> "Experiment":
    """Check that a user's experiment has a name that none of this package's own has."""
    if experiment.name in built_in():
        place = experiment.origin.asked if experiment.origin else ""
        raise InputError(
            f"{place} names its experiment {experiment.name!r}, as one of fedjax-admm's own is "
            "named",
            value=experiment.name,
            remedy="give it another name",
        )
    return experiment


def _plugins(
    known: "Mapping[str, Experiment]",
) -> "tuple[dict[str, Experiment], dict[str, str]]":
    """Return the experiments of plug-ins by name, and why others are refused."""
    added: dict[str, Experiment] = {}
    refused: dict[str, str] = {}
    points = sorted(metadata.entry_points(group=GROUP), key=lambda point: point.name)
    if not points:
        return added, refused
    from fedjax_admm.trials.experiments._experiment import Origin
    from fedjax_admm.trials.experiments._mistakes import RAISED
    from fedjax_admm.trials.experiments._own import digest_of, file_of, offered

    for point in points:
        distribution = point.dist and f"{point.dist.name} {point.dist.version}"
        place = f"the plug-in {point.name}" + (f" of {distribution}" if distribution else "")
        try:
            experiments = offered(f"{point.value}, which {place} names,", point.load())
        except InputError as error:
            refused[point.name] = str(error)
            continue
        except RAISED as error:
            words = " ".join(str(error).split())
            refused[point.name] = f"{place} cannot be loaded: {type(error).__name__}: {words}"
            continue
        module = sys.modules[point.module]
        for each in experiments:
            name = each.name
            if name in known or name in added:
                refused[point.name] = f"{place} names an experiment {name!r}, as another one does"
                continue
            origin = Origin(name, name, file_of(module), digest_of(module), distribution)
            added[name] = replace(each, origin=origin)
    return added, refused
