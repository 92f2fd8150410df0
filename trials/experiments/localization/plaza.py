"""Real ranges: a lawn mower and four ultra-wideband tags, or a twin of the same shape.

A trial is one range of the log, drawn at random. Methods of a window have the 15 ranges around it
and take the mower to stand still; a path has all ranges. With `corrected` at 0 ranges are as they
were measured, and the path has neither offsets nor a scale; at 1 the path finds them, and windows
have them from it. Where GTSAM is installed, its batch with the same odometry is one more path: of
ranges as measured, and divided by the scale. The true path is only compared.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm import losses, regions
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.direct import dead_reckoning, locate_path
from fedjax_admm.measures import localization_error, position_error
from fedjax_admm.problems import RangeLocalization, localization
from fedjax_admm.solvers import fsmdm
from fedjax_admm.trials import figures
from fedjax_admm.trials.experiments._catalogue import texts
from fedjax_admm.trials.experiments._data import data_file
from fedjax_admm.trials.experiments._experiment import Experiment, Settings, Sweep
from fedjax_admm.trials.experiments._methods import DirectMethod, SolverMethod
from fedjax_admm.trials.experiments.localization import _gtsam
from fedjax_admm.trials.tables._kits import KitLog, read_kit


def load(data: str) -> tuple[KitLog, str]:
    """Return the log, and what it is in a few words."""
    path = data_file(data, ("plaza1/ranges.csv",), "the file of ranges of a kit")
    if path is None:
        return _twin(), "a synthetic twin of Plaza 1"
    log = _read(path)
    extent = f"{len(log.times)} ranges of {len(log.anchors)} anchors"
    return log, f"the kit in {path.parent.name}, {extent}"


@cache
def _read(path: Path) -> KitLog:
    return read_kit(
        path, *(path.with_name(f"{name}.csv") for name in ("tags", "odometry", "truth"))
    )


@cache
def _twin() -> KitLog:
    """Return a drive of 600 s with ranges that are 7 % too long, and errors of 0.5 m."""
    random, rows = np.random.default_rng(2009), 1200
    anchors = np.array([[-46.0, 11.0], [11.0, -7.0], [22.0, 24.0], [-18.0, 59.0]])
    ends = np.arange(0, 600, 0.2)
    angle = ends / 30
    places = np.stack([-15 + 20 * np.sin(angle), 22 + 22 * np.sin(1.7 * angle)], -1)
    ahead = np.diff(places, axis=0, prepend=places[:1])
    heading = np.unwrap(np.arctan2(*np.gradient(places, axis=0).T[::-1]))
    turned = np.diff(heading, prepend=heading[:1]) + 1e-4 * random.normal(size=len(ends))
    times = np.sort(random.uniform(0, 599, rows))
    truth = np.stack([np.interp(times, ends, column) for column in places.T], -1)
    anchor = random.integers(0, 4, rows)
    distance = np.linalg.norm(truth - anchors[anchor], axis=1)
    return KitLog(
        names=tuple("0165"),
        anchors=anchors,
        plane=None,
        times=times,
        anchor=anchor,
        ranges=1.07 * distance + 0.5 * random.normal(size=rows),
        sigma=None,
        lines=np.arange(rows) + 2,
        missing=0,
        unknown=(),
        odometry=np.stack([ends, np.linalg.norm(ahead, axis=1), turned], -1),
        truth=np.concatenate([ends[:, None], places], 1),
    )


@pytree_dataclass
class PlazaWindow(RangeLocalization):
    """The window around one range, and where the paths of all ranges have the mower."""

    by_odometry: Any = None  # shape=(dim,), metres
    by_velocity: Any = None  # shape=(dim,), metres
    by_gtsam: Any = None  # shape=(dim,), metres; None where GTSAM is not installed


@cache
def _prepared(data: str) -> dict[str, np.ndarray]:
    """Return windows and paths of a log, raw and corrected: leading axes (2, rows).

    The caller is being traced, which does not reach a thread of its own.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(_located, load(data)[0]).result()


