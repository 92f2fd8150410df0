"""Checks of a solver: masks, dtypes, traces, transformations, derivatives, keys, resumption."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm import participation
from fedjax_admm._checks import InputError, count, scalar
from fedjax_admm._run._checks import check_methods
from fedjax_admm._run._rounds import run
from fedjax_admm.capabilities import Subset, check_capabilities, has
from fedjax_admm.protocol import RoundInfo
from fedjax_admm.testing import _demand as demand
from fedjax_admm.testing._shared import (
    NO_BRANCH,
    SAFE,
    doing,
    dtype_of,
    is_float,
    make,
    plain,
    unfit,
    with_floats,
)


class _Bench(NamedTuple):
    solver: Any
    problem: Any
    clients: Callable[[Any], Any] | None
    rounds: int
    key: jax.Array
    bits: float

    @property
    def name(self) -> str:
        return type(self.solver).__name__

    @property
    def mask(self) -> tuple[int, ...]:
        return tuple(self.solver.participants(self.problem))

    def run(self, rounds=None, process=None, **options):
        """Return a run, in which clients come and go unless `process` is given."""
        process = participation.markov_on_off(0.3, 0.3) if process is None else process
        options = {"rounds": self.rounds if rounds is None else rounds, **options}
        return run(self.solver, self.problem, self.key, participation=process, **options)

    def info(self, active, index: int) -> RoundInfo:
        """Return the info that the run of `key` has in a round, with a mask of one's own."""
        key = jax.random.split(jax.random.fold_in(self.key, index))[1]
        return RoundInfo(jnp.int32(index), key, jnp.broadcast_to(jnp.asarray(active), self.mask))

    def of_clients(self, state) -> Any:
        """Return what of the state belongs to clients, with a leading axis of clients."""
        if self.clients is not None:
            return self.clients(state)
        names = jax.tree.leaves_with_path(state)
        marks = _marks(self.solver, self.problem)
        kept = zip(names, marks, strict=True)
        return {jax.tree_util.keystr(path): leaf for (path, leaf), mark in kept if mark}


def check_solver(
    solver: Any,
    problem: Any,
    *,
    clients: Callable[[Any], Any] | None = None,
    rounds: int = 8,
    bits: float = 0.0,
    only: str | Sequence[str] | None = None,
) -> None:
    """Check that a solver obeys the protocol.

    - `traffic`: sizes of messages are whole numbers; their count is an int32 number.
    - `structure`: a compiled step keeps the structure, shapes and dtypes of the state, and its
      numbers are finite.
    - `absent`: clients that are absent in a round keep everything.
    - `nobody`: a round without anybody changes no client, and does not move the estimate.
    - `dtype`: what a run returns has the dtype of the problem's data.
    - `traces`: one trace serves all values of hyper-parameters.
    - `vmap`: the same numbers in a batch of keys, under `jax.jit` and `jax.vmap`, as one by one.
    - `gradients`: derivatives by all hyper-parameters are finite, and not all zero.
    - `resumes`: half of the rounds and the other half are all rounds, to the same bits.
    - `keys`: no random key is used twice.

    Args:
      solver: built, as `solvers.fsmdm()` is.
      problem: one that it can solve, with at least 2 clients; a small one is enough.
      clients: state -> what of it belongs to clients, a pytree of arrays whose leading axis is the
        last one of the mask. All of its leaves must move where clients take part. If None: for a
        problem with `take` the leaves of the state whose leading axis shrinks when a client is left
        out, else the leaves whose leading axis is as long as the mask's last one. These need not
        move. Give it where another axis is as long by chance, or where the server keeps something
        about each client.
      rounds: of a run; even, at least 2.
      bits: 0, or by how much a resumed run may differ from the whole one, relative to the largest
        entry of a leaf, where programs are compiled without optimisation.
      only: names of the checks to make; all if None.

    Raises:
      AssertionError: a check fails.
      InputError: the solver is none, the problem has one client or lacks what the solver needs,
        or another argument does not fit.
    """
    check_methods(solver, problem)
    if not hasattr(solver, "traffic") or not getattr(solver, "requires", ()):
        wanted = "a solver with a method traffic and capabilities in requires, as (OnStar, Prox)"
        raise unfit("solver", solver, wanted)
    check_capabilities(solver, problem)
    if clients is not None and not callable(clients):
        raise unfit("clients", clients, "a function of the state")
    if count("rounds", rounds, at_least=2) % 2:
        raise unfit("rounds", rounds, "even")
    bits = float(scalar("bits", bits, at_least=0))
    bench = _Bench(solver, problem, clients, rounds, jax.random.key(5), bits)
    if not bench.mask or bench.mask[-1] < 2:
        raise InputError(
            f"must have at least 2 clients for these checks, but the mask's shape is {bench.mask}",
            argument="problem",
            value=problem,
        )
    make(bench, SOLVER_CHECKS, only)


