"""Problems of ranges with offsets, gaps and clocks, and their terms one by one."""

from functools import partial

import jax
import numpy as np

import fedjax_admm as fa

LOSSES = {
    "squared": fa.losses.squared,
    "huber": partial(fa.losses.huber, 1.345),
    "soft l1": partial(fa.regions.soft_l1, 1.0),
    "cauchy": partial(fa.regions.cauchy, 2.0),
}
"""Builders: the numbers of a loss have the dtype of the session."""

REFINE = jax.jit(fa.regions.refine, static_argnames="steps")
COVARIANCE = jax.jit(fa.regions.covariance, static_argnames="kind")
BOOTSTRAP = jax.jit(fa.regions.bootstrap, static_argnames=("replicates", "kind", "steps"))


def drawn(*, dim=2, clients=6, times=3, ranges=2, seed=0, clock=False, gaps=0.15, **options):
    """Return a problem of a path, of which some ranges are missing, and its positions."""
    generator = np.random.default_rng(seed)
    anchors = generator.uniform(-20, 20, (clients, dim))
    target = generator.uniform(-8, 8, (times, dim))
    exact = np.linalg.norm(target[None] - anchors[:, None], axis=-1) + 1.5 * clock
    if "offset_scale" in options:
        exact = exact + generator.uniform(0, 2, (clients, 1))
    measured = exact[..., None] + 0.3 * generator.standard_t(3, (clients, times, ranges))
    measured[generator.random(measured.shape) < gaps] = np.nan
    problem = fa.problems.localization(
        anchors,
        measured,
        sigma=generator.uniform(0.2, 0.5, clients),
        start=target + generator.normal(0, 1, target.shape),
        target=target,
        clock=clock,
        path=True,
        **options,
    )
    return problem, target


def terms_of(problem):
    """Return anchor, time, range and weight of every range that there is, one by one."""
    weights = np.asarray(problem.weights * problem.unit)
    ranges = np.asarray(problem.ranges)
    return [
        (anchor, time, ranges[anchor, time, i], weights[anchor, time, i])
        for anchor, time, i in zip(*np.nonzero(weights), strict=True)
    ]


def prior_of(problem):
    """Return the centre and the precision of the offsets' prior, zero without offsets."""
    if problem.offsets is None:
        return np.zeros(problem.num_clients), np.zeros(problem.num_clients)
    offsets = problem.offsets
    return np.asarray(offsets.centre), np.asarray(offsets.precision * problem.unit)
