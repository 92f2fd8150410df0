r"""What is solved with compressed messages: nine tasks, of all families.

    FedADMM           least absolute deviations, clients with a prox
    SCAFFOLD          the same, clients with subgradient steps
    HFSAD             the same, clients with a prox below edge servers
    private ADMM      the same, clients on a graph, subgradients; the release is exact
    FedADMM, smooth   least squares on the same data, gradient steps
    SCAFFOLD, smooth  the same
    GTV               regression on a network of two clusters, network Lasso
    FedMC             synthetic ratings; not convex
    FSMDM             range localisation in three dimensions; neither convex nor smooth

Data of the first six. y = <x, w_k> + noise with a model w_k = w + shift u_k / sqrt(dim) per client,
x and w standard normal, noise of Student's distribution with 2 degrees of freedom, scaled by 0.5.
The mean loss of all samples is minimised.

The release of private ADMM is exact, so that there is something to reach: the error of a run with
noise is that of its noise. What an exchange does to messages comes after the release and costs no
privacy.

Suboptimality is `(F(w_t) - F*) / (F(w_0) - F*)`. F* is found directly: by ADMM on all samples
together (absolute deviations), normal equations (squares), a search of the cube (localisation); for
GTV and FedMC it is what `REFERENCE` rounds without compression reach, and FedMC is not convex.
Clients on a graph have models of their own: of private ADMM, F is the mean of everybody's loss at
the model of the first, and of GTV the objective with its network Lasso.

HFSAD has constant penalties and hardly any smoothing here, which suits a convex problem: with the
published schedules it reached 1e-2 in 300 rounds, compressed or not.
"""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_admm import graphs, penalties, problems, solvers, trees
from fedjax_admm._checks import count, default_float, number
from fedjax_admm._run._rounds import run
from fedjax_admm.direct import locate_centrally
from fedjax_admm.losses import absolute
from fedjax_admm.measures import completion_objective
from fedjax_admm.privacy import exact_release
from fedjax_admm.ratings import Shape, draw_ratings, given_start
from fedjax_admm.schedules import constant, power_decay
from fedjax_admm.trials.experiments import _tuning
from fedjax_admm.trials.experiments._experiment import Settings
from fedjax_admm.trials.experiments._tuning import Setting, Tuned, between
from fedjax_admm.trials.experiments.peers._pinball import (
    heavy_noise,
    minimize_together,
    pinball_problem,
)

PASSES = 2
"""Passes of the prox of absolute deviations over a client's samples."""
REFERENCE = 1000
"""Rounds without compression after which the objective counts as the least one."""
CHORD, BRIDGES = 4, 2
SMOOTHING = 1e-3
ACCESSIBLE = 0.6
SENSORS, HALF_WIDTH = 21, 30.0
RANK, USERS = 2, 4
FEDMC_BETA, FIRST_FACTORS = 1.0, 0.3
_HIGHEST = jax.lax.Precision.HIGHEST


class Posed(NamedTuple):
    """A problem, and between what its objective moves."""

    problem: Any
    first: jax.Array  # shape=(): the objective at the start
    least: jax.Array  # shape=(): the least one, about


class Data(NamedTuple):
    """Samples of clients, which several tasks have in common."""

    x: jax.Array  # shape=(clients, samples, dim)
    y: jax.Array  # shape=(clients, samples)
    best: jax.Array  # shape=(dim,): about the minimiser of the mean of absolute residuals


# --- regression ---


def draw_data(settings: Settings, key: jax.Array) -> Data:
    """Draw the samples of all clients."""
    clients, dim = count("clients", settings["clients"]), count("dim", settings["dim"])
    samples, dtype = count("samples", settings["samples"]), default_float()
    shift = number("shift", settings["shift"], at_least=0).astype(dtype)
    model_key, own_key, x_key, bell_key, tail_key = jax.random.split(key, 5)
    models = jax.random.normal(model_key, (1, dim), dtype)
    models = models + shift / dim**0.5 * jax.random.normal(own_key, (clients, dim), dtype)
    x = jax.random.normal(x_key, (clients, samples, dim), dtype)
    noise = heavy_noise(bell_key, tail_key, (clients, samples))
    y = jnp.einsum("csd,cd->cs", x, models, precision=_HIGHEST) + noise
    return Data(x, y, least_deviations(x, y, jnp.ones(clients, bool)))


