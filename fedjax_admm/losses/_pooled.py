r"""One linear model for all samples, to rounding: the optimum that networked methods aim at.

    minimise   F(w) = sum_j c_j loss(x_j^T w, y_j) + l1 ||w||_1 + l2 ||w||^2

Every modulus is a row a^T w - b with a bound B: c_j |x_j^T w - y_j| and l1 |w_i|. A Huber loss is a
modulus that gives way by d = 1 / c_j per unit of force: the largest value of
`lambda (a^T w - b) - d lambda^2 / 2` over |lambda| <= B = c_j threshold. A quantile loss is half a
modulus, B = c_j / 2, and the linear term `c_j (1/2 - level) x_j^T w`. With phi the smooth rest, w
is optimal if there are forces lambda, |lambda| <= B, and u, v >= 0 with

    grad phi(w) + A^T lambda = 0,     A w - b = d lambda + u - v,
    u (B - lambda) = 0,     v (B + lambda) = 0

A primal-dual interior-point method (Frisch-Newton) lets the products be mu > 0 and sends mu to
zero. Newton's equations for products that become t_u and t_v leave a system in w alone:

    q = d + u / (B - lambda) + v / (B + lambda)
    g = (u - t_u / (B - lambda)) - (v - t_v / (B + lambda))
    (hess phi + A^T diag(1 / q) A) dw = -(grad phi + A^T lambda) - A^T (g / q)
    dlambda = (A dw + g) / q

(g also takes up what rounding leaves of the second equation.) Bounds of zero switch a row off.
Without rows this is Newton's method. Only the logistic loss, and a smooth one of a user's own, is
not quadratic in phi: there the steps are shortened until gradient and products decrease.

Reference: S. Portnoy, R. Koenker, "The Gaussian Hare and the Laplacian Tortoise", Statistical
Science 12(4), 1997 (least absolute deviations by interior points); S. Mehrotra, "On the
Implementation of a Primal-Dual Interior Point Method", SIAM J. Optim. 2(4), 1992 (predictor and
corrector); S. Boyd, L. Vandenberghe, "Convex Optimization", section 11.7 (residuals as merit).
"""

from functools import partial

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import (
    count,
    finite_array,
    number,
    refuse,
    scalar,
)
from fedjax_admm._linear_algebra import positive_inverse
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.kernels import safe_norm, safe_ratio
from fedjax_admm.losses._loss_checks import OURS, check_minimizable
from fedjax_admm.losses._samples import (
    Absolute,
    Huber,
    Quantile,
    SampleLoss,
    Squared,
)

_HIGHEST = jax.lax.Precision.HIGHEST
_LENGTHS = 12  # step lengths that are tried where phi is not quadratic, each half the last
_PATIENCE = 40  # iterations that may pass before the residual halves
_PATIENCE_AT_THE_END = 6  # the same, once it is below the root of a rounding


@pytree_dataclass
class RegressionSolution:
    """A minimiser, and what proves it; a pytree."""

    w: jax.Array  # shape=(dim,)
    residual: jax.Array  # shape=(): relative, see `minimize_regression`


