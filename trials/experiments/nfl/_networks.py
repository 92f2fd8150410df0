"""A network that was drawn, and what the methods of the networked experiments see of it."""

from dataclasses import field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_admm._checks import number
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.graphs import Graph
from fedjax_admm.measures import model_error
from fedjax_admm.problems import Networked, draw_networked_regression, with_access
from fedjax_admm.solvers import GTVPrimalDual, gtv_step_ratio
from fedjax_admm.trials.experiments._methods import Method, SolverMethod, at_every_record

SENT = {
    "numbers_up": "numbers sent along edges, head to tail",
    "numbers_down": "numbers sent along edges, tail to head",
}


class Drawn(NamedTuple):
    """A network without noise where all data are accessible, and what methods do to it."""

    problem: Networked
    noise: jax.Array  # shape=(nodes, samples): standard normal
    rank: jax.Array  # shape=(nodes,), int32: a share of s sees the nodes of rank below s * nodes
    labels: jax.Array  # shape=(nodes,), int32: true clusters


def draw_network(
    key: jax.Array, graph: Graph, truth: jax.Array, labels: jax.Array, samples: int
) -> Drawn:
    """Draw features, noise, and the order in which nodes become accessible."""
    problem_key, noise_key, rank_key = jax.random.split(key, 3)
    problem = draw_networked_regression(problem_key, graph, truth, samples=samples)
    noise = jax.random.normal(noise_key, (graph.num_nodes, samples), truth.dtype)
    rank = jax.random.permutation(rank_key, graph.num_nodes)
    return Drawn(problem, noise, rank, labels)


@pytree_dataclass
class View:
    """What a method sees of a drawn network: a share of the nodes, with noise of some strength."""

    share: jax.Array  # shape=()
    noise: jax.Array  # shape=(): standard deviation
    code: bool = field(metadata={"static": True})  # losses as the authors' code weighs them

    def __call__(self, drawn: Drawn) -> Networked:
        """Return the problem as the method sees it."""
        problem, nodes = drawn.problem, drawn.problem.num_clients
        local: Any = problem.local
        local = local.with_targets(local.targets + self.noise * drawn.noise)
        reached = drawn.rank.astype(self.share.dtype) < jnp.round(self.share * nodes)
        weights = _code_weights(drawn) if self.code else None
        return with_access(replace(problem, local=local), reached, weights)


@pytree_dataclass
class Viewed(Method):
    """A solver on a view of the network."""

    solver: Any
    view: View

    def __call__(self, drawn, key, rounds, every):
        """Run the solver; what is measured are all nodes, those without data included."""
        problem, solver, key = self.posed(drawn, key, rounds)
        return SolverMethod(solver, _measure)(problem, key, rounds, every)

    def posed(self, problem, key, rounds):
        """Return the view."""
        return self.view(problem), self.solver, key


@pytree_dataclass
class ByRule(Viewed):
    """GTV minimisation with the ratio of steps that the rule chooses on each problem."""

    solver: GTVPrimalDual

    def posed(self, problem, key, rounds):
        """Return the view, and the solver with the chosen ratio."""
        problem = self.view(problem)
        ratio = gtv_step_ratio(problem, self.solver.lam, rounds)
        return problem, replace(self.solver, ratio=ratio.astype(self.solver.ratio.dtype)), key


@pytree_dataclass
class Pooled(Method):
    """A method without rounds: its answer stands at every record."""

    view: View
    solve: Any = field(metadata={"static": True})  # (problem, labels) -> models

    def __call__(self, drawn, key, rounds, every):
        """Solve once."""
        problem = self.view(drawn)
        models = self.solve(problem, drawn.labels)
        return at_every_record(_errors(problem, models), models, rounds, every)


def _measure(solver: Any, problem: Networked, state: Any) -> dict[str, jax.Array]:
    measured = _errors(problem, solver.estimate(state))
    if hasattr(solver, "nonempty"):
        measured["models_in_use"] = solver.nonempty(problem, state).astype(measured["error"].dtype)
    return measured


def _errors(problem: Networked, models: jax.Array) -> dict[str, jax.Array]:
    """Return "error" and "label_error", both over all nodes; a model (dim,) is everybody's."""
    local: Any = problem.local
    models = jnp.broadcast_to(models, (problem.num_clients, models.shape[-1]))
    fitted = jnp.einsum("nmd,nd->nm", local.features, models, precision=jax.lax.Precision.HIGHEST)
    return {**model_error(problem, models), "label_error": jnp.mean((fitted - local.targets) ** 2)}


def _code_weights(drawn: Drawn) -> jax.Array:
    """Return the weights that the authors' code gives to the losses: m degree_i / degree_c.

    It sums over the m samples, and takes the step of node 0 for all nodes of the first cluster, and
    that of node 1 for the second.
    """
    degrees = jnp.maximum(drawn.problem.graph.degrees, 1).astype(drawn.noise.dtype)
    samples = drawn.noise.shape[1]
    return samples * degrees / degrees[drawn.labels]


def gtv_solver(lam: Any, penalty: Any, margin: float = 0.5, ratio: float = 1.0) -> GTVPrimalDual:
    return GTVPrimalDual(
        lam=number("lam", lam, above=0),
        ratio=number("ratio", ratio, above=0),
        margin=number("margin", margin),
        penalty=penalty,
    )


def gtv(lam: Any, penalty: Any, *, code: bool = False, ratio: float = 1.0, **view: float) -> Viewed:
    solver = gtv_solver(lam, penalty, 0.45 if code else 0.5, ratio)
    return Viewed(solver, view_of(code=code, **view))


def view_of(share: float = 1.0, noise: float = 0.0, code: bool = False) -> View:
    return View(
        number("share", share, above=0, at_most=1), number("noise", noise, at_least=0), code
    )
