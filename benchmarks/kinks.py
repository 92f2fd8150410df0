"""How near solvers come to the optimum of losses with kinks, with a loss of one's own.

    python benchmarks/kinks.py [--rounds 1000] [--losses NAME ...] [--steps 0.1 1 10] > table.txt

A row is a loss, a method and a local solver. The relative excess of the objective over that of
cvxpy, `(F(w) - F*) / F*`, is given for three steps over two decades (rho = 1 / step), with the
number of proximal steps that fell short of their accuracy. The network is not convex: in the place
of the excess stands how often a proximal step left a client worse than it began.
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_admm as fa

DIM, GROUPS = 5, 3
SIZES = (4, 12, 7, 20, 9, 5, 15, 8)
RING = fa.graphs.from_edges(len(SIZES), [(i, (i + 1) % len(SIZES)) for i in range(len(SIZES))])


def residual(w, sample):
    return sample["y"] - jnp.vdot(sample["x"], w)


def pinball(w, sample):
    r = residual(w, sample)
    return jnp.maximum(0.8 * r, -0.2 * r)


def absolute(w, sample):
    return jnp.abs(residual(w, sample))


def hinge(w, sample):
    return jnp.maximum(0.0, 1 - jnp.sign(sample["y"]) * jnp.vdot(sample["x"], w))


def max_affine(w, sample):
    return jnp.max(sample["rows"] @ w + sample["offsets"])


def lasso(w, sample):
    return residual(w, sample) ** 2 / 2 + 0.3 * jnp.sum(jnp.abs(w))


def network(w, sample):
    """Two hidden ReLU units, of the first entries of x, and no bias."""
    hidden = jax.nn.relu(w[:4].reshape(2, 2) @ sample["x"][:2])
    return (hidden[0] - hidden[1] * w[4] - sample["y"]) ** 2 / 2


def grouped(w, sample):
    """A level per group beside the slopes; the quantile is the group's own."""
    r = sample["y"] - jnp.vdot(sample["x"][GROUPS:], w[GROUPS:]) - w[sample["group"]]
    q = jnp.array([0.2, 0.5, 0.9], w.dtype)[sample["group"]]
    return jnp.maximum(q * r, (q - 1) * r)


def insensitive(w, sample):
    return jnp.maximum(jnp.abs(residual(w, sample)) - 0.5, 0.0)


def tiny_huber(w, sample):
    r, delta = jnp.abs(residual(w, sample)), 1e-4
    return jnp.where(r < delta, r**2 / (2 * delta), r - delta / 2)


def piecewise(w, sample):
    r = residual(w, sample)
    return r**2 / 2 + jnp.where(r > 0, r + r**2, 0)


LOSSES = {
    loss.__name__: loss
    for loss in (
        *(pinball, absolute, hinge, max_affine, lasso, network, grouped, insensitive),
        *(tiny_huber, piecewise),
    )
}


def clients(seed=0):
    """Return ragged clients with heavy-tailed noise."""
    rng = np.random.default_rng(seed)
    model, data = rng.normal(size=DIM), []
    for size in SIZES:
        x = rng.normal(size=(size, DIM))
        rows = rng.normal(size=(size, 3, DIM))
        rows[:, 1] = -rows[:, 0]
        data.append(
            {
                "x": x,
                "y": x @ (model + 0.3 * rng.normal(size=DIM)) + rng.standard_t(1.5, size),
                "rows": rows,
                "offsets": rng.normal(size=(size, 3)),
                "group": rng.integers(0, GROUPS, size).astype(np.int32),
            }
        )
    return data