def minimize_regression(
    features: ArrayLike,
    targets: ArrayLike,
    weights: ArrayLike,
    loss: SampleLoss,
    l1: ArrayLike,
    l2: ArrayLike,
    *,
    iterations: int = 100,
) -> RegressionSolution:
    r"""Minimise `sum_j c_j loss(x_j^T w, y_j) + l1 ||w||_1 + l2 ||w||^2` to rounding.

    Pure, and vmappable over problems; there is no derivative in reverse mode. Features, targets and
    weights may have any scale: they are normalised first.

    The residual certifies the result. For the forces lambda of the module's formula, convexity
    gives

        F(w) - min F <= gap + e^T (w - w*),     e = grad phi(w) + A^T lambda
        gap = sum of B |r| - lambda r over the rows (of Fenchel's gap, where there is give)

    and `residual = gap / size + ||e|| / ||sum_j |x_j| s_j||`. The size is F at w with
    |x_j^T w| + |y_j| in place of the differences (for moduli and the Huber loss a power mean of
    order 1/4, so that outliers do not hide a gap), s_j is the largest slope that such a difference
    has. For the logistic loss they are F and the slope itself. The residual ends at a few roundings
    of the dtype, 1e-14 or less in float64, unless the samples are of very different sizes: then it
    says how much was lost. It stays far above that where there is no minimiser, as for separable
    classes without a penalty.

    Args:
      features: shape (samples, dim): x_j. The dtype of the result.
      targets: shape (samples,): y_j; -1 and 1 for the logistic loss.
      weights: shape (samples,): c_j, at least 0; a sample of weight zero is not looked at, but must
        be finite.
      loss: `losses.squared()`, `absolute()`, `huber(threshold)`, `logistic()` or `quantile(level)`,
        or a smooth one with the members of `losses.SampleLoss`. That is not normalised: its
        predictions should be of unit scale, and where its curvature vanishes the residual may stay
        large.
      l1: weight of the sum of moduli, at least 0, a scalar that may be traced.
      l2: weight of the sum of squares, likewise.
      iterations: at most so many; it stops by itself, usually after 5 to 25.

    Returns:
      The minimiser, shape (dim,), with its residual, shape (). Where there are many minimisers, one
      of them.
    """
    features = finite_array("features", features, (None, None))
    told = f"must have rows and columns, but their shape is {features.shape}"
    refuse(not features.size, "features", told)
    samples, dtype = features.shape[0], features.dtype
    targets = finite_array("targets", targets, (samples,)).astype(dtype)
    weights = number("weights", finite_array("weights", weights, (samples,)), at_least=0)
    weights = weights.astype(dtype)
    l1, l2 = (scalar(n, v, at_least=0).astype(dtype) for n, v in (("l1", l1), ("l2", l2)))
    iterations = count("iterations", iterations)
    check_minimizable(loss, targets, weights)
    return _minimize(features, targets, weights, loss, l1, l2, iterations)


@partial(jax.jit, static_argnames="iterations")
def _minimize(features, targets, weights, loss, l1, l2, iterations) -> RegressionSolution:
    task, unit = _normalised(features, targets, weights, loss, l1, l2)
    w, residual = _interior_point(task, iterations)
    return RegressionSolution(unit * w, residual)


# --- the problem in normalised units -------------------------------------------------------------


@pytree_dataclass
class _Smooth:
    """`sum_j c_j loss(x_j^T w, y_j) + linear^T w + sum_i ridge_i w_i^2`; samples may be none."""

    features: jax.Array  # shape=(samples, dim)
    targets: jax.Array  # shape=(samples,)
    weights: jax.Array  # shape=(samples,)
    ridge: jax.Array  # shape=(dim,)
    linear: jax.Array  # shape=(dim,)
    loss: SampleLoss

    def gradient(self, w):
        slopes = self.loss.slope(_times(self.features, w), self.targets)
        return _times(self.features.T, self.weights * slopes) + self.linear + 2 * self.ridge * w

    def hessian(self, w):
        curvature = self.loss.curvature(_times(self.features, w), self.targets)
        return _gram(self.features, self.weights * curvature) + jnp.diag(2 * self.ridge)

    def sizes(self, w):
        """Return what the value and the samples' part of the gradient are sums of."""
        p, y = _times(self.features, w), self.targets
        if isinstance(self.loss, Squared):
            values, slopes = p**2 + y**2, 2 * (jnp.abs(p) + jnp.abs(y))
        else:
            values, slopes = jnp.abs(self.loss.value(p, y)), jnp.abs(self.loss.slope(p, y))
        value = jnp.sum(self.weights * values) + jnp.sum(self.ridge * w**2)
        return value, _times(jnp.abs(self.features).T, self.weights * slopes)


@pytree_dataclass
class _Rows:
    """Moduli of A w - b: those of the samples, if these are moduli, then those of the model."""

    matrix: jax.Array  # shape=(rows, dim): A
    offset: jax.Array  # shape=(rows,): b
    bound: jax.Array  # shape=(rows,): B, 1 for a row that is switched off
    give: jax.Array  # shape=(rows,): d
    live: jax.Array  # shape=(rows,): 1, or 0 for a row that is switched off
    of_model: jax.Array  # shape=(rows,): whether it is l1 |w_i|

    def residuals(self, w):
        return _times(self.matrix, w) - self.offset

    def back(self, forces):
        return _times(self.matrix.T, self.live * forces)

    def pairs(self):
        return 2 * jnp.maximum(jnp.sum(self.live), 1)


@pytree_dataclass
class _Task:
    smooth: _Smooth
    rows: _Rows
    start: jax.Array  # shape=(dim,): least squares
    noise: jax.Array  # shape=(): the mu below which the rows are rounding errors

    def gradient(self, point):
        return self.smooth.gradient(point.w) + self.rows.back(point.forces())

    def mean_product(self, point):
        """Return mu, the mean of u (B - lambda) and v (B + lambda) over all live rows."""
        products = point.u * point.above + point.v * point.below
        return jnp.sum(self.rows.live * products) / self.rows.pairs()


