"""The experiment of regions: what its noise is, and that a small run covers as it should."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm.trials.experiments import find
from fedjax_admm.trials.experiments.localization import coverage
from fedjax_admm.trials.running import Request, run_experiment
from tests.memory import drop_programs

FARTHEST = 60 * 2**0.5  # the diagonal of the square, metres


def test_three_numbers_say_what_the_noise_is():
    exact = jnp.full(20_000, 40.0)

    def errors(*noise):
        return np.asarray(coverage.noisy(jax.random.key(0), exact, jnp.asarray(noise)) - exact)

    # The mean of 20,000 normal errors of 2 m is within 5 standard errors, 0.07 m; so is their size.
    normal = errors(2.0, 0.0, 0.0)
    assert abs(normal.mean()) < 0.07
    assert abs(normal.std() - 2) < 0.07
    # Half of the Cauchy errors are within the scale.
    assert abs((np.abs(errors(0.0, 2.0, 0.0)) < 2).mean() - 0.5) < 0.02
    outliers = errors(0.0, 0.0, 0.1)
    wrong = outliers != 0
    assert abs(wrong.mean() - 0.1) < 0.011
    ranges = outliers[wrong] + 40
    assert ranges.min() >= 0
    assert ranges.min() < 5
    assert FARTHEST - 5 < ranges.max() <= FARTHEST


@pytest.mark.thorough
def test_regions_grow_with_the_level_and_conformal_ones_cover(tmp_path):
    settings = {"replicates": "20", "targets": "4"}
    request = Request(trials=60, settings=settings)
    experiment = find("localization-coverage")
    run = run_experiment(experiment, request, tmp_path / "run", resume=False, progress=False)
    assert len(run.methods) == len(coverage.NOISES) * len(coverage.KINDS)
    assert not any(bad.any() for bad in run.nonfinite.values())
    for name in run.methods:
        covered = [run.values(name, level)[..., -1] for level in coverage.LEVELS]
        for low, high in pairwise(covered):
            assert (low <= high).all()
        assert (run.values(name, "radius_90") > 0).all()
        if name.endswith("conformal"):
            for share, level in zip(covered, coverage.LEVELS.values(), strict=True):
                # 240 targets, 4 standard errors, of which those of the calibration are a part.
                assert (abs(share.mean(1) - level) < 4.5 * (level * (1 - level) / 240) ** 0.5).all()
    # The geometry gets better with anchors.
    six, many = run.values("normal: conformal", "radius_90")[..., -1].mean(1)
    assert many < six
    drop_programs()
