"""FedAvg on two deep tasks, beside the simulations of Flower and pfl-research.

    python benchmarks/simulators.py --flower PYTHON --pfl PYTHON

Each PYTHON is the interpreter of an environment of its own, with this package, scikit-learn,
psutil, and `flwr[simulation]` or `pfl`. The tasks are those of `federated-benchmark --set
models=deep` at the split 0.5: 100 clients of 4 to 24 images, of whom ten are drawn per round, five
local steps on minibatches of four, 200 rounds, and FedAvg's tuned rate.

All sides get the same problem, and draw the same clients, minibatches and dropout: the keys follow
from that of the run, as `fa.run` derives them. The clients of both peers take their steps by one
program of JAX that is written by hand here (`local_steps`), and the server takes the plain mean.
Models are compared after ten rounds and after the last. Every side runs in a process of its own, in
turns; medians over repeats. Seconds are per round, on the clock and of processors (of the process
and all of its descendants). Those of the peers leave out the first five rounds, in which their
programs are compiled, and with them all that happens before, such as the start of Ray. Ours are
those of a compiled run.

Flower's engine sends the client's code with every message. A function of an importable module
travels as its name, so that an actor keeps the program that it has compiled; a function of a script
travels whole, and is compiled for each message. The sides therefore run by importing this file.
"""

import argparse
import json
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
import time
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

TASKS = ("batch norm", "convolution")
SPLIT, STEPS, ROUNDS, EARLY, WARM = 0.5, 5, 200, 10, 5
RUN_KEY = 1


# --- the task, and its rounds by hand ---


class Task(NamedTuple):
    """A task as a peer sees it."""

    problem: Any
    drawn: int  # clients per round
    batch: int  # images
    rate: float
    start: list[np.ndarray]  # parameters, and running statistics
    structure: Any  # of the pair of both


def draw_task(name: str) -> Task:
    """Return a task; the tuned rate is the place in the grid that the benchmark uses."""
    from fedjax_admm.trials.experiments.peers import federated

    (experiment,) = federated.EXPERIMENTS
    settings = {**experiment.settings, "models": "deep"}
    problem = federated.draw_problem(settings, SPLIT, jax.random.key(0))[federated.TASKS[name]]
    problem = jax.tree.map(lambda leaf: leaf[0], problem)
    place = federated.TUNED[name, "FedAvg"][SPLIT]
    rate = federated.recipes(name)["FedAvg"].grid()[place].first
    state = jax.tree.map(lambda leaf: leaf[0], problem.states)
    leaves, structure = jax.tree.flatten((problem.parameters(problem.start), state))
    start = [np.asarray(leaf) for leaf in leaves]
    return Task(problem, settings["drawn"], settings["smallest"], rate, start, structure)


@lru_cache
def task(name: str) -> Task:
    """Return a task that the first process has drawn."""
    return pickle.loads(Path(os.environ["SIMULATORS_FOLDER"], f"{name}.pickle").read_bytes())


