"""How often regions of located targets hold the truth, by noise and number of anchors.

Anchors and targets are uniform in a square of 60 m, redrawn per trial. The ranges of the largest
number of anchors are drawn, and those beyond the swept number are missing.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm import problems, regions
from fedjax_admm._checks import counted, default_float, option
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.losses import huber
from fedjax_admm.measures import region_coverage
from fedjax_admm.trials import figures
from fedjax_admm.trials.experiments._catalogue import texts
from fedjax_admm.trials.experiments._experiment import Experiment, Settings, Sweep
from fedjax_admm.trials.experiments._methods import Method, at_every_record

LEVELS = {"covered_50": 0.5, "covered_90": 0.9, "covered_95": 0.95}
KINDS = ("sandwich", "information", "parametric", "residual", "conformal")
_HALF_WIDTH = 30.0  # metres
_FIXES = (4, 50)  # of calibration: by clients, and past fixes of each
_STEPS = 15  # of a fit
_REFITS = 6  # steps of a replicate, which starts at the fit


@pytree_dataclass
class Contaminated:
    """Normal errors, and uniform ranges in the place of some."""

    deviation: jax.Array  # shape=(), metres
    share: jax.Array  # shape=()

    def __call__(self, key, distances):
        """Return noisy ranges."""
        normal_key, outlier_key = jax.random.split(key)
        noisy = problems.gaussian_noise(self.deviation)(normal_key, distances)
        return problems.outlier_noise(self.share, 2 * _HALF_WIDTH * 2**0.5)(outlier_key, noisy)


@pytree_dataclass
class Scene:
    """Anchors, of which the first are there, and the key of targets and noise."""

    anchors: jax.Array  # shape=(clients, 2), metres
    present: jax.Array  # shape=(clients,), bool
    key: jax.Array  # shape=()

    def fix(self, key: jax.Array, noise: Any) -> Any:
        """Return the problem of a target."""
        target_key, noise_key = jax.random.split(key)
        dtype = self.anchors.dtype
        target = _HALF_WIDTH * jax.random.uniform(target_key, (2,), dtype, -1, 1)
        exact = jnp.linalg.norm(target[None] - self.anchors, axis=-1)
        ranges = jnp.where(self.present, noise(noise_key, exact), jnp.nan)
        return problems.localization(self.anchors, ranges, sigma=1.0, start=target, target=target)


@pytree_dataclass
class Region(Method):
    """Regions of one kind around the Huber fit, under one noise."""

    noise: Any
    kind: str = option(*KINDS)
    replicates: int = counted()

    def __call__(self, problem, key, rounds, every):
        """Return the coverage at each level, and the size at 90 %."""
        loss = huber(1.345)
        fixes_key, here_key = jax.random.split(problem.key)
        here = problem.fix(here_key, self.noise)
        fit = regions.refine(here, here.start, loss, steps=_STEPS)
        build = self._build(problem, here, fit, loss, key, fixes_key)
        found = {name: region_coverage(here, build(level)) for name, level in LEVELS.items()}
        metrics = {name: measured["covered"] for name, measured in found.items()}
        metrics["radius_90"] = found["covered_90"]["radius"]
        return at_every_record(metrics, fit.position, rounds, every)

    def _build(self, scene, here, fit, loss, key, fixes_key):
        """Return the function from a level to a region."""
        if self.kind in ("parametric", "residual"):
            return regions.bootstrap(
                here,
                fit,
                key,
                loss,
                replicates=self.replicates,
                kind=self.kind,
                steps=_REFITS,
            ).ellipse
        known = regions.covariance(
            here, fit, loss, kind="sandwich" if self.kind == "sandwich" else "information"
        )
        if self.kind != "conformal":
            return partial(regions.ellipse, fit.position, known.position, degrees=known.degrees)

        def score(key):
            past = scene.fix(key, self.noise)
            fit = regions.refine(past, past.start, loss, steps=_STEPS)
            spread = regions.covariance(past, fit, loss, kind="information").position
            return regions.ellipse(fit.position, spread).scores(past.target)

        edges = jnp.geomspace(0.05, 1e3, 400, dtype=default_float())
        scores = jax.vmap(jax.vmap(score))(jax.random.split(fixes_key, _FIXES))
        counts = regions.conformal_counts(scores, edges)

        def build(level):
            radius = regions.conformal_radius(counts, edges, level)
            return regions.ellipse(fit.position, known.position, level, threshold=radius**2)

        return build


def _scene(settings: Settings, anchors: jax.Array, key: jax.Array) -> Scene:
    place_key, rest = jax.random.split(key)
    most = int(max(settings["anchors"]))
    dtype = default_float()
    places = _HALF_WIDTH * jax.random.uniform(place_key, (most, 2), dtype, -1, 1)
    return Scene(places, jnp.arange(most, dtype=dtype) < anchors, rest)


def _methods(settings: Settings, anchors: jax.Array) -> dict[str, Region]:
    number = partial(jnp.asarray, dtype=default_float())
    noises = {
        "normal": problems.gaussian_noise(settings["deviation"]),
        "Cauchy": problems.cauchy_noise(settings["deviation"]),
        "outliers": Contaminated(number(settings["deviation"]), number(settings["share"])),
    }
    return {
        f"{called}: {kind}": Region(noise=noise, kind=kind, replicates=settings["replicates"])
        for called, noise in noises.items()
        for kind in KINDS
    }


EXPERIMENTS = (
    Experiment(
        **texts(__file__)["localization-coverage"],
        sweep=Sweep("anchors", "number of anchors", (6.0, 21.0)),
        problem=_scene,
        methods=_methods,
        metrics={
            **{name: f"coverage of {level:.0%} regions" for name, level in LEVELS.items()},
            "radius_90": "radius of the 90 % region (m)",
        },
        settings={"deviation": 1.0, "share": 0.1, "replicates": 200},
        rounds=1,
        records=1,
        quick={"trials": 40, "rounds": 1},
        figure=partial(figures.coverage_figure, levels=LEVELS),
    ),
)
