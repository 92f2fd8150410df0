"""Private networked ADMM: 48 trials of 200 rounds, 3 tasks at 6 epsilons, 50 clients.

Work of a round of one run, per client: two products of 50 samples with 8 parameters, 9 flops per
sample for slope and clipping, 20 per parameter for the rest, and per normal number 100 for three
words of Threefry and 45 for the quantile. Read are features twice (as they are, and over the
largest of a sample), targets and two lengths; models, noise and duals are little beside them. Every
run draws noise of its own.
"""

from typing import Any

import numpy as np

from limits import Work, drawn, given, monte_carlo

CLIENTS, SAMPLES, DIM, EDGES = 50, 50, 8, 75
VARIANTS = {"cheap words": ["1"], "no noise": ["2"]}
NUMPY_REPEATS = 1


def draw(quick: bool) -> dict[str, Any]:
    import jax

    from fedjax_admm.trials.experiments import zcdp

    trials = 8 if quick else 48
    problems = drawn(lambda key: zcdp.draw_tasks(zcdp.COMMON, key), jax.random.key(0), trials)
    return {"problems": problems, "trials": trials, "rounds": 20 if quick else 200}


def _settings(problem) -> dict[str, list]:
    """Return every task's settings and plans, by epsilon."""
    from fedjax_admm.privacy import zcdp_plan
    from fedjax_admm.trials.experiments import zcdp

    found = {}
    for task in zcdp.TASKS:
        chosen = [zcdp.TUNED[task, zcdp.ZCDP][epsilon] for epsilon in zcdp.EPSILONS]
        found[task] = [
            (one, zcdp_plan(epsilon, zcdp.COMMON["delta"], problem["rounds"], one.tau))
            for epsilon, one in zip(zcdp.EPSILONS, chosen, strict=True)
        ]
    return found


