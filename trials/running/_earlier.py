"""The run that is in a folder already, and on what conditions it goes on to the same bits."""

import glob
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedjax_admm._checks import InputError
from fedjax_admm._host import _store as store
from fedjax_admm._host._files import read_json
from fedjax_admm._host._store import CHUNKS, CONFIG
from fedjax_admm.trials.experiments import Experiment
from fedjax_admm.trials.figures import PICTURES, figure_files
from fedjax_admm.trials.results import ARRAYS, SUMMARY, check_configuration
from fedjax_admm.trials.running._configuration import Request, as_text

IDENTITY = ("experiment", "rounds", "seed", "x64", "width", "devices_per_trial")
"""Keys of a configuration that must be those of the run that goes on."""

_WRITTEN = (ARRAYS, SUMMARY, *PICTURES)  # besides the configuration and chunks


def place_of(out: Path | None, name: str, *, resume: bool) -> Path:
    """Return the folder of a run: its own, that of the latest unfinished one, or a new one's."""
    if out is not None or not resume:
        return out or Path("results") / name
    unfinished = [
        path
        for path in Path("results").glob(f"{glob.escape(name)}*/{CONFIG}")
        for config in [store.read_config(path.parent)]
        if (config.get("experiment"), config.get("status")) == (name, "running")
    ]
    if not unfinished:
        raise InputError(
            f"results/ holds no unfinished run of {name}",
            value=name,
            remedy="name its folder with --out",
        )
    return max(unfinished, key=lambda path: path.stat().st_mtime).parent


def earlier_run(
    experiment: Experiment, request: Request, out: Path, *, resume: bool, overwrite: bool
) -> dict[str, Any] | None:
    """Return the configuration of the run in `out` that goes on, or None where a new one begins.

    A finished run goes on if it has fewer trials than are asked for, or if its results are gone. A
    resumed run begins where there is none: a job that is queued again has one command line. If its
    configuration alone is gone, its chunks tell whether they belong to what is asked for.
    """
    if resume and overwrite:
        raise InputError(
            "goes on with a run, and {overwrite} replaces it",
            argument="resume",
            remedy="leave one of them out",
            others=["overwrite"],
        )
    store.check_places(out, (*_WRITTEN, CONFIG), inputs=inputs_of(experiment, request))
    if overwrite:
        return None
    if not resume:
        _check_new(out)
        return None
    if not os.path.lexists(out / CONFIG):
        store.check_own(out, _WRITTEN)
        if not store.Chunks(out / CHUNKS).spans():
            print(f"{out} holds no run to go on with: this one begins there.", file=sys.stderr)
        return None
    config = read_json(out / CONFIG)
    check_configuration(out / CONFIG, config)
    store.check_own(out, (ARRAYS, SUMMARY, *(request.figure or figure_files(config)).names))
    finished = config["status"] == "finished" and (out / ARRAYS).exists()
    if finished and request.trials in (None, config["trials"]):
        raise InputError(
            f"{out} holds a finished run of {config['experiment']}",
            value=out,
            remedy=f"ask for more than its {config['trials']} with --trials or choose another "
            "--out",
        )
    return config


def _check_new(out: Path) -> None:
    """Check that a folder is empty; the sentence tells how to go on with a run that is there."""
    config = store.read_config(out)
    if "experiment" not in config:
        store.check_empty(out)
        return
    kind, remedy = "a finished", "add trials with --resume --trials N, replace it with --overwrite"
    if config.get("status") == "running":
        kind, remedy = "an unfinished", "add --resume to go on, or --overwrite,"
    told = f"{out} holds {kind} run of {config['experiment']}"
    raise InputError(told, value=out, remedy=f"{remedy} or choose another --out")


def inputs_of(experiment: Experiment, request: Request) -> list[Path]:
    """Return the files that a run may read: its experiment's, and those that its settings name."""
    own = experiment.origin and experiment.origin.file
    return [Path(text) for text in filter(None, (own, *(request.settings or {}).values()))]


def continued(experiment: Experiment, request: Request, earlier: Mapping[str, Any]) -> Request:
    """Fill in from the earlier run whatever was not asked for.

    A run that began on one device goes on so: its last bits are not those of several.
    """
    usual = {
        name: earlier[name] for name in ("trials", "rounds", "seed", "quick", "devices_per_trial")
    }
    usual |= {"batch": earlier["width"], "figure": figure_files(earlier)}
    usual |= {"as_published": earlier.get("as_published")}
    usual |= {} if earlier["partitioned"] else {"devices": 1}
    usual = {name: value for name, value in usual.items() if getattr(request, name) is None}
    settings = dict(request.settings or {})
    if earlier["experiment"] == experiment.name:
        settings = {name: as_text(value) for name, value in earlier["settings"].items()} | settings
    return replace(request, **usual, settings=settings)


def check_same(earlier: Mapping[str, Any], config: Mapping[str, Any], out: Path) -> None:
    """Check that a resumed run is the run that was begun in `out`, of as many trials or more."""
    other = "choose another --out"
    if earlier["experiment"] == config["experiment"] and earlier["digest"] != config["digest"]:
        file = (config["source"] or earlier["source"])["file"]
        told = f"{out} was begun with other contents of {file}"
        raise InputError(told, remedy=f"restore that file or {other}")
    if config["trials"] < earlier["trials"]:
        told = (
            f"{out} was begun with trials {earlier['trials']}, more than the {config['trials']} "
            "that are asked for"
        )
        raise InputError(told, value=config, remedy=f"ask for at least as many or {other}")
    then, now = _conditions(earlier), _conditions(config)
    for what in {**now, **then}:
        if then.get(what) != now.get(what):
            raise InputError(
                f"{out} was begun {what} {as_text(then.get(what))}, not {as_text(now.get(what))}",
                value=now.get(what),
                remedy=f"resume with the same or {other}",
            )


def _conditions(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what two runs must have in common to share their trials, as parts of sentences."""
    conditions = {f"with {name}": config[name] for name in IDENTITY}
    conditions |= {f"with the setting {name}": v for name, v in config["settings"].items()}
    versions = config["versions"]
    conditions |= {f"with {name}": versions.get(name) for name in ("fedjax-admm", "jax", "jaxlib")}
    conditions["with the code of fedjax-admm as"] = versions.get("code")
    conditions["on"] = "several devices" if config["partitioned"] else "one device"
    conditions["on the kind of device"] = config["device"]["kind"]
    return conditions
