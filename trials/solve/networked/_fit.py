r"""Models for the nodes of a network of a user's own: build the graph, fit, compare honestly.

    minimise   sum_i 1/m_i ||X_i w_i - y_i||^2 + lam sum_e A_e phi(w_{h_e} - w_{t_e})

A part of every node's rows is held out; three kinds of models are fitted to the others: one per
node on its own (least squares of minimum norm), one for all nodes, and one per node that is coupled
to its neighbours' (GTV). Errors are means over nodes of the mean squared error on held out rows.

Reference: Y. SarcheshmehPour, Y. Tian, L. Zhang, A. Jung, "Clustered Federated Learning via
Generalized Total Variation Minimization", 2023, and its experiment with weather stations.
"""

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm._run import run
from fedjax_admm.certificates import optimality_residual
from fedjax_admm.direct import cluster_oracle, local_models
from fedjax_admm.graphs import Graph, components
from fedjax_admm.losses import SquaredLoss, least_squares
from fedjax_admm.problems import Networked
from fedjax_admm.solvers import gtv_primal_dual
from fedjax_admm.trials.solve._work import check_work
from fedjax_admm.trials.solve.networked._settings import AUTO, PENALTIES, NetworkedSettings
from fedjax_admm.trials.solve.networked._splits import draw_splits, rows_needed
from fedjax_admm.trials.tables import NEAREST, WASSERSTEIN, NodeGraph, Observations

_QUADRATIC = ("mocha", "squared")
GRID = np.logspace(-3, 2, 13)  # in coupling units, for lam="auto"
SAME_MODEL = 1e-3  # neighbours whose models differ by less than this share of the median length


@dataclass(frozen=True)
class NetworkedFit:
    """What `fit_networked` found; errors are validation errors, means over nodes."""

    settings: NetworkedSettings
    observations: Observations
    network: NodeGraph
    lam: float
    models: np.ndarray  # shape=(nodes, dim): fitted to all rows
    cluster: np.ndarray  # shape=(nodes,), int: from 1, the largest cluster first
    errors: dict[str, np.ndarray]  # local, pooled, GTV -> shape=(reported splits,)
    reported: tuple[int, ...]  # numbers of those splits, from 1
    grid: np.ndarray  # shape=(lams,): tried; one if lam was given
    grid_errors: np.ndarray  # shape=(lams, splits)
    residual: float  # relative optimality residual of the final fit

    @property
    def cluster_sizes(self) -> np.ndarray:
        """Return the sizes of the clusters, largest first; clusters of one node included."""
        return np.bincount(self.cluster)[1:]

    @property
    def chosen_on(self) -> tuple[int, ...]:
        """Return the numbers of the splits that chose lam; empty if it was given."""
        return tuple(range(1, self.reported[0]))


def check_size(observations: Observations, settings: NetworkedSettings) -> None:
    """Check that distances and models are found within a day and the memory.

    Raises:
      InputError: they are not.
    """
    nodes, dim = len(observations.nodes), len(observations.columns)
    rows = nodes * int(observations.counts.max())
    splits, rounds = settings.splits + 1, settings.rounds
    models = float(splits) * nodes * dim * (len(GRID) if settings.lam == AUTO else 1)
    drawn = settings.graph in (WASSERSTEIN, NEAREST)
    pairs = nodes**2 / 2 if drawn else 0.0
    told = f"{rounds} rounds on {splits - 1} {{splits}} of {nodes} nodes with {dim} coefficients"
    check_work(
        settings,
        told,
        "take fewer {rounds}, {splits}, nodes or columns"
        + (", or give the edges in a file with {graph}" if drawn else ""),
        steps=rounds + float(splits) * nodes,  # every node's rows are dealt for every split
        numbers=2.0 * rounds * models * dim + float(splits) * rows * dim**2 + pairs * dim**3,
        held=2 * models + splits * (nodes * dim**2 + rows) + rows * dim + 3 * pairs,
    )