@pytree_dataclass
class _Point:
    """An iterate, or a change of one; the forces' distances from their bounds stay accurate."""

    w: jax.Array  # shape=(dim,)
    u: jax.Array  # shape=(rows,): positive, like all that follow
    v: jax.Array  # shape=(rows,)
    above: jax.Array  # shape=(rows,): B - lambda
    below: jax.Array  # shape=(rows,): B + lambda

    def forces(self):
        return (self.below - self.above) / 2

    def moved(self, change, length):
        return jax.tree.map(lambda x, dx: x + length * dx, self, change)


def _normalised(features, targets, weights, loss, l1, l2) -> tuple[_Task, jax.Array]:
    """Return the task in units where columns, targets and weights have size 1; w's unit (dim,)."""
    dim, dtype = features.shape[1], features.dtype
    seen = weights > 0
    x, y = jnp.where(seen[:, None], features, 0), jnp.where(seen, targets, 0)
    total = _or_one(jnp.sum(weights))
    c = weights / total
    largest = _or_one(jnp.max(jnp.abs(x), 0))
    spread = largest * _or_one(jnp.sqrt(jnp.sum(c[:, None] * (x / largest[None]) ** 2, 0)))
    # A loss is as many times size as its degree is high; w is size / spread. Without a degree the
    # targets stay as they are.
    degree = {Absolute: 1, Quantile: 1, Squared: 2, Huber: 2}.get(type(loss), 0)
    size = _or_one(jnp.sum(c * jnp.abs(y))) if degree else jnp.ones((), dtype)
    x, y = x / spread[None], y / size
    l1 = l1 / total / spread * size ** (1 - degree)
    l2 = l2 / total / spread / spread * size ** (2 - degree)

    # No slope at the optimum is greater than `most`, since F(w) <= F(0): where l1 is, w_i is zero.
    most = jnp.sum(c[:, None] * jnp.abs(x), 0)
    limits, gives, linear = c, jnp.zeros_like(c), jnp.zeros(dim, dtype)
    if isinstance(loss, Squared):
        most = jnp.full(dim, 2 * jnp.sqrt(jnp.sum(c * y**2)))
    elif isinstance(loss, Huber):
        threshold = jnp.asarray(loss.threshold, dtype) / size
        at_zero = jnp.sum(c * Huber(threshold=threshold).value(jnp.zeros_like(y), y))
        most = jnp.minimum(threshold * most, jnp.sqrt(2 * at_zero))
        # Likewise for the forces of samples: a bound that is far away would cost digits.
        limits = jnp.minimum(c * threshold, 2 * jnp.sqrt(2 * at_zero * c))
        gives = 1 / jnp.where(seen, c, 1)
    elif isinstance(loss, Quantile):
        limits, linear = c / 2, _times(x.T, c * (0.5 - jnp.asarray(loss.level, dtype)))
    elif not isinstance(loss, OURS):
        most = jnp.full(dim, jnp.inf, dtype)
    zero = l1 > most
    x, l1 = jnp.where(zero[None], 0, x), jnp.where(zero, 0, l1)
    linear = jnp.where(zero, 0, linear)

    matrix, offset = jnp.eye(dim, dtype=dtype), jnp.zeros(dim, dtype)
    bound, give = l1, jnp.zeros(dim, dtype)
    smooth = _Smooth(x, y, c, l2, linear, loss)
    if isinstance(loss, Absolute | Huber | Quantile):
        smooth = _Smooth(x[:0], y[:0], c[:0], l2, linear, Squared())
        matrix, offset = jnp.concatenate([x, matrix]), jnp.concatenate([y, offset])
        bound, give = jnp.concatenate([limits, bound]), jnp.concatenate([gives, give])
    live = bound > 0
    rows = _Rows(
        jnp.where(live[:, None], matrix, 0),
        offset,
        _or_one(bound),
        give,
        live.astype(dtype),
        jnp.arange(bound.size) >= bound.size - dim,
    )
    # The minimum of a parabola that is above the loss and touches it at w = 0 (for a modulus, of
    # plain least squares).
    curvature = _or_one(jnp.asarray(loss.largest_curvature(), dtype))
    fitted = y if degree else -loss.slope(jnp.zeros_like(y), y) / curvature
    solve = _solver(curvature * _gram(x, c) + jnp.diag(2 * l2))
    start = solve(curvature * _times(x.T, c * fitted))
    sizes = jnp.abs(_times(rows.matrix, start)) + jnp.abs(rows.offset)
    noise = jnp.finfo(dtype).eps / 2 * _worth(rows, rows.bound, sizes)
    return _Task(smooth, rows, start, noise / rows.pairs()), size / spread


