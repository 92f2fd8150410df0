"""A whole trial of FSMDM in one GPU kernel, with the loop over rounds inside.

    run_on_chip(fsmdm(), problem, key, rounds=1000)                          one trial
    jax.vmap(lambda p, k: run_on_chip(fsmdm(), p, k, rounds=1000))(problems, keys)   a grid of them

Under `jax.lax.scan` a GPU launches about eleven kernels per round (counted in the compiled
program), and a trial whose state is a few kilobytes spends its time on launches. Here one thread
block holds a trial from the first round to the last: clients lie along the lanes of a warpgroup
(padded to a multiple of 128), every coordinate of every variable is one vector in registers, and
the server's mean is a reduction over the lanes. `jax.vmap` over trials makes the grid. Who takes
part is drawn before the launch, by the same keys as in `run`, and read as one bit per client and
round.

The kernel is opt-in. **Checked**, all of it without a GPU: the kernel's body in the interpreter of
Pallas against the scan and against the NumPy reference; its lowering by Mosaic GPU; and, for
Hopper (sm_90a, jax 0.10.2), the compilation to machine code: 72 to 80 registers for up to 128
sensors in space, no spills up to 512, a few bytes at 1024. **Not measured**: anything on a GPU,
neither its results there nor whether it is faster than the scan. Mosaic GPU needs Hopper or newer;
on an older card use `run`.

The arithmetic is that of `FSMDM`, but two roundings differ: sums over clients are added in another
order, and square roots and powers, for which Mosaic GPU has no instruction, are respelled with
`rsqrt`, `exp` and `log`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.experimental import pallas
from jax.extend.core import ClosedJaxpr, Literal

from fedjax_admm.checks import InputError, count, is_concrete, listed, requirements, typed_key
from fedjax_admm.kernels import couple_pair, prox_smoothed_abs
from fedjax_admm.participation import Everyone, Participation
from fedjax_admm.problems.localization import RangeLocalization
from fedjax_admm.pytrees import register_dataclass
from fedjax_admm.runs import RoundState, Run, Status, run
from fedjax_admm.solvers.fsmdm import FSMDM, ClientState, FSMDMState
from fedjax_admm.traffic import Traffic

try:
    from jax.experimental.pallas import mosaic_gpu
except ImportError:  # a jaxlib built without it
    mosaic_gpu = None

_WARPGROUP = 128  # lanes that work in step
_WORD = 32  # rounds whose masks share one integer

Vector = jax.Array  # shape=(lanes,): one number per client
Point = tuple[Vector, ...]  # one vector per coordinate


def run_on_chip(
    solver: FSMDM,
    problem: RangeLocalization,
    key: jax.Array,
    *,
    rounds: int,
    participation: Participation | None = None,
    every: int = 1,
    start: RoundState | None = None,
    interpret: bool = False,
) -> Run:
    """Run FSMDM on a localisation problem as one GPU kernel; like `run` in all but speed.

    Where there is no CUDA GPU, and for other dtypes than float32, it is `run` itself. Derivatives
    are always those of `run`: a differentiated call runs the scan, forward and backward.

    A process of participation that remembers nothing draws all its rounds at once, which takes
    rounds x clients numbers per trial; the others draw in a scan over rounds before the launch.

    Args:
      solver: built by `fsmdm`; its schedules and omega are single numbers per trial, and the
        schedules are elementwise formulas.
      problem: sensors, ranges and the first guess. Some 500 sensors in three dimensions fit in
        registers; more still work, from slower memory.
      key: a typed key.
      rounds: how many rounds to run, at least one, a multiple of `every`.
      participation: who takes part; everyone if None.
      every: record after each `every` rounds.
      start: the `state` of an earlier `Run` (of this function or of `run`), to go on from there.
      interpret: run the kernel in the interpreter of Pallas, on any device and in any dtype: slow,
        for tests.

    Returns:
      A `Run` as `run` returns it. `trace` holds "estimate" (records, dim): the server's model,
      besides "round" and "messages".

    Raises:
      InputError: another solver or problem, a schedule that is not elementwise, or a number that
        does not fit; nothing has been compiled then.
    """
    participation = Everyone() if participation is None else participation
    rounds, every = count("rounds", rounds), count("every", every)
    if rounds % every:
        raise InputError(
            f"rounds must be a multiple of every ({every}), but it is {rounds}; "
            f"the nearest one is {rounds - rounds % every}."
        )
    typed_key(key)
    for name, value, wanted in (
        ("solver", solver, FSMDM),
        ("problem", problem, RangeLocalization),
    ):
        if type(value) is not wanted:
            raise InputError(
                f"{name} must be a {wanted.__name__}, for which the kernel is written, but it is "
                f"a {type(value).__name__}; use fedjax_admm.run."
            )
    requirements(solver, problem)
    done = int(start.index) if start is not None and is_concrete(start.index) else 0
    participation.check(solver.participants(problem), done + rounds)
    _check_hyperparameters(solver)
    return _run_on_chip(solver, problem, key, participation, start, rounds, every, interpret)


@partial(jax.jit, static_argnums=(5, 6, 7))
def _run_on_chip(solver, problem, key, participation, start, rounds, every, interpret) -> Run:
    if not interpret and (mosaic_gpu is None or problem.anchors.dtype != jnp.float32):
        return _twin(solver, problem, key, participation, start, rounds, every)
    return _trial(solver, problem, key, participation, start, rounds, every, interpret)


@partial(jax.custom_jvp, nondiff_argnums=(5, 6, 7))
def _trial(solver, problem, key, participation, start, rounds, every, interpret) -> Run:
    """Return the trial's `Run`, from the kernel where it can run."""
    kernel = partial(_launch, rounds=rounds, every=every, interpret=interpret)
    if interpret:
        return kernel(solver, problem, key, participation, start)
    twin = partial(_twin, rounds=rounds, every=every)
    return jax.lax.platform_dependent(
        solver, problem, key, participation, start, cuda=kernel, default=twin
    )


