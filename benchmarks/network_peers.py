"""SCAFFOLD, FedDyn and EXTRA on one task, beside decent-bench's: the same iterates, and the time.

    python benchmarks/network_peers.py --peer PYTHON

PYTHON is the interpreter of an environment of its own, with decent-bench 0.3.0 (`pip install
decent-bench`, Python 3.13 or later). It is run as a program; it is licensed under the AGPL-3.0,
and nothing of it is copied here.

The task is logistic regression, 20 clients of 50 samples and 10 features, 200 rounds of full
gradients in float64, 20 trials: SCAFFOLD and FedDyn with five local steps, EXTRA on a ring with
chords. Both sides get the same data, and run pinned to one core, in turns. Their time is that of
`Algorithm.run` alone, without metrics; ours is a vmapped `fa.run` after it was compiled.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

TRIALS, CLIENTS, SAMPLES, FEATURES, ROUNDS = 20, 20, 50, 10, 200
STEPS, RATE, RHO = 5, 0.5, 0.5
METHODS = ("SCAFFOLD", "FedDyn", "EXTRA")


def edges() -> list[tuple[int, int]]:
    """Return a ring with a chord from every fourth node."""
    ring = [(i, (i + 1) % CLIENTS) for i in range(CLIENTS)]
    return ring + [(i, (i + CLIENTS // 2) % CLIENTS) for i in range(0, CLIENTS // 2, 4)]


def draw(path: Path) -> None:
    """Store the data of all trials: features, and labels 0 and 1, of clients that differ."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(TRIALS, CLIENTS, SAMPLES, FEATURES))
    truth = rng.normal(size=(TRIALS, 1, FEATURES, 1)) + rng.normal(
        size=(TRIALS, CLIENTS, FEATURES, 1)
    )
    noise = rng.logistic(size=(TRIALS, CLIENTS, SAMPLES))
    np.savez(path, x=x, y=((x @ truth)[..., 0] + noise > 0).astype(float))


def theirs(data: Path, out: Path) -> dict[str, float]:
    """Run decent-bench on all trials, one after the other, and return the seconds per method."""
    import networkx
    from decent_array import interoperability as iop
    from decent_bench.agents import Agent
    from decent_bench.algorithms.federated import FedDyn, Scaffold
    from decent_bench.algorithms.p2p import EXTRA
    from decent_bench.costs import LogisticRegressionCost
    from decent_bench.networks import FedNetwork, P2PNetwork

    iop.set_backend("numpy")
    wrap = iop.from_numpy
    stored = np.load(data)
    seconds = dict.fromkeys(METHODS, 0.0)
    models: dict[str, list] = {name: [] for name in METHODS}
    local = {"step_size": RATE, "num_local_steps": STEPS}
    for x, y in zip(stored["x"], stored["y"], strict=True):
        for name in METHODS:
            costs = [
                LogisticRegressionCost([(wrap(row), wrap(label)) for row, label in pairs])
                for pairs in map(zip, x, y[..., None])
            ]
            agents = [Agent(cost, state_snapshot_period=ROUNDS) for cost in costs]
            if name == "EXTRA":
                graph = networkx.Graph()
                graph.add_nodes_from(range(CLIENTS))
                graph.add_edges_from(edges())
                network, method = P2PNetwork(graph, agents), EXTRA(step_size=RATE)
            elif name == "FedDyn":
                network, method = FedNetwork(agents), FedDyn(penalty=RHO, **local)
            else:
                network, method = FedNetwork(agents), Scaffold(**local)
            begin = time.perf_counter()
            method.run(network, ROUNDS)
            seconds[name] += time.perf_counter() - begin
            model = agents[0].x if name == "EXTRA" else network.server().x
            models[name].append(iop.to_numpy(model))
    np.savez(out, **{name: np.stack(values) for name, values in models.items()})
    return seconds


def ours(data: Path, out: Path) -> dict[str, float]:
    """Run all trials at once, and return the seconds per method, and those of the first call."""
    import jax
    import jax.numpy as jnp

    import fedjax_admm as fa

    jax.config.update("jax_enable_x64", True)
    stored = np.load(data)
    graph = fa.graphs.from_edges(CLIENTS, np.array(edges()))
    local = fa.solvers.local_gradient(RATE, steps=STEPS)
    solvers = {
        "SCAFFOLD": (fa.solvers.scaffold(RATE, local_steps=STEPS), None),
        "FedDyn": (fa.solvers.fed_dyn(RHO, local=local), None),
        "EXTRA": (fa.solvers.extra(RATE), graph),
    }

    def loss(w, sample):
        x, label = sample
        return jnp.logaddexp(0.0, x @ w) - label * (x @ w)

    seconds, models = {}, {}
    for name, (solver, topology) in solvers.items():

        def trial(x, y, solver=solver, topology=topology):
            problem = fa.problems.federated(loss, (x, y), jnp.zeros(FEATURES), topology=topology)
            return fa.run(solver, problem, jax.random.key(0), rounds=ROUNDS).estimate

        batch = jax.jit(jax.vmap(trial))
        begin = time.perf_counter()
        jax.block_until_ready(batch(stored["x"], stored["y"]))
        seconds[f"{name} first call"] = time.perf_counter() - begin
        runs = []
        for _ in range(5):
            begin = time.perf_counter()
            estimate = jax.block_until_ready(batch(stored["x"], stored["y"]))
            runs.append(time.perf_counter() - begin)
        seconds[name] = statistics.median(runs)
        models[name] = np.asarray(estimate)[:, 0] if name == "EXTRA" else np.asarray(estimate)
    np.savez(out, **models)
    return seconds


def main() -> None:
    """Run both sides in turns and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peer", required=True, help="a Python with decent-bench")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        side, data, out = chosen.one
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        print(json.dumps({"ours": ours, "theirs": theirs}[side](Path(data), Path(out))))
        return
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        draw(data)
        rows: dict[str, list[dict]] = {"ours": [], "theirs": []}
        for _ in range(chosen.repeats):
            for side, python in (("ours", sys.executable), ("theirs", chosen.peer)):
                command = [python, __file__, "--peer", python, "--one", side]
                command += [str(data), f"{folder}/{side}.npz"]
                printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                rows[side].append(json.loads(printed.stdout.splitlines()[-1]))
        median = {
            side: {name: statistics.median(row[name] for row in runs) for name in runs[0]}
            for side, runs in rows.items()
        }
        mine, their = (np.load(f"{folder}/{side}.npz") for side in ("ours", "theirs"))
        print(
            "| method | largest difference | decent-bench (s) | ours (s) | ratio | first call (s) |"
        )
        print("|---|---|---|---|---|---|")
        for name in METHODS:
            gap = np.abs(mine[name] - their[name]).max()
            a, b = median["theirs"][name], median["ours"][name]
            first = median["ours"][f"{name} first call"]
            print(f"| {name} | {gap:.1e} | {a:.2f} | {b:.4f} | {a / b:.0f} | {first:.2f} |")


if __name__ == "__main__":
    main()