def _or_one(x):
    return jnp.where(x > 0, x, 1)


def _times(matrix, vector):
    return jnp.matmul(matrix, vector, precision=_HIGHEST)


def _gram(matrix, weights):
    return jnp.matmul(matrix.T, weights[:, None] * matrix, precision=_HIGHEST)


def _solver(matrix):
    """Return `right -> matrix^-1 right`; a singular matrix gets a ridge that is iterated away."""
    dim, eps = matrix.shape[0], jnp.finfo(matrix.dtype).eps
    scale = 1 / jnp.sqrt(_or_one(jnp.diagonal(matrix)))
    scaled = scale[:, None] * matrix * scale[None]
    inverse = positive_inverse(scaled + eps**0.9 * jnp.eye(dim, dtype=matrix.dtype))

    def solve(right):
        right = scale * right
        x = _times(inverse, right)
        for _ in range(2):
            x = x + _times(inverse, right - _times(scaled, x))
        return scale * x

    return solve


# --- the method ----------------------------------------------------------------------------------


def _interior_point(task: _Task, iterations: int) -> tuple[jax.Array, jax.Array]:
    """Return the best iterate, shape (dim,), and its residual."""
    eps = jnp.finfo(task.start.dtype).eps

    def step(state):
        point, best, least, milestone, waited, done = state
        point = _next(task, point)
        residual = _residual(task, point)
        halved = residual < milestone / 2
        return (
            point,
            jnp.where(residual < least, point.w, best),
            jnp.fmin(residual, least),
            jnp.where(halved, residual, milestone),
            jnp.where(halved, 0, waited + 1),
            done + 1,
        )

    def goes_on(state):
        _, _, least, _, waited, done = state
        patience = jnp.where(least < eps**0.5, _PATIENCE_AT_THE_END, _PATIENCE)
        return (least > 4 * eps) & (waited < patience) & (done < iterations)

    far, zero = jnp.full_like(task.noise, jnp.inf), jnp.zeros((), jnp.int32)
    first = (_first(task), task.start, far, far, zero, zero)
    last = jax.lax.while_loop(goes_on, step, first)
    return last[1], last[2]


def _first(task: _Task) -> _Point:
    """Return a point that fits least squares, its products equal where there is no give."""
    rows, w = task.rows, task.start
    r = rows.residuals(w)
    mu = jnp.sum(rows.live * rows.bound * (jnp.abs(r) + 1e-3)) / task.rows.pairs()
    softness = mu / rows.bound
    stiff = rows.give * rows.bound + softness + jnp.sqrt(r**2 + softness**2)
    forces = rows.bound * r / stiff
    above, below = rows.bound - forces, rows.bound + forces
    rest = r - rows.give * forces
    u = jnp.where(rest > 0, rest + mu / below, mu / above)
    v = jnp.where(rest > 0, mu / below, mu / above - rest)
    off = rows.live == 0
    return _Point(w, *(jnp.where(off, 1, part) for part in (u, v, above, below)))