@jax.jit
def _step(solver, problem, state, info):
    return solver.step(problem, state, info)


def _marks(solver: Any, problem: Any) -> list[bool]:
    """Return, for every leaf of the state, whether its leading axis is that of clients."""
    clients = solver.participants(problem)[-1]

    def lengths(problem) -> list[tuple[int, ...]]:
        state = jax.eval_shape(solver.init, problem, jax.random.key(0))
        return [leaf.shape[:1] for leaf in jax.tree.leaves(state)]

    marks = [length == (clients,) for length in lengths(problem)]
    if has(problem, Subset) and clients == problem.num_clients:
        try:
            fewer = lengths(problem.take(jnp.arange(clients - 1, dtype=jnp.int32)))
        except Exception:  # a solver with numbers of its own for each client
            return marks
        marks = [m and other == (clients - 1,) for m, other in zip(marks, fewer, strict=True)]
    return marks


def _traffic(b: _Bench) -> None:
    with doing(f"{b.name}.traffic"):
        traffic = b.solver.traffic(b.problem)
    for name in ("up", "down", "before", "broadcast"):
        demand.count(f"{b.name}.traffic(problem).{name}", getattr(traffic, name))
    demand.that(
        traffic.up > 0 and traffic.down + traffic.broadcast > 0,
        f"{b.name} must send something up and something down, but its traffic is {traffic}.",
    )
    with doing(f"{b.name}.messages"):
        sent = b.solver.messages(b.problem, jnp.ones(b.mask, bool))
    demand.kind(f"{b.name}.messages", sent, (), jnp.int32)


def _structure(b: _Bench) -> None:
    with doing(f"{b.name}.init"):
        state = b.solver.init(b.problem, jax.random.key(0))
    with doing(f"{b.name}.step under jax.jit", NO_BRANCH):
        new = _step(b.solver, b.problem, state, b.info(True, 0))
    demand.same_form(f"{b.name}.step", "a state", state, new)
    demand.finite(f"The state after {b.name}.step", new)


def _states(b: _Bench, active: np.ndarray) -> tuple[Any, Any]:
    """Return the states before and after a round, in which absent clients must keep everything."""
    with doing(f"A run of {b.name}"):
        old = b.run().state.solver
    with doing(f"{b.name}.step where clients are absent"):
        new = _step(b.solver, b.problem, old, b.info(active, 3))
    present = active.reshape(-1, active.shape[-1]).any(0)
    kept, after = b.of_clients(old), b.of_clients(new)
    where = f"What the clients of {b.name} keep, which clients= names,"
    demand.stacked(where, kept, present.size)
    for (path, one), other in zip(
        jax.tree.leaves_with_path(kept), jax.tree.leaves(after), strict=True
    ):
        pairs = zip(plain(one), plain(other), strict=True)
        same = np.array([np.array_equal(x, y, equal_nan=x.dtype.kind == "f") for x, y in pairs])
        name = jax.tree_util.keystr(path, simple=True, separator=".") or "state"
        moved = np.flatnonzero(~present & ~same)
        demand.that(
            not moved.size,
            f"An absent client must keep everything, but client {moved[:1]} of {b.name} was absent "
            f"and its {name} changed. Let fedjax_admm.where_active(info.active, new, old) choose "
            "what the clients keep.",
        )
        still = np.flatnonzero(present & same) if b.clients else np.array([])
        demand.that(
            not still.size,
            f"A client that takes part must move, but client {still[:1]} of {b.name} took part and "
            f"its {name} is unchanged.",
        )
    return old, new


def _absent(b: _Bench) -> None:
    active = np.zeros(b.mask, bool)
    # One in the first pass only, and one in the last pass only, where a round has passes.
    active[(*(0,) * (active.ndim - 1), 1)] = True
    active[(*(-1,) * (active.ndim - 1), -1)] = True
    _states(b, active)


