"""Run an experiment from its settings to its four files, and go on where one was killed."""

import datetime
import hashlib
import os
import platform
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import metadata, resources
from pathlib import Path
from typing import Any

import jax
import numpy as np

from fedjax_admm._checks import InputError, count
from fedjax_admm.traffic import totals
from fedjax_admm.trials import figures, files
from fedjax_admm.trials.engine import (
    ChunkStore,
    Inspect,
    Seconds,
    compile_trials,
    default_mesh,
    hosts,
    monte_carlo,
    partitioned,
)
from fedjax_admm.trials.experiments import Experiment, recording_interval
from fedjax_admm.trials.profiling import PROFILE, write_profile
from fedjax_admm.trials.results import MESSAGES, NONFINITE_ROUND, Results


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
    fail_on_nan: bool = False
    profile: bool = False


class NonFiniteError(ArithmeticError):
    """A trial turned non-finite in a run that was told to stop then."""


# What must be the same for a resumed run to give the same bits.
_IDENTITY = (
    "experiment",
    "trials",
    "rounds",
    "seed",
    "settings",
    "x64",
    "width",
    "chunk",
    "devices_per_trial",
)
DEFAULT_SEED = 2025


def run_experiment(
    experiment: Experiment, request: Request, out: Path, *, resume: bool, progress: bool = True
) -> Results | None:
    """Run an experiment and write its files into `out`.

    With several processes (`hosts.join`), all call this alike, and the first one alone reads and
    writes files.

    Args:
      experiment: what to run.
      request: what differs from its defaults.
      out: the folder of the result.
      resume: go on with the unfinished run in `out`, whose configuration is read from there.
      progress: show a progress bar.

    Returns:
      The results, as `results.load(out)` reads them back; None in processes but the first.

    Raises:
      InputError: an argument does not fit, `out` cannot be written or holds another run, or the
        memory does not hold a trial.
      KeyboardInterrupt: the run was asked to stop; it can be resumed.
      NonFiniteError: a trial turned non-finite, and `request.fail_on_nan`; likewise.
      StoppedElsewhereError: another process has ended the run.
      LostProcessError: another process does not answer any more.
    """
    clock = time.perf_counter()
    if request.profile and jax.process_count() > 1:
        raise InputError(
            f"--profile measures one process, but there are {jax.process_count()}; leave it out."
        )
    earlier = hosts.from_first(lambda: _earlier(out, resume))
    if earlier is not None:
        request = _continued(experiment, request, earlier)
    config = _config(experiment, request)
    versions = {"versions": config["versions"]}
    hosts.agreed({name: config.get(name) for name in _IDENTITY} | vars(request) | versions)
    settings = {name: _restored(value) for name, value in config["settings"].items()}
    trial = experiment.trial(settings, config["rounds"])
    key = jax.random.key(config["seed"])
    mesh = default_mesh(request.devices, config["devices_per_trial"])
    chunks = ChunkStore(out / files.CHUNKS)

    if earlier is None:
        # Compiled before anything is written: a problem that does not fit leaves nothing behind.
        program = compile_trials(
            trial,
            key,
            config["trials"],
            batch="auto" if request.batch is None else request.batch,
            mesh=mesh,
            limit=request.memory,
        )
        config |= program.layout._asdict() | {"partitioned": partitioned(mesh)}
        config |= {"command": _command(experiment, config), "status": "running"}
        hosts.from_first(lambda: _begin(out, config))
    else:
        program = None
        width = earlier["width"] if request.batch is None else request.batch
        config |= {"width": width, "chunk": earlier["chunk"], "command": earlier["command"]}
        config |= {"partitioned": partitioned(mesh)}
        _check_same(earlier, config, out)

    outcome = monte_carlo(
        trial,
        key,
        config["trials"],
        batch=config["width"],
        chunk=config["chunk"],
        mesh=mesh,
        memory=request.memory,
        store=chunks,
        inspect=_refuse_nonfinite(settings[experiment.sweep.name]) if request.fail_on_nan else None,
        program=program,
        progress=progress,
    )
    finished: list[Results] = []

    def finish() -> None:
        results = _collect(experiment, settings, config, outcome.arrays)
        if experiment.details is not None:
            first = jax.random.fold_in(key, 0)
            details = jax.device_get(experiment.details(settings, config["rounds"], first))
            results = replace(results, details=details)
        finished.append(_written(experiment, results, outcome.seconds, clock, out))
        chunks.clear()

    hosts.from_first(finish)  # the others wait: JAX ends all processes soon after one of them
    if not finished:
        return None
    if request.profile:
        total = finished[0].config["seconds"]["total"]
        write_profile(out / PROFILE, trial, key, mesh, outcome, total)
    return finished[0]


