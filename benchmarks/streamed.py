"""Client data that stay on the host: peak memory of the process, and seconds per round.

    python benchmarks/streamed.py --data FOLDER             10,000 clients of 1 MB each, 100 drawn
    python benchmarks/streamed.py --data FOLDER --clients 1000 --rounds 20

FOLDER gets one .npy file of 256 samples of 1,001 float32 numbers per client, 10 GB, unless it
has them already. Each row of the table is a process of its own: softmax regression with 10 classes
(10,010 parameters), 5 local steps on minibatches of 64. The peak is the largest resident set of the
process (ru_maxrss), interpreter and JAX included. Seconds per round are those of a second run,
after one of two rounds that compiles.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

SAMPLES, FEATURES, CLASSES = 256, 1000, 10
METHODS = ("fed_avg", "scaffold", "fed_admm")


def write_clients(folder: Path, clients: int) -> None:
    """Write the files that are not there."""
    folder.mkdir(parents=True, exist_ok=True)
    truth = np.random.default_rng(0).standard_normal((FEATURES, CLASSES), np.float32)
    for client in range(clients):
        path = folder / f"{client}.npy"
        if path.exists():
            continue
        x = np.random.default_rng(client + 1).standard_normal((SAMPLES, FEATURES), np.float32)
        labels = np.argmax(x @ truth, 1).astype(np.float32)
        np.save(path, np.column_stack([x, labels]))


def measured(folder: Path, clients: int, drawn: int, rounds: int, method: str, prefetch: int):
    """Return what one run takes; in a process of its own."""
    import jax
    import jax.numpy as jnp
    import optax

    import fedjax_admm as fa

    def loss(params, sample):
        logits = sample[:FEATURES] @ params["w"] + params["b"]
        return optax.softmax_cross_entropy_with_integer_labels(
            logits, sample[FEATURES].astype(jnp.int32)
        )

    begun = time.perf_counter()
    data = [np.load(folder / f"{client}.npy", mmap_mode="r") for client in range(clients)]
    start = {"w": jnp.zeros((FEATURES, CLASSES)), "b": jnp.zeros(CLASSES)}
    held_back = fa.problems.streamed(data, prefetch=prefetch)
    problem = fa.problems.federated(loss, held_back, start, batch_size=64)
    solver = {
        "fed_avg": lambda: fa.solvers.fed_avg(0.05, local_steps=5),
        "scaffold": lambda: fa.solvers.scaffold(0.05, local_steps=5),
        "fed_admm": lambda: fa.solvers.fed_admm(1.0, local=fa.solvers.local_gradient(0.05)),
    }[method]()
    built = time.perf_counter() - begun

    def run(rounds):
        return fa.run(
            solver,
            problem,
            jax.random.key(0),
            rounds=rounds,
            participation=fa.participation.without_replacement(drawn),
        )

    jax.block_until_ready(run(2))
    begun = time.perf_counter()
    jax.block_until_ready(run(rounds))
    each = (time.perf_counter() - begun) / rounds
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    return {"build (s)": built, "per round (s)": each, "peak (GB)": peak}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--drawn", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--method", choices=METHODS)
    parser.add_argument("--prefetch", type=int, default=0)
    given = parser.parse_args()
    sizes = given.data, given.clients, given.drawn, given.rounds
    if given.method is not None:
        print(json.dumps(measured(*sizes, given.method, given.prefetch)))
        return
    write_clients(given.data, given.clients)
    print("| method | prefetch | build (s) | per round (s) | peak (GB) |\n|---|---|---|---|---|")
    for method in METHODS:
        for prefetch in (0, 2):
            words = [sys.executable, __file__, "--data", sizes[0], "--clients", sizes[1]]
            words += ["--drawn", sizes[2], "--rounds", sizes[3]]
            words += ["--method", method, "--prefetch", prefetch]
            out = subprocess.run([*map(str, words)], check=True, stdout=subprocess.PIPE, text=True)
            cells = [f"{value:.3g}" for value in json.loads(out.stdout).values()]
            print(f"| {method} | {prefetch} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
