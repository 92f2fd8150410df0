"""Clients over devices: one problem whose clients, nodes and edges are spread over several devices.

    with jax.set_mesh(device_mesh(clients=4)):
        result = run(solver, problem, key, rounds=1000)

The numbers are those of one device, up to rounding; without such a mesh nothing changes at all. A
problem says which of its fields have a row per client, node or edge (`spread`, the names of these
fields, on its class and on those of its parts). A run constrains them to the mesh axis "clients",
and XLA's partitioner carries that on to the state, whose rows meet the problem's in every round.
Sums over clients (a server's mean) and models of neighbours (a row per node, per round) are what
devices send each other. `by_clients` is for the few places where a loop goes through the clients.

Any number of clients is fine between the first and the last round. What enters and leaves a run is
spread only where the devices divide its rows; else every device holds all of it, there and then.
Derivatives and batches of runs want a `jax.jit` around them: `jit(grad(...))`.

In a Monte Carlo batch `jax.shard_map` takes care of the axis "trials" and leaves "clients" to the
partitioner. It must: where several devices hold the same part, XLA (jaxlib 0.10.2) adds the padding
of an uneven axis into sums over edges. Such a mesh is refused.
"""

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from fedjax_admm._checks import count, instance, refuse

Arrays = TypeVar("Arrays")

AXIS = "clients"
_ROWS, _WHOLE = PartitionSpec(AXIS), PartitionSpec()


def device_mesh(trials: int = 1, clients: int = 1, devices: Sequence[Any] | None = None) -> Mesh:
    """Return a mesh with the axes "trials" and "clients".

    Args:
      trials: devices along "trials": independent runs, for `monte_carlo`.
      clients: devices along "clients": parts of one problem.
      devices: which devices, the first `trials * clients` of them; those of this process if None.

    Returns:
      The mesh, for `jax.set_mesh` or for `monte_carlo`.
    """
    trials, clients = count("trials", trials), count("clients", clients)
    here = jax.local_devices() if devices is None else list(devices)
    told = f"{{trials}} times {{clients}} must be at most {len(here)}, the number of devices"
    refuse(trials * clients > len(here), None, told, trials * clients)
    return jax.make_mesh(
        (trials, clients),
        ("trials", AXIS),
        axis_types=(AxisType.Auto,) * 2,
        devices=here[: trials * clients],
    )


def over_clients(problem: Arrays) -> Arrays:
    """Spread a problem over the axis "clients" of the mesh in use, inside `jit`.

    Args:
      problem: a dataclass; fields that its class names in `spread` have one row per client, node or
        edge, in every array. Parts that are dataclasses are treated likewise.

    Returns:
      The problem, with sharding constraints; the same object where no mesh spreads clients.
    """
    if clients_axis() == 1:
        return problem
    return _map_spread(lambda leaf: jax.lax.with_sharding_constraint(leaf, _ROWS), problem)


def replicate_uneven(result: Arrays) -> Arrays:
    """Copy to all devices what enters or leaves a program with rows that they do not divide.

    The partitioner may spread such rows over some of the devices only, which JAX cannot express.

    Args:
      result: a pytree of arrays, inside `jit`: what enters, or what leaves.

    Returns:
      The result, with sharding constraints; the same object where no mesh spreads clients.
    """
    parts = clients_axis()
    if parts == 1:
        return result

    def whole(leaf: jax.Array) -> jax.Array:
        if leaf.ndim and leaf.shape[0] % parts == 0:
            return leaf
        return jax.lax.with_sharding_constraint(leaf, _WHOLE)

    return jax.tree.map(whole, result)