def least_deviations(x: jax.Array, y: jax.Array, who: jax.Array) -> jax.Array:
    """Return the minimiser of the absolute deviations of some clients, shape (dim,)."""
    present = jnp.repeat(who, y.shape[1])
    return minimize_together(x, y, 0.5, present, penalties.zero(), REFERENCE)


def _residuals(data: Data, w: jax.Array) -> jax.Array:
    return data.y - jnp.einsum("csd,d->cs", data.x, w, precision=_HIGHEST)


def _squared(data: Data, w: jax.Array) -> jax.Array:
    return jnp.mean(_residuals(data, w) ** 2) / 2


def _posed_absolute(data: Data, problem: Any) -> Posed:
    least = jnp.mean(jnp.abs(_residuals(data, data.best)))
    return Posed(problem, jnp.mean(jnp.abs(data.y)), least)


def _squared_loss(w: jax.Array, sample: Any) -> jax.Array:
    return (sample["y"] - jnp.vdot(sample["x"], w, precision=_HIGHEST)) ** 2 / 2


def _star_absolute(settings: Settings, data: Data, key: jax.Array) -> Posed:
    return _posed_absolute(data, pinball_problem(data.x, data.y, 0.5, PASSES))


def squares_problem(data: Data) -> Any:
    """Return the problem of least squares on the data."""
    start = jnp.zeros(data.x.shape[-1], data.x.dtype)
    return problems.federated(_squared_loss, {"x": data.x, "y": data.y}, start)


def solved(gram: jax.Array, right: jax.Array) -> jax.Array:
    """Return the solution of normal equations, shape (dim,), by conjugate gradients.

    The platform's solver, mapped over trials, can stop a program on several CPU devices.
    """
    product = partial(jnp.matmul, gram, precision=_HIGHEST)
    return jax.scipy.sparse.linalg.cg(product, right, tol=1e-7, maxiter=10 * right.shape[0])[0]


def _star_squared(settings: Settings, data: Data, key: jax.Array) -> Posed:
    gram = jnp.einsum("csi,csj->ij", data.x, data.x, precision=_HIGHEST)
    best = solved(gram, jnp.einsum("csi,cs->i", data.x, data.y, precision=_HIGHEST))
    first = _squared(data, jnp.zeros_like(best))
    return Posed(squares_problem(data), first, _squared(data, best))