def _located(log: KitLog) -> dict[str, np.ndarray]:
    assert log.odometry is not None
    assert log.truth is not None
    moves, turns = dead_reckoning(log.times, *log.odometry.T)
    rows = log.anchors, log.anchor, log.ranges, log.times
    found: dict[str, list[np.ndarray]] = {"ranges": [], **{name: [] for name in _paths()}}
    with jax.enable_x64(True):
        for free in (False, True):
            driven = locate_path(*rows, moves=moves, turns=turns, offsets=free, scale=free)
            path = locate_path(*rows, offsets=free, scale=free)
            found["by_odometry"].append(np.asarray(driven.positions))
            found["by_velocity"].append(np.asarray(path.positions))
            known = (log.ranges - np.asarray(path.offsets)[log.anchor]) / float(path.scale)
            found["ranges"].append(log.windows(known))
            if _gtsam.installed():
                places = found["by_odometry"][-1]
                batch = _gtsam.batch_positions(log, moves, turns, known, places)
                found["by_gtsam"].append(batch)
    truth = [np.interp(log.times, log.truth[:, 0], column) for column in log.truth[:, 1:].T]
    return {**{name: np.stack(each) for name, each in found.items()}, "target": np.stack(truth, -1)}


def _problem(settings: Settings, corrected: jax.Array, key: jax.Array) -> PlazaWindow:
    log, _ = load(settings["data"])
    whole = _prepared(settings["data"])
    row = jax.random.randint(key, (), 0, len(log.times))
    given = (jnp.asarray(corrected) > 0.5).astype(jnp.int32)
    target = jnp.asarray(whole["target"], jnp.float32)[row]

    def at(name: str) -> jax.Array:
        return jnp.asarray(whole[name], target.dtype)[given, row]

    anchors = jnp.asarray(log.anchors, target.dtype)
    problem: Any = localization(anchors, at("ranges"), sigma=1.0, target=target)
    paths: dict[str, Any] = {name: at(name) for name in _paths()}
    return PlazaWindow(**vars(problem), **paths)


def _refined(build: Callable[[], Any], problem: PlazaWindow) -> jax.Array:
    return regions.refine(problem, problem.start, build()).position


def _path_of(name: str, problem: PlazaWindow) -> jax.Array:
    return getattr(problem, name)


_PATHS = {
    "by_velocity": "path by velocity",
    "by_odometry": "path by odometry",
    "by_gtsam": "GTSAM's batch",
}
_DIRECT = {
    "least squares": partial(_refined, losses.squared),
    "Huber": partial(_refined, partial(losses.huber, 1.345)),
    "soft l1": partial(_refined, regions.soft_l1),
    **{called: partial(_path_of, name) for name, called in _PATHS.items()},
}


def _paths() -> list[str]:
    """Return the paths that can be had here."""
    return [name for name in _PATHS if name != "by_gtsam" or _gtsam.installed()]


def _methods(settings: Settings, corrected: jax.Array) -> dict[str, Any]:
    missing = {_PATHS[name] for name in _PATHS.keys() - set(_paths())}
    return {
        "FSMDM": SolverMethod(fsmdm(), localization_error),
        "FSMDM tuned": SolverMethod(fsmdm("tuned"), localization_error),
        **{
            name: DirectMethod(solve, position_error)
            for name, solve in _DIRECT.items()
            if name not in missing
        },
    }


def _describe(settings: Settings) -> str:
    return load(settings["data"])[1]


def _without_gtsam(settings: Settings, rounds: int) -> str:
    return "" if _gtsam.installed() else "GTSAM's batch is left out: gtsam is not installed."


EXPERIMENTS = (
    Experiment(
        **texts(__file__)["localization-plaza"],
        metrics={"error": "localisation error (m)", "failure": "share of trials above 3 m"},
        sweep=Sweep("corrected", "whether offsets and the scale are found", (0.0, 1.0)),
        problem=_problem,
        methods=_methods,
        settings={"data": ""},
        rounds=300,
        quick={"trials": 60, "rounds": 100},
        data=_describe,
        statement=_without_gtsam,
        shown=("FSMDM tuned", "least squares", "soft l1", *_PATHS.values()),
        figure=partial(figures.sweep_figure, metric="error", share="failure", floor=1e-2),
    ),
)
