"""Checks of a solver: masks, dtypes, traces, transformations, derivatives, keys, resumption."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm import participation
from fedjax_admm._checks import InputError, count, scalar
from fedjax_admm._run import check_methods, run
from fedjax_admm.capabilities import Subset, check_capabilities, has
from fedjax_admm.protocol import RoundInfo
from fedjax_admm.testing._shared import (
    NO_BRANCH,
    SAFE,
    demand,
    demand_close,
    demand_count,
    demand_finite,
    demand_no_static_numbers,
    demand_same_form,
    doing,
    dtype_of,
    is_float,
    make,
    plain,
    unfit,
    with_floats,
)

_CLOSE = 1e-4  # of numbers that agree up to rounding


class _Bench(NamedTuple):
    solver: Any
    problem: Any
    clients: Callable[[Any], Any] | None
    shapes: Sequence[tuple[int, ...]] | None
    rounds: int
    key: jax.Array
    bits: float

    @property
    def name(self) -> str:
        return type(self.solver).__name__

    @property
    def mask(self) -> tuple[int, ...]:
        return tuple(self.solver.participants(self.problem))

    def run(self, rounds=None, process=None, start=None):
        """Return a run, in which clients come and go unless `process` is given."""
        process = participation.markov_on_off(0.3, 0.3) if process is None else process
        rounds = self.rounds if rounds is None else rounds
        return run(
            self.solver, self.problem, self.key, rounds=rounds, participation=process, start=start
        )

    def info(self, active, index: int) -> RoundInfo:
        """Return the info that the run of `key` has in a round, with a mask of one's own."""
        key = jax.random.split(jax.random.fold_in(self.key, index))[1]
        return RoundInfo(jnp.int32(index), key, jnp.broadcast_to(jnp.asarray(active), self.mask))

    def of_clients(self, state) -> dict[str, np.ndarray]:
        """Return the leaves of clients by name, with a leading axis of clients."""
        if self.clients is not None:
            parts = jax.tree.leaves_with_path(self.clients(state))
        else:
            marks = _of_clients(self.solver, self.problem)
            leaves = jax.tree.leaves_with_path(state)
            parts = [leaf for leaf, mark in zip(leaves, marks, strict=True) if mark]
        return {jax.tree_util.keystr(path) or "the state": plain(leaf) for path, leaf in parts}