@_trial.defjvp
def _trial_jvp(rounds, every, interpret, primals, tangents):
    return jax.jvp(partial(_twin, rounds=rounds, every=every), primals, tangents)


def _twin(solver, problem, key, participation, start, rounds, every) -> Run:
    """Return the same `Run` from the scan over rounds."""
    return run(
        solver,
        problem,
        key,
        rounds=rounds,
        participation=participation,
        measure=_estimate,
        every=every,
        start=start,
    )


def _estimate(solver, problem, state):
    return {"estimate": solver.estimate(state)}


def _launch(solver, problem, key, participation, start, rounds, every, interpret) -> Run:
    """Draw the masks, pack everything along the lanes, run the kernel and unpack."""
    if start is None:
        start = run(solver, problem, key, rounds=0, participation=participation).state
    everyone = isinstance(participation, Everyone)
    remembered, masks = (
        (start.participation, jnp.ones((rounds, problem.num_clients), bool))
        if everyone
        else _draw_masks(problem, key, participation, start, rounds)
    )
    clients, dim, dtype = problem.num_clients, problem.dim, problem.anchors.dtype
    lanes = -(-clients // _WARPGROUP) * _WARPGROUP
    pad = partial(_pad_lanes, lanes=lanes)

    leaves, structure = jax.tree.flatten(solver)
    numbers = jnp.stack([leaf.astype(dtype) for leaf in leaves])
    sensors = pad(jnp.concatenate([problem.anchors.T, problem.distances[None]]))
    present = (jnp.arange(lanes) < clients).astype(dtype)[None]
    old = start.solver.client
    vectors = pad(jnp.concatenate([leaf.T for leaf in old[:-1]]))
    words = () if everyone else (pad(_pack_rounds(masks)),)

    body = partial(_body, structure=structure, rounds=rounds, every=every, masked=not everyone)
    shapes = (
        jax.ShapeDtypeStruct((rounds // every, dim), dtype),
        jax.ShapeDtypeStruct(vectors.shape, dtype),
        jax.ShapeDtypeStruct((lanes,), jnp.int32),
        jax.ShapeDtypeStruct((1,), jnp.int32),
    )
    trace, vectors, updates, failed = _compiled(body, shapes, interpret)(
        numbers,
        jnp.concatenate([sensors, present]),
        vectors,
        pad(old.updates),
        start.solver.server,
        *words,
    )

    copies = vectors[:, :clients].reshape(-1, dim, clients)
    client = ClientState(*(copy.T for copy in copies), updates=updates[:clients])
    records = jnp.arange(every, rounds + 1, every, dtype=jnp.int32)
    blocks = masks.reshape(-1, every, clients)
    first_failed = jnp.where(failed[0] > 0, start.index + failed[0], 0)
    return Run(
        RoundState(start.index + rounds, remembered, FSMDMState(trace[-1], client)),
        {
            "estimate": trace,
            "round": start.index + records,
            "messages": jax.vmap(lambda block: solver.messages(problem, block))(blocks),
        },
        Status(jnp.zeros((), jnp.int32), first_failed),
        trace[-1],
    )


def _compiled(body: Callable, shapes: Sequence, interpret: bool) -> Callable:
    """Return the function of arrays that runs `body`; `jax.vmap` of it makes a grid."""
    if interpret:
        return pallas.pallas_call(body, out_shape=shapes, interpret=True)
    return mosaic_gpu.kernel(body, out_type=shapes)  # pyright: ignore[reportOptionalMemberAccess]


# --- the kernel ---------------------------------------------------------------------------------


class _Client(NamedTuple):
    """`ClientState` in registers: one vector over the clients for every coordinate."""

    x: Point
    z: Point
    g: Point
    q: Point
    psi: Point
    xi: Point
    zeta: Point
    updates: Vector


def _body(numbers, sensors, vectors, updates, server, *refs, structure, rounds, every, masked):
    """Run all rounds of one trial; the arguments are references to global memory."""
    words, (trace, last_vectors, last_updates, failed) = refs[:-4], refs[-4:]
    dim = server.shape[0]
    solver = structure.unflatten([numbers[i] for i in range(numbers.shape[0])])
    *anchor, distance, present = (sensors[i] for i in range(dim + 2))
    present = present > 0
    rows = [vectors[i] for i in range(vectors.shape[0])]
    copies = (tuple(rows[i : i + dim]) for i in range(0, len(rows), dim))
    update = _respelled(partial(_local_update, anchor=tuple(anchor), distance=distance))
    weigh = _respelled(lambda solver, updates: solver.sigma_xi(updates + 1))

    def advance(index, carry):
        server, client, failed = carry
        new = jax.lax.fori_loop(
            0, solver.local_updates, lambda _, held: update(solver, server, held), client
        )
        if masked:
            active = ((words[0][index >> 5] >> (index & (_WORD - 1))) & 1) > 0
            new = jax.tree.map(partial(jnp.where, active), new, client)
        share = weigh(solver, new.updates)
        total = jnp.sum(jnp.where(present, share, 0.0))
        server = tuple(
            jnp.sum(jnp.where(present, share * q - zeta, 0.0)) / total
            for q, zeta in zip(new.q, new.zeta, strict=True)
        )
        # An infinity or a NaN is not below infinity; there is no `isfinite` in the kernel.
        finite = jnp.abs(server[0]) < jnp.inf
        for coordinate in server[1:]:
            finite = finite & (jnp.abs(coordinate) < jnp.inf)
        return server, new, jnp.where(finite | (failed > 0), failed, index + 1)

    def record(row, carry):
        carry = jax.lax.fori_loop(
            0, every, lambda index, carry: advance(row * every + index, carry), carry
        )
        for i in range(dim):
            trace[row, i] = carry[0][i]
        return carry

    first = (
        tuple(server[i] for i in range(dim)),
        _Client(*copies, updates=updates[...]),
        jnp.int32(0),
    )
    _, client, first_failed = jax.lax.fori_loop(0, rounds // every, record, first)
    for i, row in enumerate(jax.tree.leaves(client[:-1])):
        last_vectors[i] = row
    last_updates[...] = client.updates
    failed[0] = first_failed


def _local_update(solver, server, client, *, anchor: Point, distance: Vector) -> _Client:
    """Return all clients after one local update, as `FSMDM` does, coordinate by coordinate."""
    updates = client.updates + 1
    sigma_psi, mu_phi = solver.sigma_psi(updates), solver.mu_phi(updates)
    sigma_xi, mu_h = solver.sigma_xi(updates), solver.mu_h(updates)
    total = sigma_psi + sigma_xi

    def link(v, step):
        return prox_smoothed_abs(v, step * solver.omega, mu_h)

    centre = _each(
        lambda z, g, psi, xi: (sigma_psi * z + sigma_xi * g - psi - xi) / total,
        *(client.z, client.g, client.psi, client.xi),
    )
    x = _prox_range_excess(centre, anchor, distance, 1 / total)
    pulled = _each(lambda x, psi: x + psi / sigma_psi, x, client.psi)
    z = _prox_negative_moreau_norm(pulled, anchor, 1 / sigma_psi, mu_phi)
    psi = _each(lambda psi, x, z: psi + sigma_psi * (x - z), client.psi, x, z)
    pairs = _each(
        lambda x, xi, w, zeta: couple_pair(
            x + xi / sigma_xi, w + zeta / sigma_xi, link, 1 / sigma_xi
        ),
        *(x, client.xi, server, client.zeta),
    )
    g, q = zip(*pairs, strict=True)
    xi = _each(lambda xi, x, g: xi + sigma_xi * (x - g), client.xi, x, g)
    zeta = _each(lambda zeta, w, q: zeta + sigma_xi * (w - q), client.zeta, server, q)
    return _Client(x, z, g, q, psi, xi, zeta, updates)


def _prox_range_excess(points: Point, anchor: Point, distance: Vector, step: Vector) -> Point:
    """`kernels.prox_range_excess`, one vector per coordinate."""
    offset = _each(jnp.subtract, points, anchor)
    positive, radius = _length(offset)
    excess = jnp.clip(radius - jnp.maximum(distance, 0.0), 0.0, 2 * step)
    shrinkage = jnp.where(positive, excess / radius, 0.0)
    return _each(lambda p, o: p - shrinkage * o, points, offset)


def _prox_negative_moreau_norm(points: Point, anchor: Point, step: Vector, mu: Vector) -> Point:
    """`kernels.prox_negative_moreau_norm`, one vector per coordinate."""
    offset = _each(jnp.subtract, points, anchor)
    positive, radius = _length(offset)
    divisor = jnp.maximum(jnp.where(positive, radius, 0.0), mu - step)
    distinguished = divisor > 0
    stretch = jnp.where(distinguished, step / jnp.where(distinguished, divisor, 1.0), 0.0)
    return _each(lambda p, o: p + stretch * o, points, offset)


def _length(offset: Point) -> tuple[Vector, Vector]:
    """Return where the offset has a length, and that length, 1 where it has none."""
    squared = sum((o * o for o in offset[1:]), start=offset[0] * offset[0])
    positive = squared > 0
    return positive, jnp.sqrt(jnp.where(positive, squared, 1.0))


def _each(function: Callable, *points: Point) -> tuple:
    """Apply a function to every coordinate."""
    return tuple(function(*coordinates) for coordinates in zip(*points, strict=True))


# --- masks and lanes ----------------------------------------------------------------------------


@register_dataclass
@dataclass(frozen=True, eq=False)
class _Attendance:
    """A solver that only notes who is present: with it `run` draws the masks by its own keys."""

    requires: ClassVar[tuple[str, ...]] = ()

    def participants(self, problem):
        return (problem.num_clients,)

    def init(self, problem, key):
        return jnp.zeros(problem.num_clients, bool)

    def step(self, problem, state, turn):
        return turn.active

    def estimate(self, state):
        return state

    def messages(self, problem, active):
        return jnp.sum(active, dtype=jnp.int32)

    def traffic(self, problem):
        return Traffic(up=0, down=0)


def _present(solver, problem, state):
    return {"present": state}


def _draw_masks(problem, key, participation, start: RoundState, rounds: int):
    """Return the state of the process after `rounds` rounds, and the masks (rounds, clients)."""
    attendance = _Attendance()
    first = start._replace(solver=attendance.init(problem, key))

    def draw(state, rounds):
        return run(
            attendance,
            problem,
            key,
            rounds=rounds,
            participation=participation,
            measure=_present,
            start=state,
        )

    if jax.tree.leaves(first.participation):
        drawn = draw(first, rounds)
        return drawn.state.participation, drawn.trace["present"]
    # Without a memory the rounds do not depend on each other: all at once, no scan.
    indices = first.index + jnp.arange(rounds, dtype=jnp.int32)
    drawn = jax.vmap(lambda index: draw(first._replace(index=index), 1).trace["present"][0])
    return first.participation, drawn(indices)


def _pack_rounds(masks: jax.Array) -> jax.Array:
    """Pack masks (rounds, clients) into int32 words (words, clients), 32 rounds in each."""
    rounds, clients = masks.shape
    whole = jnp.pad(masks, ((0, -rounds % _WORD), (0, 0))).reshape(-1, _WORD, clients)
    places = jnp.arange(_WORD, dtype=jnp.uint32)[None, :, None]
    words = jnp.sum(whole.astype(jnp.uint32) << places, 1, dtype=jnp.uint32)
    return jax.lax.bitcast_convert_type(words, jnp.int32)


def _pad_lanes(array: jax.Array, lanes: int) -> jax.Array:
    """Repeat the last client up to `lanes`: the padding computes, but nobody listens to it."""
    return jnp.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, lanes - array.shape[-1])], "edge")


# --- what Mosaic GPU has no instruction for -----------------------------------------------------


def _pow(x: jax.Array, y: jax.Array) -> jax.Array:
    y = jnp.asarray(y).astype(x.dtype)
    return jnp.where(y == 0, 1.0, jnp.exp(y * jnp.log(x)))


def _integer_pow(x: jax.Array, *, y: int) -> jax.Array:
    if y < 0:
        return 1 / _integer_pow(x, y=-y)
    return jax.lax.integer_pow(x, y) if y > 1 else jnp.ones_like(x) if y == 0 else x


_SPELLINGS = {
    "sqrt": lambda x, **_: x * jax.lax.rsqrt(x),
    "pow": _pow,
    "integer_pow": _integer_pow,
    "log1p": lambda x, **_: jnp.log(1 + x),
    "expm1": lambda x, **_: jnp.exp(x) - 1,
}
"""Operations spelled with others, for positive arguments: counts, lengths and scales."""

_INSTRUCTIONS = frozenset(
    {
        "abs",
        "add",
        "and",
        "broadcast_in_dim",
        "clamp",
        "convert_element_type",
        "cos",
        "div",
        "eq",
        "exp",
        "exp2",
        "ge",
        "gt",
        "le",
        "log",
        "logistic",
        "lt",
        "max",
        "min",
        "mul",
        "ne",
        "neg",
        "not",
        "or",
        "rem",
        "rsqrt",
        "select_n",
        "sign",
        "sin",
        "square",
        "sub",
        "tanh",
    }
)
"""Elementwise operations that Mosaic GPU lowers."""


def _inner(equation) -> ClosedJaxpr | None:
    """Return the program of a plain call, such as that of a function under `jax.jit`."""
    name = {"jit": "jaxpr", "custom_jvp_call": "call_jaxpr"}.get(equation.primitive.name)
    return None if name is None else equation.params[name]


def _respelled(function: Callable) -> Callable:
    """Return the same function without the operations of `_SPELLINGS`."""

    def respelled(*arguments):
        program, shape = jax.make_jaxpr(function, return_shape=True)(*arguments)
        results = _evaluate(program, jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(shape), results)

    return respelled


def _evaluate(program, arguments: list) -> list:
    """Evaluate a closed program operation by operation, respelling them on the way."""
    jaxpr = program.jaxpr
    known: dict[Any, Any] = dict(zip(jaxpr.constvars, program.consts, strict=True))
    known.update(zip(jaxpr.invars, arguments, strict=True))

    def value(atom):
        return atom.val if isinstance(atom, Literal) else known[atom]

    for equation in jaxpr.eqns:
        inputs = [value(atom) for atom in equation.invars]
        name = equation.primitive.name
        if (inner := _inner(equation)) is not None:
            results = _evaluate(inner, inputs)
        elif name in _SPELLINGS:
            results = [_SPELLINGS[name](*inputs, **equation.params)]
        else:
            results = equation.primitive.bind(*inputs, **equation.params)
            results = results if equation.primitive.multiple_results else [results]
        known.update(zip(equation.outvars, results, strict=True))
    return [value(atom) for atom in jaxpr.outvars]


def _operations(program) -> set[str]:
    """Return the names of all operations of a closed program."""
    names = set()
    for equation in program.jaxpr.eqns:
        inner = _inner(equation)
        names |= {equation.primitive.name} if inner is None else _operations(inner)
    return names


def _check_hyperparameters(solver: FSMDM) -> None:
    """Check that the kernel can hold the solver's numbers and evaluate its schedules."""
    for path, leaf in jax.tree.leaves_with_path(solver):
        if leaf.shape != () or not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise InputError(
                f"solver{jax.tree_util.keystr(path)} must be one floating number for the kernel, "
                f"but it has dtype {leaf.dtype} and shape {leaf.shape}; use fedjax_admm.run."
            )
    counts = jax.ShapeDtypeStruct((_WARPGROUP,), jnp.int32)
    for name in ("sigma_psi", "mu_phi", "sigma_xi", "mu_h"):
        program = jax.make_jaxpr(lambda schedule, k: schedule(k))(getattr(solver, name), counts)
        unknown = sorted(_operations(program) - _INSTRUCTIONS - set(_SPELLINGS))
        if unknown:
            raise InputError(
                f"{name} must be made of elementwise arithmetic for the kernel, but it uses "
                f"{listed(unknown)}; write it so, or use fedjax_admm.run."
            )
