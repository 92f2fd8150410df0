"""Counts that a person can check, the report's text, and recordings."""

import json
import math

import jax
import jax.numpy as jnp
import pytest
from jax.sharding import PartitionSpec

from fedjax_admm._checks import InputError
from fedjax_admm.trials.profiling import (
    OperationCounts,
    Profile,
    Rates,
    _rates as rates,
    as_json,
    count_operations,
    machine_rates,
    recording,
    table,
    trace_file,
)

N, STEPS, WIDTH = 8, 5, 3
FLOAT = 4  # bytes


def vector(*shape):
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def squared_again(x):
    """A scan of products of matrices."""
    return jax.lax.scan(lambda x, _: (x @ x, None), x, length=STEPS)[0]


# --- arithmetic ---


def test_elementwise_operations_count_one_per_element():
    def chain(x):
        return jnp.sqrt(x * x + 2.0 * x)  # two products, a sum and a root

    assert count_operations(chain, vector(N)) == OperationCounts(4 * N, 2 * N * FLOAT)


def test_integers_comparisons_and_moves_count_nothing():
    def moves(x, i):
        return jnp.where(x > 0, x[::-1], 0.0), i * i + 1

    assert count_operations(moves, vector(N), jax.ShapeDtypeStruct((N,), jnp.int32)).flops == 0


def test_reductions_count_their_operands():
    assert (
        count_operations(lambda x: (jnp.sum(x, 0), jnp.argmax(x)), vector(N, N)).flops == 2 * N * N
    )


def test_a_product_counts_two_per_term():
    shapes = vector(WIDTH, 4, N), vector(WIDTH, N, 7)
    assert count_operations(jnp.matmul, *shapes).flops == 2 * WIDTH * 4 * 7 * N


