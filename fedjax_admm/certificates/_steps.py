r"""Stable steps of private networked ADMM, computed on the host before a run.

Without noise, for quadratic f_k with Hessians H_k and a constant step eta, zCDP-NFL converges if

    4 (1/eta + 2 rho D) x I - 3 rho L x I - 2 blockdiag(H_k)   is positive definite

(D degrees, L Laplacian, x the Kronecker product); where this first fails an eigenvalue of the
recursion is -1. The largest safe step is 4 over the largest eigenvalue of `3 rho L x I + 2
blockdiag(H_k) - 8 rho D x I`; if that is not positive, every step is safe. Losses with a curvature
of at most c count as quadratics with that curvature.

A decreasing step may begin above the largest safe one: what grows before it is safe shrinks
afterwards, if there is not too much of it. A client's mode grows by at most `m - 1` in a round, m
the largest eigenvalue of `(1/eta + 2 rho D)^(-1) (blockdiag(H_k) + 2 rho L)`.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import (
    is_concrete,
    refuse,
    scalar,
)
from fedjax_admm.capabilities import LinearModels, OnGraph, has, needs

LARGEST_GROWTH = 1e3
"""By how much errors may grow before a decreasing step is safe."""

_STRETCHES = 50


@needs(OnGraph, LinearModels)
def largest_safe_step(problem: Any, rho: float) -> float:
    """Return the largest constant step of `private_networked_admm` that is stable without noise.

    Args:
      problem: a `ConsensusRegression`, not traced.
      rho: weight of the constraints.

    Returns:
      The step, infinite if every step is stable; exact for least squares, a lower bound for other
      smooth losses.
    """
    scalar("rho", rho, at_least=0)
    network = _Network(problem)
    return network.largest_safe_step(float(rho))


def check_stability(problem: Any, rho: Any, step_size: Any, rounds: int, clipped: bool) -> None:
    """Check that a run is stable; traced values, and losses without linear models, are not checked.

    A constant step must be safe. One that decreases must become safe in time: without clipping,
    before errors have grown by `LARGEST_GROWTH`; with clipping, which bounds the gradients, before
    the last round.

    Args:
      problem: a `ConsensusRegression`.
      rho: weight of the constraints.
      step_size: the schedule of steps.
      rounds: of the run.
      clipped: whether gradients are clipped.

    Raises:
      InputError: the step is too large; the sentence names the largest safe one.
    """
    if rounds == 0 or not is_concrete((problem, rho, step_size)) or np.ndim(rho):
        return
    if not has(problem, OnGraph, LinearModels):
        return
    # Inside a trace even operations on constants would be traced.
    with jax.ensure_compile_time_eval():
        _check(problem, rho, step_size, rounds, clipped)


def _check(problem: Any, rho: Any, step_size: Any, rounds: int, clipped: bool) -> None:
    steps = np.asarray(step_size(jnp.arange(1, rounds + 1, dtype=jnp.int32)), np.float64)
    network, weight = _Network(problem), float(rho)
    if np.max(steps) <= network.always_safe_step(weight):
        return
    safe = network.largest_safe_step(weight)
    unsafe = steps > safe
    if not unsafe.any():
        return
    limit = f"the largest safe step is {safe:.3g} for rho = {weight:g}"
    remedy = "take less, or a larger {rho}"
    told = f"must become safe, but it is {steps[-1]:.3g} at release {rounds}, and {limit}"
    refuse(unsafe[-1], "step_size", told, remedy=remedy)
    if clipped:
        return
    # Where there are many unsafe releases, the largest step of a stretch stands for all of it.
    stretches = np.array_split(steps[unsafe], min(unsafe.sum(), _STRETCHES))
    rates = [max(1.0, network.growth(weight, float(part.max()))) for part in stretches]
    lengths = [part.size for part in stretches]
    growth = np.exp(min(600.0, np.dot(lengths, np.log(rates))))
    told = f"is unsafe for {unsafe.sum()} releases, in which errors grow by {growth:.1g}; {limit}"
    refuse(growth > LARGEST_GROWTH, "step_size", told, remedy=remedy)


class _Network:
    """The Hessians and the graph of a problem, as NumPy arrays."""

    def __init__(self, problem: Any) -> None:
        x = np.asarray(problem.features, np.float64)
        shares = np.asarray(problem.shares, np.float64)
        clients, _, dim = x.shape
        with np.errstate(over="ignore", invalid="ignore"):
            grams = np.einsum("kmp,km,kmq->kpq", x, shares, x, optimize=True)
        ridge = 2 * float(problem.l2) / clients
        self.hessians = problem.loss.largest_curvature() * grams + ridge * np.eye(dim)
        large = not np.all(np.isfinite(self.hessians))
        refuse(large, "features", "are too large for their curvature", remedy="take another unit")
        self.degrees = np.asarray(problem.graph.degrees, np.float64)
        present = np.asarray(problem.graph.present)
        self.heads = np.asarray(problem.graph.heads)[present]
        self.tails = np.asarray(problem.graph.tails)[present]

    def always_safe_step(self, rho: float) -> float:
        """Return a step that is safe because L is at most 2 D: cheap, and not the largest one."""
        steepest = np.linalg.eigvalsh(self.hessians)[:, -1]
        least = np.max(steepest - rho * self.degrees)
        return 2 / least if least > 0 else np.inf

    def largest_safe_step(self, rho: float) -> float:
        """Return 4 over the largest eigenvalue of 3 rho L + 2 H - 8 rho D."""

        def apply(w):
            return (
                3 * rho * self.laplacian(w)
                + 2 * np.einsum("kpq,kq->kp", self.hessians, w)
                - 8 * rho * self.degrees[:, None] * w
            )

        largest = _largest_eigenvalue(apply, self.hessians.shape[:2])
        return 4 / largest if largest > 0 else np.inf

    def growth(self, rho: float, step: float) -> float:
        """Return a bound of the growth of any mode in one round with this step."""
        roots = 1 / np.sqrt(1 / step + 2 * rho * self.degrees)[:, None]

        def apply(w):
            z = roots * w
            return roots * (np.einsum("kpq,kq->kp", self.hessians, z) + 2 * rho * self.laplacian(z))

        return _largest_eigenvalue(apply, self.hessians.shape[:2]) - 1

    def laplacian(self, w: np.ndarray) -> np.ndarray:
        """Return L w for w (clients, dim)."""
        flows = w[self.heads] - w[self.tails]
        out = np.zeros_like(w)
        np.add.at(out, self.heads, flows)
        np.subtract.at(out, self.tails, flows)
        return out


def _largest_eigenvalue(apply: Any, shape: tuple[int, ...]) -> float:
    """Return the largest eigenvalue of a symmetric operator by Lanczos' method.

    Reference: G. H. Golub, C. F. Van Loan, "Matrix Computations", 4th edition, section 10.1.
    """
    size = int(np.prod(shape))
    steps = min(size, _LANCZOS_STEPS)
    basis = np.zeros((steps + 1, size))
    start = np.random.default_rng(0).standard_normal(size)
    basis[0] = start / np.linalg.norm(start)
    projected = np.zeros((steps, steps))
    for k in range(steps):
        image = apply(basis[k].reshape(shape)).ravel()
        coefficients = basis[: k + 1] @ image
        projected[: k + 1, k] = projected[k, : k + 1] = coefficients
        image -= basis[: k + 1].T @ coefficients
        image -= basis[: k + 1].T @ (basis[: k + 1] @ image)
        length = np.linalg.norm(image)
        if length <= 1e-12 * np.abs(projected).max():
            return float(np.linalg.eigvalsh(projected[: k + 1, : k + 1])[-1])
        basis[k + 1] = image / length
        if k + 1 < steps:
            projected[k + 1, k] = projected[k, k + 1] = length
    return float(np.linalg.eigvalsh(projected)[-1])


_LANCZOS_STEPS = 150