@partial(jax.jit, static_argnums=0)
def local_steps(name: str, model: list, data: Any, number: Any, index: Any) -> list[jax.Array]:
    """Return a client's parameters and statistics after its steps in a round."""
    (samples, size, weight), own = data, task(name)
    _, key = jax.random.split(jax.random.fold_in(jax.random.key(RUN_KEY), index))
    key = jax.random.fold_in(key, number)
    here = jnp.arange(samples["digit"].shape[0]) < size
    per_epoch = size // own.batch

    def loss(params, batch, state, key):
        if state is None:
            return own.problem.loss(params, batch), None
        return own.problem.loss(params, batch, state, key)

    def step(model, number):
        params, state = model
        draws = jax.random.uniform(jax.random.fold_in(key, number // per_epoch), here.shape)
        order = jnp.argsort(jnp.where(here, draws, jnp.inf))
        places = jax.lax.dynamic_slice(order, (number % per_epoch * own.batch,), (own.batch,))
        batch = jax.tree.map(lambda leaf: leaf[places], samples)
        dropout = jax.random.fold_in(jax.random.fold_in(key, 2**32 - 1), number)
        dropout = jax.random.fold_in(dropout, 0)
        slopes, state = jax.grad(loss, has_aux=True)(params, batch, state, dropout)
        moved = jax.tree.map(lambda w, slope: w - own.rate * weight * slope, params, slopes)
        return (moved, state), None

    model, _ = jax.lax.scan(step, jax.tree.unflatten(own.structure, model), jnp.arange(STEPS))
    return jax.tree.leaves(model)


@lru_cache
def client_data(name: str, number: int) -> tuple[Any, Any, Any]:
    """Return a client's padded samples, their number, and the weight of its loss."""
    problem = task(name).problem
    own = (problem.data.samples, problem.data.sizes, problem.client_weights)
    return jax.tree.map(lambda leaf: np.asarray(leaf[number]), own)


def work(name: str, model: list, number: int, index: int) -> list[np.ndarray]:
    """Return what a client sends."""
    after = local_steps(name, model, client_data(name, number), number, index)
    return [np.asarray(leaf) for leaf in after]


def drawn(name: str, rounds: int) -> np.ndarray:
    """Return the clients who take part in each round, (rounds, drawn)."""
    own = task(name)

    def one(index):
        key, _ = jax.random.split(jax.random.fold_in(jax.random.key(RUN_KEY), index))
        return jnp.sort(jax.random.permutation(key, own.problem.num_clients)[: own.drawn])

    return np.asarray(jax.vmap(one)(jnp.arange(rounds)))


def accuracy(name: str, leaves: list) -> float:
    """Return the share of the test images that a model gets right."""
    problem, structure = task(name).problem, task(name).structure
    params, state = jax.tree.unflatten(structure, leaves)
    more = () if state is None else (state,)
    score = jax.vmap(lambda image: problem.score(params, image, *more))
    return float(jnp.mean(score(problem.held_out)))


class Marks:
    """The times of the rounds that are measured, and the model after the early ones."""

    def __init__(self, rounds: int) -> None:
        """Begin before the first of so many rounds."""
        self.rounds, self.done, self.early = rounds, 0, []
        self.times: list[tuple[float, float]] = []

    def __call__(self, leaves: list[np.ndarray]) -> None:
        """Note that a round has ended with a model."""
        import psutil

        self.done += 1
        if self.done in (WARM, self.rounds):
            here = psutil.Process()
            used = [one.cpu_times() for one in (here, *here.children(recursive=True))]
            self.times.append((time.perf_counter(), sum(one.user + one.system for one in used)))
        if self.done == EARLY:
            self.early = [leaf.copy() for leaf in leaves]

    def seconds(self) -> dict[str, float]:
        """Return the seconds per round after the first ones."""
        (begin, end), number = self.times, self.rounds - WARM
        clock, used = ((b - a) / number for a, b in zip(begin, end, strict=True))
        return {"clock": clock, "used": used}


Result = tuple[dict[str, float], list, list]
"""Numbers, the model after the early rounds, and that after the last."""


# --- the sides ---


def ours(name: str, rounds: int) -> Result:
    """Run `fa.run`."""
    import fedjax_admm as fa
    from fedjax_admm.capabilities import at_state

    own = task(name)
    solver = fa.solvers.fed_avg(own.rate, local_steps=STEPS)
    options = {"participation": fa.participation.without_replacement(own.drawn)}

    def compiled(rounds):
        def program(problem, key):
            run = fa.run(solver, problem, key, rounds=rounds, **options)
            states = at_state(problem, run.state.solver).states
            return run.estimate, jax.tree.map(lambda leaf: leaf[0], states)

        return jax.jit(program).lower(own.problem, key).compile()

    key = jax.random.key(RUN_KEY)
    early = compiled(EARLY)(own.problem, key)
    before = time.process_time()
    program = compiled(rounds)
    compiling, taken = time.process_time() - before, []
    for _ in range(5):
        clock, used = time.perf_counter(), time.process_time()
        after = jax.block_until_ready(program(own.problem, key))
        taken.append((time.perf_counter() - clock, time.process_time() - used))
    clock, used = (statistics.median(kind) / rounds for kind in zip(*taken, strict=True))
    numbers = {"clock": clock, "used": used, "compile": compiling}
    return numbers, jax.tree.leaves(early), jax.tree.leaves(after)


def flower_client(message: Any, context: Any) -> Any:
    """Answer a message of Flower's server; an actor of Ray calls it."""
    from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

    begin, asked = time.perf_counter(), message.content["config"]
    model = message.content["arrays"].to_numpy_ndarrays()
    model = work(asked["task"], model, asked["client"], asked["index"])
    numbers = MetricRecord({"num-examples": 1, "steps": time.perf_counter() - begin})
    content = RecordDict({"arrays": ArrayRecord(model), "metrics": numbers})
    return Message(content=content, reply_to=message)


def flower(name: str, rounds: int) -> Result:
    """Run Flower's simulation: an actor of Ray for each core."""
    from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.serverapp.strategy.strategy_utils import sample_nodes
    from flwr.simulation import run_simulation

    own, present, marks, results = task(name), drawn(name, rounds), Marks(rounds), []

    class Strategy(FedAvg):
        def configure_train(self, server_round, arrays, config, grid):
            _, nodes = sample_nodes(grid, own.problem.num_clients, 1)  # waits until all are there
            nodes, index = sorted(nodes), server_round - 1
            for number in map(int, present[index]):
                asked = ConfigRecord({"task": name, "client": number, "index": index})
                content = RecordDict({"arrays": arrays, "config": asked})
                yield Message(content, nodes[number], "train")

        def aggregate_train(self, server_round, replies):
            arrays, metrics = super().aggregate_train(server_round, replies)
            marks(arrays.to_numpy_ndarrays())
            return arrays, metrics

    server, client = ServerApp(), ClientApp()
    client.train()(flower_client)

    @server.main()
    def main(grid, context):
        start = ArrayRecord(own.start)
        strategy = Strategy(fraction_evaluate=0.0)
        results.append(strategy.start(grid=grid, initial_arrays=start, num_rounds=rounds))

    run_simulation(
        server,
        client,
        num_supernodes=own.problem.num_clients,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    (result,) = results
    steps = [metrics["steps"] for metrics in result.train_metrics_clientapp.values()]
    numbers = {**marks.seconds(), "steps": own.drawn * statistics.mean(steps[WARM:])}
    return numbers, marks.early, result.arrays.to_numpy_ndarrays()


def pfl(name: str, rounds: int) -> Result:
    """Run pfl-research's simulated backend in one process."""
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.algorithm.base import NNAlgorithmParams
    from pfl.algorithm.federated_averaging import FederatedAveraging
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data.dataset import Dataset
    from pfl.data.federated_dataset import FederatedDataset
    from pfl.hyperparam.base import ModelHyperParams
    from pfl.metrics import Metrics
    from pfl.model.base import StatefulModel
    from pfl.stats import MappedVectorStatistics

    own, marks, steps = task(name), Marks(rounds), []

    def stacked(leaves):
        return MappedVectorStatistics({str(i): leaf for i, leaf in enumerate(leaves)}, weight=1.0)

    class Model(StatefulModel):
        leaves = own.start

        def get_parameters(self, placeholders=None):
            return stacked(self.leaves)

        def set_parameters(self, w):
            self.leaves = list(w.values())

        def get_model_difference(self, other_parameters, clone=False):
            pairs = zip(self.leaves, other_parameters.values(), strict=True)
            return stacked([mine - other for mine, other in pairs])

        def apply_model_update(self, statistics):
            pairs = zip(self.leaves, statistics.values(), strict=True)
            self.leaves = [mine + move for mine, move in pairs]
            return self, Metrics()

        def evaluate(self, dataset, name_formatting_fn, eval_params=None):
            return Metrics()

        save = load = None  # which is abstract

    class Averaging(FederatedAveraging):
        def train_one_user(self, initial_model_state, model, user_dataset, central_context):
            begin, index = time.perf_counter(), central_context.current_central_iteration
            model.leaves = work(name, model.leaves, user_dataset.user_id, index)
            steps.append(time.perf_counter() - begin)
            return model.get_model_difference(initial_model_state), Metrics()

    class Mark(TrainingProcessCallback):
        def after_central_iteration(self, aggregate_metrics, model, *, central_iteration):
            marks(model.leaves)
            return False, Metrics()

    def dataset(number):
        images, size, _ = client_data(name, number)
        return Dataset((images["image"][:size], images["digit"][:size]), user_id=number)

    numbers = map(int, drawn(name, rounds).ravel())
    data = FederatedDataset(dataset, partial(next, numbers))
    model = Averaging().run(
        NNAlgorithmParams(rounds, rounds, own.drawn, None),
        SimulatedBackend(data, data),
        Model(),
        ModelHyperParams(),
        callbacks=[Mark()],
        send_metrics_to_platform=False,
    )
    spent = statistics.mean(steps[WARM * own.drawn :])
    return {**marks.seconds(), "steps": own.drawn * spent}, marks.early, model.leaves


SIDES = {"here": ours, "flower": flower, "pfl": pfl}


def run_one(side: str, name: str, rounds: str) -> None:
    """Run a side, print its numbers as one line, and store its models."""
    numbers, early, last = SIDES[side](name, int(rounds))
    early, last = (np.concatenate([np.ravel(x) for x in leaves]) for leaves in (early, last))
    np.savez(Path(os.environ["SIMULATORS_FOLDER"], f"{side}.npz"), early=early, last=last)
    leaves, begin = [], 0
    for leaf in task(name).start:
        leaves.append(last[begin : begin + leaf.size].reshape(leaf.shape))
        begin += leaf.size
    print("\n" + json.dumps({**numbers, "accuracy": accuracy(name, leaves)}))


def measure(side: str, python: str, name: str, rounds: int, folder: str) -> dict[str, float]:
    """Run a side in a process of its own."""
    code = "import sys, simulators; simulators.run_one(*sys.argv[1:])"
    command = [python, "-c", code, side, name, str(rounds)]
    paths = {"PYTHONPATH": str(Path(__file__).resolve().parent), "SIMULATORS_FOLDER": folder}
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "RAY_USAGE_STATS_ENABLED": "0"}
    environment = {**os.environ, **paths, **quiet}
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment, text=True)
    return json.loads(result.stdout.strip().splitlines()[-1])


def main() -> None:
    """Run the sides in turns and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--flower", help="a Python with Flower's simulation and this package")
    parser.add_argument("--pfl", help="a Python with pfl-research and this package")
    parser.add_argument("--repeats", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--tasks", nargs="*", choices=TASKS, default=list(TASKS))
    chosen = parser.parse_args()
    pythons = {"here": sys.executable, "flower": chosen.flower, "pfl": chosen.pfl}
    pythons = {side: python for side, python in pythons.items() if python}
    runs: dict[tuple[str, str], list[dict[str, float]]] = {}
    models = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in chosen.tasks:
            Path(folder, f"{name}.pickle").write_bytes(pickle.dumps(draw_task(name)))
        for _ in range(chosen.repeats):
            for name in chosen.tasks:
                for side, python in pythons.items():
                    row = measure(side, python, name, chosen.rounds, folder)
                    print(side, name, row, file=sys.stderr)
                    runs.setdefault((name, side), []).append(row)
                    models[name, side] = dict(np.load(f"{folder}/{side}.npz"))
    print(f"| | accuracy | difference after {EARLY} rounds | after {chosen.rounds} ", end="")
    print("| clock (ms) | processors (ms) | clients' steps (ms) |")
    print("|---|---|---|---|---|---|---|")
    for (name, side), rows in runs.items():
        middle = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
        mine, other = models[name, "here"], models[name, side]
        gaps = " | ".join(f"{np.abs(mine[part] - other[part]).max():.1e}" for part in mine)
        times = [1000 * middle[key] for key in ("clock", "used", "steps") if key in middle]
        cells = " | ".join(f"{value:.3g}" for value in times)
        print(f"| {name}: {side} | {middle['accuracy']:.3f} | {gaps} | {cells} |")


if __name__ == "__main__":
    import simulators  # pickles then name this module, which other processes can import

    simulators.main()
