"""Anderson acceleration of any deterministic solver, with a safeguard.

A round of a solver is a map F of its state. x is the vector of all floating-point numbers of the
state, and f = F(x) - x is its residual. The rows of S are the last m differences of points, and the
rows of Y the last m differences of residuals. One round is

    g = F(x),  f = g - x
    (Y Y^T + eta (||S||^2 + ||Y||^2) I) gamma = Y f
    x <- g - (S + Y)^T gamma                          (the next round evaluates F there)

An extrapolated point is rejected unless `||f|| <= D ||f_last||`, where f_last is the residual of
the last accepted point. The state is then F of the last accepted point, and the differences are
discarded. Integers in the state, such as counts of rounds, are those of the plain step g. If f is
as small as rounding errors, the plain step is taken and the differences are discarded, since
derivatives through them would be noise.

**Conditions.** The map must be the same in every round: full participation, full gradients, and no
coins, noise, schedules over rounds, or adaptive penalties. A solver is rejected if its next state
depends, by its traced program, on the key or on the number of a round. Channels, attacks and
aggregators without random draws are allowed, such as `differences(top_k(5))`, `sign_flip` and
`coordinate_median`; their memory is a part of the state. In a round with an absent client the plain
step is taken and the differences are discarded. A round needs about 2 m new inner products of whole
states, which are not counted as messages.

Reference: D. G. Anderson, "Iterative Procedures for Nonlinear Integral Equations", Journal of the
ACM 12(4), 1965; H. F. Walker, P. Ni, "Anderson Acceleration for Fixed-Point Iterations", SIAM
Journal on Numerical Analysis 49(4), 2011; A. Fu, J. Zhang, S. Boyd, "Anderson Accelerated
Douglas-Rachford Splitting", arXiv:1908.11482 (the regulariser, and the idea of the safeguard).
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.interpreters.partial_eval import dce_jaxpr
from jax.typing import ArrayLike

from fedjax_admm._checks import InputError, build, counted, declared, optional, ranged, scalar
from fedjax_admm._run import in_dtype_of
from fedjax_admm.capabilities import Clients, first_state
from fedjax_admm.protocol import RoundInfo, Solver
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers.wrappers._wrapper import SolverWrapper

_HIGHEST = jax.lax.Precision.HIGHEST


class AndersonHistory(NamedTuple):
    """What is remembered of earlier rounds; d is the number of floating numbers in a state."""

    points: jax.Array  # shape=(memory, d): S, the newest difference first
    residuals: jax.Array  # shape=(memory, d): Y
    rows: jax.Array  # shape=(), int32: how many differences there are
    last_point: jax.Array  # shape=(d,): x of the round before
    last_residual: jax.Array  # shape=(d,): f of the round before
    known: jax.Array  # shape=(), bool: whether the two are there
    plain: jax.Array  # shape=(d,): F of the last point that was taken
    size: jax.Array  # shape=(): ||f|| there


class AndersonState(NamedTuple):
    """The state of the solver inside, and the history."""

    inner: Any  # of the solver inside: what is judged in the next round
    history: AndersonHistory


@roles.pytree_dataclass
class Anderson(SolverWrapper):
    """A solver whose rounds are extrapolated; build it with `anderson`."""

    solver: Solver
    # shape=(): eta; by the dtype if None
    regularization: jax.Array | None = declared(optional(scalar, at_least=0))
    safeguard: jax.Array = ranged(at_least=1)  # shape=(): D
    memory: int = counted(at_least=0)

    # What every solver needs; the solver inside adds what it requires.
    requires: ClassVar[tuple[type, ...]] = (Clients,)

    def check(self, problem, rounds: int) -> None:
        """Check that a round is one map of the state, and what the solver inside checks."""
        super().check(problem, rounds)
        draws, counts = _reads(self.solver, problem)
        remedy = "or run it without anderson"
        if not self.exchange.plain:
            remedy = f"leave what does so out of its exchange, {remedy}"
        if draws:
            raise InputError(
                "must have rounds that draw nothing, but these draw minibatches, coins or noise",
                argument="solver",
                value=self.solver,
                remedy=f"build the problem without batch_size, {remedy}",
            )
        if counts:
            raise InputError(
                "must have rounds that are all alike, but these follow a schedule over rounds, or "
                "their messages are late",
                argument="solver",
                value=self.solver,
                remedy=f"give constant steps, {remedy}",
            )

    def init(self, problem, key) -> AndersonState:
        """Start as the solver inside does, without a history."""
        inner = first_state(self.solver, problem, key)
        x = _flat(inner)
        none, rows = jnp.zeros_like(x), jnp.zeros((self.memory, x.size), x.dtype)
        history = AndersonHistory(
            rows,
            rows,
            jnp.zeros((), jnp.int32),
            none,
            none,
            jnp.zeros((), bool),
            x,
            jnp.zeros((), x.dtype),
        )
        return AndersonState(inner, history)

    def step(self, problem, state: AndersonState, info) -> AndersonState:
        """Return the state after one round: one round of the solver inside."""
        stepped = self.solver.step(problem, state.inner, info)
        if self.memory == 0:
            return AndersonState(stepped, state.history)
        history, x, g = state.history, _flat(state.inner), _flat(stepped)
        f = g - x
        size = jnp.linalg.norm(jax.lax.stop_gradient(f))
        worthwhile = jnp.all(info.active) & (size > _rounding(x, f))
        # Written so that a residual that is no number is refused.
        grown = ~(size <= self.safeguard * history.size)
        refused = jnp.all(info.active) & (history.rows > 0) & grown
        taken = worthwhile & ~refused
        pushed = _push(history, x, f, taken & history.known)
        new_history = AndersonHistory(
            pushed.points,
            pushed.residuals,
            jnp.where(taken, pushed.rows, 0),
            jnp.where(taken, x, 0),
            jnp.where(taken, f, 0),
            taken,
            jnp.where(taken, g, history.plain),
            jnp.where(taken, size, history.size),
        )
        point = jnp.where(refused, history.plain, g - self.correction(new_history))
        return AndersonState(_unflat(point, stepped), new_history)

    def correction(self, history: AndersonHistory) -> jax.Array:
        """Return `(S + Y)^T gamma`, shape (d,); 0 without differences."""
        valid = jnp.arange(self.memory, dtype=jnp.int32) < history.rows
        s = jnp.where(valid[:, None], history.points, 0)
        y = jnp.where(valid[:, None], history.residuals, 0)
        # The weights gamma do not depend on the unit: with this one no square underflows.
        unit = jax.lax.stop_gradient(jnp.maximum(jnp.max(jnp.abs(s)), jnp.max(jnp.abs(y))))
        unit = jnp.where(unit > 0, unit, 1)
        s, y, f = s / unit, y / unit, history.last_residual / unit
        total = jnp.sum(s * s) + jnp.sum(y * y)
        diagonal = jnp.where(valid & (total > 0), self.eta(s.dtype) * total, 1)
        gram = jnp.matmul(y, y.T, precision=_HIGHEST) + jnp.diag(diagonal)
        gamma = jnp.linalg.solve(gram, jnp.matmul(y, f, precision=_HIGHEST))
        return unit * jnp.matmul(gamma, s + y, precision=_HIGHEST)

    def eta(self, dtype) -> jax.Array:
        """Return the weight of the regulariser, shape ()."""
        if self.regularization is not None:
            return self.regularization
        return jnp.asarray(1e-10 if jnp.finfo(dtype).bits > 32 else 1e-6, dtype)

    def estimate(self, state: AndersonState) -> jax.Array:
        """Return the estimate of the solver inside."""
        return self.solver.estimate(state.inner)


def _reads(solver: Solver, problem: Any) -> tuple[bool, bool]:
    """Return whether the state after a round depends on the round's key, and on its number."""
    arguments = solver, problem, jax.random.key(0), jax.random.key(0), jnp.zeros((), jnp.int32)
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), arguments)
    program = _first_round.trace(*shapes).jaxpr.jaxpr
    _, used = dce_jaxpr(program, [True] * len(program.outvars))
    return used[-2], used[-1]


