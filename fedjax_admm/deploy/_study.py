"""A study: what is deployed, in a file that every machine has."""

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm._checks import InputError, batchable_key, count, finite_array, function_of
from fedjax_admm.capabilities import OnGraph, Subset, check_capabilities, has
from fedjax_admm.deploy._ego import problem_of_node
from fedjax_admm.deploy._ends import ends_of
from fedjax_admm.devices import row_of


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
        ends_of(self.solver).sites(self)

    @property
    def num_sites(self) -> int:
        """Return how many have a server above them: the clients, and what else the topology has."""
        return ends_of(self.solver).sites(self)

    def server(self) -> Any:
        """Return the server, as `Rounds` drives it."""
        return ends_of(self.solver).server(self)

    def client(self, number: int, below: Any = None) -> Any:
        """Return the client of a number, as a `Site` keeps it.

        Args:
          number: from 0.
          below: `Children` of a middle node of a tree.
        """
        return ends_of(self.solver).client(self, number, below)

    @classmethod
    def of(cls, solver: Any, problem: Any, key: jax.Array) -> "Study":
        """Return the study of a solver on the clients of a problem.

        Raises:
          InputError: solvers of this kind are not deployed, the problem lacks what it needs, or the
            key does not fit.
        """
        ends = ends_of(solver)
        batchable_key(key)
        check_capabilities(solver, problem)
        return cls(
            solver=solver,
            num_clients=problem.num_clients,
            key=key,
            problem=cache(partial(_of_one, problem)),
            everybody=lambda: problem,
            **ends.about(solver, problem, key),
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Study":
        """Read the study of a file.

        Raises:
          InputError: the file is not there, or names no study.
        """
        spec = importlib.util.spec_from_file_location("study", Path(path))
        if spec is None or spec.loader is None or not Path(path).is_file():
            raise InputError(f"there is no Python file {path}", argument="study", value=str(path))
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return cls.of_module(module, str(path))

    @classmethod
    def of_module(cls, module: Any, place: str) -> "Study":
        """Return the study that a module names `STUDY`.

        Raises:
          InputError: it names none.
        """
        study = getattr(module, "STUDY", None)
        if not isinstance(study, cls):
            raise InputError(
                f"{place} names no study",
                argument="study",
                value=place,
                remedy="write STUDY = fedjax_admm.deploy.Study(...) into it",
            )
        return study


def _of_one(problem: Any, number: int) -> Any:
    """Return the problem of one client."""
    if has(problem, Subset):
        return problem.take(jnp.array([number], jnp.int32))
    return problem_of_node(problem, number) if has(problem, OnGraph) else row_of(problem, number)