def _nobody(b: _Bench) -> None:
    old, new = _states(b, np.zeros(b.mask, bool))
    where = f"The estimates of {b.name} before and after a round without anybody"
    remedy = "Divide by the number of those who took part only where there are some."
    demand.close(where, b.solver.estimate(new), b.solver.estimate(old), 1e-5, 0.0, remedy)


def _dtype(b: _Bench) -> None:
    data = dtype_of(b.problem)
    with doing(f"A run of {b.name} on data of dtype {data.name}"):
        result = b.run()
    for part, tree in (("state", result.state.solver), ("estimate", result.estimate)):
        for path, leaf in jax.tree.leaves_with_path(tree):
            demand.that(
                not is_float(leaf) or leaf.dtype == data,
                f"The dtype must follow the problem's data, which are {data.name}, but "
                f"{jax.tree_util.keystr(path)} of the {part} of {b.name} is {leaf.dtype}; take it "
                "from problem.start.dtype.",
            )


def _traces(b: _Bench) -> None:
    demand.no_static_numbers(b.solver)
    traces = 0

    @jax.jit
    def go(solver, process, key):
        nonlocal traces
        traces += 1
        return b._replace(solver=solver, key=key).run(2, process).estimate

    for factor in (1.0, 1.1):
        solver = with_floats(b.solver, lambda leaf, f=factor: leaf * f)
        with doing(f"{b.name} with hyper-parameters that are traced"):
            go(solver, participation.bernoulli(factor / 2), jax.random.key(0))
    demand.that(
        traces == 1,
        f"{b.name} was traced {traces} times for two values of its hyper-parameters; make every "
        "number a leaf, and an array of one dtype.",
    )


def _vmap(b: _Bench) -> None:
    keys = jax.random.split(jax.random.key(1), 3)

    def estimate(key):
        return b._replace(key=key).run().estimate

    with doing(f"A batch of runs of {b.name} under jax.jit and jax.vmap"):
        batch = jax.jit(jax.vmap(estimate))(keys)
    alone = jax.tree.map(lambda *parts: jnp.stack(parts), *[estimate(key) for key in keys])
    where = f"Estimates of {b.name} in a batch and alone"
    demand.close(where, batch, alone, 1e-4, 1e-4)


def _gradients(b: _Bench) -> None:
    leaves, structure = jax.tree.flatten(b.solver)
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(b.solver)]
    places = [i for i, leaf in enumerate(leaves) if is_float(leaf)]
    if not places:
        return

    def loss(floats):
        solver = jax.tree.unflatten(structure, [floats.get(i, x) for i, x in enumerate(leaves)])
        result = b._replace(solver=solver).run(process=participation.everyone())
        return sum(jnp.sum(part**2) for part in jax.tree.leaves(result.estimate))

    with doing(f"The derivative of a run of {b.name} by its hyper-parameters"):
        gradient = jax.grad(loss)({i: leaves[i] for i in places})
    for place, slope in gradient.items():
        demand.finite(f"The derivative of a run of {b.name} by {paths[place]}", slope, SAFE)
    demand.that(
        any(np.any(slope != 0) for slope in gradient.values()),
        f"The derivatives of a run of {b.name} by all of its hyper-parameters are zero; does it "
        "use them, or stop gradients?",
    )


def _resumes(b: _Bench) -> None:
    with doing(f"A run of {b.name} in two parts"):
        whole = b.run()
        half = b.run(b.rounds // 2, start=b.run(0).state)
        rest = b.run(b.rounds // 2, start=half.state)
    remedy = "All that a round needs must be in the state, or follow from info.index and info.key."
    where = f"The states of {b.name} after {b.rounds} rounds in two parts and at once"
    pairs = zip(jax.tree.leaves(rest.state), jax.tree.leaves(whole.state), strict=True)
    for resumed, leaf in pairs:
        size = np.max(np.abs(np.nan_to_num(plain(leaf), posinf=0, neginf=0)), initial=1e-30)
        demand.close(where, resumed, leaf, 0.0, b.bits * float(size), remedy)


def _keys(b: _Bench) -> None:
    # A key that is used twice raises while a program is traced, inside a scan too.
    with jax.debug_key_reuse(True), doing(f"A run of {b.name} with 2 clients per round"):
        b.run(2, participation.without_replacement(2))


SOLVER_CHECKS = {
    "traffic": _traffic,
    "structure": _structure,
    "absent": _absent,
    "nobody": _nobody,
    "dtype": _dtype,
    "traces": _traces,
    "vmap": _vmap,
    "gradients": _gradients,
    "resumes": _resumes,
    "keys": _keys,
}
