"""The ends of a deployment, which depend on the kind of its solver."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from fedjax_admm._checks import InputError, instance
from fedjax_admm._run._keys import init_key
from fedjax_admm.capabilities import first_model
from fedjax_admm.deploy._graph import GRAPH, Node, Relay
from fedjax_admm.deploy._star import STAR, Client, Server
from fedjax_admm.deploy._tree import TREE, Middle, TreeClient, TreeServer
from fedjax_admm.graphs import Graph
from fedjax_admm.trees import Tree, check_clients


class Ends(NamedTuple):
    """The ends of the deployments of one kind of solvers."""

    solvers: type  # what the solvers of this kind derive from
    words: str  # a solver of this kind, in an error
    about: Callable[[Any, Any, Any], dict[str, Any]]  # (solver, problem of all clients, key) -> the
    # fields `model` and `topology` of a study
    sites: Callable[[Any], int]  # study -> how many have a server above them
    server: Callable[[Any], Any]  # study -> the end that `Rounds` drives, with the methods of
    # `Server`
    client: Callable[..., Any]  # (study, number, below) -> the end that a `Site` keeps, with the
    # methods of `Client`; `below` is of a node that has others below it


def ends_of(solver: Any) -> Ends:
    """Return the ends of the deployments of a solver.

    Raises:
      InputError: solvers of this kind are not deployed.
    """
    for ends in _KINDS:
        if isinstance(solver, ends.solvers):
            return ends
    kinds = " or ".join(ends.words for ends in _KINDS)
    raise InputError(f"must be {kinds}", argument="solver", value=solver)


def _star_about(solver: Any, problem: Any, key: Any) -> dict[str, Any]:
    return {"model": solver.first_model(problem, init_key(key))}


def _star_sites(study: Any) -> int:
    instance("topology", study.topology, type(None), "None for a solver with one server")
    return study.num_clients


def _star_client(study: Any, number: int, below: Any) -> Client:
    problem = study.problem(number)
    return Client(study.solver, problem, number, study.num_clients, study.key)


def _tree_about(solver: Any, problem: Any, key: Any) -> dict[str, Any]:
    return {"model": first_model(problem), "topology": problem.tree}


def _tree_of(study: Any) -> Tree:
    instance("topology", study.topology, Tree, "a tree of fedjax_admm.trees")
    check_clients(study.topology, study.num_clients)
    return study.topology


def _tree_server(study: Any) -> TreeServer:
    return TreeServer(study.solver, study.model, _tree_of(study), study.key)


def _tree_client(study: Any, number: int, below: Any) -> TreeClient | Middle:
    tree = _tree_of(study)
    if number >= study.num_clients:
        return Middle(study.solver, study.model, number, tree, study.key, below)
    return TreeClient(study.solver, study.problem(number), number, tree, study.key)


def _graph_about(solver: Any, problem: Any, key: Any) -> dict[str, Any]:
    start = problem.start
    model = start if start.ndim == 1 else start[0]
    return {"model": jnp.zeros_like(model), "topology": problem.graph}


def _graph_of(study: Any) -> Graph:
    graph = study.topology
    instance("topology", graph, Graph, "a graph of fedjax_admm.graphs")
    if graph.num_nodes != study.num_clients:
        raise InputError(
            f"has {graph.num_nodes} nodes, but there are {study.num_clients} clients",
            argument="topology",
            value=graph,
        )
    return graph


def _graph_client(study: Any, number: int, below: Any) -> Node:
    return Node(study.solver, study.problem(number), number, _graph_of(study), study.key)


_KINDS = (
    Ends(
        *STAR,
        about=_star_about,
        sites=_star_sites,
        server=lambda study: Server(study.solver, study.model, study.num_clients, study.key),
        client=_star_client,
    ),
    Ends(
        *TREE,
        about=_tree_about,
        sites=lambda study: _tree_of(study).num_links,
        server=_tree_server,
        client=_tree_client,
    ),
    Ends(
        *GRAPH,
        about=_graph_about,
        sites=lambda study: _graph_of(study).num_nodes,
        server=lambda study: Relay(study.solver, study.model, _graph_of(study), study.key),
        client=_graph_client,
    ),
)
