"""How often regions around a located target hold it, by noise, level and number of anchors.

Anchors and targets are uniform in a square of 60 m. The ranges of the largest number of anchors are
drawn, and those beyond the swept number are missing. One Huber fit, which starts at the truth, is
the centre of all regions; the calibration of the conformal ones are past fixes of other targets
with the same anchors and noise.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm import problems, regions
from fedjax_admm._checks import count, default_float
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.losses import huber
from fedjax_admm.measures import region_coverage
from fedjax_admm.trials import figures
from fedjax_admm.trials.experiments._catalogue import texts
from fedjax_admm.trials.experiments._experiment import Experiment, Settings, Sweep
from fedjax_admm.trials.experiments._methods import Method, at_every_record

LEVELS = {"covered_50": 0.5, "covered_90": 0.9, "covered_95": 0.95}
NOISES = ("normal", "Cauchy", "outliers")
KINDS = ("information", "sandwich", "parametric bootstrap", "residual bootstrap", "conformal")
_HALF_WIDTH = 30.0  # metres
_SIZES = ("clients", "past", "targets", "replicates")
_STEPS = 10  # of a fit
_EDGES = 4000  # of scores, half a percent apart: ends 1e-3 and 1e5


@pytree_dataclass
class Measured:
    """What was measured of all regions under all kinds of noise."""

    metrics: dict[str, jax.Array]  # each of shape=(noises, kinds)
    positions: jax.Array  # shape=(noises, targets, dim), metres


@pytree_dataclass
class Region(Method):
    """Regions of one kind under one noise."""

    noise: jax.Array  # shape=(): index of `NOISES`
    kind: jax.Array  # shape=(): index of `KINDS`

    def __call__(self, problem, key, rounds, every):
        """Return the coverage at each level, and the size at 90 %."""
        metrics = {name: found[self.noise, self.kind] for name, found in problem.metrics.items()}
        return at_every_record(metrics, problem.positions[self.noise], rounds, every)


def _problem(settings: Settings, anchors: jax.Array, key: jax.Array) -> Measured:
    sizes = {name: count(name, settings[name]) for name in _SIZES}
    most = int(max(settings["anchors"]))
    deviation = settings["deviation"]
    noises = [(deviation, 0.0, 0.0), (0.0, deviation, 0.0), (deviation, 0.0, settings["share"])]
    dtype = default_float()
    number, noises = jnp.asarray(anchors, dtype), jnp.asarray(noises, dtype)
    return _measured(number, noises, key, most=most, **sizes)


@partial(jax.jit, static_argnames=("most", *_SIZES))  # traced once for all swept values
def _measured(
    anchors: jax.Array,
    noises: jax.Array,
    key: jax.Array,
    *,
    most: int,
    clients: int,
    past: int,
    targets: int,
    replicates: int,
) -> Measured:
    """Measure all regions under noises, each `deviation, scale, share`: shape (noises, 3)."""
    dtype, loss = noises.dtype, huber(1.345)
    place_key, past_key, new_key, draw_key = jax.random.split(key, 4)
    places = _HALF_WIDTH * jax.random.uniform(place_key, (most, 2), dtype, -1, 1)
    present = jnp.arange(most, dtype=dtype) < anchors
    edges = jnp.geomspace(1e-3, 1e5, _EDGES, dtype=dtype)
    levels = jnp.asarray(list(LEVELS.values()), dtype)

    def fix(key: jax.Array, noise: jax.Array) -> tuple[Any, Any, Any]:
        """Return a target with its ranges, their fit, and its covariance by the information."""
        target_key, noise_key = jax.random.split(key)
        target = _HALF_WIDTH * jax.random.uniform(target_key, (2,), dtype, -1, 1)
        exact = jnp.linalg.norm(target[None] - places, axis=-1)
        ranges = jnp.where(present, noisy(noise_key, exact, noise), jnp.nan)
        here = problems.localization(places, ranges, sigma=1.0, target=target)
        fit = regions.refine(here, target, loss, steps=_STEPS)
        return here, fit, regions.covariance(here, fit, loss, kind="information")

    def covered(key: jax.Array, here: Any, fit: Any, known: Any, counts: jax.Array) -> Any:
        """Return what is measured at every level of all kinds of regions around a fit."""
        sandwich = regions.covariance(here, fit, loss, kind="sandwich")
        drawn = [
            regions.bootstrap(here, fit, own, loss, replicates=replicates, kind=kind, steps=_STEPS)
            for own, kind in zip(jax.random.split(key), ("parametric", "residual"), strict=True)
        ]

        def at(level: jax.Array) -> dict[str, jax.Array]:
            around = partial(regions.ellipse, fit.position)
            normal = around(known.position, level, degrees=known.degrees)
            radius = regions.conformal_radius(counts, edges, level)
            built = (
                normal,
                around(sandwich.position, level, threshold=normal.threshold),
                *(each.ellipse(level) for each in drawn),
                around(known.position, level, threshold=radius**2),
            )
            together = jax.tree.map(lambda *leaves: jnp.stack(leaves), *built)
            return jax.vmap(partial(region_coverage, here))(together)

        return jax.vmap(at)(levels)

    def under(noise: jax.Array) -> tuple[dict[str, jax.Array], jax.Array]:
        """Return the metrics, each of shape (kinds,), and the positions of the new targets."""
        # The fixes of the past and the new ones are one batch of one fit.
        past_keys = jax.random.split(past_key, clients * past)
        keys = jnp.concatenate([past_keys, jax.random.split(new_key, targets)])
        fixes = jax.vmap(fix, (0, None))(keys, noise)
        here, fit, known = jax.tree.map(lambda leaf: leaf[-targets:], fixes)
        there, fits, covariances = jax.tree.map(lambda leaf: leaf[:-targets], fixes)
        scores = regions.ellipse(fits.position, covariances.position).scores(there.target)
        counts = regions.conformal_counts(scores.reshape(-1, past), edges)
        found = jax.vmap(covered, (0, 0, 0, 0, None))(
            jax.random.split(draw_key, targets), here, fit, known, counts
        )
        means = jax.tree.map(lambda leaf: jnp.mean(leaf, 0), found)  # of targets: (levels, kinds)
        metrics = {name: means["covered"][place] for place, name in enumerate(LEVELS)}
        metrics["radius_90"] = means["radius"][list(LEVELS).index("covered_90")]
        return metrics, fit.position

    return Measured(*jax.vmap(under)(noises))


def noisy(key: jax.Array, exact: jax.Array, noise: jax.Array) -> jax.Array:
    """Add normal and Cauchy errors, and put uniform ranges in the place of a share."""
    deviation, scale, share = noise
    normal_key, cauchy_key, outlier_key = jax.random.split(key, 3)
    measured = problems.gaussian_noise(deviation)(normal_key, exact)
    measured = problems.cauchy_noise(scale)(cauchy_key, measured)
    return problems.outlier_noise(share, 2 * _HALF_WIDTH * 2**0.5)(outlier_key, measured)


def _methods(settings: Settings, anchors: jax.Array) -> dict[str, Region]:
    return {
        f"{noise}{figures.SEPARATOR}{kind}": Region(jnp.asarray(i), jnp.asarray(j))
        for i, noise in enumerate(NOISES)
        for j, kind in enumerate(KINDS)
    }


EXPERIMENTS = (
    Experiment(
        **texts(__file__)["localization-coverage"],
        sweep=Sweep("anchors", "number of anchors", (6.0, 21.0)),
        problem=_problem,
        methods=_methods,
        metrics={
            **{name: f"coverage of {level:.0%} regions" for name, level in LEVELS.items()},
            "radius_90": "radius of the 90 % region (m)",
        },
        settings={
            "deviation": 1.0,
            "share": 0.1,
            "replicates": 100,
            "targets": 8,
            "clients": 4,
            "past": 100,
        },
        rounds=1,
        records=1,
        quick={"trials": 10, "rounds": 1},
        figure=partial(figures.coverage_figure, levels=LEVELS, leading="covered_90"),
    ),
)
