"""A deployment within one process: clients are called one after the other."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import count
from fedjax_admm._run import init_key
from fedjax_admm._shown import short_repr
from fedjax_admm.deploy._client import Client
from fedjax_admm.deploy._server import Server
from fedjax_admm.solvers._star import StarSolver


@short_repr
class Deployment(NamedTuple):
    """A server and its clients, after the last round."""

    server: Server
    clients: list[Client]


def in_process(
    solver: StarSolver,
    problem: Any,
    key: jax.Array,
    *,
    rounds: int,
    present: Any = None,
) -> Deployment:
    """Deploy a solver on the clients of a problem within this process.

    Args:
      solver: with one server.
      problem: of all clients, with `take`.
      key: of the run.
      rounds: how many.
      present: who takes part, bool, shape (rounds, num_clients); everybody if None.

    Returns:
      The server and the clients. `fa.run(solver, problem, key, rounds=rounds)` gives the same
      states up to rounding.
    """
    rounds, number = count("rounds", rounds, at_least=0), problem.num_clients
    clients = [
        Client(solver, problem.take(jnp.array([i], jnp.int32)), i, number, key)
        for i in range(number)
    ]
    model = solver.first_model(problem, init_key(key))
    server = Server(solver, model, number, key)
    for client in clients:
        server.receive(client.hello(), client.number)
    for i, data in server.start().items():
        server.receive(clients[i].begin(data), i)
    present = np.ones((rounds, number), bool) if present is None else np.asarray(present, bool)
    for row in present[:rounds]:
        for i in np.flatnonzero(row):
            server.receive(clients[i].work(server.broadcast(int(i))), int(i))
        server.close_round()
    for client in clients:
        client.finish(server.broadcast(client.number))
    return Deployment(server, clients)