def _next(task: _Task, point: _Point) -> _Point:
    """Take one step: a predictor says how far mu can fall, a corrector goes there."""
    direction = _newton(task, point)
    mu = task.mean_product(point)
    zeros = jnp.zeros_like(point.u)
    predicted, longest = direction(zeros, zeros)
    predicted_mu = task.mean_product(point.moved(predicted, jnp.minimum(longest, 1)))
    share = safe_ratio(predicted_mu, mu)
    goal = jnp.maximum(share**3 * mu, task.noise)
    part = jnp.maximum(1 - share, 0.9)  # of the way to the boundary

    def corrected(weight, goal):
        """Return the direction with so much of the second order in it, and its longest step."""
        change, longest = direction(
            goal - weight * predicted.u * predicted.above,
            goal - weight * predicted.v * predicted.below,
        )
        return change, jnp.minimum(part * longest, 1)

    if isinstance(task.smooth.loss, Squared):
        return point.moved(*corrected(1.0, goal))

    # The gradient is not linear: mu must not run ahead of it, and steps that are too long raise it.
    gradient = task.gradient(point)
    relative = safe_ratio(safe_norm(gradient), safe_norm(task.smooth.sizes(point.w)[1]))
    slack = jnp.sum(task.rows.live * task.rows.bound * jnp.abs(point.w)) / task.rows.pairs()
    goal = jnp.maximum(goal, jnp.minimum(relative * slack, mu))

    def merit(change, length):
        there = point.moved(change, length)
        return safe_norm(task.gradient(there)) + task.mean_product(there) * task.rows.pairs()

    # Without the second order, every step that is short enough lowers the merit.
    weights = jnp.array([1, 0], point.w.dtype)
    changes, longest = jax.vmap(corrected, (0, None))(weights, goal)
    lengths = longest[:, None] * 0.5 ** jnp.arange(_LENGTHS, dtype=point.w.dtype)[None]
    merits = jax.vmap(jax.vmap(merit, (None, 0)))(changes, lengths)
    best = jnp.argmin(merits)
    change = jax.tree.map(lambda part: part[best // _LENGTHS], changes)
    return point.moved(change, lengths.ravel()[best])


def _newton(task: _Task, point: _Point):
    """Return `(t_u, t_v) -> change, longest step inside`: Newton's direction to these products."""
    rows = task.rows
    pull = rows.live / (rows.give + point.u / point.above + point.v / point.below)  # 1 / q
    solve = _solver(task.smooth.hessian(point.w) + _gram(rows.matrix, pull))
    gradient = task.gradient(point)

    # What rounding, or a start that is far away, has left between r and d lambda + u - v.
    fitted, eps = _times(rows.matrix, point.w), jnp.finfo(point.w.dtype).eps
    apart = fitted - rows.offset - rows.give * point.forces() - (point.u - point.v)
    noise = 16 * eps * (jnp.abs(fitted) + jnp.abs(rows.offset))
    apart = jnp.where(jnp.abs(apart) > noise, apart, 0)

    def direction(goal_u, goal_v):
        over, under = point.u - goal_u / point.above, point.v - goal_v / point.below
        push = apart + over - under
        dw = solve(-gradient - rows.back(pull * push))
        forces = pull * (_times(rows.matrix, dw) + push)
        du = rows.live * (point.u / point.above * forces - over)
        dv = rows.live * (-point.v / point.below * forces - under)
        change = _Point(dw, du, dv, -forces, forces)
        pairs = (
            (point.u, du),
            (point.v, dv),
            (point.above, -forces),
            (point.below, forces),
        )
        fastest = jnp.max(jnp.stack([jnp.max(-dx / x) for x, dx in pairs]))
        return change, 1 / jnp.maximum(fastest, jnp.finfo(dw.dtype).tiny)

    return direction


def _worth(rows: _Rows, forces: jax.Array, sizes: jax.Array) -> jax.Array:
    """Return the sum of forces times sizes; of the samples' sizes, the power mean of order 1/4."""
    weights = rows.live * jnp.where(rows.of_model, 0, forces)
    total = _or_one(jnp.sum(weights))
    typical = jnp.sum(weights / total * sizes**0.25) ** 4
    return total * typical + jnp.sum(rows.live * jnp.where(rows.of_model, forces * sizes, 0))


def _residual(task: _Task, point: _Point) -> jax.Array:
    """Return the relative gap plus the relative gradient."""
    rows, w = task.rows, point.w
    fitted = _times(rows.matrix, w)
    r, sizes = fitted - rows.offset, jnp.abs(fitted) + jnp.abs(rows.offset)
    # B - lambda times r, and the like: no difference of large numbers.
    edge = rows.give * rows.bound
    inside = jnp.clip(r, -edge, edge) - rows.give * point.forces()
    gaps = point.above * jnp.maximum(r - edge, 0) + point.below * jnp.maximum(-r - edge, 0)
    gap = jnp.sum(rows.live * (gaps + inside**2 * safe_ratio(0.5, rows.give)))
    # The force that a row of such a size can have.
    forces = jnp.where(
        rows.give > 0, jnp.minimum(rows.bound, safe_ratio(sizes, rows.give)), rows.bound
    )
    value, slopes = task.smooth.sizes(w)
    value = value + _worth(rows, forces, sizes)
    slopes = slopes + _times(
        jnp.abs(rows.matrix).T, rows.live * jnp.where(rows.of_model, 0, forces)
    )
    error = safe_norm(task.gradient(point))
    return safe_ratio(gap, value) + safe_ratio(error, safe_norm(slopes))