def pack(problem) -> list[np.ndarray]:
    import jax
    import jax.numpy as jnp

    from fedjax_admm.privacy import gaussian_release

    settings, made = _settings(problem), problem["problems"]
    rows = [
        [one.step, one.power, one.rho, one.clip, *gaussian_release(plan, one.clip).multipliers]
        for levels in settings.values()
        for one, plan in levels
    ]
    trials, rounds = problem["trials"], problem["rounds"]

    def words(t, index):
        own = jax.random.fold_in(jax.random.key(0), t)
        _, key = jax.random.split(jax.random.fold_in(own, index))  # that of the round
        return jax.random.bits(key, (2,), jnp.uint32)

    each = jax.vmap(jax.vmap(words, (None, 0)), (0, None))
    keys = jax.jit(each)(jnp.arange(trials), jnp.arange(rounds))
    first = next(iter(made.values()))
    sizes = (trials, EDGES, rounds, len(settings), len(rows) // len(settings), 0)
    return [
        np.array(sizes, np.int32),
        np.array(rows, np.float32),
        np.array([task == "LAD" for task in settings], np.int32),
        np.stack([np.broadcast_to(made[task].l1, trials) for task in settings]),
        np.stack([np.broadcast_to(made[task].l2, trials) for task in settings]),
        first.graph.heads,
        first.graph.tails,
        first.features,
        first.targets,
        np.asarray(keys),
    ]


def numpy(problem):
    import jax

    rng = np.random.default_rng(0)

    def go():
        runs = []
        for task, levels in _settings(problem).items():
            plans = np.stack([plan.multipliers for _, plan in levels]).astype(np.float32)
            parts = zip(*(one for one, _ in levels), strict=True)
            columns = [np.array(part, np.float32)[:, None] for part in parts]
            own = problem["problems"][task]
            ones = (jax.tree.map(lambda a, t=t: a[t], own) for t in range(problem["trials"]))
            runs.append([_numpy_rounds(one, task, columns, plans, rng) for one in ones])
        return np.moveaxis(np.array(runs), 0, 1)

    return go


def _numpy_rounds(problem, task, columns, multipliers, rng):
    """Run one trial for every epsilon: models (epsilons, clients, dim) without noise."""
    step, power, rho, clip, _ = columns
    x, y = problem.features, problem.targets
    reach = 1 / np.linalg.norm(x, axis=-1)
    clients, samples, dim = x.shape
    heads, tails = problem.graph.heads, problem.graph.tails
    adjacency = np.zeros((clients, clients), np.float32)
    adjacency[heads, tails] = adjacency[tails, heads] = 1
    degrees = adjacency.sum(1)
    laplacian = np.diag(degrees) - adjacency
    limit = clip[:, :, None] * reach[None]
    l1, l2 = np.float32(problem.l1), np.float32(problem.l2)
    turned = np.ascontiguousarray(x.transpose(0, 2, 1))
    v = np.zeros((len(rho), clients, dim), np.float32)
    dual, w = np.zeros_like(v), v
    for n in range(1, multipliers.shape[1] + 1):
        gain = 1 / (n**power / step + 2 * rho * degrees[None])
        # Batched over clients: (samples, dim) x (dim, epsilons).
        residual = (x @ v.transpose(1, 2, 0)).transpose(2, 0, 1) - y[None]
        slope = np.sign(residual) if task == "LAD" else 2 * residual
        np.clip(slope, -limit, limit, out=slope)
        gradient = (turned @ slope.transpose(1, 2, 0)).transpose(2, 0, 1) / np.float32(samples)
        gradient += (l1 * np.sign(v) + 2 * l2 * v) / np.float32(clients)
        pull = dual + rho[:, :, None] * (laplacian @ v)
        w = v - gain[:, :, None] * (gradient + pull)
        deviation = multipliers[:, n - 1, None] * 2 * clip * gain / np.float32(samples)
        v = w + deviation[:, :, None] * rng.standard_normal(w.shape, np.float32)
        dual += rho[:, :, None] * (laplacian @ v)
    return w


def _solver(one, plan):
    import fedjax_admm as fa
    from fedjax_admm.privacy import gaussian_release
    from fedjax_admm.schedules import power_decay

    release = gaussian_release(plan, one.clip)
    steps = power_decay(one.step, one.power)
    return fa.solvers.private_networked_admm(release, rho=one.rho, step_size=steps)


def one_round(problem):
    import jax

    task, levels = next(iter(_settings(problem).items()))
    made = jax.tree.map(lambda a: jax.numpy.asarray(a[0]), problem["problems"][task])
    return _solver(*levels[0]), made


def engine(problem):
    import jax
    import jax.numpy as jnp

    import fedjax_admm as fa

    key, trials, rounds = jax.random.key(0), problem["trials"], problem["rounds"]
    of = given(problem["problems"], key, trials)

    def stacked(levels):
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *(_solver(*one) for one in levels))

    solvers = {task: stacked(levels) for task, levels in _settings(problem).items()}

    def trial(own):
        made = of(own)

        def models(task, one):
            state = fa.run(one, made[task], own, rounds=rounds, every=rounds).state
            return one.unprotected(state.solver)

        found = [
            jax.lax.map(lambda one, task=task: models(task, one), chosen)
            for task, chosen in solvers.items()
        ]
        return {"models": jnp.stack(found)}

    return monte_carlo(trial, key, trials, "models")


def shape(problem) -> tuple[int, int]:
    return (problem["trials"] * 3 * 6, -1)


def score(problem, result) -> float:
    runs = result.reshape(problem["trials"], 3, 6, CLIENTS, DIM)
    errors = []
    for number, made in enumerate(problem["problems"].values()):
        best = made.optimum[:, None, None]
        distance = ((runs[:, number] - best) ** 2).sum((-2, -1))
        errors.append(distance / (best**2).sum((-2, -1)))
    return float(np.mean(errors))


def work(problem) -> Work:
    flops = CLIENTS * (SAMPLES * (4 * DIM + 9) + DIM * (20 + 145))
    moved = CLIENTS * SAMPLES * (2 * DIM + 3) * 4
    return Work(problem["trials"] * 18 * problem["rounds"], flops, moved, "of one run")
