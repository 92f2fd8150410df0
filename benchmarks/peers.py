"""A user's own loss in FedADMM and SCAFFOLD, beside the same loops written by hand; many clients.

    python benchmarks/peers.py            100 trials x 100 clients x 200 rounds, logistic regression
    python benchmarks/peers.py --large    10,000 clients of a network with 10,000 parameters

Each configuration runs in a process of its own, in turns; medians over repeats. Compile time is
apart from run time; every timing waits for its results. No compilation cache.
"""

import statistics
import time

from side_by_side import compare, parser, run_one

TRIALS, CLIENTS, ROUNDS, STEPS = 100, 100, 200, 5
SAMPLES, FEATURES, CLASSES = 50, 64, 10
RATE, RHO = 0.2, 0.5

MANY, DRAWN, HIDDEN, FEW_SAMPLES = 10_000, 100, 133, 20


def loss(params, sample):
    """Return the cross-entropy of a linear model."""
    import jax.numpy as jnp
    from jax.scipy.special import logsumexp

    x, label = sample
    scores = x @ params["weights"] + params["bias"]
    return logsumexp(scores) - jnp.sum(jnp.where(jnp.arange(scores.size) == label, scores, 0.0))


def start():
    """Return zero weights."""
    import jax.numpy as jnp

    return {"weights": jnp.zeros((FEATURES, CLASSES)), "bias": jnp.zeros(CLASSES)}


def draw(key):
    """Return the data of one trial: features and labels of all clients."""
    import jax
    import jax.numpy as jnp

    keys = jax.random.split(key, 3)
    x = jax.random.normal(keys[0], (CLIENTS, SAMPLES, FEATURES))
    truth = jax.random.normal(keys[1], (FEATURES, CLASSES))
    noise = jax.random.gumbel(keys[2], (CLIENTS, SAMPLES, CLASSES))
    return x, jnp.argmax(x @ truth / 4 + noise, -1)


def one_device() -> None:
    """Let JAX have one CPU device; before anything is computed."""
    import jax

    jax.config.update("jax_num_cpu_devices", 1)


def timed(trial) -> dict[str, float]:
    """Compile and run all trials at once; the data are drawn beforehand."""
    import jax
    import jax.numpy as jnp

    keys = jax.random.split(jax.random.key(0), TRIALS)
    data = jax.block_until_ready(jax.jit(jax.vmap(draw))(keys))
    clock = time.perf_counter()
    program = jax.jit(jax.vmap(trial)).lower(data, keys).compile()
    compiled = time.perf_counter()
    models = jax.block_until_ready(program(data, keys))
    run = time.perf_counter() - compiled
    size = float(jnp.mean(jnp.abs(models)))
    return {"compile": compiled - clock, "run": run, "width": TRIALS, "error": size}


def ours(build):
    """Return a configuration: a solver of the package on `problems.federated`."""

    def configuration():
        one_device()
        import fedjax_admm as fa

        solver = build(fa.solvers)

        def trial(data, key):
            problem = fa.problems.federated(loss, data, start())
            run = fa.run(solver, problem, key, rounds=ROUNDS)
            return solver.estimate(run.state.solver)

        return timed(trial)

    return configuration


def flat_start():
    from jax.flatten_util import ravel_pytree

    return ravel_pytree(start())


def gradients_by_hand(data):
    """Return the clients' gradients, (clients, dim) to the same."""
    import jax
    import jax.numpy as jnp

    _, unravel = flat_start()

    def value(w, x, labels):
        return jnp.mean(jax.vmap(loss, (None, 0))(unravel(w), (x, labels)))

    return lambda w: jax.vmap(jax.grad(value))(w, *data)


def fed_admm_by_hand():
    one_device()
    import jax
    import jax.numpy as jnp

    def trial(data, key):
        gradients, model = gradients_by_hand(data), flat_start()[0]
        models = jnp.broadcast_to(model, (CLIENTS, model.size))

        def one_round(carry, _):
            server, models, duals = carry

            def descend(w, _):
                pull = gradients(w) + duals + RHO * (w - server[None])
                return w - RATE * pull, None

            begin = jnp.broadcast_to(server, models.shape)
            models = jax.lax.scan(descend, begin, length=STEPS)[0]
            duals = duals + RHO * (models - server[None])
            return (jnp.mean(models + duals / RHO, 0), models, duals), None

        first = (model, models, jnp.zeros_like(models))
        return jax.lax.scan(one_round, first, length=ROUNDS)[0][0]

    return timed(trial)


