"""Two networks by `fa.run`, beside the same rounds written by hand in JAX.

    python benchmarks/networks.py [--networks NAME ...]  FedAvg, SCAFFOLD, FedADMM, 800 rounds each

The task is that of `docs/howto/batch-norm.md`: 20 clients, two of them drawn per round, ten local
steps of minibatches of 16. The networks are the page's, with batch norm and dropout, and the small
convolution of `federated-benchmark`. Each configuration runs in a process of its own, in turns;
medians over repeats. Times are seconds of processor time, so that what else the machine does counts
little.
"""

import re
import time
from functools import partial
from pathlib import Path

from side_by_side import compare, parser, run_one

ROUNDS, STEPS, BATCH, DRAWN, CLIENTS, RATE, RHO = 800, 10, 16, 2, 20, 0.3, 0.2
PAGE = Path(__file__).parents[1] / "docs" / "howto" / "batch-norm.md"
METHODS = {"FedAvg": "fed_avg", "SCAFFOLD": "scaffold", "FedADMM": "fed_admm"}


def batch_norm():
    """Return the names that the page's program defines, before it trains anything."""
    import jax

    jax.config.update("jax_num_cpu_devices", 1)
    text = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[0]
    names = {}
    exec(text[: text.index("falling =")], names)
    return names


def convolution():
    """Return the same names with the other network, whose loss has neither a state nor a key."""
    import jax

    from fedjax_admm.trials.experiments.peers import federated

    names = batch_norm()
    start = federated.start_convolved(64, jax.random.key(0))

    def images(rows):  # without the factor 8 by which the convolution scales its images
        return {"image": rows["x"] / 8, "digit": rows["y"]}

    def loss(params, batch):
        return federated.convolved_loss(params, images(batch))

    def right(params, sample):
        return federated.convolved_is_right(params, images(sample))

    options = {"batch": True, "batch_size": BATCH, "score": right}
    options |= {"held_out": names["options"]["held_out"]}
    names["problem"] = names["fa"].problems.federated(loss, names["data"], start, **options)
    names |= {
        "start": start,
        "loss": lambda params, batch, state, key: (loss(params, batch), state),
        "right": lambda params, sample, state: right(params, sample),
    }
    names["options"] |= {"state": {}}
    return names


NETWORKS = {"batch norm": batch_norm, "convolution": convolution}


def timed(program, *arguments):
    """Compile a program that returns the accuracy, and run it."""
    import jax

    clock = time.process_time()
    compiled = jax.jit(program).lower(*arguments).compile()
    between = time.process_time()
    accuracy = float(compiled(*arguments))
    run = time.process_time() - between
    return {"compile": between - clock, "run": run, "width": DRAWN, "error": 1 - accuracy}


def ours(task, method):
    """Return a configuration: a method of the package."""

    def configuration():
        names = task()
        import jax
        import optax

        fa = names["fa"]
        falling = optax.linear_schedule(1.0, 0.02, ROUNDS)
        local = fa.solvers.local_optimizer(optax.sgd(RATE), steps=STEPS, rate=falling)
        numbers = (RHO,) if method == "fed_admm" else ()
        solver = getattr(fa.solvers, method)(*numbers, local=local)

        def program(problem, key):
            run = fa.run(
                solver,
                problem,
                key,
                rounds=ROUNDS,
                every=ROUNDS,
                measure=fa.measures.accuracy,
                participation=fa.participation.without_replacement(DRAWN),
            )
            return run.trace["accuracy"][-1]

        return timed(program, names["problem"], jax.random.key(1))

    return configuration


