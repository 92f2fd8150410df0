"""Runs of star solvers on the quadratic clients, and what is known there."""

import jax
import numpy as np

import fedjax_admm as fa
from fedjax_admm import participation
from tests.solvers.quadratics import CLIENTS, DIM, Quadratics, draw, masks, quadratics

ROUNDS = 60
START = np.array([1.0, -2.0, 0.5, 0.0, 3.0])
WEIGHT = 0.05  # of l1
PRESENT = {"everybody": np.ones((1000, CLIENTS), bool), "some": masks()}


def whole_state(solver, problem, state):
    """Measure what the server and the clients hold, by name."""
    server, clients = state.server, state.clients
    held = server._asdict() if hasattr(server, "_asdict") else {}
    held |= {"server": getattr(server, "model", server)}
    controls = None if hasattr(clients, "model") else getattr(clients, "control", None)
    return held | ({"client": clients} if controls is None else {"controls": controls})


def follow(solver, problem=None, rounds=ROUNDS, present="some", measure=whole_state):
    """Run a solver on the quadratics, from `START`, with the masks of those who are present."""
    return fa.run(
        solver,
        quadratics(START) if problem is None else problem,
        jax.random.key(0),
        rounds=rounds,
        participation=participation.replay(PRESENT[present][:rounds]),
        measure=measure,
    )


def is_the_reference(trace, wanted, atol=1e-9):
    """Assert that a trace is the reference's, and that something moves in it."""
    for name, values in wanted.items():
        np.testing.assert_allclose(trace[name], values, rtol=0, atol=atol, err_msg=name)
        assert np.abs(np.diff(values[1:], axis=0)).max() > 1e-3


def scaled(factor):
    """Return the quadratics with all losses times a factor."""
    hessians, linear = draw()
    return Quadratics(*map(jax.numpy.asarray, (factor * hessians, factor * linear, np.zeros(DIM))))
