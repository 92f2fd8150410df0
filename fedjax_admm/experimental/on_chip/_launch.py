"""The launch of the kernel, its twin, and which of both a call gets."""

from collections.abc import Callable, Sequence
from functools import partial

import jax
import jax.numpy as jnp
from jax.experimental import pallas

from fedjax_admm._checks import InputError, count, is_concrete, listed, multiple, typed_key
from fedjax_admm._run import RoundState, Run, Status, check_start, run, with_fingerprint
from fedjax_admm.capabilities import check_capabilities
from fedjax_admm.experimental.on_chip._kernel import run_rounds
from fedjax_admm.experimental.on_chip._masks import draw_masks, pack_rounds
from fedjax_admm.experimental.on_chip._respelling import INSTRUCTIONS, SPELLINGS, operations
from fedjax_admm.participation import Everyone, Participation
from fedjax_admm.penalties import Zero
from fedjax_admm.problems import Localization
from fedjax_admm.solvers import FSMDM, FSMDMClients, FSMDMState

try:
    from jax.experimental.pallas import mosaic_gpu
except ImportError:  # a jaxlib built without it
    mosaic_gpu = None

WARPGROUP = 128
"""Lanes that work in step."""


def run_on_chip(
    solver: FSMDM,
    problem: Localization,
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
      InputError: another solver or problem, a regulariser, an exchange that does something to
        messages, a schedule that is not elementwise, or a number that does not fit; nothing has
        been compiled then.
    """
    participation = Everyone() if participation is None else participation
    rounds, every = count("rounds", rounds), count("every", every)
    multiple("rounds", rounds, "every", every)
    typed_key(key)
    for name, value, wanted in (
        ("solver", solver, FSMDM),
        ("problem", problem, Localization),
    ):
        if type(value) is not wanted:
            raise InputError(
                f"must be a {wanted.__name__}, for which the kernel is written, but it is a "
                f"{type(value).__name__}",
                argument=name,
                value=value,
                remedy="use fedjax_admm.run",
            )
    if not isinstance(solver.regularizer, Zero):
        raise InputError(
            "must be penalties.zero() for the kernel, but it is a "
            f"{type(solver.regularizer).__name__}",
            argument="regularizer",
            value=solver.regularizer,
            remedy="use fedjax_admm.run",
        )
    if not solver.exchange.plain:
        raise InputError(
            "must be messages.exchange() for the kernel, in which nothing happens to messages",
            argument="exchange",
            value=solver.exchange,
            remedy="use fedjax_admm.run",
        )
    check_start(start, key)
    check_capabilities(solver, problem)
    done = int(start.index) if start is not None and is_concrete(start.index) else 0
    participation.check(solver.participants(problem), done + rounds)
    solver.check(problem, done + rounds)
    _check_hyperparameters(solver)
    return _run_on_chip(solver, problem, key, participation, start, rounds, every, interpret)


@partial(jax.jit, static_argnums=(5, 6, 7))
def _run_on_chip(solver, problem, key, participation, start, rounds, every, interpret) -> Run:
    if start is not None:
        start = with_fingerprint(start, key)
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
        else draw_masks(problem, key, participation, start, rounds)
    )
    clients, dim, dtype = problem.num_clients, problem.dim, problem.anchors.dtype
    lanes = -(-clients // WARPGROUP) * WARPGROUP
    pad = partial(pad_lanes, lanes=lanes)

    leaves, structure = jax.tree.flatten(solver)
    numbers = jnp.stack([leaf.astype(dtype) for leaf in leaves])
    sensors = pad(jnp.concatenate([problem.anchors.T, problem.distances[None]]))
    present = (jnp.arange(lanes) < clients).astype(dtype)[None]
    old = start.solver.client
    vectors = pad(jnp.concatenate([leaf.T for leaf in old[:-1]]))
    words = () if everyone else (pad(pack_rounds(masks)),)

    body = partial(run_rounds, structure=structure, rounds=rounds, every=every, masked=not everyone)
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
    client = FSMDMClients(*(copy.T for copy in copies), updates=updates[:clients])
    records = jnp.arange(every, rounds + 1, every, dtype=jnp.int32)
    blocks = masks.reshape(-1, every, clients)
    first_failed = jnp.where(failed[0] > 0, start.index + failed[0], 0)
    return Run(
        RoundState(
            start.index + rounds, remembered, FSMDMState(trace[-1], client), start.fingerprint
        ),
        {
            "estimate": trace,
            "round": start.index + records,
            "messages": jax.vmap(lambda block: solver.messages(problem, block))(blocks),
        },
        Status(jnp.zeros((), jnp.int32), first_failed, jnp.zeros((), jnp.int32)),
        trace[-1],
    )


def _compiled(body: Callable, shapes: Sequence, interpret: bool) -> Callable:
    """Return the function of arrays that runs `body`; `jax.vmap` of it makes a grid."""
    if interpret:
        return pallas.pallas_call(body, out_shape=shapes, interpret=True)
    return mosaic_gpu.kernel(body, out_type=shapes)  # pyright: ignore[reportOptionalMemberAccess]


def _check_hyperparameters(solver: FSMDM) -> None:
    """Check that the kernel can hold the solver's numbers and evaluate its schedules."""
    for path, leaf in jax.tree.leaves_with_path(solver):
        if leaf.shape != () or not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise InputError(
                "must be one floating number for the kernel, but it has dtype "
                f"{leaf.dtype} and shape {leaf.shape}",
                argument=f"solver{jax.tree_util.keystr(path)}",
                value=leaf,
                remedy="use fedjax_admm.run",
            )
    counts = jax.ShapeDtypeStruct((WARPGROUP,), jnp.int32)
    for name in ("sigma_psi", "mu_phi", "sigma_xi", "mu_h"):
        program = jax.make_jaxpr(lambda schedule, k: schedule(k))(getattr(solver, name), counts)
        unknown = sorted(operations(program) - INSTRUCTIONS - set(SPELLINGS))
        if unknown:
            raise InputError(
                f"must be made of elementwise arithmetic for the kernel, but it uses "
                f"{listed(unknown)}",
                argument=name,
                value=getattr(solver, name),
                remedy="write it so, or use fedjax_admm.run",
            )


def pad_lanes(array: jax.Array, lanes: int) -> jax.Array:
    """Repeat the last client up to `lanes`: the padding computes, but nobody listens to it."""
    return jnp.pad(array, [(0, 0)] * (array.ndim - 1) + [(0, lanes - array.shape[-1])], "edge")