def _tree_absolute(settings: Settings, data: Data, key: jax.Array) -> Posed:
    clients = settings["clients"]
    edges = count("edges", settings["edges"], at_most=clients)
    sizes = [clients // edges + (i < clients % edges) for i in range(edges)]
    tree = trees.from_counts(sizes)
    return _posed_absolute(data, pinball_problem(data.x, data.y, 0.5, PASSES, topology=tree))


def _graph_absolute(settings: Settings, data: Data, key: jax.Array) -> Posed:
    clients, samples = data.y.shape
    graph = graphs.from_edges(clients, ring_with_chords(clients))
    none = jnp.zeros((), data.x.dtype)
    problem = problems.ConsensusRegression(
        graph,
        data.x,
        data.y,
        jnp.full(clients, samples, jnp.int32),
        absolute(),
        none,
        none,
        jnp.full(data.x.shape[-1], jnp.nan, data.x.dtype),
    )
    return _posed_absolute(data, problem)


def ring_with_chords(nodes: int) -> list[tuple[int, int]]:
    """Return the edges of a ring on which everybody also knows who is `CHORD` places away."""
    ends = {
        (min(a, b), max(a, b))
        for a in range(nodes)
        for b in ((a + 1) % nodes, (a + CHORD) % nodes)
        if a != b
    }
    return sorted(ends)


def mean_loss(solver: Any, problem: Any, state: Any) -> jax.Array:
    """Return the mean of all clients' losses at the server's model, shape ()."""
    return _mean_at(problem, solver.estimate(state))


def mean_loss_of_first(solver: Any, problem: Any, state: Any) -> jax.Array:
    """Return the mean of all clients' losses at the model of the first of them, shape ()."""
    return _mean_at(problem, solver.estimate(state)[0])


def _mean_at(problem: Any, model: jax.Array) -> jax.Array:
    rows = jnp.broadcast_to(model, (problem.num_clients, model.shape[0]))
    return jnp.mean(problem.values(rows))


# --- a network of two clusters ---


def _network(settings: Settings, data: Data, key: jax.Array) -> Posed:
    model_key, data_key, run_key = jax.random.split(key, 3)
    half = count("half of the clients", settings["clients"] // 2)
    one = ring_with_chords(half)
    bridges = [(place, half + place) for place in range(0, half, -(-half // BRIDGES))]
    graph = graphs.from_edges(2 * half, [*one, *((half + a, half + b) for a, b in one), *bridges])
    models = jax.random.normal(model_key, (2, settings["dim"]), default_float())
    problem = problems.draw_networked_regression(
        data_key,
        graph,
        jnp.repeat(models, half, 0),
        samples=settings["samples"],
        noise=0.5,
        share=ACCESSIBLE,
    )
    return _by_reference(problem, _gtv(Setting(3.0, 0.5), problem), total_variation, run_key)


LAM = 0.1
"""Strength of the network Lasso."""


def _gtv(setting: Setting, problem: Any, **more: Any) -> Any:
    ratio, margin = setting
    return solvers.gtv_primal_dual(problem, LAM, ratio=ratio, margin=margin, **more)


def total_variation(solver: Any, problem: Any, state: Any) -> jax.Array:
    """Return what GTV minimisation minimises, per node, shape ()."""
    models = solver.estimate(state)
    graph = problem.graph
    coupling = jnp.sum(graph.weights * solver.penalty.values(graph.difference(models)))
    return (jnp.sum(problem.values(models)) + solver.lam * coupling) / problem.num_clients


def _by_reference(problem: Any, solver: Any, objective: Any, key: jax.Array) -> Posed:
    """Return a problem whose least objective a run without compression says."""
    start_key, key = jax.random.split(key)
    first = objective(solver, problem, solver.init(problem, start_key))
    last = run(solver, problem, key, rounds=REFERENCE).state.solver
    return Posed(problem, first, objective(solver, problem, last))


# --- ratings ---


def _ratings(settings: Settings, data: Data, key: jax.Array) -> Posed:
    draw_key, deal_key, run_key = jax.random.split(key, 3)
    clients, items = count("clients", settings["clients"]) // 4, settings["items"]
    users = USERS * clients
    ratings = draw_ratings(draw_key, Shape(users, items, users * items // 3))
    problem = problems.matrix_completion(ratings, deal_key, clients=clients, train=1.0)
    solver = _fedmc(Setting(jnp.asarray(FEDMC_BETA), jnp.asarray(1.0)), problem)
    return _by_reference(problem, solver, completion, run_key)


def _fedmc(setting: Setting, problem: Any, **more: Any) -> Any:
    square = penalties.squared_l2(0.5)
    return solvers.fed_mc_admm(
        beta=setting.first,
        start=_factors(problem, FIRST_FACTORS),
        user_penalty=square,
        item_penalty=square,
        inner_steps=3,
        zero_dual=True,
        combined=True,
        **more,
    )


def _factors(problem: Any, scale: Any) -> Any:
    """Return the start of all runs, uniform on [0, scale], the same for everybody."""
    user_key, item_key = jax.random.split(jax.random.key(0))
    users = (problem.num_clients, USERS, RANK)
    return given_start(
        scale * jax.random.uniform(user_key, users, default_float()),
        scale * jax.random.uniform(item_key, (problem.num_items, RANK), default_float()),
    )


def completion(solver: Any, problem: Any, state: Any) -> jax.Array:
    """Return the objective of matrix completion at the last factors, shape ()."""
    return completion_objective(solver, problem, state.factors)


# --- localisation ---


def _cube(settings: Settings, data: Data, key: jax.Array) -> Posed:
    noise = problems.cauchy_noise(1.0)
    problem = problems.draw_localization(key, noise, clients=SENSORS, half_width=HALF_WIDTH)
    best = locate_centrally(problem, half_width=1.1 * HALF_WIDTH)
    return Posed(problem, _mean_at(problem, problem.start), _mean_at(problem, best))


# --- all of them ---


def _vector(settings: Settings) -> tuple[int, ...]:
    return (settings["dim"],)


def _hfsad(setting: Setting, problem: Any, **more: Any) -> Any:
    """Build HFSAD with constant penalties and little smoothing: here everything is convex."""
    sigma, omega = setting.first, setting.second
    children = jnp.max(problem.tree.children()[1]).astype(omega.dtype)
    smoothing = constant(SMOOTHING)
    clients = solvers.tree_link(constant(sigma), smoothing, penalties.l1(omega))
    servers = solvers.tree_link(constant(2 * sigma), smoothing, penalties.l1(children * omega))
    return solvers.hierarchical_admm(clients, [servers], **more)


def _private(setting: Setting, **more: Any) -> Any:
    steps = power_decay(setting.second, 0.5)
    release = exact_release()
    return solvers.private_networked_admm(release, rho=setting.first, step_size=steps, **more)


@dataclass(frozen=True)
class Task(Tuned):
    """A family of solvers on a problem; two numbers are tuned."""

    _: KW_ONLY
    draw: Callable[[Settings, Data, jax.Array], Posed]
    objective: Callable[..., jax.Array] = mean_loss  # (solver, problem, state) -> shape ()
    shape: Callable[[Settings], tuple[int, ...]] = _vector  # of a message
    fitted: bool = False  # whether the solver is built for a problem
    most: int = 300  # rounds, after which everything stays as it is
    both_ways: bool = False  # whether a message stands for one each way along an edge
    rank: int | None = None  # of low-rank messages, which some are no matrices for

    def solver(self, problem: Any, setting: Setting, **more: Any) -> Any:
        """Return the solver of a problem."""
        return self.build(setting, **({"problem": problem} if self.fitted else {}), **more)


_FEW, _RATES = (1.0, 3.0, 9.0), between(0.003, 0.1, 4)
_admm, _variates = _tuning.relaxed(solvers.fed_admm), _tuning.with_variates
_smooth_admm = _tuning.with_steps(solvers.fed_admm)
TASKS = {
    "FedADMM": Task(_admm, between(0.3, 10.0, 6), (1.0, 1.6), draw=_star_absolute, most=200),
    "SCAFFOLD": Task(_variates, _FEW, _RATES, draw=_star_absolute, most=200),
    "HFSAD": Task(_hfsad, between(0.3, 10.0, 6), (1.0, 3.0), draw=_tree_absolute, fitted=True),
    "private ADMM": Task(
        _private,
        (0.3, 1.0, 3.0),
        (0.3, 1.0, 3.0, 10.0),
        draw=_graph_absolute,
        objective=mean_loss_of_first,
    ),
    "FedADMM, smooth": Task(
        _smooth_admm, (0.3, 1.0, 3.0), between(0.01, 0.3, 4), draw=_star_squared, most=150
    ),
    "SCAFFOLD, smooth": Task(_variates, _FEW, _RATES, draw=_star_squared, most=150),
    "GTV": Task(
        _gtv,
        between(0.3, 30.0, 6),
        (0.25, 0.5),
        draw=_network,
        objective=total_variation,
        fitted=True,
        both_ways=True,
    ),
    "FedMC": Task(
        _fedmc,
        between(0.1, 3.0, 12),
        draw=_ratings,
        objective=completion,
        shape=lambda settings: (settings["items"], RANK),
        fitted=True,
        most=100,
        rank=1,
    ),
    "FSMDM": Task(
        partial(_tuning.scaled, "published", omega=100.0),
        between(0.1, 3.0, 6),
        (1.0, 3.0),
        draw=_cube,
        shape=lambda settings: (3,),
    ),
}
"""What a task is called -> what it is."""
