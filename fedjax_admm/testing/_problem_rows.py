"""Checks of the form of what clients return: shapes, dtypes, rows, transformations."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import listed
from fedjax_admm.capabilities import (
    Parameters,
    Projection,
    Subset,
)
from fedjax_admm.testing._problem_bench import KNOWN, Bench, answers
from fedjax_admm.testing._shared import (
    cast,
    demand,
    demand_close,
    demand_finite,
    demand_kind,
    doing,
    dtype_of,
)

_ROWS = "Row l of the points belongs to client l alone."


def check_clients(b: Bench) -> None:
    """Check the pytree, and that start, tree and graph fit the number of clients."""
    demand(
        any(b.can(capability) for capability in KNOWN),
        f"{b.name} can do nothing that a solver asks for; give it methods such as "
        f"{listed(['values', 'gradients', 'prox'])} of fedjax_admm.capabilities.",
    )
    demand(
        len(jax.tree.leaves(b.problem)) > 0,
        f"{b.name} is a pytree without leaves; register its data as leaves.",
    )
    start = getattr(b.problem, "start", None)
    dim = b.points.shape[-1]
    if start is not None:
        demand(
            start.shape in ((dim,), (b.clients, dim)),
            f"{b.name}.start must have shape ({dim},), or ({b.clients}, {dim}) with a model of "
            f"each client, but its shape is {start.shape}.",
        )
    for name, size in (("tree", "num_clients"), ("graph", "num_nodes")):
        base = getattr(b.problem, name, None)
        if base is not None:
            found = getattr(base, size)
            demand(
                found == b.clients,
                f"{b.name} has {b.clients} clients, but its {name} has {found}.",
            )


def check_dtypes(b: Bench) -> None:
    """Check shapes and dtypes of all answers, in float32 and float64."""
    for dtype in (np.float32, np.float64):
        with jax.enable_x64(dtype is np.float64):
            problem, points = cast(b.problem, dtype), jnp.asarray(b.points, dtype)
            for name, function in answers(b).items():
                where = f"{b.name}.{name} of {np.dtype(dtype).name} data"
                with doing(where):
                    found = function(problem, points)
                shape = points.shape[:1] if name == "values" else points.shape
                demand_kind(where, found, shape, dtype)
                demand_finite(where, found)


def check_apart(b: Bench) -> None:
    """Check that a client's answers do not depend on the points of others."""
    if b.clients < 2:
        return
    points = jnp.asarray(b.points, dtype_of(b.problem))
    other = points.at[0].add(0.5)
    for name, function in answers(b).items():
        with doing(f"{b.name}.{name}"):
            here, there = function(b.problem, points), function(b.problem, other)
        where = f"What clients other than the first return of {b.name}.{name} before and after "
        demand_close(f"{where}the first point moved", there[1:], here[1:], 1e-5, 1e-6, _ROWS)


def check_projection(b: Bench) -> None:
    """Check that projecting twice is projecting once."""
    if not b.can(Projection):
        return
    points = jnp.asarray(b.points, dtype_of(b.problem))
    with doing(f"{b.name}.project"):
        once = b.problem.project(3 * points)
        twice = b.problem.project(once)
    demand_close(f"{b.name}.project twice and once", twice, once, 1e-5, 1e-6)


def check_take(b: Bench) -> None:
    """Check that the problem of some clients returns their rows."""
    if not b.can(Subset):
        return
    points = jnp.asarray(b.points, dtype_of(b.problem))
    some = jnp.asarray([b.clients - 1, 0][: b.clients], jnp.int32)
    with doing(f"{b.name}.take"):
        part = b.problem.take(some)
    demand(
        part.num_clients == some.size,
        f"{b.name}.take of {some.size} clients must be a problem with as many, but it has "
        f"{part.num_clients}.",
    )
    for name, function in answers(b).items():
        with doing(f"{b.name}.take(clients).{name}"):
            found = function(part, points[some])
        remedy = "Draws must depend on a client's number among all." if "key" in name else ""
        where = f"{b.name}.take(clients).{name} and the rows of {name}"
        demand_close(where, found, function(b.problem, points)[some], 1e-5, 1e-6, remedy)


def check_parameters(b: Bench) -> None:
    """Check that every number of a model is in its parameters."""
    if not b.can(Parameters):
        return
    points = jnp.asarray(b.points, dtype_of(b.problem))
    with doing(f"{b.name}.parameters"):
        stacked = b.problem.parameters(points)
    for path, leaf in jax.tree.leaves_with_path(stacked):
        demand(
            leaf.shape[:1] == (b.clients,),
            f"{b.name}.parameters of stacked models must be stacked, but "
            f"{jax.tree_util.keystr(path)} has shape {leaf.shape}.",
        )
    leaves = jax.tree.leaves(stacked)
    flat = np.concatenate([np.asarray(leaf).reshape(b.clients, -1) for leaf in leaves], 1)
    for k in range(b.clients):
        missing = np.setdiff1d(np.asarray(points[k]), flat[k].astype(points.dtype))
        demand(
            not missing.size,
            f"{b.name}.parameters must hold every number of a model, but for client {k} "
            f"{missing[:1]} is nowhere in it.",
        )
    if flat.shape[1] == points.shape[1]:
        alone = b.problem.parameters(points[0])
        first = jax.tree.map(lambda leaf: leaf[0], stacked)
        where = f"{b.name}.parameters of one model and of the first of a stack"
        demand_close(where, alone, first, 0.0, 0.0)


def check_transforms(b: Bench) -> None:
    """Check that jit and vmap change nothing."""
    points = jnp.asarray(b.points, dtype_of(b.problem))
    both = jnp.stack([points, points + 0.1])
    eps = float(jnp.finfo(points.dtype).eps)
    for name, function in answers(b).items():
        with doing(f"{b.name}.{name} under jax.vmap"):
            mapped = jax.jit(jax.vmap(partial(function, b.problem)))(both)
        # Programs of whole rows and of stacks round differently, an inexact prox many times over.
        loose = 1e4 if "prox" in name or "smoothed" in name else 1e2
        for found, x in zip(mapped, both, strict=True):
            wanted = function(b.problem, x)
            size = 1 + float(jnp.max(jnp.abs(wanted)))
            where = f"{b.name}.{name} with and without jax.vmap"
            demand_close(where, found, wanted, loose * eps, loose * eps * size)
    for name in ("values", "gradients"):
        if hasattr(b.problem, name) and name in answers(b):
            with doing(f"{b.name}.{name} without jax.jit"):
                plain = getattr(b.problem, name)(points)
            wanted = answers(b)[name](b.problem, points)
            size = 1 + float(jnp.max(jnp.abs(wanted)))
            where = f"{b.name}.{name} with and without jax.jit"
            demand_close(where, wanted, plain, 1e2 * eps, 1e2 * eps * size)
