"""How the tests of the splitting methods run them: the server's models on ten quadratics."""

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_admm as fa
from fedjax_admm import participation
from tests.solvers.quadratics import CLIENTS, Quadratics, draw, masks, quadratics

START = np.array([1.0, -2.0, 0.5, 0.0, 3.0])
ORIGIN = np.zeros(5)
ROUNDS = 60
L1 = 0.05
L1_MINIMIZER = np.array([0, -0.3674043977, 0, 0.6936161345, -0.1179695396])
KEY = 3


def everybody(rounds=ROUNDS):
    return np.ones((rounds, CLIENTS), bool)


def some(rounds=ROUNDS):
    return masks(rounds)


def server(solver, problem, state):
    return {"server": getattr(state.server, "model", state.server)}


def finish(solver, present, start=START, problem=None, measure=server):
    """Run a solver with the given masks; everybody's are masks too, so that one program serves."""
    return fa.run(
        solver,
        quadratics(start) if problem is None else problem,
        jax.random.key(KEY),
        rounds=len(present),
        participation=participation.replay(present),
        measure=measure,
    )


def path(solver, present, start=START, problem=None):
    """Return the server's model after each round, (rounds, dim)."""
    return np.asarray(finish(solver, present, start, problem).trace["server"])


def slopes(minimizer):
    """Return every client's gradient at a point, (clients, dim)."""
    hessians, linear = draw()
    return hessians @ minimizer - linear


def scaled(factor):
    """Return the clients with all losses multiplied by a number."""
    hessians, linear = draw()
    return Quadratics(jnp.asarray(factor * hessians), jnp.asarray(factor * linear), jnp.zeros(5))
