"""Checks of a solver: masks, dtypes, traces, transformations, derivatives, keys, resumption."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm import participation
from fedjax_admm._run._rounds import run
from fedjax_admm.capabilities import Subset, check_capabilities, has
from fedjax_admm.messages import Exchange, Prompt
from fedjax_admm.protocol import RoundInfo
from fedjax_admm.solvers import StarSolver
from fedjax_admm.testing import _demand as demand
from fedjax_admm.testing._demand import Only, named

Clients = Callable[[Any], Any] | None
_ROUNDS = 8


class _Bench(NamedTuple):
    name: str
    mask: tuple[int, ...]
    solver: Any
    problem: Any
    clients: Clients
    bits: float
    key: jax.Array

    def run(self, rounds=_ROUNDS, process=None, start=None):
        """Return a run, in which clients come and go unless `process` is given."""
        process = participation.markov_on_off(0.3, 0.3) if process is None else process
        given = {"rounds": rounds, "participation": process, "start": start}
        return run(self.solver, self.problem, self.key, **given)

    def step(self, state, active, index: int):
        """Return the state after the round that the run of `key` has, with a mask of one's own."""
        key = jax.random.split(jax.random.fold_in(self.key, index))[1]
        active = jnp.broadcast_to(jnp.asarray(active), self.mask)
        return _step(self.solver, self.problem, state, RoundInfo(jnp.int32(index), key, active))


def check_solver(
    solver: Any, problem: Any, *, clients: Clients = None, bits: float = 0.0, only: Only = None
) -> None:
    """Check that a solver obeys the protocol.

    - `traffic`: sizes of messages are whole numbers; their count is an int32 number. On a star,
      clients read every array that `broadcast` sends.
    - `structure`: a compiled step keeps the structure, shapes and dtypes of the state, and its
      numbers are finite.
    - `absent`: clients that are absent in a round keep everything; a round without anybody does not
      move the estimate, unless late messages arrive in it.
    - `dtype`: what a run returns has the dtype of the problem's data, here cast to float64.
    - `traces`: one trace serves all values of hyper-parameters; numbers in a batch of them and of
      keys, under `jax.jit` and `jax.vmap`, are the same as one by one.
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
      bits: 0, or by how much a resumed run may differ from the whole one, relative to the largest
        entry of a leaf, where programs are compiled without optimisation.
      only: names of the checks to make; all if None.

    Raises:
      AssertionError: a check fails.
      InputError: the problem lacks what the solver needs, or `only` names no check.
    """
    check_capabilities(solver, problem)
    about = demand.name_of(solver), tuple(solver.participants(problem))
    bench = _Bench(*about, solver, problem, clients, bits, jax.random.key(5))
    demand.make(bench, SOLVER_CHECKS, only)


@jax.jit
def _step(solver, problem, state, info):
    return solver.step(problem, state, info)


def _of_clients(b: _Bench, state: Any) -> Any:
    """Return what of the state belongs to clients, with a leading axis of clients."""
    if b.clients is not None:
        return b.clients(state)
    number, leaves = b.mask[-1], jax.tree.leaves_with_path(state)
    marks = [np.shape(leaf)[:1] == (number,) for _, leaf in leaves]
    if has(b.problem, Subset) and number == b.problem.num_clients:
        with suppress(Exception):  # a solver with numbers of its own for each client
            part = b.problem.take(jnp.arange(number - 1, dtype=jnp.int32))
            fewer = jax.tree.leaves(jax.eval_shape(b.solver.init, part, b.key))
            marks = [m and leaf.shape[0] < number for m, leaf in zip(marks, fewer, strict=True)]
    pairs = zip(leaves, marks, strict=True)
    return {jax.tree_util.keystr(path): leaf for (path, leaf), mark in pairs if mark}


def _traffic(b: _Bench) -> None:
    traffic = b.solver.traffic(b.problem)
    for name in ("up", "down", "before", "broadcast"):
        demand.count(f"{b.name}.traffic(problem).{name}", getattr(traffic, name))
    sent = b.solver.messages(b.problem, jnp.ones(b.mask, bool))
    demand.kind(f"{b.name}.messages", sent, (), jnp.int32)
    if isinstance(b.solver, StarSolver):
        _reads(b)


def _reads(b: _Bench) -> None:
    """Demand that the step of clients depends on every array that goes down to them."""
    down = b.solver.down_to_clients(b.problem, b.key)
    lost = [name for name, (size, is_read) in down.items() if size and not is_read]
    number, every = sum(down[name][0] for name in lost), sum(size for size, _ in down.values())
    sentence = f"Clients of {b.name} never read {number} of the {every} numbers that go down, those"
    remedy = "Let `broadcast` return what clients read, and no more."
    demand.that(not lost, f"{sentence} of {', '.join(lost)}. {remedy}")