@jax.jit
def _first_round(
    solver: Solver, problem: Any, start: jax.Array, key: jax.Array, index: jax.Array
) -> Any:
    solver = in_dtype_of(solver, problem)
    everybody = jnp.ones(solver.participants(problem), bool)
    info = RoundInfo(index, key, everybody)
    return solver.step(problem, solver.init(problem, start), info)


def _push(history: AndersonHistory, x: jax.Array, f: jax.Array, new: jax.Array) -> AndersonHistory:
    """Put the newest differences first, where there are some; the oldest fall out."""

    def push(rows: jax.Array, row: jax.Array) -> jax.Array:
        return jnp.where(new, jnp.roll(rows, 1, 0).at[0].set(row), rows)

    return history._replace(
        points=push(history.points, x - history.last_point),
        residuals=push(history.residuals, f - history.last_residual),
        rows=jnp.minimum(history.rows + new.astype(jnp.int32), len(history.points)),
    )


def _rounding(x: jax.Array, f: jax.Array) -> jax.Array:
    """Return the norm of a residual in which only rounding is left, shape ()."""
    x, f = jax.lax.stop_gradient((x, f))
    return 16 * jnp.finfo(x.dtype).eps * jnp.linalg.norm(jnp.where(f == 0, 0, x))


def _moves(leaf: jax.Array) -> bool:
    return jnp.issubdtype(leaf.dtype, jnp.floating)


def _flat(state: Any) -> jax.Array:
    """Return the floating numbers of a state as one vector, shape (d,), of their widest dtype."""
    leaves = [leaf for leaf in jax.tree.leaves(state) if _moves(leaf)]
    dtype = jnp.result_type(*leaves)
    return jnp.concatenate([jnp.ravel(leaf).astype(dtype) for leaf in leaves])


def _unflat(x: jax.Array, like: Any) -> Any:
    """Return a state with these floating numbers, and all else as in another state."""
    leaves, structure = jax.tree.flatten(like)
    begin = 0
    for i, leaf in enumerate(leaves):
        if _moves(leaf):
            part = x[begin : begin + leaf.size]
            leaves[i] = part.reshape(leaf.shape).astype(leaf.dtype)
            begin += leaf.size
    return jax.tree.unflatten(structure, leaves)


def anderson(
    solver: Solver,
    *,
    memory: int = 5,
    regularization: ArrayLike | None = None,
    safeguard: ArrayLike = 2.0,
) -> Anderson:
    """Build `Anderson`.

    Args:
      solver: whose rounds are one deterministic map of its state.
      memory: m, how many differences are kept, 5 to 10; with 0 the solver runs as it is.
      regularization: eta, not negative, relative to the squared norms of all differences; if None,
        1e-10 in float64 and 1e-6 in float32. With 0 the differences may be dependent, and the point
        is then no number and is refused.
      safeguard: D, at least 1: by how much the norm of the residual may grow in a round.
    """
    return build(Anderson, **locals()).checked("extra()")
