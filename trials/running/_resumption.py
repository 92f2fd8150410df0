"""What a run must share with an earlier one to go on with it, to the same bits."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from fedjax_admm._checks import InputError
from fedjax_admm.trials import files
from fedjax_admm.trials.engine import CHUNKS, ChunkStore
from fedjax_admm.trials.experiments import Experiment
from fedjax_admm.trials.figures import figure_files
from fedjax_admm.trials.results import ARRAYS, CONFIG, check_configuration
from fedjax_admm.trials.running._configuration import Request, as_text

IDENTITY = (
    "experiment",
    "digest",
    "trials",
    "rounds",
    "seed",
    "settings",
    "x64",
    "width",
    "devices_per_trial",
)
"""What must be the same for a resumed run to give the same bits; there may be more trials."""


def unfinished_run(out: Path, resume: bool, trials: int | None) -> dict[str, Any] | None:
    """Return the configuration of the run in `out` that is to be resumed, or None for a new one.

    A run whose configuration is gone goes on from its chunks if it is asked for as it was begun:
    they tell whether they belong to it. A finished one goes on if it has fewer trials than are
    asked for, or if its results are gone. Where nothing is there a run begins, resumed or not: a
    job that is queued again has one command line.

    Args:
      out: the folder.
      resume: whether to go on with what is there.
      trials: how many are asked for; None if that is left to the run.

    Raises:
      InputError: there is a run but it is not to be resumed, or `out` cannot be read.
    """
    config = out / CONFIG
    elsewhere = "choose another --out"
    try:
        exists = config.exists()
    except OSError as error:
        raise InputError(
            f"cannot read {out}: {error.strerror}", value=out, remedy=elsewhere
        ) from None
    if out.exists() and not out.is_dir():
        raise InputError(
            f"{out} is a file, not a folder", argument="out", value=out, remedy=elsewhere
        )
    if not exists:
        begun = ChunkStore(out / CHUNKS).begun()
        if begun and not resume:
            raise InputError(
                f"{out} holds trials of a run whose {CONFIG} is gone",
                value=out,
                remedy=f"add --resume to its command to go on with them, or {elsewhere}",
            )
        return None
    try:
        found = files.read_json(config)
    except InputError as error:
        raise InputError(error.told, value=config, remedy=_without(out)) from None
    check_configuration(config, found)
    if resume and (found["status"] == "running" or not (out / ARRAYS).exists()):
        return found
    if resume and trials not in (None, found["trials"]):
        return found
    kind = "a finished"
    remedy = f"add trials with --resume --trials N, replace it with --overwrite or {elsewhere}"
    if found["status"] == "running":
        kind, remedy = "an unfinished", f"add --resume to go on, or --overwrite, or {elsewhere}"
    elif resume:
        remedy = f"ask for more than its {found['trials']} with --trials or {elsewhere}"
    raise InputError(f"{out} holds {kind} run of {found['experiment']}", value=out, remedy=remedy)


def holds_no_run(out: Path) -> bool:
    """Return whether neither the configuration of a run is in a folder, nor trials of one."""
    return not os.path.lexists(out / CONFIG) and not ChunkStore(out / CHUNKS).begun()


def _without(out: Path) -> str:
    """Return what to do about a folder whose configuration cannot be read."""
    if ChunkStore(out / CHUNKS).begun():
        return (
            "move it away and add --resume to the command of its run, to go on with its trials, or "
            "choose another --out"
        )
    return "replace it with --overwrite or choose another --out"


def asks_for_more(earlier: Mapping[str, Any], config: Mapping[str, Any]) -> bool:
    """Return whether a resumed run shall have more trials than the earlier one."""
    return config["trials"] > earlier["trials"]


def continued(experiment: Experiment, request: Request, earlier: Mapping[str, Any]) -> Request:
    """Fill in what was not asked for from the earlier run.

    What ran on one device goes on so: its last bits are not those of several.
    """
    if request.devices is None and earlier.get("partitioned") is False:
        request = replace(request, devices=1)
    kept = {
        name: earlier[name]
        for name in ("trials", "rounds", "seed", "quick", "devices_per_trial")
        if getattr(request, name) is None
    }
    if request.batch is None:
        kept["batch"] = earlier["width"]
    if request.figure is None:
        kept["figure"] = figure_files(earlier)
    settings = dict(request.settings or {})
    if earlier["experiment"] == experiment.name:
        settings = {name: as_text(value) for name, value in earlier["settings"].items()} | settings
    return replace(request, **kept, settings=settings)


def check_same(earlier: Mapping[str, Any], config: Mapping[str, Any], out: Path) -> None:
    """Check that a resumed run is the run that was begun in `out`.

    Raises:
      InputError: it differs in its identity, its versions or its devices.
    """
    if earlier["experiment"] == config["experiment"] and earlier["digest"] != config["digest"]:
        raise InputError(
            f"{out} was begun with other contents of {_file(config) or _file(earlier)}",
            value=config["digest"],
            remedy="restore that file or choose another --out",
        )
    if config["trials"] < earlier["trials"]:
        raise InputError(
            f"{out} was begun with trials {earlier['trials']}, more than the {config['trials']} "
            "that are asked for",
            value=config["trials"],
            remedy="ask for at least as many or choose another --out",
        )
    simple = [name for name in IDENTITY if name not in ("digest", "settings", "trials")]
    pairs = {name: (earlier[name], config[name]) for name in simple}
    then_settings, now_settings = earlier["settings"], config["settings"]
    for name in sorted(then_settings.keys() | now_settings.keys()):
        pairs[f"the setting {name}"] = (then_settings.get(name), now_settings.get(name))
    for name, (then, now) in pairs.items():
        if then != now:
            raise InputError(
                f"{out} was begun with {name} {as_text(then)}, not {as_text(now)}",
                value=now,
                remedy="resume with the same or choose another --out",
            )
    for name in ("fedjax-admm", "jax", "jaxlib", "code"):
        then, now = earlier["versions"].get(name), config["versions"][name]
        if then != now:
            what = "the code of fedjax-admm as" if name == "code" else name
            raise InputError(
                f"{out} was begun with {what} {then}, but this is {now}, whose bits may differ",
                value=now,
                remedy="install that version or choose another --out",
            )
    if earlier.get("partitioned") != config["partitioned"]:
        then, now = (
            ("several devices", "one") if earlier["partitioned"] else ("one device", "several")
        )
        raise InputError(
            f"{out} was begun on {then}, but this is a run on {now}, whose last bits differ",
            remedy="give --devices as then or choose another --out",
        )
    then, now = earlier["device"]["kind"], config["device"]["kind"]
    if then != now:
        raise InputError(
            f"{out} was begun on {then}, but this is {now}, whose bits differ",
            value=now,
            remedy="resume there or choose another --out",
        )


def check_program(earlier: Mapping[str, Any], program: str, out: Path) -> None:
    """Check that what is resumed computes what its configuration records.

    Raises:
      InputError: it does not: somebody has edited that file, or the data that it names.
    """
    if earlier.get("program") != program:
        raise InputError(
            f"{out / CONFIG} or the data that it names has been changed since the run was begun: "
            "its trials would be others",
            value=program,
            remedy="restore what was changed or choose another --out",
        )


def _file(config: Mapping[str, Any]) -> str | None:
    """Return the file that the experiment of a run stands in, if it is a user's own."""
    return (config["source"] or {}).get("file")
