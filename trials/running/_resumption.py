"""Conditions under which a run goes on to the same bits."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedjax_admm._checks import InputError
from fedjax_admm.trials.experiments import Experiment
from fedjax_admm.trials.figures import figure_files
from fedjax_admm.trials.results import CONFIG
from fedjax_admm.trials.running._configuration import Request, as_text

_SAME = ("experiment", "rounds", "seed", "x64", "width", "devices_per_trial")
IDENTITY = (*_SAME, "digest", "settings", "trials")
"""Keys that must agree between the processes of one run."""


def continued(experiment: Experiment, request: Request, earlier: Mapping[str, Any]) -> Request:
    """Fill in from the earlier run whatever was not asked for.

    A run that began on one device goes on so: its last bits are not those of several.
    """
    if request.devices is None and earlier.get("partitioned") is False:
        request = replace(request, devices=1)
    usual = {
        name: earlier[name] for name in ("trials", "rounds", "seed", "quick", "devices_per_trial")
    }
    usual |= {"batch": earlier["width"], "figure": figure_files(earlier)}
    usual = {name: value for name, value in usual.items() if getattr(request, name) is None}
    settings = dict(request.settings or {})
    if earlier["experiment"] == experiment.name:
        settings = {name: as_text(value) for name, value in earlier["settings"].items()} | settings
    return replace(request, **usual, settings=settings)


def check_same(earlier: Mapping[str, Any], config: Mapping[str, Any], out: Path) -> None:
    """Check that a resumed run is the run that was begun in `out`, of as many trials or more."""
    other = "choose another --out"
    if earlier["experiment"] == config["experiment"] and earlier["digest"] != config["digest"]:
        file = next(
            filter(None, [(each["source"] or {}).get("file") for each in (config, earlier)])
        )
        told = f"{out} was begun with other contents of {file}"
        raise InputError(told, remedy=f"restore that file or {other}")
    if config["trials"] < earlier["trials"]:
        told = (
            f"{out} was begun with trials {earlier['trials']}, more than the {config['trials']} "
            "that are asked for"
        )
        raise InputError(
            told, value=config["trials"], remedy=f"ask for at least as many or {other}"
        )
    pairs = {f"with {name}": (earlier[name], config[name]) for name in _SAME}
    settings, new_settings = earlier["settings"], config["settings"]
    for name in sorted(settings.keys() | new_settings.keys()):
        pairs[f"with the setting {name}"] = (settings.get(name), new_settings.get(name))
    for name in ("fedjax-admm", "jax", "jaxlib", "code"):
        what = "with the code of fedjax-admm as" if name == "code" else f"with {name}"
        pairs[what] = (earlier["versions"].get(name), config["versions"][name])
    devices = {True: "several devices", False: "one device"}
    pairs["on"] = (devices[earlier["partitioned"]], devices[config["partitioned"]])
    pairs["on the kind of device"] = (earlier["device"]["kind"], config["device"]["kind"])
    for what, (then, now) in pairs.items():
        if then != now:
            raise InputError(
                f"{out} was begun {what} {as_text(then)}, not {as_text(now)}",
                value=now,
                remedy=f"resume with the same or {other}",
            )


def check_program(earlier: Mapping[str, Any], program: str, out: Path) -> None:
    """Check that a resumed run computes what its configuration records."""
    if earlier.get("program") != program:
        raise InputError(
            f"{out / CONFIG} or the data that it names has been changed since the run was begun: "
            "its trials would be others",
            value=program,
            remedy="restore what was changed or choose another --out",
        )
