"""Deployment: the roles of a solver on real clients, whose run the simulation reproduces.

    server = fa.deploy.Server(solver, model, num_clients, key)
    client = fa.deploy.Client(solver, own_problem, number, num_clients, key)

A client holds its own data and its own state. The server holds its state and the clients' uploads,
and nothing of anybody's data. Bytes go between them, and a transport carries these bytes:

    before round 0    client.hello() -> server.receive
                      server.start()[number] -> client.begin -> server.receive
    every round       server.broadcast(number) -> client.work -> server.receive
                      server.close_round()
    after the last    server.broadcast(number) -> client.finish

A client whose message does not arrive before its round is closed was absent in that round: its next
message from the server says so, and the client takes its work back. A deployment therefore is the
simulation in which the same clients take part, and

    fa.run(solver, problem, key, rounds=rounds, participation=replay(server.record.heard))

gives the same states up to rounding.

On a tree, `TreeServer` and `TreeClient` take their places, and between them is `Middle`, which is a
server of its children and a client of its parent. On a graph, a `Relay` takes the place of the
server and forwards what every `Node` sends to its neighbours.
"""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