def scaffold_by_hand():
    one_device()
    import jax
    import jax.numpy as jnp

    def trial(data, key):
        gradients, model = gradients_by_hand(data), flat_start()[0]
        controls = jnp.zeros((CLIENTS, model.size))

        def one_round(carry, _):
            server, control, controls = carry
            correction = control[None] - controls

            def descend(w, _):
                return w - RATE * (gradients(w) + correction), None

            begin = jnp.broadcast_to(server, controls.shape)
            moved = jax.lax.scan(descend, begin, length=STEPS)[0]
            new = (begin - moved) / (STEPS * RATE) - correction
            control = control + jnp.mean(new - controls, 0)
            return (server + jnp.mean(moved - begin, 0), control, new), None

        first = (model, jnp.zeros_like(model), controls)
        return jax.lax.scan(one_round, first, length=ROUNDS)[0][0]

    return timed(trial)


def fed_admm(solvers):
    return solvers.fed_admm(RHO, local=solvers.local_gradient(RATE, steps=STEPS))


def scaffold(solvers):
    return solvers.scaffold(RATE, local_steps=STEPS)


CONFIGURATIONS = {
    "FedADMM by hand": fed_admm_by_hand,
    "FedADMM": ours(fed_admm),
    "SCAFFOLD by hand": scaffold_by_hand,
    "SCAFFOLD": ours(scaffold),
}


# --- many clients ---------------------------------------------------------------------------------


def network_loss(params, sample):
    import jax.numpy as jnp
    from jax.scipy.special import logsumexp

    x, label = sample
    hidden = jnp.tanh(x @ params["first"] + params["bias"])
    scores = hidden @ params["last"]
    return logsumexp(scores) - jnp.sum(jnp.where(jnp.arange(scores.size) == label, scores, 0.0))


def many_clients(name: str, clients: int):
    """Return a configuration: rounds in which 100 of many clients are drawn."""

    def configuration():
        one_device()
        import jax

        import fedjax_admm as fa

        keys = jax.random.split(jax.random.key(0), 4)
        params = {
            "first": jax.random.normal(keys[0], (FEATURES, HIDDEN)) / 8,
            "bias": jax.numpy.zeros(HIDDEN),
            "last": jax.random.normal(keys[1], (HIDDEN, CLASSES)) / 11,
        }
        x = jax.random.normal(keys[2], (clients, FEW_SAMPLES, FEATURES))
        labels = jax.random.randint(keys[3], (clients, FEW_SAMPLES), 0, CLASSES)
        problem = fa.problems.federated(network_loss, (x, labels), params)
        solver = {"FedADMM": fed_admm, "SCAFFOLD": scaffold}[name](fa.solvers)
        process = fa.participation.without_replacement(DRAWN)
        short, long = 20, 220

        def rounds(number):
            clock = time.perf_counter()
            run = fa.run(
                solver,
                problem,
                jax.random.key(1),
                rounds=number,
                participation=process,
                every=number,
            )
            jax.block_until_ready(run.estimate)
            return time.perf_counter() - clock

        compiling = rounds(short) + rounds(long)
        pairs = [(rounds(short), rounds(long)) for _ in range(3)]
        run = statistics.median(more - few for few, more in pairs) / (long - short)
        return {"compile": compiling, "run": run, "width": clients, "error": 0.0}

    return configuration


LARGE = {
    f"{name}, {clients} clients": many_clients(name, clients)
    for name in ("FedADMM", "SCAFFOLD")
    for clients in (1_000, MANY)
}


def main() -> None:
    options = parser(__doc__, repeats=3)
    options.add_argument("--large", action="store_true", help="10,000 clients, 100 drawn per round")
    given = options.parse_args()
    configurations = CONFIGURATIONS | LARGE
    if given.one:
        run_one(configurations[given.one])
        return
    chosen = list(LARGE if given.large else CONFIGURATIONS)
    title = "one round, seconds" if given.large else f"{TRIALS} trials x {ROUNDS} rounds"
    found = compare(__file__, chosen, given.repeats, title)
    if not given.large:
        for name in ("FedADMM", "SCAFFOLD"):
            mine, hand = found[name], found[f"{name} by hand"]
            print(
                f"\n{name}: {mine['run'] / hand['run']:.2f} times the run time by hand, "
                f"{mine['compile'] / hand['compile']:.2f} times the compile time."
            )


if __name__ == "__main__":
    main()
