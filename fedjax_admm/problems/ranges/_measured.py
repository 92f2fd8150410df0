r"""Ranges as they are measured: offsets, several and missing ones, clocks, and paths.

    d_lti = scale_l (||x_t - a_l|| + c_t + b_l) + noise

Client l is an anchor at `a_l` with the ranges i = 1, 2, ... at the times t. Its offset `b_l`, such
as a delay of its antenna or the detour of a blocked path, is known to nobody. `c_t` is an unknown
offset that all anchors share, that of the target's clock, or 0. The loss of a client is

    f_l(x, c) = min over b of  sum_ti w_lti | ||x_t - a_l|| + c_t + b - d_lti / scale_l |
                               + p_l (b - m_l)^2 / 2,     lower_l <= b <= upper_l

so the offset is a private variable: it is part of no model and of no message, and every solver for
the client's own capabilities finds it. f_l is a difference of convex functions, with the sum
`W_lt = sum_i w_lti`:

    f_l = Gamma_l - phi_l,   phi_l = sum_t s_lt ||x_t - a_l||,   Gamma_l = f_l + phi_l

In the radii, c and b together f_l is convex, and so is Gamma_l in x, because it does not fall where
a radius grows: -s_lt is the slope of f_l at the radius 0 for a lone position without a clock, and
s_lt = W_lt otherwise. Without offsets and with one range, Gamma_l is `2 max(0, ||x - a|| - d)` plus
a constant, as in the paper.

Reference: R. Mirzaeifard, A. Moradi, M. Yukawa, S. Werner, "Federated Smoothing ADMM for
Localization", arXiv:2503.09497 (2025), equations (3)-(8).
"""

from dataclasses import field, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm import kernels
from fedjax_admm._checks import (
    finite_array,
    is_concrete,
    number,
    of_shape,
    refuse,
    refuse_entries,
)
from fedjax_admm._pytrees import pytree_dataclass


@pytree_dataclass
class Offsets:
    """What is known of the offsets of anchors, metres."""

    centre: jax.Array  # shape=(clients,): m, the mean of the prior
    precision: jax.Array  # shape=(clients,): p, loss per square metre; 0 without a prior
    lower: jax.Array  # shape=(clients,): may be minus infinity
    upper: jax.Array  # shape=(clients,): may be infinity


