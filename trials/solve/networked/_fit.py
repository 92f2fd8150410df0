r"""Models for the nodes of a network of a user's own: build the graph, fit, compare honestly.

    minimise   sum_i 1/m_i ||X_i w_i - y_i||^2 + lam sum_e A_e phi(w_{h_e} - w_{t_e})

A part of every node's rows is held out; three kinds of models are fitted to the others: one per
node on its own (least squares of minimum norm), one for all nodes, and one per node that is coupled
to its neighbours' (GTV). Errors are means over nodes of the mean squared error on held out rows.

Features are standardised first (`_rows`), so that a penalty weighs them alike. Every coupled fit
runs until its objective is certified to be within a share of the optimum (`relative_gap`).

Reference: Y. SarcheshmehPour, Y. Tian, L. Zhang, A. Jung, "Clustered Federated Learning via
Generalized Total Variation Minimization", 2023, and its experiment with weather stations.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from fedjax_admm._checks import default_float
from fedjax_admm._drawings import components
from fedjax_admm._run._rounds import run_until
from fedjax_admm.certificates import relative_gap
from fedjax_admm.graphs import Graph
from fedjax_admm.losses import SquaredLoss, least_squares
from fedjax_admm.problems import Networked
from fedjax_admm.solvers import gtv
from fedjax_admm.trials.solve._solution import rounded
from fedjax_admm.trials.solve.networked._programs import kept
from fedjax_admm.trials.solve.networked._rows import (
    Units,
    draw_splits,
    standard_units,
    users_units,
)
from fedjax_admm.trials.solve.networked._settings import AUTO, PENALTIES, NetworkedSettings
from fedjax_admm.trials.tables._node_graphs import NEAREST, WASSERSTEIN, NodeGraph
from fedjax_admm.trials.tables._observations import Observations

_QUADRATIC = ("mocha", "squared")
_EVERY = 10  # rounds between two looks at the gap
GRID = np.logspace(-3, 2, 13)  # in coupling units, for lam="auto"
SAME_MODEL = 1e-3  # neighbours whose models differ by less than this share of the median length


@dataclass(frozen=True)
class NetworkedFit:
    """What `fit_networked` found; errors are validation errors, means over nodes."""

    settings: NetworkedSettings
    observations: Observations
    network: NodeGraph
    units: Units  # in which models are coupled
    lam: float
    models: np.ndarray  # shape=(nodes, dim): fitted to all rows, in the user's units
    cluster: np.ndarray  # shape=(nodes,), int: from 1, the largest cluster first
    errors: dict[str, np.ndarray]  # local, pooled, GTV -> shape=(reported splits,)
    reported: tuple[int, ...]  # numbers of those splits, from 1
    grid: np.ndarray  # shape=(lams,): tried; one if lam was given
    grid_errors: np.ndarray  # shape=(lams, splits)
    gaps: np.ndarray  # shape=(lams, splits + 1): relative duality gaps; last, of fits to all rows
    rounds: np.ndarray  # shape=(lams, splits + 1), int: how many were run

    @property
    def cluster_sizes(self) -> np.ndarray:
        """Return the sizes of the clusters, largest first; clusters of one node included."""
        return np.bincount(self.cluster)[1:]

    @property
    def chosen_on(self) -> tuple[int, ...]:
        """Return the numbers of the splits that chose lam; empty if it was given."""
        return tuple(range(1, self.reported[0]))

    @property
    def chosen(self) -> int:
        """Return the place of lam in the grid."""
        return int(np.flatnonzero(self.grid == self.lam)[0])

    @property
    def converged(self) -> np.ndarray:
        """Return which fits are certified, shape (lams, splits + 1), bool."""
        return self.gaps <= self.settings.gap


def check_size(observations: Observations, settings: NetworkedSettings) -> None:
    """Check that distances and models fit into memory."""
    nodes, dim = len(observations.nodes), len(observations.columns)
    rows = nodes * int(observations.counts.max())
    splits = settings.splits + 1
    models = float(splits) * nodes * dim * (len(GRID) if settings.lam == AUTO else 1)
    drawn = settings.graph in (WASSERSTEIN, NEAREST)
    pairs = nodes**2 / 2 if drawn else 0.0
    numbers = 2 * models + splits * (nodes * dim**2 + rows) + rows * dim + 3 * pairs
    what = f"{splits - 1} {{splits}} of {nodes} nodes with {dim} coefficients"
    less = "take fewer {splits}, nodes or columns"
    less += ", or give the edges in a file with {graph}" if drawn else ""
    settings.check_memory(what, numbers, less)


def fit_networked(
    observations: Observations, network: NodeGraph, settings: NetworkedSettings
) -> NetworkedFit:
    """Compare local, pooled and coupled models on held out rows; fit coupled ones to all rows.

    With lam "auto", a grid of 13 numbers is tried, `GRID` times `coupling_unit`. The first half of
    the splits (rounded down) chooses, by the mean validation error, the smaller number where two
    are equally good; the errors that are reported, for all methods, are those of the other splits.
    Splits hold out rows of the same file, so that a trace of optimism remains.

    Two nodes are in one cluster if a path of edges joins them along which models differ by at most
    a thousandth of the median length of all models, in the units in which they are coupled. All
    splits, all numbers of the grid and the final fit are one compiled program.
    """
    graph, counts, lam = network.graph, observations.counts, settings.lam
    x, y = observations.stacked()
    here = np.arange(x.shape[1]) < counts[:, None]
    with np.errstate(over="ignore", invalid="ignore"):  # looked at when all is done
        units = users_units(x.shape[-1]) if settings.raw else standard_units(x[here], y[here])
        x = np.where(here[..., None], units.features(x), 0.0)
        y = np.where(here, y - units.level, 0.0)
        held_out = draw_splits(counts, settings.validation, settings.splits, settings.seed)
        training = np.concatenate([here & ~held_out, here[None]])  # the last "split" keeps all rows
        grid = np.array([lam])
        if lam == AUTO:
            grid = rounded(GRID * coupling_unit(x, y, here, graph, settings.penalty), 3)
    _check_finite(settings, x, y, grid)
    every = min(_EVERY, settings.rounds)
    losses = _losses(x, y, _shares(training))
    # Here, where the graph is known, its Laplacian is decomposed.
    solver = gtv(_problem(graph, losses), 1.0, PENALTIES[settings.penalty]())
    most = settings.rounds - settings.rounds % every
    fitted = _fit(solver, graph, losses, grid, settings.gap, rounds=most, every=every)
    # Shapes: (splits + 1, lams, nodes, dim), (splits + 1, lams), (splits + 1, lams).
    coupled, gaps, rounds = map(np.asarray, fitted)
    alone = np.stack([_local(losses), _pooled(x, y, _shares(training))], axis=1)
    models = np.concatenate([alone, coupled], axis=1)  # (splits + 1, 2 + lams, nodes, dim)
    _check_finite(settings, models)
    residual = np.einsum("nmd,sknd->sknm", x, models[:-1]) - y
    each = np.einsum("snm,sknm->skn", _shares(held_out), residual**2)
    errors = each.mean(-1).T  # (2 + lams, splits)
    choosing = settings.splits // 2 if lam == AUTO else 0
    best = _first_best(errors[2:, :choosing].mean(1)) if lam == AUTO else 0
    reported = dict(zip(("local", "pooled"), errors[:2, choosing:], strict=True))
    return NetworkedFit(
        settings=settings,
        observations=observations,
        network=network,
        units=units,
        lam=float(grid[best]),
        models=units.in_users(models[-1, 2 + best]),
        cluster=clusters(graph, models[-1, 2 + best]),
        errors={**reported, "GTV": errors[2 + best, choosing:]},
        reported=tuple(range(choosing + 1, settings.splits + 1)),
        grid=grid,
        grid_errors=errors[2:],
        gaps=np.maximum(gaps.T, 0),  # below by rounding
        rounds=rounds.T,
    )


def _check_finite(settings: NetworkedSettings, *arrays: np.ndarray) -> None:
    if not all(np.isfinite(array).all() for array in arrays):
        remedy = "bring the columns to a common scale, or choose another {lam}"
        raise settings.mistake(f"the models are not finite; {remedy}")


def coupling_unit(x, y, here, graph: Graph, penalty: str) -> float:
    """Return the lam at which a typical node is pulled by its edges as much as by its data.

    With every node at the pooled model, its data pull with the gradient g_i of its loss. Its edges
    can pull with lam times their total weight d_i (norms), or, per unit of difference, with that
    (squares): the unit is the median of ||g_i|| / d_i over nodes with neighbours, for squares
    divided by the median distance of local models from the pooled one.

    It is 1 where nothing pulls. Shapes: x (nodes, rows, dim), padded, y and here, which rows are
    there, (nodes, rows).
    """
    weights = here / here.sum(1, keepdims=True)
    root = np.sqrt(weights)[..., None]
    scaled, answers = root * x, root[..., 0] * y
    pooled = np.linalg.lstsq(scaled.reshape(-1, x.shape[-1]), answers.ravel())[0]
    gradient = 2 * np.einsum("nm,nmd->nd", weights * (x @ pooled - y), x)
    heads, tails, size = (np.asarray(part) for part in (graph.heads, graph.tails, graph.weights))
    pull = np.bincount(heads, size, len(gradient)) + np.bincount(tails, size, len(gradient))
    reached = np.asarray(pull > 0)
    unit = np.median(np.linalg.norm(gradient[reached], axis=1) / pull[reached])
    if penalty in _QUADRATIC:
        local = np.einsum("ndm,nm->nd", np.linalg.pinv(scaled), answers)
        unit = unit / max(np.median(np.linalg.norm(local - pooled, axis=1)), 1e-300)
    return float(unit) if np.isfinite(unit) and unit > 0 else 1.0


def clusters(graph: Graph, models: np.ndarray) -> np.ndarray:
    """Return the cluster of every node, shape (nodes,), from 1, the largest cluster first.

    A cluster is a component of the graph of those edges whose two models differ by at most
    `SAME_MODEL` times the median length of all models.
    """
    length = np.median(np.linalg.norm(models, axis=1))
    heads, tails = (np.asarray(ends) for ends in (graph.heads, graph.tails))
    difference = np.linalg.norm(models[heads] - models[tails], axis=1)
    used = (np.asarray(graph.weights) != 0) & (difference <= SAME_MODEL * length)
    members = components(heads[used], tails[used], graph.num_nodes)
    _, first = np.unique(members, return_index=True)
    sizes = np.bincount(members)
    rank = np.empty(len(sizes), int)
    rank[np.lexsort((first, -sizes))] = np.arange(1, len(sizes) + 1)
    return rank[members]


def _losses(x: np.ndarray, y: np.ndarray, shares: np.ndarray) -> SquaredLoss:
    """Return the losses of all splits, stacked but for features and targets."""
    splits, nodes, rows = shares.shape
    # All nodes of all splits are factored at once, by LAPACK.
    data = (np.broadcast_to(part, (splits, *part.shape)) for part in (x, y))
    data = [part.reshape(-1, *part.shape[2:]) for part in data]
    together = least_squares(*jax.device_put([*data, shares.reshape(-1, rows)]))
    stacked = jax.tree.map(
        lambda leaf: np.asarray(leaf).reshape(splits, nodes, *leaf.shape[1:]), together
    )
    return replace(stacked, features=x, targets=y)


_AXES: tuple[Any, ...] = (None, None, 0, 0, 0, 0, 0, 0)
_STACKED = SquaredLoss(*_AXES)  # what every split has of its own


@kept
@partial(jax.jit, static_argnames=("rounds", "every"))
def _fit(solver, graph: Graph, losses: SquaredLoss, lams, tolerance, *, rounds: int, every: int):
    """Return every split's models (splits, lams, nodes, dim), gaps and rounds (splits, lams)."""

    def on_split(loss: SquaredLoss):
        problem = _problem(graph, loss)

        def at(lam):
            done = run_until(
                replace(solver, lam=lam),
                problem,
                jax.random.key(0),
                residual=relative_gap,
                tolerance=tolerance,
                max_rounds=rounds,
                every=every,
            )
            return done.estimate, done.trace["residual"][0], done.state.index

        return jax.lax.map(at, lams)

    return jax.vmap(on_split, (_STACKED,))(losses)


