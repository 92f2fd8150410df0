"""Draw the figure of the README: one trial on a map, and the errors of a thousand trials.

`python docs/draw_front.py` writes `docs/static/front.png`: four methods on 21 sensors in a square,
of whose ranges a fifth are outliers.
"""

from pathlib import Path

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import fedjax_admm as fa
from fedjax_admm.trials import monte_carlo

ROUNDS, TRIALS, SHARE, SHOWN = 1000, 1000, 0.2, 1
STEPS = fa.solvers.subgradient_steps()
METHODS = {
    "FSMDM, tuned": fa.solvers.fsmdm("tuned"),
    "FSMDM, as published": fa.solvers.fsmdm(),
    "subgradient": fa.solvers.fed_subgradient(STEPS["100 k^-1"]),
}
LAST = "least squares"
COLOURS = ("#0072b2", "#e69f00", "#009e73", "#cc3311")


def problem_of(key):
    """Return a trial's problem: sensors, a target and ranges in a square of 60 m."""
    noise = fa.problems.outlier_noise(SHARE, 60 * 2**0.5)
    return fa.problems.draw_localization(key, noise, dim=2)


def trial(key):
    """Return the errors of every method along the rounds, and its last estimate."""
    problem, results = problem_of(key), {}
    for name, solver in METHODS.items():
        run = fa.run(
            solver, problem, key, rounds=ROUNDS, every=10, measure=fa.measures.localization_error
        )
        results |= {f"error {name}": run.trace["error"], f"estimate {name}": run.estimate}
    least = fa.regions.refine(problem, problem.start, fa.losses.squared()).position
    error = jnp.linalg.norm(least - problem.target)
    rounds = results[f"error {name}"].shape
    return results | {"error " + LAST: jnp.broadcast_to(error, rounds), "estimate " + LAST: least}


def main():
    """Draw both panels."""
    key = jax.random.key(7)
    arrays = monte_carlo(trial, key, TRIALS).arrays
    problem = problem_of(jax.random.split(key, TRIALS)[SHOWN])
    figure, (place, curve) = plt.subplots(
        1, 2, figsize=(9, 4.2), layout="constrained", width_ratios=(1, 1.15)
    )
    figure.suptitle("Least squares follows the outliers; robust methods do not")
    anchors = np.asarray(problem.anchors)
    off = np.abs(np.asarray(problem.residuals(problem.target))) > 1
    place.plot(*anchors[~off].T, "o", color="0.45", label="sensor")
    place.plot(*anchors[off].T, "x", color="0.45", label="sensor whose range is an outlier")
    place.plot(*np.asarray(problem.target), "*", color="black", markersize=14, label="target")
    for colour, name in zip(COLOURS, (*METHODS, LAST), strict=True):
        estimate = arrays[f"estimate {name}"][SHOWN]
        place.plot(*estimate, "D", color=colour, markerfacecolor="none", markersize=9)
        errors = arrays[f"error {name}"]
        rounds = 10 * np.arange(1, errors.shape[1] + 1)
        middle, last = errors.mean(0), errors[:, -1]
        print(
            f"{name}: mean {last.mean():.3g} m, median {np.median(last):.3g} m, "
            f"above 3 m in {(last > 3).mean():.1%}"
        )
        curve.plot(rounds, middle, color=colour)
        curve.annotate(
            f" {name}", (rounds[-1], middle[-1]), color=colour, va="center", annotation_clip=False
        )
    place.set(xlabel="metres", ylabel="metres", aspect="equal")
    place.set_title("one trial: a fifth of the ranges are outliers", fontsize="medium")
    figure.legend(loc="outside lower left", ncols=3, frameon=False)
    curve.set(xlabel="round", ylabel="mean error (m)", xscale="log", yscale="log")
    curve.set_title(f"{TRIALS} trials", fontsize="medium")
    for axes in (place, curve):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(Path(__file__).parent / "static" / "front.png", dpi=120)


if __name__ == "__main__":
    main()