def _written(
    experiment: Experiment, results: Results, seconds: Seconds, clock: float, out: Path
) -> Results:
    """Write everything that a finished run leaves."""
    results.save(out)
    figures.save_figure(experiment.figure(results), out)
    total = time.perf_counter() - clock
    rounded = {
        name: round(spent, 3) for name, spent in (*seconds._asdict().items(), ("total", total))
    }
    config = {**results.config, "status": "finished", "seconds": rounded}
    files.write_json(out / files.CONFIG, config)
    return replace(results, config=config)


def _begin(out: Path, config: Mapping[str, Any]) -> None:
    """Write the configuration of a new run; chunks that an earlier one left behind go."""
    files.remove_unfinished(out)
    ChunkStore(out / files.CHUNKS).clear()
    files.write_json(out / files.CONFIG, config)


def _refuse_nonfinite(sweep: Sequence[float]) -> Inspect:
    """Return what raises `NonFiniteError` at the first trial that turned non-finite."""

    def inspect(first: int, arrays: Mapping[str, np.ndarray]) -> None:
        for name, rounds in arrays.items():
            method, _, metric = name.rpartition("/")
            if metric == NONFINITE_ROUND and rounds.any():
                trial, place = np.argwhere(rounds)[0]
                raise NonFiniteError(
                    f"{method} turned non-finite in trial {first + trial} at {sweep[place]:g}, "
                    f"round {rounds[trial, place]}; the chunk is kept: go on without "
                    "--fail-on-nan to have such trials counted and left out of the means."
                )

    return inspect


def free_folder(name: str) -> Path:
    """Return `results/NAME`, or `results/NAME-2`, ... if that is taken."""
    base = Path("results")
    candidate, number = base / name, 1
    while candidate.exists():
        number += 1
        candidate = base / f"{name}-{number}"
    return candidate


def unfinished_folder(name: str) -> Path:
    """Return the latest folder of `results/` that holds an unfinished run of an experiment.

    Raises:
      InputError: there is none.
    """
    candidates = []
    for folder in Path("results").glob(f"{name}*"):
        if (folder / files.CONFIG).exists():
            config = files.read_json(folder / files.CONFIG)
            if config.get("experiment") == name and config.get("status") == "running":
                candidates.append(((folder / files.CONFIG).stat().st_mtime, folder))
    if not candidates:
        raise InputError(f"results/ holds no unfinished run of {name}; name its folder with --out.")
    return max(candidates)[1]


def resumed_x64(out: Path) -> bool:
    """Return whether the unfinished run in `out` computes in float64; False if there is none."""
    config = out / files.CONFIG
    return config.exists() and bool(files.read_json(config).get("x64"))


def _earlier(out: Path, resume: bool) -> dict[str, Any] | None:
    """Return the configuration of the run that is to be resumed, or None for a new one."""
    config = out / files.CONFIG
    try:
        exists = config.exists()
    except OSError as error:
        raise InputError(f"cannot read {out}: {error.strerror}; choose another --out.") from None
    if out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file, not a folder; choose another --out.")
    if not exists:
        if resume:
            raise InputError(f"{out} holds no run to resume; leave out --resume to begin one.")
        return None
    found = files.read_json(config)
    if not set(_IDENTITY) <= set(found):
        raise InputError(f"{config} is not that of a run; choose another --out.")
    if resume and found.get("status") == "running":
        files.remove_unfinished(out)
        return found
    state = "a finished" if found.get("status") == "finished" else "an unfinished"
    remedy = "choose another --out" if resume or state == "a finished" else "add --resume to go on"
    raise InputError(f"{out} holds {state} run of {found.get('experiment')}; {remedy}.")


def _continued(experiment: Experiment, request: Request, earlier: Mapping[str, Any]) -> Request:
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
    settings = {name: _as_text(value) for name, value in earlier["settings"].items()} | dict(
        request.settings or {}
    )
    if earlier["experiment"] != experiment.name:
        settings = dict(request.settings or {})
    return replace(request, **kept, settings=settings)


def _check_same(earlier: Mapping[str, Any], config: Mapping[str, Any], out: Path) -> None:
    """Check that a resumed run is the run that was begun."""
    pairs = {name: (earlier[name], config[name]) for name in _IDENTITY if name != "settings"}
    then_settings, now_settings = earlier["settings"], config["settings"]
    for name in sorted(then_settings.keys() | now_settings.keys()):
        pairs[f"the setting {name}"] = (then_settings.get(name), now_settings.get(name))
    for name, (then, now) in pairs.items():
        if then != now:
            raise InputError(
                f"{out} was begun with {name} {_as_text(then)}, not {_as_text(now)}; resume with "
                "the same or choose another --out."
            )
    for name in ("fedjax-admm", "jax", "jaxlib", "code"):
        then, now = earlier["versions"].get(name), config["versions"][name]
        if then != now:
            what = "the code of fedjax-admm as" if name == "code" else name
            raise InputError(
                f"{out} was begun with {what} {then}, but this is {now}, whose bits may differ; "
                "install that version or choose another --out."
            )
    if earlier.get("partitioned") != config["partitioned"]:
        then, now = (
            ("several devices", "one") if earlier["partitioned"] else ("one device", "several")
        )
        raise InputError(
            f"{out} was begun on {then}, but this is a run on {now}, whose last bits differ; give "
            "--devices as then or choose another --out."
        )
    if earlier["device"]["kind"] != config["device"]["kind"]:
        raise InputError(
            f"{out} was begun on {earlier['device']['kind']}, but this is "
            f"{config['device']['kind']}, whose bits differ; resume there or choose another --out."
        )