def _structure(b: _Bench) -> None:
    state = b.solver.init(b.problem, b.key)
    new = b.step(state, True, 0)
    demand.same_form(f"The state of {b.name}", state, new)
    demand.finite(f"The state after {b.name}.step", new)


def _absent(b: _Bench) -> None:
    # One in the first pass only, and one in the last pass only, where a round has passes.
    some = np.zeros(b.mask, bool)
    some.reshape(-1, b.mask[-1])[[0, -1], [1, -1]] = True
    old = b.run().state.solver
    _keeps(b, old, some)
    new = _keeps(b, old, np.zeros(b.mask, bool))
    if not isinstance(getattr(b.solver, "exchange", Exchange()).delay, Prompt):
        return  # late messages arrive in that round
    where = f"The estimates of {b.name} before and after a round without anybody"
    remedy = "Divide by the number of those who took part only where there are some."
    demand.close(where, b.solver.estimate(new), b.solver.estimate(old), 1e-5, 0.0, remedy)


def _keeps(b: _Bench, old: Any, active: np.ndarray) -> Any:
    """Demand that absent clients keep everything, and return the state after the round."""
    new = b.step(old, active, 3)
    present, kept = active.reshape(-1, b.mask[-1]).any(0), _of_clients(b, old)
    leaves = zip(jax.tree.leaves_with_path(kept), jax.tree.leaves(_of_clients(b, new)), strict=True)
    for (path, one), other in leaves:
        pairs = zip(demand.plain(one), demand.plain(other), strict=True)
        same = np.array([np.array_equal(*pair, equal_nan=True) for pair in pairs])
        still = present & same & (b.clients is not None)
        remedy = "Let fedjax_admm.where_active(info.active, new, old) choose what clients keep."
        for wrong, did in ((~present & ~same, "was absent and changed"), (still, "did not move")):
            text = f"Client {wrong.argmax()} of {b.name} {did}: {jax.tree_util.keystr(path)}. "
            demand.that(not wrong.any(), text + remedy)
    return new


def _dtype(b: _Bench) -> None:
    with jax.enable_x64(True):  # traced, not compiled
        wide = b._replace(**demand.cast({"solver": b.solver, "problem": b.problem}, np.float64))
        result = jax.eval_shape(lambda key: wide._replace(key=key).run(2), b.key)
    parts = {"state": result.state.solver, "estimate": result.estimate}
    for path, leaf in jax.tree.leaves_with_path(parts):
        sentence = f"The dtype must follow the problem's data, which are float64, but of {b.name} "
        found = f"{jax.tree_util.keystr(path)} is {leaf.dtype}; take it from problem.start.dtype."
        demand.that(leaf.dtype == np.float64 or not demand.is_float(leaf), sentence + found)


def _traces(b: _Bench) -> None:
    def estimate(solver, key):
        return b._replace(solver=solver, key=key).run().estimate

    demand.batch(f"A run of {b.name}", b.solver, estimate)


def _gradients(b: _Bench) -> None:
    def estimate(solver):
        return b._replace(solver=solver).run(process=participation.everyone()).estimate

    (found,) = demand.slopes(estimate, b.solver)
    demand.finite(f"The derivative of a run of {b.name}", found, demand.SAFE)
    slopes, sentence = jax.tree.leaves(found), f"All derivatives of a run of {b.name} are zero; "
    demand.that(not slopes or any(map(np.any, slopes)), f"{sentence}does it use its numbers?")


def _resumes(b: _Bench) -> None:
    whole, half = b.run(), b.run(_ROUNDS // 2, start=b.run(0).state)
    rest = b.run(_ROUNDS // 2, start=half.state)
    remedy = "All that a round needs must be in the state, or follow from info.index and info.key."
    where = f"The states of {b.name} after {_ROUNDS} rounds in two parts and at once"
    for resumed, leaf in zip(*map(jax.tree.leaves, (rest.state, whole.state)), strict=True):
        size = np.max(np.abs(np.nan_to_num(demand.plain(leaf), posinf=0, neginf=0)), initial=1e-30)
        demand.close(where, resumed, leaf, 0.0, b.bits * size, remedy)


def _keys(b: _Bench) -> None:
    # A key that is used twice raises while a program is traced, inside a scan too.
    with jax.debug_key_reuse(True):
        b.run(2, participation.without_replacement(2))


SOLVER_CHECKS = named(_traffic, _structure, _absent, _dtype, _traces, _gradients, _resumes, _keys)