def by_hand(task, method):
    """Return a configuration: the same rounds in sixty lines."""

    def configuration():
        names = task()
        import jax
        import jax.numpy as jnp

        loss, start, statistics = names["loss"], names["start"], names["options"]["state"]
        sizes = jnp.asarray([len(one["y"]) for one in names["data"]])
        most = int(sizes.max())
        data = [jax.tree.map(partial(padded, most), one) for one in names["data"]]
        data = jax.tree.map(lambda *parts: jnp.stack(parts), *data)
        held_out = jax.tree.map(jnp.asarray, names["options"]["held_out"])
        # What clients keep: a control variate or a dual variable, and a model.
        none = jax.tree.map(lambda leaf: jnp.zeros((CLIENTS, *leaf.shape)), start)
        first = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (CLIENTS, *leaf.shape)), start)
        plus, minus = (partial(jax.tree.map, kind) for kind in (jnp.add, jnp.subtract))
        mean = partial(jax.tree.map, lambda leaf: jnp.mean(leaf, 0))

        def times(factor, tree):
            return jax.tree.map(lambda leaf: factor * leaf, tree)

        def work(server, state, own, size, key, shift, rate):
            """Return a client's model and state after its steps, and the mean slope."""
            per_epoch = size // BATCH

            def step(carry, number):
                params, state, total = carry
                epoch = jax.random.fold_in(key, STEPS + number // per_epoch)
                draws = jax.random.uniform(epoch, (most,))
                order = jnp.argsort(jnp.where(jnp.arange(most) < size, draws, jnp.inf))
                places = jax.lax.dynamic_slice(order, (number % per_epoch * BATCH,), (BATCH,))
                batch = jax.tree.map(lambda leaf: leaf[places], own)
                dropout = jax.random.fold_in(key, number)
                slope, state = jax.grad(loss, has_aux=True)(params, batch, state, dropout)
                slope = plus(slope, shift)
                if method == "fed_admm":
                    slope = plus(slope, times(RHO, minus(params, server)))
                return (minus(params, times(rate, slope)), state, plus(total, slope)), None

            begun = server, state, times(0.0, server)
            params, state, total = jax.lax.scan(step, begun, jnp.arange(STEPS))[0]
            return params, state, times(1 / STEPS, total)

        def one_round(data, carry, number):
            server, state, (duals, models), key = carry
            key, draw, local = jax.random.split(key, 3)
            rows = jax.random.permutation(draw, CLIENTS)[:DRAWN]
            own, shift, mine = jax.tree.map(lambda leaf: leaf[rows], (data, duals, duals))
            if method == "scaffold":
                shift = jax.tree.map(lambda c, i: c[None] - i, mean(duals), mine)
            keys = jax.vmap(jax.random.fold_in, (None, 0))(local, rows)
            rate = RATE * (1 - 0.98 * (number + 1) / ROUNDS)
            axes = (None, None, 0, 0, 0, 0, None)
            moved, states, slope = jax.vmap(work, axes)(
                server, state, own, sizes[rows], keys, shift, rate
            )
            put = partial(jax.tree.map, lambda old, new: old.at[rows].set(new))
            if method == "scaffold":
                duals = put(duals, minus(slope, shift))
            if method == "fed_admm":
                move = jax.tree.map(lambda w, z: w - z[None], moved, server)
                duals, models = put(duals, plus(mine, times(RHO, move))), put(models, moved)
                server = mean(plus(models, times(1 / RHO, duals)))
            else:
                server = mean(moved)
            return (server, mean(states), (duals, models), key), None

        def program(data, key):
            begun = start, statistics, (none, first), key
            one = partial(one_round, data)
            server, state, _, _ = jax.lax.scan(one, begun, jnp.arange(ROUNDS))[0]
            return jnp.mean(jax.vmap(names["right"], (None, 0, None))(server, held_out, state))

        return timed(program, data, jax.random.key(1))

    return configuration


def padded(most, rows):
    import numpy as np

    return np.resize(rows, (most, *rows.shape[1:]))


CONFIGURATIONS = {
    f"{network}: {name}{by}": build(task, method)
    for network, task in NETWORKS.items()
    for name, method in METHODS.items()
    for by, build in {" by hand": by_hand, "": ours}.items()
}


def main() -> None:
    arguments = parser(__doc__, repeats=5)
    arguments.add_argument("--networks", nargs="*", choices=NETWORKS, default=list(NETWORKS))
    given = arguments.parse_args()
    if given.one:
        return run_one(CONFIGURATIONS[given.one])
    names = [f"{network}: {name}" for network in given.networks for name in METHODS]
    pairs = [one for name in names for one in (f"{name} by hand", name)]
    found = compare(__file__, pairs, given.repeats, f"{ROUNDS} rounds")
    print("\n| | accuracy | a round (ms) | by hand | a round (ms) | run | compile | memory |")
    print("|---|---|---|---|---|---|---|---|")
    for name in names:
        sides = found[name], found[f"{name} by hand"]
        cells = [f(side) for side in sides for f in (_accuracy, _milliseconds)]
        ratios = (f"{sides[0][part] / sides[1][part]:.2f}" for part in ("run", "compile", "peak"))
        print(f"| {name} | {' | '.join([*cells, *ratios])} |")
    return None


def _accuracy(row):
    return f"{1 - row['error']:.3f}"


def _milliseconds(row):
    return f"{1000 * row['run'] / ROUNDS:.2f}"


if __name__ == "__main__":
    main()