def _problem(graph: Graph, loss: SquaredLoss) -> Networked:
    """Return the network whose nodes all have data and start at zero."""
    size = (graph.num_nodes, loss.features.shape[-1])
    observed, start = np.ones(size[0], bool), np.zeros(size, default_float())
    return Networked(graph, loss, *jax.device_put((observed, start)))


def _local(losses: SquaredLoss) -> np.ndarray:
    """Return every node's own least squares model of minimum norm, (splits, nodes, dim)."""
    basis, singular = np.asarray(losses.basis), np.asarray(losses.singular)
    seen = singular > 0
    along = np.where(seen, losses.projected / np.where(seen, singular, 1), 0)
    return np.einsum("snrd,snr->snd", basis, along)


def _pooled(x: np.ndarray, y: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Return one least squares model for all nodes, as equal rows (splits, nodes, dim)."""
    found = []
    for root in np.sqrt(shares):
        rows = (root[..., None] * x).reshape(-1, x.shape[-1])
        found.append(np.linalg.lstsq(rows, (root * y).ravel())[0])
    return np.broadcast_to(np.stack(found)[:, None], (len(shares), *x.shape[::2]))


def _shares(rows: np.ndarray) -> np.ndarray:
    """Return the weight of every row in its node's mean, shape (..., nodes, rows)."""
    return rows / np.maximum(rows.sum(-1, keepdims=True), 1)


def _first_best(errors: np.ndarray) -> int:
    """Return the first of the smallest errors; those that differ by rounding are equal."""
    return int(np.flatnonzero(errors <= errors.min() * (1 + 1e-9))[0])
