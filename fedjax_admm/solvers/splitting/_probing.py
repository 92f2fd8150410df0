r"""Local gradient steps whose length follows the curvature that they meet.

Each step of a client on all of its samples, from w to w', gives the secant

    s = w' - w,    y = grad f_i(w') - grad f_i(w),
    <s, y> / ||s||^2,  or ||y|| / ||s|| where <s, y> <= 0,

the curvature h_i of the next step, but at least half of the one before, and l_i = h_i. The next
step along the slope G of the client's problem, that of the next round included, has the length

    1 / ((h_i + rho) sqrt(1 + n_i)),

Barzilai and Borwein's for f_i + rho ||w - centre||^2 / 2. n_i counts the steps, over all rounds,
from a slope G to a slope G' with <G', G> < -||G||^2: along G, by the trapezoidal rule, they have
raised the objective. At a kink this happens again and again, so that steps settle.

Description of the safeguard. A step leads behind a wall of f_i, as exponentials and powers have
them, where `<s, y> > 10 (h_i + rho) ||s||^2` and neither s nor y is noise of rounding, or where the
gradient is not finite. Along it the curvature was more than ten times the one that it was made for.
It is taken back, h_i is ten times as large, and l_i stays, so that no curvature from behind a wall
is ever sent. A start that lies so to the client's last point is given up for that point.

Guarantee. For gradients of all samples and K > 1, a client's model is where its gradient was
finite, and along each of its steps the curvature was at most ten times the assumed one. Of
minibatches, of losses with a key or a state, and of K = 1 the first step of a round alone is
guarded so, on its minibatch.

Gradients of two minibatches differ by more than curvature, and so do those of a loss with a key or
a state. There, and where K = 1, the first step of a round is measured alone, by a second gradient
on its minibatch: h_i is ||y|| / ||s||, and all steps have max(h_i, l) in the place of h_i, with the
l that the server has sent (`_estimated`). FedDR forgets n_i there before each round: its clients
start near the solutions of their own problems, where noise turns slopes around.

A secant counts if its differences are not noise of rounding; h_i is at least 1e-4 L, with the
largest curvature L at the start, so that a loss without curvature keeps a step. A round costs K + 1
gradients, and a client remembers its last point and the gradient there.

Reference: J. Barzilai, J. M. Borwein, "Two-Point Step Size Gradient Methods", IMA J. Numer. Anal. 8
(1988); H. Kesten, "Accelerated Stochastic Approximation", Ann. Math. Statist. 29 (1958), for n_i.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_admm._checks import counted, flagged, positive
from fedjax_admm.capabilities import (
    Gradients,
    Minibatches,
    has,
    kept_states,
    slopes_and_states,
)
from fedjax_admm.participation import where_active
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers._gradients import beyond, draws
from fedjax_admm.solvers._local import FallingGradient

_LEAST = 1e-4
_FURTHER = 10  # times h_i after a step that is taken back


class Probes(NamedTuple):
    """What the clients remember of curvature, stacked."""

    met: jax.Array  # shape=(clients,): l_i
    following: jax.Array  # shape=(clients,): h_i, of the next step
    last: Any  # where the last step led, and the gradient there; empty if steps are measured once
    shared: jax.Array  # shape=(clients,): l, as they read it last, without the growth
    overshoots: jax.Array  # shape=(clients,), int32: n_i
    calls: jax.Array  # shape=(clients,), int32: how often they have worked
    kept: Any  # the states of the losses, `kept_states`


@roles.pytree_dataclass
class ProbingGradient:
    """Gradient steps whose length follows the curvature that they meet."""

    curvature: jax.Array = positive(curvature=lambda largest: largest)  # shape=(): L
    steps: int = counted()
    forgets: bool = flagged()  # n_i before each round, where steps are measured once

    requires: ClassVar[tuple[type, ...]] = (Gradients,)

    def memory(self, problem, start):
        """Return the curvature of the start, and no overshoots."""
        first = jnp.broadcast_to(self.curvature, start.shape[:1]).astype(start.dtype)
        none = jnp.zeros(first.shape, jnp.int32)
        memory = Probes(first, first, (), first, none, none, kept_states(problem))
        if self.measures_once(problem, memory):
            return memory
        return memory._replace(last=(start, problem.gradients(start)))

    def length(self, weight):
        """Return rate (1 + r + ... + r^(steps - 1)) with r = 1 - rate weight, at the start."""
        return FallingGradient(curvature=self.curvature, steps=self.steps).length(weight)

    def measures_once(self, problem, memory: Probes) -> bool:
        """Return whether the first step of a round is measured alone."""
        exact = getattr(problem, "exact_gradients", not has(problem, Minibatches))
        return not exact or self.steps == 1 or bool(memory.kept)

    def __call__(self, problem, centre, weight, start, memory, key):
        """Return the models after all steps, shape (clients, dim), and the probes."""
        walk = self._measured_once if self.measures_once(problem, memory) else self._measured_always
        task = _Task(problem, centre, weight)
        w, memory = walk(task, start, memory, draws(problem, key, self.steps))
        return w, memory._replace(calls=memory.calls + 1)

    def _measured_always(self, task, start, memory: Probes, drawn):
        """Take steps of which each has the curvature that the one before has met."""

        def step(carry, draw):
            (w, gradient), following, met, overshoots = carry
            slope = gradient + task.pull(w)
            moved = task.moved(w, slope, following, overshoots)
            found = task.problem.gradients(moved, draw)
            back = beyond(w, moved, gradient, found, following + task.weight)
            after = self._met(w, moved, gradient, found, following)
            overshoots += jnp.where(back, 0, _rises(slope, found + task.pull(moved)))
            here = where_active(~back, (moved, found), (w, gradient))
            met = jnp.where(back, met, after)
            following = jnp.where(back, _FURTHER * following, after)
            return (here, following, met, overshoots), None

        gradient = task.problem.gradients(start, jax.tree.map(lambda x: x[0], drawn))
        point, known = memory.last
        lost = beyond(point, start, known, gradient, memory.following + task.weight)
        here = where_active(~lost, (start, gradient), memory.last)
        carry = here, memory.following, memory.met, memory.overshoots
        (here, following, met, overshoots), _ = jax.lax.scan(step, carry, drawn)
        return here[0], memory._replace(
            met=met, following=following, last=here, overshoots=overshoots
        )

    def _measured_once(self, task, start, memory: Probes, drawn):
        """Take steps with the curvature that the first one has met on its own minibatch."""
        problem = task.problem
        if self.forgets:
            memory = memory._replace(overshoots=jnp.zeros_like(memory.overshoots))
        first = jax.tree.map(lambda x: x[0], drawn)
        rest = jax.tree.map(lambda x: x[1:], drawn)
        before, kept = slopes_and_states(problem, start, first, memory.kept)
        slope = before + task.pull(start)
        assumed = jnp.maximum(memory.following, memory.shared)
        w = task.moved(start, slope, assumed, memory.overshoots)
        after, _ = slopes_and_states(problem, w, first, memory.kept)  # of the same loss
        back = beyond(start, w, before, after, assumed + task.weight)
        found = self._met(start, w, before, after, memory.following, along=False)
        met = jnp.where(back, memory.met, found)
        following = jnp.where(back, _FURTHER * assumed, found)
        curvature = jnp.maximum(following, memory.shared)

        def step(carry, draw):
            w, before, overshoots, kept = carry
            slope, kept = slopes_and_states(problem, w, draw, kept)
            slope += task.pull(w)
            overshoots += _rises(before, slope)
            return (task.moved(w, slope, curvature, overshoots), slope, overshoots, kept), None

        carry = where_active(~back, w, start), slope, memory.overshoots, kept
        (w, _, overshoots, kept), _ = jax.lax.scan(step, carry, rest)
        return w, memory._replace(met=met, following=following, overshoots=overshoots, kept=kept)

    def _met(self, w, moved, before, after, old, along: bool = True) -> jax.Array:
        """Return l_i, shape (clients,), or what it was where the differences are noise."""

        def length(x):
            return jnp.sqrt(jnp.sum(x * x, -1))

        # Decisions only: the derivative of a length at 0 is infinite.
        w, moved, before, after, least = jax.lax.stop_gradient(
            (w, moved, before, after, _LEAST * self.curvature)
        )
        noise = 8 * jnp.finfo(w.dtype).eps
        far, bent = length(moved - w), length(after - before)
        sure = (far > noise * length(w)) & jnp.isfinite(bent)
        far = jnp.where(sure, far, 1)
        found = jnp.where(bent <= noise * length(before), 0, bent) / far
        if along:
            inner = jnp.sum((moved - w) / far[:, None] * (after - before), -1) / far
            found = jnp.where((inner > 0) & (inner < found), inner, found)
            least = jnp.maximum(least, old / 2)
        return jnp.where(sure, jnp.maximum(found, least), old)


class _Task(NamedTuple):
    """What the clients solve: f_i(w) + rho_i ||w - centre||^2 / 2."""

    problem: Any
    centre: jax.Array  # shape=(clients, dim)
    weight: jax.Array  # shape=(clients,): rho_i

    def pull(self, w) -> jax.Array:
        """Return the slope of the quadratic term."""
        return self.weight[:, None] * (w - self.centre)

    def moved(self, w, slope, curvature, overshoots) -> jax.Array:
        """Return the models one step along the slopes further."""
        fall = jnp.sqrt(1 + overshoots.astype(w.dtype))
        return w - slope / ((curvature + self.weight) * fall)[:, None]


def _rises(before, after) -> jax.Array:
    """Return 1 where a step between these slopes has raised the objective, shape (clients,)."""
    return (jnp.sum(after * before, -1) < -jnp.sum(before * before, -1)).astype(jnp.int32)
