"""A study: what is deployed, in a file that every machine has."""

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax

from fedjax_admm._checks import batchable_key, count, finite_array, function_of, instance, refuse
from fedjax_admm._run._keys import init_key
from fedjax_admm.capabilities import check_capabilities, first_model
from fedjax_admm.deploy._graph import GRAPH, Node, Relay
from fedjax_admm.deploy._star import STAR, Client, Server
from fedjax_admm.deploy._tree import TREE, Middle, TreeClient, TreeServer
from fedjax_admm.graphs import Graph
from fedjax_admm.trees import Tree


class Ends(NamedTuple):
    """The ends of the deployments of one kind of solvers."""

    solvers: type  # what the solvers of this kind derive from
    words: str  # a solver of this kind, in an error
    topology: type
    topology_words: str
    named: str  # the attribute of a problem that holds the topology
    size: str  # the attribute of the topology that counts the clients
    server: Callable[..., Any]  # (solver, model, topology or number of clients, key)
    client: Callable[..., Any]  # (solver, problem, number, topology or number of clients, key)


_STAR = ("None for a solver with one server", "", "")
_TREE = ("a tree of fedjax_admm.trees", "tree", "num_clients")
_GRAPH = ("a graph of fedjax_admm.graphs", "graph", "num_nodes")
_KINDS = (
    Ends(*STAR, type(None), *_STAR, Server, Client),
    Ends(*TREE, Tree, *_TREE, TreeServer, TreeClient),
    Ends(*GRAPH, Graph, *_GRAPH, Relay, Node),
)


def _ends_of(solver: Any) -> Ends:
    """Return the ends of the deployments of a solver.

    Raises:
      InputError: solvers of this kind are not deployed.
    """
    kinds = " or ".join(ends.words for ends in _KINDS)
    instance("solver", solver, tuple(ends.solvers for ends in _KINDS), kinds)
    return next(ends for ends in _KINDS if isinstance(solver, ends.solvers))


@dataclass(frozen=True, kw_only=True)
class Study:
    """What a deployment runs; a file names it `STUDY`, and every machine has the same file.

    The server calls neither `problem` nor `everybody`, unless it is asked to compare its result
    with the simulation.

    Args:
      solver: of a kind that is deployed.
      model: the first model, shape (dim,).
      num_clients: how many there are in all.
      key: of the run, of the kind threefry2x32, JAX's default: the numbers of other kinds are not
        the same at one client as in the simulation of all. It is no secret.
      problem: returns the problem of one client by its number; called at this client alone.
      everybody: returns the problem of all clients; None where no machine has the data of all.
      topology: the tree or the graph on which the clients are; None for clients of one server.

    Raises:
      InputError: a field is of another kind.
    """

    solver: Any
    model: jax.Array
    num_clients: int
    key: jax.Array
    problem: Callable[[int], Any]
    everybody: Callable[[], Any] | None = None
    topology: Any = None

    def __post_init__(self) -> None:
        """Check the kinds of the fields."""
        batchable_key(self.key)
        finite_array("model", self.model, (None,))
        count("num_clients", self.num_clients)
        function_of("problem", self.problem, "number")
        if self.everybody is not None:
            function_of("everybody", self.everybody)
        ends = _ends_of(self.solver)
        instance("topology", self.topology, ends.topology, ends.topology_words)
        number = getattr(self.topology, ends.size, self.num_clients)
        told = f"has {number} clients, but num_clients is {self.num_clients}"
        refuse(number != self.num_clients, "topology", told)

    @property
    def num_sites(self) -> int:
        """Return how many have a server above them: the clients, and what else the topology has."""
        return getattr(self.topology, "num_links", self.num_clients)

    def server(self) -> Any:
        """Return the server, as `Rounds` drives it."""
        shape = self.topology or self.num_clients
        return _ends_of(self.solver).server(self.solver, self.model, shape, self.key)

    def client(self, number: int, below: Any = None) -> Any:
        """Return the client of a number, as a `Site` keeps it.

        Args:
          number: from 0.
          below: `Children` of a middle node of a tree.
        """
        if number >= self.num_clients:
            return Middle(self.solver, self.model, number, self.topology, self.key, below)
        shape, ends = self.topology or self.num_clients, _ends_of(self.solver)
        return ends.client(self.solver, self.problem(number), number, shape, self.key)

    @classmethod
    def of(cls, solver: Any, problem: Any, key: jax.Array) -> "Study":
        """Return the study of a solver on the clients of a problem.

        Raises:
          InputError: solvers of this kind are not deployed, the problem lacks what it needs, or the
            key does not fit.
        """
        ends = _ends_of(solver)
        batchable_key(key)
        check_capabilities(solver, problem)
        first = getattr(solver, "first_model", lambda problem, key: first_model(problem))
        return cls(
            solver=solver,
            model=first(problem, init_key(key)),
            topology=getattr(problem, ends.named, None),
            num_clients=problem.num_clients,
            key=key,
            problem=cache(partial(solver.row, problem)),
            everybody=lambda: problem,
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Study":
        """Read the study of a file.

        Raises:
          InputError: the file is not there, or names no study.
        """
        spec = importlib.util.spec_from_file_location("study", Path(path))
        there = Path(path).is_file() and spec is not None
        refuse(not there, "study", f"there is no Python file {path}")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return cls.of_module(module, str(path))

    @classmethod
    def of_module(cls, module: Any, place: str) -> "Study":
        """Return the study that a module names `STUDY`.

        Raises:
          InputError: it names none.
        """
        study: Any = getattr(module, "STUDY", None)
        remedy = "write STUDY = fedjax_admm.deploy.Study(...) into it"
        refuse(not isinstance(study, cls), "study", f"{place} names no study", remedy=remedy)
        return study