def fit_networked(
    observations: Observations, network: NodeGraph, settings: NetworkedSettings
) -> NetworkedFit:
    """Compare local, pooled and coupled models on held out rows; fit coupled ones to all rows.

    With lam "auto", a grid of 13 numbers is tried, `GRID` times `coupling_unit`. The first half of
    the splits (rounded down) chooses, by the mean validation error, the smaller number where two
    are equally good; the errors that are reported, for all methods, are those of the other splits.
    Splits hold out rows of the same file, so that a trace of optimism remains.

    Two nodes are in one cluster if a path of edges joins them along which models differ by at most
    a thousandth of the median length of all models. All splits and the final fit run in one
    compiled call.

    Raises:
      InputError: a node has too few rows, or the models are not finite.
    """
    graph, counts = network.graph, observations.counts
    lam, splits, validation = settings.lam, settings.splits, settings.validation
    if counts.min() < rows_needed(validation):
        raise InputError(
            f"every node must have at least {rows_needed(validation)} rows, but node "
            f"{observations.nodes[int(counts.argmin())]!r} has {counts.min()}."
        )
    x, y = observations.stacked()
    here = np.arange(x.shape[1]) < counts[:, None]
    held_out = draw_splits(counts, validation, splits, settings.seed)
    training = np.concatenate([here & ~held_out, here[None]])  # the last "split" keeps all rows
    if lam == AUTO:
        grid = _rounded(GRID * coupling_unit(x, y, here, graph, settings.penalty))
    else:
        grid = np.array([lam])
    losses = [least_squares(jnp.asarray(x), jnp.asarray(y), w) for w in _shares(training)]
    fitted, residuals = _fit(
        graph,
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *losses),
        jnp.asarray(grid),
        PENALTIES[settings.penalty](),
        settings.rounds,
    )
    models = np.asarray(fitted)  # (splits + 1, 2 + lams, nodes, dim)
    if not (np.isfinite(models).all() and np.isfinite(residuals).all()):
        raise settings.mistake(
            "the models are not finite; bring the columns to a common scale, or choose another "
            "{lam}"
        )
    residual = np.einsum("nmd,sknd->sknm", x, models[:-1]) - y
    each = np.einsum("snm,sknm->skn", np.asarray(_shares(held_out)), residual**2)
    errors = each.mean(-1).T  # (2 + lams, splits)
    choosing = splits // 2 if lam == AUTO else 0
    best = _first_best(errors[2:, :choosing].mean(1)) if lam == AUTO else 0
    reported = dict(zip(("local", "pooled"), errors[:2, choosing:], strict=True))
    return NetworkedFit(
        settings=settings,
        observations=observations,
        network=network,
        lam=float(grid[best]),
        models=models[-1, 2 + best],
        cluster=clusters(graph, models[-1, 2 + best]),
        errors={**reported, "GTV": errors[2 + best, choosing:]},
        reported=tuple(range(choosing + 1, splits + 1)),
        grid=grid,
        grid_errors=errors[2:],
        residual=float(residuals[-1, best]),
    )


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
    pull = np.asarray(graph.weighted_degrees)
    linked = pull > 0
    unit = np.median(np.linalg.norm(gradient[linked], axis=1) / pull[linked])
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
    difference = np.linalg.norm(models[graph.heads] - models[graph.tails], axis=1)
    agree = jnp.asarray(difference <= SAME_MODEL * length)
    kept = jnp.where(agree, graph.weights, jnp.zeros_like(graph.weights))
    labels = np.asarray(components(replace(graph, weights=kept)))
    _, first, members = np.unique(labels, return_index=True, return_inverse=True)
    sizes = np.bincount(members)
    rank = np.empty(len(sizes), int)
    rank[np.lexsort((first, -sizes))] = np.arange(1, len(sizes) + 1)
    return rank[members]


@partial(jax.jit, static_argnames="rounds")
def _fit(graph: Graph, losses: SquaredLoss, lams: jax.Array, penalty, rounds: int):
    """Return models (splits, 2 + lams, nodes, dim) and residuals (splits, lams) of every split.

    The first models are the local and the pooled ones.
    """

    def on_split(loss: SquaredLoss):
        everyone = jnp.ones(loss.correlation.shape[0], bool)
        problem = Networked(graph, loss, everyone, jnp.zeros_like(loss.correlation))

        def at(lam):
            solver = gtv_primal_dual(problem, lam, penalty, rounds=rounds)
            done = run(solver, problem, jax.random.key(0), rounds=rounds, every=rounds)
            return done.estimate, optimality_residual(solver, problem, done.state.solver)

        coupled, residual = jax.vmap(at)(lams)
        together = jnp.zeros(problem.num_clients, int)
        pooled = cluster_oracle(problem, together, clusters=1)
        alone = jnp.stack([local_models(problem), pooled])
        return jnp.concatenate([alone, coupled]), residual

    return jax.vmap(on_split)(losses)


def _shares(rows: np.ndarray) -> jax.Array:
    """Return the weight of every row in its node's mean, shape (..., nodes, rows)."""
    return jnp.asarray(rows / np.maximum(rows.sum(-1, keepdims=True), 1))


def _first_best(errors: np.ndarray) -> int:
    """Return the first of the smallest errors; those that differ by rounding are equal."""
    return int(np.flatnonzero(errors <= errors.min() * (1 + 1e-9))[0])


def _rounded(values: np.ndarray) -> np.ndarray:
    """Round to three digits, so that a number repeats as it is printed."""
    return np.array([float(f"{value:.3g}") for value in values])
