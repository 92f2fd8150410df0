r"""P-ADMM: private networked ADMM with exact local minimisation, a baseline of zCDP-NFL.

    w_k     <- argmin_w f_k(w) + w^T gamma_k + rho sum_l || w - (v_k + v_l) / 2 ||^2
    v_k     <- w_k + noise of sensitivity 2 c / ( M_k (2 rho d_k + 2 l2 / K) )
    gamma_k <- gamma_k + rho sum_l (v_k - v_l)

The symbols are those of `private_networked_admm`; K is the number of clients and l2 the weight of
||w||^2. The losses must be smooth and have no l1 term. With clipping, f_k has the loss whose slopes
are the clipped ones, which is Huber's loss for squares. The sensitivity follows from the part of
the strong convexity that does not depend on data. It is that of the exact minimiser, which damped
Newton steps reach to rounding.

**Messages** (`exchange`) are those of `private_networked_admm`: after the release, without an
aggregator.

Reference: J. Ding, Y. Gong, M. Pan, Z. Han, "Optimal Differentially Private ADMM for Distributed
Machine Learning", IEEE Big Data 2019.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import InputError, build, counted, is_concrete, positive, refuse
from fedjax_admm._linear_algebra import positive_inverse
from fedjax_admm.capabilities import ClippedGradients, Gradients, LinearModels, OnGraph
from fedjax_admm.kernels import project_l2_ball, safe_norm
from fedjax_admm.participation import where_active
from fedjax_admm.privacy import Release
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers._graph import Heard
from fedjax_admm.solvers.private._network import (
    DualFlows,
    PrivateClients,
    public_sizes,
    released,
    released_gradients,
    without_mean,
)

_HIGHEST = jax.lax.Precision.HIGHEST
# Where all samples are clipped, Newton's step may be many times too long.
_HALVINGS = 40


@roles.pytree_dataclass
class PADMM(DualFlows):
    """P-ADMM; build it with `p_admm`."""

    release: Release = released()
    rho: jax.Array = positive()  # shape=(): weight of the constraints
    exchange: roles.Exchange = without_mean()  # of v, after the release
    newton_steps: int = counted()

    requires: ClassVar[tuple[type, ...]] = (OnGraph, Gradients, ClippedGradients, LinearModels)

    def check(self, problem, rounds: int) -> None:
        """Check that the noise is planned for so many rounds, and that the losses are smooth."""
        super().check(problem, rounds)
        refuse(
            not problem.loss.smooth,
            "loss",
            f"must be smooth for P-ADMM, but it is {type(problem.loss).__name__}",
            remedy="use private_networked_admm",
        )
        if is_concrete(problem.l1) and float(problem.l1) != 0:
            raise InputError(
                f"must be 0 for P-ADMM, but it is {float(problem.l1):g}",
                argument="l1",
                value=problem.l1,
                remedy="use private_networked_admm",
            )

    def node(self, problem, nodes: PrivateClients, heard: Heard, key) -> PrivateClients:
        """Return w_k, and v_k, which is w_k with noise."""
        weight = 2 * self.rho * problem.graph.degrees.astype(self.rho.dtype)
        # gamma_k - rho sum_l (v_k + v_l), as sum_l (v_k + v_l) = 2 d_k v_k - (L v)_k.
        pull = heard.gathered - weight[:, None] * heard.known
        w = self._minimize(problem, nodes.w, pull, weight)
        gain = self.gains(problem, nodes.releases + 1)
        # Around the minimiser without data, pull and model cancel.
        size = 4 * gain * public_sizes(pull)
        return self.published(problem, nodes, w, gain, size, key)

    def gains(self, problem, n: jax.Array) -> jax.Array:
        """Return by how much w_k moves at most per unit of the gradient, shape (clients,)."""
        degrees = problem.graph.degrees.astype(self.rho.dtype)
        return 1 / (2 * self.rho * degrees + 2 * problem.l2 / problem.num_clients)

    def _minimize(self, problem, start, pull, weight) -> jax.Array:
        """Return `argmin f_k(w) + w^T pull_k + weight_k ||w||^2 / 2`, shape (clients, dim)."""
        clip = self.release.clip
        modulus = (weight + 2 * problem.l2 / problem.num_clients)[:, None]
        rows = problem.rows(clip)
        identity = jnp.eye(start.shape[-1], dtype=start.dtype)[None]

        def newton(w, _):
            slope = released_gradients(problem, self.release, w) + pull + weight[:, None] * w
            bent = problem.curvatures(w, clip) * problem.shares
            if clip is not None:  # what is much steeper than the rest is a wall, however steep
                bent = jnp.minimum(bent, modulus / (16 * w.shape[-1] * jnp.finfo(w.dtype).eps))
            hessian = jnp.einsum("kmp,km,kmq->kpq", rows, bent, rows, precision=_HIGHEST)
            inverse = positive_inverse(hessian + modulus[..., None] * identity)
            direction = jnp.einsum("kpq,kq->kp", inverse, slope, precision=_HIGHEST)
            length = _length(problem, clip, w, direction, pull, modulus)
            new = w - length[:, None] * direction
            return (new if clip is None else _kept(new, -pull / modulus, clip / modulus)), None

        return jax.lax.scan(newton, start, length=self.newton_steps)[0]


def _kept(w, centre, radius) -> jax.Array:
    """Return models that are in a ball, and the nearest ones in it of others; shape (clients, dim).

    Clipped gradients are no longer than the norm, so that the minimiser is no farther from that
    without data than the norm over the modulus. No rounding and no sample carry a model out of it.
    """
    offset = w - centre
    length = safe_norm(offset)[:, None]
    nearest = centre + jnp.where(length < jnp.inf, project_l2_ball(offset, radius), 0)
    return jnp.where(length <= radius, w, nearest)


def _length(problem, clip, w, direction, pull, modulus) -> jax.Array:
    """Return how far to go against each direction, shape (clients,).

    The derivative of the objective along a direction rises with the length. Where it is positive at
    length 1, bisections find its root from below, so that the objective falls all the way. Nothing
    here is differentiated, and nothing is done where all steps are full ones.
    """
    frozen = jax.lax.stop_gradient((problem, clip, w, direction, pull, modulus))
    problem, clip, w, direction, pull, modulus = frozen
    along, change = problem.predictions(w), problem.predictions(direction)
    towards = jnp.einsum("kmp,kp->km", problem.rows(clip), direction, precision=_HIGHEST)

    def derivative(length):
        slopes = problem.slopes(along - length[:, None] * change, clip)
        rest = pull + modulus * (w - length[:, None] * direction)
        data = jnp.sum(problem.shares * slopes * towards, -1)
        return -data - jnp.sum(direction * rest, -1)

    none, full = jnp.zeros_like(w[:, 0]), jnp.ones_like(w[:, 0])
    fall = -derivative(none)
    # A fall of rounding alone is none.
    rounding = jnp.finfo(w.dtype).eps * w
    size = jnp.sum(modulus * rounding * rounding, -1)
    far = (derivative(full) > 1e-3 * fall) & (fall > size)

    def coarse(low, high):
        return far & (high > 1.1 * low)

    def goes_on(carry):
        halvings, low, high = carry
        return jnp.any(coarse(low, high)) & (halvings < _HALVINGS)

    def halve(carry):
        # Each client stops by itself: its model must not depend on the others' data.
        halvings, low, high = carry
        middle = (low + high) / 2
        falls = derivative(middle) <= 0
        moved = jnp.where(falls, middle, low), jnp.where(falls, high, middle)
        low, high = where_active(coarse(low, high), moved, (low, high))
        return halvings + 1, low, high

    _, low, _ = jax.lax.while_loop(goes_on, halve, (jnp.zeros((), jnp.int32), none, full))
    return jnp.where(far, low, 1)


def p_admm(
    release: Release,
    *,
    rho: ArrayLike = 1.0,
    newton_steps: int = 30,
    exchange: roles.Exchange | None = None,
) -> PADMM:
    """Build `PADMM`.

    **A key that serves two runs takes the noise away**: the difference of their messages shows it.
    `Run.estimate` is what was sent; `unprotected(state)` gives the models without noise.

    Args:
      release: how messages are made public: `gaussian_release(plan, clip)` or `exact_release()`.
      rho: weight of the constraints, positive.
      newton_steps: per round. The sensitivity is that of the minimiser: take fewer only where they
        reach it. One is exact for least squares without clipping; five were exact to rounding in
        the settings of the experiments; 30 were for long features and a small rho.
      exchange: what happens to messages after the release, `messages.exchange(...)` without an
        aggregator; nothing if None.
    """
    return build(PADMM, **locals())