@pytree_dataclass
class RangeLocalization:
    """Anchors and their ranges to one position, or to a path; build it with `localization`.

    A model is flat, (times * columns,): of each time the position and, with a clock, c_t.
    """

    anchors: jax.Array  # shape=(clients, dim), metres
    ranges: jax.Array  # shape=(clients, times, ranges): d / scale, metres; 0 where missing
    weights: jax.Array  # shape=(clients, times, ranges): w; 0 where missing
    steepness: jax.Array  # shape=(clients, times): s, loss per metre
    unit: jax.Array  # shape=(): the number by which weights and precisions are divided
    offsets: Offsets | None  # None where offsets are known to be 0
    start: jax.Array  # shape=(times * columns,): the server's first guess, metres
    target: jax.Array | None = None  # shape=(dim,), or (times, dim) of a path, metres
    # of the model of one time: dim, and one more with a clock
    columns: int = field(default=0, metadata={"static": True})

    spread: ClassVar[tuple[str, ...]] = ("anchors", "ranges", "weights", "steepness", "offsets")

    @property
    def num_clients(self) -> int:
        """Return the number of anchors."""
        return self.anchors.shape[0]

    @property
    def dim(self) -> int:
        """Return the dimension of space."""
        return self.anchors.shape[1]

    @property
    def times(self) -> int:
        """Return the number of times."""
        return self.ranges.shape[1]

    @property
    def measured(self) -> jax.Array:
        """Return which ranges there are, bool, shape (clients, times, ranges)."""
        return self.weights > 0

    def positions(self, model: jax.Array) -> jax.Array:
        """Return the positions of a model (times * columns,), shape (times, dim), metres."""
        return self._by_time(model)[..., : self.dim]

    def clock_offsets(self, model: jax.Array) -> jax.Array:
        """Return the common offsets c_t of a model, shape (times,), metres; 0 without a clock."""
        return self._shared(self._by_time(model))

    def offsets_at(self, points: jax.Array) -> jax.Array:
        """Return each client's best offset at its own point: (clients, model) to (clients,)."""
        lengths, _ = self._lengths(points)
        return self._profile(lengths)[0]

    def residuals(self, model: jax.Array) -> jax.Array:
        """Return `||x_t - a_l|| + c_t + b_l - d` at the best offsets, in metres; 0 where missing.

        Args:
          model: shape (times * columns,).

        Returns:
          Shape (clients, times, ranges).
        """
        lengths, _ = self._lengths(jnp.broadcast_to(model, (self.num_clients, *model.shape)))
        offset, _ = self._profile(lengths)
        return jnp.where(self.measured, lengths[..., None] + offset[:, None, None] - self.ranges, 0)

    def values(self, points: jax.Array) -> jax.Array:
        """Return each f_l at its own point: (clients, model) to (clients,)."""
        return self.values_and_slopes(self._lengths(points)[0])[0]

    def values_and_slopes(self, lengths: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return each f_l as a function of `||x_t - a_l|| + c_t`, and its slopes.

        Args:
          lengths: shape (clients, times), metres.

        Returns:
          Values, shape (clients,), and slopes, shape (clients, times, ranges).
        """
        offset, slopes = self._profile(lengths)
        residual = lengths[..., None] + offset[:, None, None] - self.ranges
        total = jnp.sum(self.weights * jnp.abs(residual), (1, 2))
        if self.offsets is not None:
            total += self.offsets.precision * (offset - self.offsets.centre) ** 2 / 2
        return total, slopes

    def divided(self, unit: jax.Array) -> "RangeLocalization":
        """Return the problem with all losses divided by a number, shape ()."""
        offsets = self.offsets
        if offsets is not None:
            offsets = replace(offsets, precision=offsets.precision / unit)
        return replace(
            self,
            weights=self.weights / unit,
            steepness=self.steepness / unit,
            unit=self.unit * unit,
            offsets=offsets,
        )

    def gradients(self, points: jax.Array, key: jax.Array | None = None) -> jax.Array:
        """Return one subgradient of each f_l at its own point; 0 in x_t where it is the anchor.

        Args:
          points: shape (clients, model), one model per client.
          key: not used.
        """
        lengths, direction = self._lengths(points)
        _, slopes = self._profile(lengths)
        by_time = jnp.sum(slopes, -1)
        parts = by_time[..., None] * direction
        if self.columns > self.dim:
            parts = jnp.concatenate([parts, by_time[..., None]], -1)
        return parts.reshape(points.shape)

    def prox_memory(self, start: jax.Array) -> tuple[()]:
        """Return nothing: the prox is exact."""
        return ()

    def prox(self, points: jax.Array, step: jax.Array, memory: Any) -> tuple[jax.Array, Any]:
        """Return a global minimiser of each `f_l(w) + ||w - x_l||^2 / (2 step_l)`."""
        return self._prox(points, step, 0.0), memory

    def prox_convex_part(self, points: jax.Array, step: jax.Array) -> jax.Array:
        """Return the prox of each Gamma_l; points (clients, model), step (clients,)."""
        return self._prox(points, step, self.steepness)

    def prox_concave_part(self, points: jax.Array, step: jax.Array, mu: jax.Array) -> jax.Array:
        """Return the prox of minus the Moreau envelopes of the terms of phi_l, `step < mu`.

        The envelope of `s ||.||` with mu is s times that of the norm with `s mu`.
        """
        rows = self._by_time(points)
        moved = kernels.prox_negative_moreau_norm(
            rows[..., : self.dim],
            self.anchors[:, None],
            step[:, None] * self.steepness,
            mu[:, None] * self.steepness,
            scaled=False,
        )
        return jnp.concatenate([moved, rows[..., self.dim :]], -1).reshape(points.shape)

    def take(self, clients: jax.Array) -> "RangeLocalization":
        """Return the problem of some clients only."""
        parts = {name: getattr(self, name) for name in self.spread}
        return replace(self, **jax.tree.map(lambda part: part[clients], parts))

    def _by_time(self, model: jax.Array) -> jax.Array:
        return model.reshape(*model.shape[:-1], -1, self.columns)

    def _shared(self, rows: jax.Array) -> jax.Array:
        return rows[..., self.dim] if self.columns > self.dim else jnp.zeros_like(rows[..., 0])

    def _lengths(self, points: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return `||x_t - a|| + c_t`, (clients, times), and unit vectors (clients, times, dim)."""
        rows = self._by_time(points)
        offset = rows[..., : self.dim] - self.anchors[:, None]
        radius = kernels.safe_norm(offset)
        direction = offset / jnp.maximum(radius, 1e-12)[..., None]
        return radius + self._shared(rows), direction

    def _profile(self, lengths: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Return the best offsets (clients,) and slopes in lengths (clients, times, ranges)."""
        if self.offsets is None:
            residual = lengths[..., None] - self.ranges
            return jnp.zeros_like(lengths[:, 0]), self.weights * jnp.sign(residual)
        shape = self.ranges.shape
        best, slopes = kernels.range_offset(
            jnp.broadcast_to(lengths[..., None], shape).reshape(shape[0], -1),
            self.ranges.reshape(shape[0], -1),
            self.weights.reshape(shape[0], -1),
            centre=self.offsets.centre,
            precision=self.offsets.precision,
            lower=self.offsets.lower,
            upper=self.offsets.upper,
        )
        return best, slopes.reshape(shape)

    def _prox(self, points: jax.Array, step: jax.Array, pull: Any) -> jax.Array:
        prior = (
            {}
            if self.offsets is None
            else {
                "centre": self.offsets.centre,
                "precision": self.offsets.precision,
                "lower": self.offsets.lower,
                "upper": self.offsets.upper,
            }
        )
        rows = self._by_time(points)
        moved, _ = kernels.prox_ranges(
            rows, self.anchors, self.ranges, step, self.weights, pull=pull, **prior
        )
        return moved.reshape(points.shape)


def measured_ranges(
    anchors: jax.Array,
    distances: ArrayLike,
    *,
    start: ArrayLike | None,
    target: ArrayLike | None,
    sigma: ArrayLike | None,
    weight: ArrayLike | None,
    scale: ArrayLike | None,
    offset_scale: ArrayLike | None,
    offset_centre: ArrayLike | None,
    offset_bounds: tuple[ArrayLike, ArrayLike] | None,
    clock: bool,
    path: bool,
) -> RangeLocalization:
    """Build the problem of ranges with offsets; the arguments are those of `localization`."""
    (clients, dim), dtype = anchors.shape, anchors.dtype
    ranges, measured = _cells(distances, clients, path)
    times = ranges.shape[1]
    if not clock:
        number("distances", jnp.where(measured, ranges, 1) if is_concrete(ranges) else 1, above=0)

    def per_range(name: str, value: ArrayLike | None) -> jax.Array:
        """Return positive numbers that broadcast against (clients, times, ranges)."""
        if value is None:
            return jnp.ones((1, 1, 1), dtype)
        value = number(name, value, above=0).astype(dtype)
        of_shape(name, value, (), (clients,), np.shape(distances))
        lone = value.shape in ((), (clients,))
        return value.reshape((-1, 1, 1) if lone else ranges.shape)

    def per_client(name: str, value: ArrayLike, check: Any = number, **limits: float) -> jax.Array:
        value = jnp.asarray(check(name, value, **limits), dtype)
        of_shape(name, value, (), (clients,))
        return jnp.broadcast_to(value, (clients,))

    ratio = jnp.ones(clients, dtype) if scale is None else per_client("scale", scale, above=0)
    ranges = ranges.astype(dtype) / ratio[:, None, None]
    weights = per_range("weight", weight) / per_range("sigma", sigma) * ratio[:, None, None]
    weights = jnp.where(measured, weights, 0)
    offsets = None
    if offset_scale is not None or offset_bounds is not None:
        lower, upper = (-np.inf, np.inf) if offset_bounds is None else _bounds(offset_bounds)
        known = jnp.zeros(clients, dtype)
        if offset_scale is not None:
            known = 1 / per_client("offset_scale", offset_scale, above=0) ** 2
        offsets = Offsets(
            per_client("offset_centre", 0.0 if offset_centre is None else offset_centre),
            known,
            per_client("offset_bounds", lower, lambda name, value: value),
            per_client("offset_bounds", upper, lambda name, value: value),
        )
    first = jnp.mean(anchors, 0) if start is None else _positions("start", start, times, dim)
    rows = jnp.broadcast_to(first.astype(dtype), (times, dim))
    if clock:
        gaps = ranges - kernels.safe_norm(rows[None] - anchors[:, None])[..., None]
        gaps = jnp.where(measured, gaps, jnp.nan)
        middle = jnp.nanmedian(gaps, (0, 2))
        middle = jnp.where(jnp.isnan(middle), jnp.nanmedian(gaps), middle)
        rows = jnp.concatenate([rows, middle[:, None]], -1)
    if target is not None:
        shape = (times, dim) if path else (dim,)
        target = finite_array("target", target, shape).astype(dtype)
    problem = RangeLocalization(
        anchors,
        ranges,
        weights,
        jnp.sum(weights, -1),
        jnp.ones((), dtype),
        offsets,
        rows.reshape(-1),
        target,
        dim + bool(clock),
    )
    if times == 1 and not clock:
        at_anchors = problem.values_and_slopes(jnp.zeros((clients, 1), dtype))[1]
        problem = replace(problem, steepness=jnp.maximum(-jnp.sum(at_anchors, -1), 0))
    alone = clients == 1 and start is not None
    return problem if alone else problem.divided(_mean_of_positive(problem.steepness))


def _mean_of_positive(numbers: jax.Array) -> jax.Array:
    """Return the mean of those numbers that are positive; 1 if none is."""
    count = jnp.sum(numbers > 0, dtype=numbers.dtype)
    return jnp.where(count > 0, jnp.sum(numbers) / jnp.maximum(count, 1), 1)


def _cells(distances: ArrayLike, clients: int, path: bool) -> tuple[jax.Array, jax.Array]:
    """Return ranges (clients, times, ranges), 0 where missing, and which there are."""
    array = jnp.asarray(distances)
    several = (clients, None, None) if path else (clients, None)
    of_shape("distances", array, several[:-1], several)
    if array.ndim == 1 or (path and array.ndim == 2):
        array = array[..., None]
    if not path:
        array = array[:, None]
    measured = ~jnp.isnan(array)
    if is_concrete(array):
        host, remedy = np.asarray(distances), "give NaN for a range that is missing"
        refuse_entries(np.isinf(host), "distances", "must be finite or NaN", host, remedy)
        none = not np.any(np.asarray(measured))
        refuse(none, "distances", "must hold at least one range, but all entries are NaN")
    return jnp.where(measured, array, 0), measured


def _positions(name: str, value: ArrayLike, times: int, dim: int) -> jax.Array:
    """Return one position (dim,), or one for each time (times, dim)."""
    return finite_array(name, value, (dim,) if np.ndim(value) == 1 else (times, dim))


def _bounds(bounds: Any) -> tuple[Any, Any]:
    """Check a pair of bounds, each a number or one per client."""
    pair = isinstance(bounds, tuple | list) and len(bounds) == 2
    refuse(not pair, "offset_bounds", "must be a pair (lower, upper)", bounds)
    lower, upper = bounds
    if is_concrete((lower, upper)):
        fits = np.all(np.asarray(lower) < np.asarray(upper))
        refuse(not fits, "offset_bounds", "must be a lower bound below an upper one", bounds)
    return lower, upper