@pytest.mark.parametrize(
    ("solve", "flops"),
    [
        (lambda a: jax.lax.linalg.cholesky(a, symmetrize_input=False), N**3 // 3),
        (jax.lax.linalg.lu, 2 * (N**3 // 3)),
        (lambda a: jax.scipy.linalg.solve_triangular(a, a[:, :2]), 2 * N**2),
    ],
)
def test_factorisations_count_as_in_textbooks(solve, flops):
    assert abs(count_operations(solve, vector(N, N)).flops - flops) <= 1  # a rounded third


def test_scans_multiply_under_vmap_and_jit():
    one = count_operations(squared_again, vector(N, N))
    assert one.flops == STEPS * 2 * N**3
    many = count_operations(jax.jit(jax.vmap(squared_again)), vector(WIDTH, N, N))
    assert many == one.times(WIDTH)


def test_micro_batches_count_every_trial_once():
    def batches(xs):
        return jax.lax.map(squared_again, xs, batch_size=2)

    # Two batches of two, and one left over.
    assert count_operations(batches, vector(5, N, N)).flops == 5 * STEPS * 2 * N**3


def test_xla_counts_the_body_of_a_loop_once():
    """The reason for counting by ourselves: the same flops for every length."""

    def flops(length):
        def repeated(x):
            return jax.lax.scan(lambda x, _: (x @ x, None), x, length=length)[0]

        return jax.jit(repeated).lower(vector(N, N)).compile().cost_analysis()["flops"]

    assert flops(7) == flops(70) < 2 * 7 * N**3


def test_the_dearest_branch_counts():
    def either(x):
        return jax.lax.cond(x[0] > 0, jnp.sin, lambda x: jnp.cos(x) + jnp.exp(x), x)

    assert count_operations(either, vector(N)).flops == 3 * N


def test_loops_of_unknown_length_count_once_and_are_reported():
    def until(x):
        return jax.lax.while_loop(lambda x: x[0] < 5.0, lambda x: 2.0 * x, x)

    assert count_operations(until, vector(N)) == OperationCounts(N, 2 * N * FLOAT, unknown_loops=1)
    assert count_operations(jax.vmap(until), vector(WIDTH, N)).unknown_loops == 1


def test_calls_are_looked_into():
    @jax.custom_jvp
    def root(x):
        return jnp.sqrt(x)

    root.defjvp(lambda primals, tangents: (root(*primals), tangents[0]))

    def solved(x):
        return jax.lax.custom_linear_solve(lambda y: 2.0 * y, x, lambda _, y: y / 2.0)

    for function in (root, solved, jax.checkpoint(jnp.sin), jax.jit(jnp.sin)):
        assert count_operations(function, vector(N)).flops == N


def test_shards_count_on_all_devices():
    kinds = (jax.sharding.AxisType.Auto,) * 2
    mesh = jax.make_mesh((2, 1), ("trials", "clients"), axis_types=kinds)
    over = PartitionSpec("trials")
    spread = jax.shard_map(jax.vmap(squared_again), mesh=mesh, in_specs=over, out_specs=over)
    assert count_operations(spread, vector(4, N, N)) == count_operations(
        squared_again, vector(N, N)
    ).times(4)


# --- traffic ---


def test_an_iteration_reads_constants_carry_and_slices_and_writes_carry_and_outputs():
    constant = jnp.ones(N)

    def loop(x, slices):
        def body(x, slice_):
            x = x * constant + slice_
            return x, x[:2]

        return jax.lax.scan(body, x, slices)

    numbers = N + N + N + N + 2  # constant, carry in, slice, carry out, output
    assert count_operations(loop, vector(N), vector(STEPS, N)).bytes == STEPS * numbers * FLOAT


def test_the_innermost_loops_dominate():
    def outer(x):
        return jax.lax.scan(lambda x, _: (squared_again(x), None), x, length=4)[0]

    # The outer loop passes on what the inner one reads and writes anyway.
    assert count_operations(outer, vector(N, N)) == count_operations(
        squared_again, vector(N, N)
    ).times(4)


def test_a_body_that_outweighs_its_inner_loop_counts_by_itself():
    def body(x, _):
        small, _ = jax.lax.scan(lambda s, _: (2.0 * s, None), x[0], length=2)
        return x + small, None

    def outer(x):
        return jax.lax.scan(body, x, length=STEPS)[0]

    assert count_operations(outer, vector(N)).bytes == STEPS * 2 * N * FLOAT


def test_a_carry_that_stays_is_not_written():
    def loop(x, kept):
        return jax.lax.scan(lambda c, _: ((c[0] + c[1], c[1]), None), (x, kept), length=STEPS)[0]

    inside = STEPS * 3 * N * FLOAT  # both are read, one is written
    assert count_operations(loop, vector(N), vector(N)).bytes == inside


def test_a_carry_that_is_recorded_is_read_and_written():
    def loop(x):
        return jax.lax.scan(lambda x, _: (jnp.ones(N), x), x, length=STEPS)

    # The old one is read and recorded, the new one is written.
    assert count_operations(loop, vector(N)).bytes == STEPS * 3 * N * FLOAT


def test_rows_that_are_gathered_and_replaced_count_as_rows():
    rows, chosen = 1000, 2

    def loop(table, places):
        def body(table, place):
            old = table[place]
            return table.at[place].set(2.0 * old, unique_indices=True), None

        return jax.lax.scan(body, table, places)[0]

    places = jax.ShapeDtypeStruct((STEPS, chosen), jnp.int32)
    counted = count_operations(loop, vector(rows, N), places).bytes / STEPS
    assert counted == 2 * chosen * N * FLOAT + chosen * 4  # rows in and out, their numbers


def test_rows_that_are_added_to_are_read_and_written():
    def loop(table, places):
        def body(table, place):
            return table.at[place].add(1.0), None

        return jax.lax.scan(body, table, places)[0]

    places = jax.ShapeDtypeStruct((STEPS,), jnp.int32)
    assert count_operations(loop, vector(1000, N), places).bytes == STEPS * (2 * N * FLOAT + 4)


# --- rates ---


def test_rates_are_positive_and_finite(monkeypatch):
    monkeypatch.setattr(rates, "CPU", rates.Sizes(2**16, 32))
    found = machine_rates(*jax.devices("cpu"))
    assert all(math.isfinite(rate) and rate > 0 for rate in found)


def test_rates_of_no_device():
    with pytest.raises(InputError, match="at least one device"):
        machine_rates()


# --- report ---

PROFILE = Profile(
    compile_seconds=3.0,
    run_seconds=2.0,
    transfer_seconds=0.125,
    total_seconds=5.5,
    trials=100,
    counts=OperationCounts(flops=4_000_000_000, bytes=6_000_000_000),
    rates=Rates(copy=12e9, matrix=200e9),
    devices=2,
    device="cpu",
)


def test_the_table_says_what_was_reached():
    assert table(PROFILE).splitlines() == [
        "compile       3.000 s",
        "run           2.000 s  on 2 x cpu",
        "transfer      0.125 s  device to host, and storing",
        "total         5.500 s",
        "trials            100  50 per second",
        "memory         3 GB/s  25 % of the measured copy (12 GB/s)",
        "arithmetic  2 GFLOP/s  1 % of the measured matrix product (200 GFLOP/s)",
    ]


def test_the_table_says_what_it_does_not_know():
    text = table(changed(counts=OperationCounts(1, 1, unknown_loops=3)))
    assert "at least: 3 loops of unknown length" in text
    assert "in the caches" not in text


def test_the_table_explains_more_than_a_copy_reaches():
    assert "in the caches" in table(changed(rates=Rates(1e9, 1e9)))


def test_the_table_ends_with_how_to_open_the_trace(tmp_path):
    last = table(changed(trace=tmp_path / "vm.trace.json.gz")).splitlines()[-1]
    assert "vm.trace.json.gz" in last
    assert "ui.perfetto.dev" in last


@pytest.mark.parametrize(
    "nothing", [{"trials": 0, "counts": OperationCounts(0, 0)}, {"run_seconds": 0.0}]
)
def test_a_run_without_trials_has_no_rates(nothing):
    profile = changed(**nothing)
    assert "nothing was computed" in table(profile)
    assert as_json(profile)["trials_per_second"] is None


def test_the_json_holds_rates_and_shares(tmp_path):
    found = json.loads(json.dumps(as_json(changed(trace=tmp_path)), allow_nan=False))
    assert found["bytes_per_second"] == 3e9
    assert found["bytes_share"] == 0.25
    assert found["flops_share"] == 0.01
    assert found["seconds"] == {"compile": 3.0, "run": 2.0, "transfer": 0.125, "total": 5.5}
    assert found["trace"] == str(tmp_path)


def changed(**fields):
    return Profile(**{**vars(PROFILE), **fields})


# --- recordings ---


@pytest.mark.thorough
def test_a_recording_leaves_a_trace(tmp_path):
    folder = tmp_path / "new" / "trace"
    assert trace_file(folder) is None
    with recording(folder):
        jax.block_until_ready(jnp.arange(3) + 1)
        with (
            pytest.raises(InputError, match="end the other one"),
            recording(tmp_path / "other"),
        ):
            pass
    assert trace_file(folder).name.endswith(".trace.json.gz")
    assert list(folder.rglob("*.xplane.pb"))


@pytest.mark.thorough
def test_an_error_inside_a_recording_comes_out_and_ends_it(tmp_path):
    with pytest.raises(ZeroDivisionError), recording(tmp_path):
        raise ZeroDivisionError
    with recording(tmp_path):
        pass


def test_a_folder_that_cannot_be_written(tmp_path):
    file = tmp_path / "file"
    file.touch()
    for folder in (file, file / "below"):
        with pytest.raises(InputError, match="choose another") as caught, recording(folder):
            pass
        assert str(folder) in str(caught.value)