def check_solver(
    solver: Any,
    problem: Any,
    *,
    clients: Callable[[Any], Any] | None = None,
    shapes: Sequence[tuple[int, ...]] | None = None,
    rounds: int = 8,
    bits: float = 0.0,
    only: str | Sequence[str] | None = None,
) -> None:
    """Check that a solver obeys the protocol.

    - `needs`: `requires` names capabilities, without which a problem is refused.
    - `traffic`: sizes of messages are whole numbers; their count is an int32 number.
    - `structure`: a step keeps the structure, shapes and dtypes of the state, with and without
      `jax.jit`, and its numbers are finite; the estimate is a model.
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
      shapes: the shapes that an estimate may have; if None, any for a pytree, and (dim,) or
        (clients, dim) for an array where the problem has a `start`.
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
    if not hasattr(solver, "traffic") or not hasattr(solver, "requires"):
        raise unfit("solver", solver, "a solver with the method traffic and the tuple requires")
    check_capabilities(solver, problem)
    if clients is not None and not callable(clients):
        raise unfit("clients", clients, "a function of the state")
    if count("rounds", rounds, at_least=2) % 2:
        raise unfit("rounds", rounds, "even")
    bits = float(scalar("bits", bits, at_least=0))
    bench = _Bench(solver, problem, clients, shapes, rounds, jax.random.key(5), bits)
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


def _of_clients(solver: Any, problem: Any) -> list[bool]:
    """Return, for every leaf of the state, whether its leading axis is that of clients."""
    clients = solver.participants(problem)[-1]
    key = jax.random.key(0)
    whole = jax.tree.leaves(jax.eval_shape(solver.init, problem, key))
    marks = [leaf.ndim > 0 and leaf.shape[0] == clients for leaf in whole]
    if has(problem, Subset) and clients == problem.num_clients:
        others = jnp.arange(clients - 1, dtype=jnp.int32)
        try:
            fewer = jax.eval_shape(lambda p, k: solver.init(p.take(others), k), problem, key)
        except Exception:  # a solver with numbers of its own for each client
            return marks
        pairs = zip(marks, jax.tree.leaves(fewer), strict=True)
        marks = [mark and leaf.shape[0] == clients - 1 for mark, leaf in pairs]
    return marks


def _needs(b: _Bench) -> None:
    demand(
        len(b.solver.requires) > 0,
        f"{b.name}.requires is empty; list the capabilities that it uses of a problem, such as "
        "(OnStar, Gradients) of fedjax_admm.capabilities.",
    )


def _traffic(b: _Bench) -> None:
    with doing(f"{b.name}.traffic"):
        traffic = b.solver.traffic(b.problem)
    for name, size in zip(("up", "down", "before", "broadcast"), traffic, strict=False):
        demand_count(f"{b.name}.traffic(problem).{name}", size)
    demand(
        traffic.up > 0 and traffic.down + traffic.broadcast > 0,
        f"{b.name} must send something up and something down, but its traffic is {traffic}.",
    )
    with doing(f"{b.name}.messages"):
        sent = jax.eval_shape(
            lambda p, a: b.solver.messages(p, a), b.problem, jnp.ones(b.mask, bool)
        )
    demand(
        sent.shape == () and sent.dtype == jnp.int32,
        f"{b.name}.messages must return one int32 number, but it returns {sent.dtype} of shape "
        f"{sent.shape}; take jnp.sum(active, dtype=jnp.int32).",
    )


def _structure(b: _Bench) -> None:
    with doing(f"{b.name}.init"):
        state = b.solver.init(b.problem, jax.random.key(0))
    for how, step in (("without jax.jit", type(b.solver).step), ("under jax.jit", _step)):
        with doing(f"{b.name}.step {how}", NO_BRANCH if "under" in how else ""):
            new = step(b.solver, b.problem, state, b.info(True, 0))
        demand_same_form(f"{b.name}.step {how}", "a state", state, new)
        demand_finite(f"The state after {b.name}.step {how}", new)
    with doing(f"{b.name}.estimate"):
        estimate = b.solver.estimate(new)
    start = getattr(b.problem, "start", None)
    shapes = b.shapes
    if shapes is None and start is not None and isinstance(estimate, jax.Array):
        dim = start.shape[-1]
        shapes = ((dim,), (b.mask[-1], dim))
    shape = getattr(estimate, "shape", None)
    demand(
        shapes is None or shape in [tuple(one) for one in shapes],
        f"{b.name}.estimate must be a model, of shape {' or '.join(map(str, shapes or ()))}, but "
        f"its shape is {shape}; pass shapes if models have another one.",
    )


def _states(b: _Bench, active: np.ndarray) -> tuple[Any, Any]:
    """Return the states before and after a round, in which absent clients must keep everything."""
    with doing(f"A run of {b.name}"):
        old = b.run().state.solver
    with doing(f"{b.name}.step where clients are absent"):
        new = _step(b.solver, b.problem, old, b.info(active, 3))
    present = active.reshape(-1, active.shape[-1]).any(0)
    after = b.of_clients(new)
    for name, before in b.of_clients(old).items():
        demand(
            before.shape[:1] == present.shape,
            f"What the clients of {b.name} keep must have a leading axis of {present.size}, but "
            f"{name} has shape {before.shape}; pass clients=, a function of the state.",
        )
        same = np.array([_same(x, y) for x, y in zip(before, after[name], strict=True)])
        for k in np.flatnonzero(~present & ~same):
            raise AssertionError(
                f"An absent client must keep everything, but client {k} of {b.name} was absent and "
                f"its {name} changed. Let fedjax_admm.where_active(info.active, new, old) choose "
                "what the clients keep."
            )
        still = np.flatnonzero(present & same) if b.clients else ()
        demand(
            not len(still),
            f"A client that takes part must move, but client {still[:1]} of {b.name} took part and "
            f"its {name} is unchanged.",
        )
    return old, new


def _absent(b: _Bench) -> None:
    active = np.zeros(b.mask, bool)
    # One in the first pass only, and one in the last pass only, where a round has passes.
    active[(*(0,) * (active.ndim - 1), 1)] = True
    active[(*(-1,) * (active.ndim - 1), -1)] = True
    old, new = _states(b, active)
    pairs = zip(jax.tree.leaves(old), jax.tree.leaves(new), strict=True)
    demand(
        any(not _same(plain(x), plain(y)) for x, y in pairs),
        f"A round with some clients changed nothing at all in the state of {b.name}.",
    )


def _nobody(b: _Bench) -> None:
    old, new = _states(b, np.zeros(b.mask, bool))
    where = f"The estimates of {b.name} before and after a round without anybody"
    remedy = "Divide by the number of those who took part only where there are some."
    demand_close(where, b.solver.estimate(new), b.solver.estimate(old), 1e-5, 0.0, remedy)


def _dtype(b: _Bench) -> None:
    data = dtype_of(b.problem)
    with doing(f"A run of {b.name} on data of dtype {data.name}"):
        result = b.run()
    for part, tree in (("state", result.state.solver), ("estimate", result.estimate)):
        for path, leaf in jax.tree.leaves_with_path(tree):
            demand(
                not is_float(leaf) or leaf.dtype == data,
                f"The dtype must follow the problem's data, which are {data.name}, but "
                f"{jax.tree_util.keystr(path)} of the {part} of {b.name} is {leaf.dtype}; take it "
                "from problem.start.dtype.",
            )


def _traces(b: _Bench) -> None:
    demand_no_static_numbers(b.solver)
    traces = 0

    @jax.jit
    def go(solver, process, key):
        nonlocal traces
        traces += 1
        return run(solver, b.problem, key, rounds=2, participation=process).estimate

    for factor in (1.0, 1.1):
        solver = with_floats(b.solver, lambda leaf, f=factor: leaf * f)
        with doing(f"{b.name} with hyper-parameters that are traced"):
            go(solver, participation.bernoulli(factor / 2), jax.random.key(0))
    demand(
        traces == 1,
        f"{b.name} was traced {traces} times for two values of its hyper-parameters; make every "
        "number a leaf, and an array of one dtype.",
    )


def _vmap(b: _Bench) -> None:
    process = participation.markov_on_off(0.3, 0.3)
    keys = jax.random.split(jax.random.key(1), 3)

    def estimate(key):
        return run(b.solver, b.problem, key, rounds=b.rounds, participation=process).estimate

    with doing(f"A batch of runs of {b.name} under jax.jit and jax.vmap"):
        batch = jax.jit(jax.vmap(estimate))(keys)
    alone = jax.tree.map(lambda *parts: jnp.stack(parts), *[estimate(key) for key in keys])
    where = f"Estimates of {b.name} in a batch and alone"
    demand_close(where, batch, alone, _CLOSE, _CLOSE)


def _gradients(b: _Bench) -> None:
    leaves, structure = jax.tree.flatten(b.solver)
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree.leaves_with_path(b.solver)]
    places = [i for i, leaf in enumerate(leaves) if is_float(leaf)]
    if not places:
        return

    def loss(floats):
        solver = jax.tree.unflatten(structure, [floats.get(i, x) for i, x in enumerate(leaves)])
        everyone = participation.everyone()
        result = run(solver, b.problem, b.key, rounds=b.rounds, participation=everyone).estimate
        return sum(jnp.sum(part**2) for part in jax.tree.leaves(result))

    with doing(f"The derivative of a run of {b.name} by its hyper-parameters"):
        gradient = jax.grad(loss)({i: leaves[i] for i in places})
    for place, slope in gradient.items():
        demand_finite(f"The derivative of a run of {b.name} by {paths[place]}", slope, SAFE)
    demand(
        any(np.any(slope != 0) for slope in gradient.values()),
        f"The derivatives of a run of {b.name} by all of its hyper-parameters are zero; does it "
        "use them, or stop gradients?",
    )


def _resumes(b: _Bench) -> None:
    with doing(f"A run of {b.name} in two parts"):
        whole = b.run()
        none = b.run(0)
        half = b.run(b.rounds // 2, start=none.state)
        rest = b.run(b.rounds // 2, start=half.state)
    remedy = "All that a round needs must be in the state, or follow from info.index and info.key."
    where = f"The states of {b.name} after {b.rounds} rounds in two parts and at once"
    pairs = zip(jax.tree.leaves(rest.state), jax.tree.leaves(whole.state), strict=True)
    for resumed, leaf in pairs:
        size = np.max(np.abs(np.nan_to_num(plain(leaf), posinf=0, neginf=0)), initial=1e-30)
        demand_close(where, resumed, leaf, 0.0, b.bits * float(size), remedy)


def _keys(b: _Bench) -> None:
    # A key that is used twice raises while a program is traced, inside a scan too.
    with jax.debug_key_reuse(True), doing(f"A run of {b.name} with 2 clients per round"):
        b.run(2, participation.without_replacement(2))


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


SOLVER_CHECKS = {
    "needs": _needs,
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
