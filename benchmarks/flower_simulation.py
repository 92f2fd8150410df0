"""Rounds of FedAvg by `fa.run`, beside Flower's simulation of the same task, in turns.

    python benchmarks/flower_simulation.py --peer PYTHON

PYTHON is the interpreter of an environment with `flwr[simulation]`, jax, optax and scikit-learn.
The task is that of `docs/howto/batch-norm.md`: 20 clients, two of them drawn per round, ten local
steps of minibatches of 16. Clients of both sides compute them by one program of JAX; Flower starts
each on a worker of Ray and sends parameters by NumPy arrays. Seconds are wall time per round,
median over rounds after the first three for Flower, over 800 rounds in one call here.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

BATCH, STEPS, RATE, CLIENTS = 16, 10, 0.3, 20
PAGE = Path(__file__).parents[1] / "docs" / "howto" / "batch-norm.md"


def task(end: str) -> dict[str, Any]:
    """Return the names that the page's program defines before a line, with or without ours."""
    text = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)[0]
    text = text[: text.index(end)]
    if end == "problem =":
        text = text.replace("import fedjax_admm as fa\n", "")
    names: dict[str, Any] = {}
    exec(text, names)
    return names


def ours() -> dict[str, float]:
    """Return the seconds per round of a second call of `fa.run`, and the accuracy."""
    names = task("for method in")
    train, method = names["train"], names["fa"].solvers.fed_avg
    train(method)
    begin = time.perf_counter()
    accuracy = float(train(method).trace["accuracy"].max())
    return {"seconds": (time.perf_counter() - begin) / 800, "accuracy": accuracy}


def theirs(rounds: int) -> dict[str, float]:
    """Return the seconds per round of Flower's simulation, and the accuracy after it."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from flwr.client import ClientApp, NumPyClient
    from flwr.common import ndarrays_to_parameters
    from flwr.server import ServerApp, ServerAppComponents, ServerConfig
    from flwr.server.strategy import FedAvg
    from flwr.simulation import run_simulation

    names = task("problem =")
    loss, options, data = names["loss"], names["options"], names["data"]
    leaves, structure = jax.tree.flatten((names["start"], options["state"]))
    most = max(len(own["y"]) for own in data)

    @jax.jit
    def work(params, state, own, size, key, rate):
        def step(carry, number):
            params, state = carry
            places = jax.random.randint(jax.random.fold_in(key, number), (BATCH,), 0, size)
            batch = jax.tree.map(lambda leaf: leaf[places], own)
            slopes, state = jax.grad(loss, has_aux=True)(params, batch, state, key)
            return (jax.tree.map(lambda w, g: w - rate * g, params, slopes), state), None

        return jax.lax.scan(step, (params, state), jnp.arange(STEPS))[0]

    class Client(NumPyClient):
        def __init__(self, number):
            self.number, self.size = number, len(data[number]["y"])
            self.own = {k: np.resize(v, (most, *v.shape[1:])) for k, v in data[number].items()}

        def fit(self, parameters, config):
            params, state = jax.tree.unflatten(structure, [jnp.asarray(p) for p in parameters])
            key = jax.random.fold_in(jax.random.key(config["round"]), self.number)
            rate = RATE * (1 - 0.98 * config["round"] / 800)
            after = work(params, state, self.own, self.size, key, rate)
            return [np.asarray(leaf) for leaf in jax.tree.leaves(after)], 1, {}

    marks, accuracies = [], []

    def evaluate(number, parameters, config):
        marks.append(time.perf_counter())
        params, state = jax.tree.unflatten(structure, [jnp.asarray(p) for p in parameters])
        scores = names["network"](params, options["held_out"]["x"], state)[0]
        right = np.argmax(np.asarray(scores), -1) == options["held_out"]["y"]
        accuracies.append(float(np.mean(right)))
        return 0.0, {}

    def server(context):
        strategy = FedAvg(
            fraction_fit=2 / CLIENTS,
            fraction_evaluate=0.0,
            min_fit_clients=2,
            min_available_clients=CLIENTS,
            initial_parameters=ndarrays_to_parameters([np.asarray(leaf) for leaf in leaves]),
            evaluate_fn=evaluate,
            on_fit_config_fn=lambda number: {"round": number},
        )
        return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=rounds))

    def client(context):
        return Client(int(context.node_config["partition-id"])).to_client()

    run_simulation(
        ServerApp(server_fn=server),
        ClientApp(client_fn=client),
        num_supernodes=CLIENTS,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    return {
        "seconds": float(np.median(np.diff(marks)[3:])),
        "accuracy": max(accuracies),
    }


def main() -> None:
    """Run both sides in turns and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peer", help="a Python with Flower's simulation")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=40, help="of Flower")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.one:
        print(json.dumps(ours() if chosen.one == "ours" else theirs(chosen.rounds)))
        return
    rows: dict[str, list[dict[str, float]]] = {"ours": [], "theirs": []}
    for _ in range(chosen.repeats):
        for side, python in (("ours", sys.executable), ("theirs", chosen.peer)):
            command = [python, __file__, "--one", side, "--rounds", str(chosen.rounds)]
            printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            rows[side].append(json.loads(printed.strip().splitlines()[-1]))
    print("| | seconds per round | best accuracy |")
    print("|---|---|---|")
    for side, runs in rows.items():
        seconds = statistics.median(run["seconds"] for run in runs)
        print(f"| {side} | {seconds:.3g} | {max(run['accuracy'] for run in runs):.3f} |")


if __name__ == "__main__":
    main()
