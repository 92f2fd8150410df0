"""Networks with little data for the tests of the private solvers, and how both sides run."""

from dataclasses import replace
from typing import NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_admm as fa
from fedjax_admm import graphs, losses, participation
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.privacy import GaussianRelease, gaussian_release, zcdp_plan
from fedjax_admm.problems import (
    _consensus as consensus,
    consensus_regression,
    draw_consensus_regression,
)
from tests.reference import zcdp as reference

CLIENTS, SAMPLES, DIM, EDGES, ROUNDS = 9, 7, 3, 14, 64
SIZES = np.array([3, 1, 7, 2, 5, 4, 1, 6, 3])
DELTA, TAU, EPSILON = 1e-5, 0.97, 4.0
HUBER = 0.8
LOSSES = {
    "squared": (losses.squared, "squared"),
    "absolute": (losses.absolute, "absolute"),
    "huber": (lambda: losses.huber(HUBER), reference.huber(HUBER)),
    "logistic": (losses.logistic, "logistic"),
}
SHAPES = {  # degrees differ in all of them
    "star": np.array([(0, k) for k in range(1, CLIENTS)]),
    "chain": np.array([(k, k + 1) for k in range(CLIENTS - 1)]),
    "random": reference.draw_graph(np.random.default_rng(4), CLIENTS, 13),
}


class Data(NamedTuple):
    """Data as the reference takes them."""

    x: np.ndarray
    y: np.ndarray
    edges: np.ndarray

    @property
    def degrees(self):
        return reference.degrees(self.edges, CLIENTS)


def draw(seed=0, shape="random", labels=False):
    """Draw data of clients of different sizes; two samples have no features at all."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((CLIENTS, SAMPLES, DIM))
    x[2, 3] = x[7, 0] = 0
    y = x @ rng.standard_normal(DIM) + rng.standard_normal((CLIENTS, SAMPLES))
    if labels:
        y = np.where(y < 0, -1.0, 1.0)
    return Data(x, y, SHAPES[shape])


# The optimum takes seconds to compile for every loss, and no run needs it.
WITHOUT_OPTIMUM = mock.patch.object(
    consensus, "pooled_optimum", lambda x, *rest: jnp.full(x.shape[-1], jnp.nan)
)


def problem_of(data, loss="squared", *, l1=0.0, l2=0.0, room=EDGES):
    graph = graphs.from_edges(CLIENTS, data.edges, max_edges=room)
    x = [data.x[k, :m] for k, m in enumerate(SIZES)]
    y = [data.y[k, :m] for k, m in enumerate(SIZES)]
    with WITHOUT_OPTIMUM:
        return consensus_regression(graph, x, y, LOSSES[loss][0](), l1=l1, l2=l2)


@pytree_dataclass
class GivenNoise:
    """A Gaussian release whose standard normals are given."""

    inner: GaussianRelease
    draws: jax.Array  # shape=(rounds, clients, dim): row n - 1 for a client's n-th release

    @property
    def clip(self):
        return self.inner.clip

    @property
    def rounds(self):
        return self.inner.rounds

    def costs(self, n):
        return self.inner.costs(n)

    def __call__(self, key, messages, gains, sizes, n):
        place = jnp.minimum(n, self.draws.shape[0]) - 1
        draws = jnp.take_along_axis(self.draws, place[None, :, None], 0)[0]
        deviation = self.inner.multipliers[place] * self.inner.sensitivity(gains, sizes)
        return messages + deviation[:, None] * draws


def normals(seed=7):
    return np.random.default_rng(seed).standard_normal((ROUNDS, CLIENTS, DIM))


def by_round(draws, masks):
    """Return the noise of every round, as the reference takes it."""
    places = np.maximum(np.cumsum(masks, 0) - 1, 0)
    return np.take_along_axis(draws, places[:, :, None], 0)


def random_masks(seed=5):
    """Return masks with rounds of nobody, the first one too, and of everybody."""
    masks = np.random.default_rng(seed).random((ROUNDS, CLIENTS)) < 0.6
    masks[[0, 10, 11]] = False
    masks[[1, 20, -1]] = True
    return masks


EVERYBODY = np.ones((ROUNDS, CLIENTS), bool)


def everything(solver, problem, state):
    seen = {"releases": state.releases, "spent": state.spent}
    seen |= {"v": solver.estimate(state), "w": solver.unprotected(state)}
    if hasattr(solver, "duals"):
        seen |= {"gamma": solver.duals(problem, state)}
    return seen


def go(solver, problem, masks=EVERYBODY):
    # Everybody is a mask too: both kinds of run share a program.
    return fa.run(
        solver,
        problem,
        jax.random.key(0),
        rounds=len(masks),
        participation=participation.replay(masks),
        measure=everything,
    )


def follow(solver, problem, masks=EVERYBODY):
    return {name: np.asarray(part) for name, part in go(solver, problem, masks).trace.items()}


def cast(problem, dtype):
    """Return a problem that was built in float64 in another precision."""

    def one(leaf):
        leaf = np.asarray(leaf)
        return jnp.asarray(leaf.astype(dtype) if leaf.dtype == np.float64 else leaf)

    return jax.tree.map(one, problem)


def close(found, wanted, rtol=1e-12):
    """Compare relative to the largest entry of the whole trajectory."""
    np.testing.assert_allclose(found, wanted, rtol=0, atol=rtol * np.abs(wanted).max())


def release_of(clip, norm, epsilon=EPSILON, tau=TAU, rounds=ROUNDS):
    plan = zcdp_plan(epsilon, DELTA, rounds, tau)
    return gaussian_release(plan, norm) if clip else gaussian_release(plan, None, nominal_norm=norm)


def scales(sensitivities, epsilon=EPSILON, tau=TAU):
    """Return the reference's deviations (rounds, clients) for its sensitivities of that shape."""
    total = reference.classical_budget(epsilon, DELTA)
    return reference.noise_scale(sensitivities, reference.budgets(total, ROUNDS, tau)[:, None])


def steps(eta, q):
    return eta / np.arange(1, ROUNDS + 1.0) ** q


def simulated():
    """Return ridge regression as in the simulations of the paper: 50 clients, 75 edges; float64."""
    with jax.enable_x64(True), WITHOUT_OPTIMUM:
        graph = graphs.from_edges(50, reference.draw_graph(np.random.default_rng(0), 50, 75))

        @jax.jit
        def drawn(key, graph):
            return draw_consensus_regression(key, graph, losses.squared(), l2=1.0)

        problem = drawn(jax.random.key(1), graph)
        x, y = (np.asarray(part) for part in (problem.features, problem.targets))
        matrix = 2 / 50 * np.einsum("kmp,kmq->pq", x, x) + 2 * np.eye(8)
        optimum = np.linalg.solve(matrix, 2 / 50 * np.einsum("kmp,km->p", x, y))
        return replace(problem, optimum=jnp.asarray(optimum))


def at(state, models):
    """Return the state of a run whose clients hold these models, (clients, dim), and sent them."""
    nodes = state.solver.nodes._replace(w=models, v=models)
    return state._replace(solver=state.solver._replace(nodes=nodes))


def flows_of(problem, gamma):
    """Return flows whose divergence is gamma (clients, dim), which adds up to zero."""
    edges = np.arange(problem.graph.num_edges)
    incidence = np.zeros((len(edges), problem.num_clients))
    incidence[edges, problem.graph.heads] += 1
    incidence[edges, problem.graph.tails] -= 1
    return jnp.asarray(np.linalg.lstsq(incidence.T, gamma)[0])