def _config(experiment: Experiment, request: Request) -> dict[str, Any]:
    quick = bool(request.quick)
    defaults = dict(experiment.quick) if quick else {}
    trials = request.trials if request.trials is not None else defaults.get("trials")
    rounds = request.rounds if request.rounds is not None else defaults.get("rounds")
    seed = DEFAULT_SEED if request.seed is None else request.seed
    settings = experiment.resolve(request.settings or {})
    rounds = count("--rounds", experiment.rounds if rounds is None else rounds)
    traffic = experiment.traffic(settings, rounds)
    device = jax.local_devices()[0]
    statement = None if experiment.statement is None else experiment.statement(settings, rounds)
    return {
        "experiment": experiment.name,
        "title": experiment.title,
        "paper": experiment.paper,
        "findings": experiment.findings,
        "statement": statement,
        "parameter": experiment.sweep.name,
        "parameter_label": experiment.sweep.label,
        "metrics": dict(experiment.metrics),
        "methods": list(traffic),
        "trials": count("--trials", experiment.trials if trials is None else trials),
        "rounds": rounds,
        "seed": count("--seed", seed, at_least=0, at_most=2**32 - 1),
        "settings": {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in settings.items()
        },
        "data": "drawn" if experiment.data is None else experiment.data(settings),
        "devices_per_trial": 1 if request.devices_per_trial is None else request.devices_per_trial,
        "x64": jax.dtypes.canonicalize_dtype("float64") == "float64",
        "quick": quick,
        "traffic": {
            name: None if sizes is None else sizes._asdict() for name, sizes in traffic.items()
        },
        "versions": {
            "fedjax-admm": _version("fedjax-admm"),
            "code": code_digest(),
            "python": platform.python_version(),
            **{name: _version(name) for name in ("jax", "jaxlib", "numpy", "optax")},
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


def _command(experiment: Experiment, config: Mapping[str, Any]) -> str:
    """Return the command that repeats a run, in full."""
    words = ["fedjax-admm", "run", experiment.name]
    for name in ("trials", "rounds", "seed"):
        words += [f"--{name}", str(config[name])]
    for name, value in config["settings"].items():
        if _restored(value) != experiment.defaults()[name]:
            words += ["--set", f"{name}={_as_text(value)}"]
    # The width decides the last bits, and another machine might choose another.
    words += ["--batch", str(config["width"])]
    if config["devices_per_trial"] > 1:
        words += ["--devices-per-trial", str(config["devices_per_trial"])]
    if config["x64"]:
        words.append("--x64")
    return shlex.join(words)


def _collect(
    experiment: Experiment,
    settings: Mapping[str, Any],
    config: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray],
) -> Results:
    """Turn arrays (trial, sweep, round) into the contract's, and counts into traffic."""
    every = recording_interval(config["rounds"], experiment.records)
    rounds = np.arange(every, config["rounds"] + 1, every)
    traffic = experiment.traffic(settings, config["rounds"])
    collected: dict[str, np.ndarray] = {}
    nonfinite: dict[str, np.ndarray] = {}
    for method in config["methods"]:
        prefix = f"{method}/"
        for name, values in arrays.items():
            if not name.startswith(prefix):
                continue
            values, metric = np.swapaxes(values, 0, 1), name.removeprefix(prefix)
            sizes = traffic[method]
            if metric == NONFINITE_ROUND:
                nonfinite[method] = values
            elif metric == MESSAGES:
                assert sizes is not None
                sent = totals(sizes, values, rounds)
                collected[f"{method}/numbers_up"] = sent.up
                collected[f"{method}/numbers_down"] = sent.down
            else:
                collected[name] = values
    sweep = np.asarray(settings[experiment.sweep.name], np.float64)
    return Results(config, sweep, rounds, collected, nonfinite)


def code_digest() -> str:
    """Return a short digest of this package's own source code: a version may change unnoticed."""
    digest = hashlib.sha256()
    for package in ("fedjax_admm", "fedjax_admm.kernels", "fedjax_admm.trials"):
        folder = resources.files(package)
        for path in sorted(Path(str(folder)).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def _restored(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _as_text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(repr(part) for part in value)
    return str(value)