def by_clients(
    function: Callable[[Any, Any], jax.Array], rows: Any, whole: Any, *, axis: int = 0
) -> jax.Array:
    """Apply a function to the clients apart; over devices, each applies it to its own clients.

    For loops over clients, which the partitioner would have every device go through in full.

    Args:
      function: `function(rows, whole) -> array`, for any number of clients; what it returns for one
        must not depend on the others. It closes over no array.
      rows: a pytree of arrays (clients, ...); where devices do not divide the clients, some get
        rows of zeros besides.
      whole: a pytree of arrays that every device gets a copy of.
      axis: that of the clients in what the function returns.

    Returns:
      What the function returns for all clients.
    """
    parts = clients_axis()
    if parts == 1:
        return function(rows, whole)
    number = jax.tree.leaves(rows)[0].shape[0]

    def padded(array: jax.Array) -> jax.Array:
        return jnp.pad(array, [(0, -number % parts)] + [(0, 0)] * (array.ndim - 1))

    # check_vma=False: the carries of loops start as constants, the same on every device.
    apart = jax.shard_map(
        function,
        in_specs=(_ROWS, _WHOLE),
        out_specs=PartitionSpec(*(None,) * axis, AXIS),
        axis_names={AXIS},
        check_vma=False,
    )
    result = jax.jit(apart)(jax.tree.map(padded, rows), whole)
    return jax.lax.slice_in_dim(result, 0, number, axis=axis)


def spread_clients(problem: Arrays, mesh: Mesh) -> Arrays:
    """Put a problem on the devices of a mesh, each device its own rows only.

    A run needs no placement. This is for a problem that no device could hold: build it on the host
    (`with jax.default_device(jax.devices("cpu")[0])`), and it goes from there to the devices.

    Args:
      problem: as in `over_clients`.
      mesh: as `device_mesh` makes it.

    Returns:
      The problem; fields that are not spread are copied to all devices.

    Raises:
      InputError: the number of devices along "clients" does not divide the rows of a field.
    """
    instance("mesh", mesh, Mesh, "a mesh as device_mesh makes it")
    parts = mesh.shape[AXIS]

    def rows(leaf: jax.Array) -> jax.Array:
        told = f"must have rows that {parts} devices divide, but it has {leaf.shape[0]}"
        refuse(leaf.shape[0] % parts, "problem", told, remedy="graphs.pad fills up a list of edges")
        return jax.device_put(leaf, NamedSharding(mesh, _ROWS))

    whole = NamedSharding(mesh, _WHOLE)
    return _map_spread(rows, problem, lambda leaf: jax.device_put(leaf, whole))


def clients_axis() -> int:
    """Return over how many devices the partitioner may spread clients here; 1 without a mesh."""
    mesh = jax.sharding.get_abstract_mesh()
    # Inside shard_map an axis is Manual: the work is apart already.
    free = {
        name: mesh.shape[name]
        for name, kind in zip(mesh.axis_names, mesh.axis_types, strict=True)
        if kind == AxisType.Auto
    }
    parts = free.pop(AXIS, 1)
    others = {name: size for name, size in free.items() if size > 1}
    told = "must have size 1 along every axis but 'clients' here"
    remedy = "monte_carlo spreads trials, and for one run device_mesh(clients=...) takes all"
    refuse(parts > 1 and others, "mesh", told, others, remedy=remedy)
    return parts


def row_of(problem: Arrays, client: int) -> Arrays:
    """Return the problem of one client: the row of every field that has one per client.

    Args:
      problem: as in `over_clients`; fields with a row per edge have no meaning then.
      client: its number.
    """
    return _map_spread(lambda leaf: leaf[client : client + 1], problem)


def _map_spread(
    rows: Callable[[jax.Array], Any], node: Any, whole: Callable[[Any], Any] = lambda leaf: leaf
) -> Any:
    """Apply `rows` to the arrays that a dataclass declares as spread, and `whole` to the others."""
    if not is_dataclass(node) or isinstance(node, type):
        return jax.tree.map(whole, node)
    spread = getattr(node, "spread", ())

    def mapped(name: str) -> Any:
        value = getattr(node, name)
        return jax.tree.map(rows, value) if name in spread else _map_spread(rows, value, whole)

    names = [part.name for part in fields(node) if not part.metadata.get("static")]
    return replace(node, **{name: mapped(name) for name in names})
