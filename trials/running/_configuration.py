"""What a run is, in full, as `config.json` tells it: from what a person asked for."""

import datetime
import os
import platform
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from typing import Any

import jax

from fedjax_admm._checks import count
from fedjax_admm._host._digest import code_digest
from fedjax_admm.trials.experiments import Experiment
from fedjax_admm.trials.figures import FigureFiles, figure_files

DEFAULT_SEED = 2025


@dataclass(frozen=True)
class Request:
    """What a person asked for; None means the default, or what the resumed run had."""

    trials: int | None = None
    rounds: int | None = None
    seed: int | None = None
    settings: Mapping[str, str] | None = None
    batch: int | None = None
    quick: bool | None = None
    devices: int | None = None  # of every process
    devices_per_trial: int | None = None  # over which each trial's clients are spread
    memory: int | None = None  # bytes that a device may take
    figure: FigureFiles | None = None  # which files of the figure are written
    as_published: bool | None = None  # as the paper: its figures, and the settings that they need


def configuration(experiment: Experiment, request: Request) -> dict[str, Any]:
    """Return all that is known of a run before it is cut into chunks, as JSON holds it."""
    sizes = {"trials": experiment.trials, "rounds": experiment.rounds, "seed": DEFAULT_SEED}
    sizes |= experiment.quick if request.quick else {}
    sizes = {
        name: size if getattr(request, name) is None else getattr(request, name)
        for name, size in sizes.items()
    }
    settings = experiment.resolve(request.settings or {})
    rounds = count("rounds", sizes["rounds"])
    trials = count("trials", sizes["trials"])
    traffic = experiment.traffic(settings, rounds)
    statement, data = experiment.words(settings, rounds)
    device = jax.local_devices()[0]
    origin = experiment.origin
    return {
        "experiment": experiment.name,
        # Where it was found, and its file's digest, if it is not one of this package's own.
        "source": origin
        and {name: getattr(origin, name) for name in ("asked", "again", "file", "distribution")},
        "digest": origin and origin.digest,
        "title": experiment.title,
        "paper": experiment.paper,
        "findings": experiment.findings,
        "measured_on": experiment.measured_on,
        "verdict": _verdict(experiment, request, sizes, settings, data),
        "statement": statement,
        "parameter": experiment.sweep.name,
        "parameter_label": experiment.sweep.label,
        "metrics": experiment.labels(traffic),
        "methods": list(traffic),
        "trials": trials,
        "rounds": rounds,
        "seed": count("seed", sizes["seed"], at_least=0, at_most=2**32 - 1),
        "settings": {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in settings.items()
        },
        "data": data,
        "devices_per_trial": 1 if request.devices_per_trial is None else request.devices_per_trial,
        "x64": jax.dtypes.canonicalize_dtype("float64") == "float64",
        "quick": bool(request.quick),
        "figure": (request.figure or FigureFiles()).stored(),
        "as_published": bool(request.as_published),
        "traffic": {name: sizes and sizes._asdict() for name, sizes in traffic.items()},
        "versions": {
            "fedjax-admm": installed_version("fedjax-admm"),
            "code": code_digest(),
            "python": platform.python_version(),
            **{name: installed_version(name) for name in ("jax", "jaxlib", "numpy", "optax")},
        },
        "device": {
            "kind": device.device_kind,
            "platform": device.platform,
            "count": len(jax.local_devices()),
            "processes": jax.process_count(),
            "cores": os.cpu_count(),
        },
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }


def _verdict(
    experiment: Experiment,
    request: Request,
    sizes: Mapping[str, int],
    settings: Mapping[str, Any],
    data: str,
) -> str:
    """Return the first finding where a run is as large as its own, with its settings and data."""
    usual = settings == experiment.defaults() and sizes["rounds"] == experiment.rounds
    whole = usual and sizes["trials"] >= experiment.trials and not request.quick
    shown = whole and data == experiment.measured_on
    return (experiment.findings.splitlines() or [""])[0] if shown else ""


def settings_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a configuration as the experiment takes them: JSON has no tuples."""
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in config["settings"].items()
    }


def repeating_command(experiment: Experiment, config: Mapping[str, Any]) -> str:
    """Return the command that repeats a run, in full."""
    name = experiment.origin.again if experiment.origin else experiment.name
    words = ["fedjax-admm", "run", name]
    for name in ("trials", "rounds", "seed"):
        words += [f"--{name}", str(config[name])]
    for name, value in settings_of(config).items():
        if value != experiment.defaults()[name]:
            words += ["--set", f"{name}={as_text(value)}"]
    # The width decides the last bits, and another machine might choose another.
    words += ["--batch", str(config["width"])]
    if config["devices_per_trial"] > 1:
        words += ["--devices-per-trial", str(config["devices_per_trial"])]
    if config["x64"]:
        words.append("--x64")
    words += figure_files(config).words()
    return shlex.join(words)


def as_text(value: Any) -> str:
    """Return a setting as `--set` takes it."""
    if isinstance(value, list | tuple):
        return ",".join(repr(part) for part in value)
    return str(value)


def installed_version(package: str) -> str:
    """Return the version of a package."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"