def optimum(name, data):
    """Return the least mean over the clients of their mean losses, by cvxpy; 0 for the network."""
    import cvxpy

    if name == "network":
        return 0.0
    w, total = cvxpy.Variable(DIM), 0
    for client in data:
        r = client["y"] - client["x"] @ w
        if name == "max_affine":
            values = cvxpy.max(
                cvxpy.vstack(
                    [client["rows"][:, i] @ w + client["offsets"][:, i] for i in range(3)]
                ),
                axis=0,
            )
        elif name == "grouped":
            one = np.eye(GROUPS)[client["group"]]
            r = client["y"] - client["x"][:, GROUPS:] @ w[GROUPS:] - one @ w[:GROUPS]
            q = one @ [0.2, 0.5, 0.9]
            values = cvxpy.maximum(cvxpy.multiply(q, r), cvxpy.multiply(q - 1, r))
        else:
            sign = np.sign(client["y"])
            values = {
                "pinball": lambda r: cvxpy.maximum(0.8 * r, -0.2 * r),
                "absolute": cvxpy.abs,
                "hinge": lambda _, c=client, s=sign: cvxpy.pos(1 - cvxpy.multiply(s, c["x"] @ w)),
                "lasso": lambda r: cvxpy.square(r) / 2 + 0.3 * cvxpy.norm1(w),
                "insensitive": lambda r: cvxpy.pos(cvxpy.abs(r) - 0.5),
                "tiny_huber": lambda r: cvxpy.huber(r, 1e-4) / 2e-4,
                "piecewise": lambda r: (
                    cvxpy.square(r) / 2 + cvxpy.pos(r) + cvxpy.square(cvxpy.pos(r))
                ),
            }[name](r)
        total += cvxpy.sum(values) / len(client["y"])
    task = cvxpy.Problem(cvxpy.Minimize(total / len(data)))
    return float(task.solve(solver=cvxpy.CLARABEL))


def methods(local):
    """Return `solver(step)` by name."""
    s = fa.solvers
    return {
        "FedADMM": lambda step: s.fed_admm(1 / step, local=local),
        "FedDR": lambda step: s.fed_dr(step, local=local),
        "FedPD": lambda step: s.fed_pd(step, local=local),
        "FedDyn": lambda step: s.fed_dyn(1 / step, local=local),
        "Fed-PLT": lambda step: s.fed_plt(step, local=local),
        "ADMM on a graph": lambda step: s.decentralized_admm(1 / (2 * step), local=local),
    }


def objective(problem, models):
    """Return the mean of all losses at a model; at the worst one of the models on a graph."""

    def of_one(w):
        return jnp.mean(problem.values(jnp.broadcast_to(w, (problem.num_clients, DIM))))

    return jnp.max(jax.vmap(of_one)(jnp.atleast_2d(models)))


def excesses(method, problem, steps, rounds):
    """Return for every step the objective in the end, and how many proximal steps fell short."""

    @jax.jit
    @jax.vmap
    def ends(step):
        run = fa.run(method(step), problem, jax.random.key(0), rounds=rounds)
        return objective(problem, run.estimate), getattr(run.status, "unsolved", jnp.zeros(()))

    return map(np.asarray, ends(jnp.asarray(steps)))


def made_worse(problem, steps, draws=50):
    """Return how many of some accurate proximal steps left a client worse than it began."""

    @jax.jit
    def once(key, step):
        points = 2 * jax.random.normal(key, (problem.num_clients, DIM))
        z = problem.lone_prox(points, jnp.full(problem.num_clients, step))
        goal = problem.values(z) + jnp.sum((z - points) ** 2, -1) / (2 * step)
        return jnp.sum(~(goal <= problem.values(points) + 1e-15))

    keys = jax.random.split(jax.random.key(1), draws)
    return [int(np.sum(jax.vmap(once, (0, None))(keys, step))) for step in steps]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--losses", nargs="*", default=list(LOSSES), choices=LOSSES)
    parser.add_argument("--steps", nargs="*", type=float, default=[0.1, 1.0, 10.0])
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    data = clients()
    print(f"{'loss':12}{'method':17}{'local':9}", *(f"{step:>17g}" for step in given.steps))
    for name in given.losses:
        best = optimum(name, data)
        start = jnp.asarray(np.random.default_rng(1).normal(size=DIM) * (name == "network"))
        star = fa.problems.federated(LOSSES[name], data, start)
        ring = fa.problems.federated(LOSSES[name], data, start, topology=RING)
        print(
            f"{name:12}{'any':17}{'worse':9}", *(f"{n:>17}" for n in made_worse(star, given.steps))
        )
        for kind, local in (("prox", fa.solvers.local_prox()), ("default", None)):
            for method, solver in methods(local).items():
                problem = ring if "graph" in method else star
                if local is None and problem is ring:
                    continue  # on a graph the proximal map is what is taken without an argument
                begun = time.perf_counter()
                found, short = excesses(solver, problem, given.steps, given.rounds)
                seconds = time.perf_counter() - begun
                shown = (found - best) / best if best else found
                cells = (f"{e:11.1e} {int(n):5}" for e, n in zip(shown, short, strict=True))
                print(f"{name:12}{method:17}{kind:9}", *cells, f"{seconds:7.1f} s", flush=True)


if __name__ == "__main__":
    main()
