"""Two clusters of nodes with images of digits, each node with a small network of its own.

Y. SarcheshmehPour, Y. Tian, L. Zhang, A. Jung, "Clustered Federated Learning via Generalized Total
Variation Minimization": 20 nodes hold images of 0 and 1, 20 others images of 2 and 3. Every node
has a network with two outputs, the first and the second digit of its cluster, and is joined to the
three nodes whose images look most alike.

The graph. All images become points of the plane (see `embed_digits`; pixels only, no
labels). The distance of two nodes is the 2-Wasserstein distance (the root of the squared one: it is
a distance, in the unit of the points) between Gaussians fitted to the points of their training
images; an edge weighs exp(-distance).

The networks. softmax(W2 relu(W1 x + b1) + b2), with the cross entropy. The paper writes it without
biases (`biases=0`); its public code has them, and without them a hidden layer of width 1 cannot do
what the paper reports: it leaves all images that do not activate its one unit undecided. All
nodes start from one random network; narrow networks of a run start as the first hidden units of its
widest one (see `Network.draw`). A pixel that is 0 in all images is no input: its weights would meet
zeros alone, have no gradient, and stay where all nodes start, so that no method and no measure
would notice them.

The steps. In a round, a node of Algorithm 1 takes 5 steps of Adam from its previous model, with the
step ratio c = 10. Adam moves a weight by about its rate, and so a hidden unit by that times the sum
of the pixels: the rate is 0.2 over the mean of that sum (0.01 for scikit-learn's digits), whatever
the images. All federated methods and the nodes' own networks see whole gradients and take equally
many steps: 5 per round, 250 in 50 rounds. IFCA takes plain gradient steps, one in each of its
rounds and so 250 of these, of length 2.5 (for the mean over all nodes) over the mean squared norm
of an image.

What one network can do on data that lie together (all four digits, or a cluster's) is not a matter
of 250 steps from one start: with one hidden unit, a quarter of the starts or more end with a unit
that no image activates (all images get the same outputs), and the others are far from stationary.
So these networks are the best of `starts` ones (by the training loss), with `pooled_steps` steps
per round and a rate that falls to zero, until the best one has a training loss below 2e-4. In 20
trials with 32 hidden units the accuracy on new images is that of all steps (99.6 and 99.7 %, paired
differences of -0.03 +- 0.03 and 0.03 +- 0.06). "stationarity" and "silent" tell what came of it
(see `_training`). The paper's baseline is another one: a pooled network that is stopped early, from
one start after as many steps as a node takes.

These numbers were chosen on five trials that are not among those reported, by the accuracy on new
images at width 32: 99.5 % with c = 10, against 97.3 % with c = 1 (the flows grow too slowly for 50
rounds), 99.8 % with c = 100, 98.4 % with one step per round, 99.4 % with ten, 97.6 % with plain
gradient steps of rate 0.1, and 96.2 % of the nodes' own networks. Rates from 0.05 to 0.4 over the
sum of the pixels change little; at 3, hidden units die.
"""

from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedjax_admm._checks import count, default_float, number
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.graphs import gaussian_wasserstein, nearest_neighbours
from fedjax_admm.losses import TrainedLoss
from fedjax_admm.problems import Networked, networked_training
from fedjax_admm.solvers import gtv_primal_dual, ifca
from fedjax_admm.trials import figures
from fedjax_admm.trials.experiments._catalogue import texts
from fedjax_admm.trials.experiments._experiment import Experiment, Settings, Sweep, whole
from fedjax_admm.trials.experiments._methods import Method, SolverMethod
from fedjax_admm.trials.experiments._published import Published
from fedjax_admm.trials.experiments.nfl._training import ConvergingTraining, Training
from fedjax_admm.trials.results import NONFINITE_ROUND, Results, summarize
from fedjax_admm.trials.tables._digits import (
    DIGITS,
    deal_digits,
    digit_shares,
    embed_digits,
    load_digits,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OUTPUTS = 2  # of a node's network: the first or the second digit of its cluster
ALGORITHM_1, EARLY = "Algorithm 1", "pooled, stopped early"
PRINTED = {
    ALGORITHM_1: {"train": 99, "validation": 97},
    EARLY: {"train": 97, "validation": 64},
}
"""Accuracies in the paper (%); its pooled network has one hidden unit and ten epochs."""


@dataclass(frozen=True)
class Network:
    """Two layers, `softmax(W2 relu(W1 x + b1) + b2)`, and their loss of a sample."""

    pixels: int
    hidden: int
    outputs: int
    biases: bool

    @property
    def size(self) -> int:
        """Return the number of parameters of the flat model."""
        weights = self.hidden * (self.pixels + self.outputs)
        return weights + (self.hidden + self.outputs if self.biases else 0)

    def __call__(self, w: jax.Array, x: jax.Array, label: jax.Array) -> jax.Array:
        """Return the cross entropy of one sample, shape ()."""
        return optax.softmax_cross_entropy_with_integer_labels(self.logits(w, x), label)

    def logits(self, w: jax.Array, x: jax.Array) -> jax.Array:
        """Return the outputs before the softmax for one sample (pixels,), shape (outputs,)."""
        first, second, *biases = self.layers(w)
        inner = jnp.matmul(first, x, precision=jax.lax.Precision.HIGHEST)
        active = jax.nn.relu(inner + biases[0] if biases else inner)
        outer = jnp.matmul(second, active, precision=jax.lax.Precision.HIGHEST)
        return outer + biases[1] if biases else outer

    def layers(self, w: jax.Array) -> list[jax.Array]:
        """Return W1 (hidden, pixels), W2 (outputs, hidden) and the biases, where there are any."""
        shapes = [(self.hidden, self.pixels), (self.outputs, self.hidden)]
        shapes += [(self.hidden,), (self.outputs,)] if self.biases else []
        ends = np.cumsum([np.prod(shape, dtype=int) for shape in shapes])
        parts = jnp.split(w, ends[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def draw(self, key: jax.Array, widest: int, lit: np.ndarray, mean: jax.Array) -> jax.Array:
        """Draw a flat model: the first hidden units of a network with `widest` ones.

        The same key draws the same weights for every width and whichever pixels are `lit`, of all
        pixels of an image: a mask. The rows of W1 are turned so that the mean image, of those
        pixels, activates every unit: one that no image activates never learns.
        """
        first_key, second_key = jax.random.split(key)
        first = jax.random.normal(first_key, (widest, lit.size), mean.dtype)
        first = first[: self.hidden, np.flatnonzero(lit)]
        side = jnp.matmul(first, mean, precision=jax.lax.Precision.HIGHEST)
        first = first * jnp.where(side < 0, -1, 1)[:, None] * (2 / lit.size) ** 0.5
        second = jax.random.normal(second_key, (self.outputs, widest), mean.dtype)
        second = second[:, : self.hidden] * (2 / self.hidden) ** 0.5
        biases = self.hidden + self.outputs if self.biases else 0
        return jnp.concatenate([first.ravel(), second.ravel(), jnp.zeros(biases, mean.dtype)])

    def active(self, w: jax.Array, images: jax.Array) -> jax.Array:
        """Return whether any of the images (images, pixels) activates a hidden unit, shape ()."""
        first, _, *biases = self.layers(w)
        inner = jnp.matmul(images, first.T, precision=jax.lax.Precision.HIGHEST)
        return jnp.any((inner + biases[0][None] if biases else inner) > 0)

    def accuracy(self, w: jax.Array, images: jax.Array, labels: jax.Array) -> jax.Array:
        """Return the share of images classified correctly, each node's by its own model, shape ().

        Shapes: w (nodes, size), images (nodes, images, pixels), labels (nodes, images).

        Where k outputs are largest together, an image counts 1 / k: without biases that is so for
        every image that activates no hidden unit.
        """
        outputs = jax.vmap(jax.vmap(self.logits, (None, 0)))(w, images)
        # Outputs are compared with that of the label, which is not compared with itself: computed
        # twice, as XLA may do, one number may differ in its last bit.
        right = jnp.take_along_axis(outputs, labels[..., None], -1)
        others = jax.nn.one_hot(labels, self.outputs) == 0
        ties = jnp.sum(others & (outputs == right), -1).astype(w.dtype)
        found = jnp.mean(jnp.where(jnp.any(others & (outputs > right), -1), 0, 1 / (1 + ties)))
        return jnp.where(jnp.all(jnp.isfinite(w)), found, jnp.nan)


@pytree_dataclass
class Digits(Networked):
    """A network of nodes with images, and what its other methods and its measures need."""

    _: KW_ONLY
    local: TrainedLoss
    validation_images: jax.Array  # shape=(nodes, images, pixels)
    validation_labels: jax.Array  # shape=(nodes, images), int32: 0 or 1
    clusters: jax.Array  # shape=(nodes,), int32: 0 or 1
    second_start: jax.Array  # shape=(dim,): IFCA's second model
    starts: jax.Array  # shape=(starts, dim): of the fits that go on until they converge
    pooled_starts: jax.Array  # shape=(starts, dim of a network with four outputs)

    @property
    def network(self) -> Network:
        """Return the shape of every node's network."""
        network = self.local.sample_loss
        assert isinstance(network, Network)
        return network

    def accuracies(self, w: jax.Array) -> dict[str, jax.Array]:
        """Return "train" and "validation", mean accuracies of models (nodes, dim), and "error".

        And "silent", the share of models in which none of the node's training images activates a
        hidden unit.
        """
        seen, new = (
            self.network.accuracy(w, images, labels)
            for images, labels in (
                (self.local.features, self.local.targets),
                (self.validation_images, self.validation_labels),
            )
        )
        speaks = jax.vmap(self.network.active)(w, self.local.features)
        silent = jnp.mean(1 - speaks.astype(w.dtype))
        return {
            "train": seen,
            "validation": new,
            "error": jnp.maximum(1 - new, 0),
            "silent": jnp.where(jnp.all(jnp.isfinite(w)), silent, jnp.nan),
        }


def _problem(settings: Settings, width: float, key: jax.Array) -> Digits:
    (hidden,), widest = whole("width", (width,)), int(max(settings["width"]))
    count("biases", settings["biases"], at_least=0, at_most=1)
    images = load_digits(settings["data"])
    nodes = count("nodes", settings["nodes"])
    neighbours = count("neighbours", settings["neighbours"], at_most=2 * nodes - 1)
    starts = count("starts", settings["starts"])
    deal_key, start_key, second_key, pooled_key = jax.random.split(key, 4)
    # Clones: what else is drawn does not change with the number of starts.
    more_key = jax.random.fold_in(jax.random.clone(start_key), 1)
    training, validation = deal_digits(deal_key, images.places(), nodes, settings["images"])
    points = jnp.asarray(embed_digits(images, settings["embedding"]), default_float())
    distances = jnp.sqrt(gaussian_wasserstein(points[training]))

    lit = np.any(images.pixels, axis=0)
    # Kept as bytes, a quarter of their size as floats: they are a constant of the program.
    pixels, labels = jnp.asarray(images.pixels[:, lit]), jnp.asarray(images.digits % OUTPUTS)

    def scaled(places: jax.Array) -> jax.Array:
        return pixels[places].astype(default_float()) / images.white

    seen = scaled(training)
    mean = jnp.mean(seen, (0, 1))
    network = Network(pixels.shape[1], hidden, OUTPUTS, bool(settings["biases"]))

    def drawn(network: Network, key: jax.Array) -> jax.Array:
        return network.draw(key, widest, lit, mean)

    def several(network: Network, key: jax.Array) -> jax.Array:
        return jax.vmap(lambda one: drawn(network, one))(jax.random.split(key, starts))

    trained = networked_training(
        nearest_neighbours(distances, neighbours),
        seen,
        labels[training],
        network,
        drawn(network, start_key),
        optimizer=optax.adam,
        # Adam moves a weight by about the rate, and so a hidden unit by the rate times the sum of
        # the pixels.
        rate=number("rate", settings["rate"], above=0) / jnp.sum(mean),
        steps=settings["steps"],
        solo_steps=1,  # nobody is alone: every node has neighbours
    )
    return Digits(
        **vars(trained),
        validation_images=scaled(validation),
        validation_labels=labels[validation],
        clusters=jnp.repeat(jnp.arange(2, dtype=jnp.int32), nodes),
        second_start=drawn(network, second_key),
        starts=several(network, more_key),
        pooled_starts=several(_of_four(network), pooled_key),
    )


def _of_four(network: Network) -> Network:
    return replace(network, outputs=DIGITS)


def with_four_outputs(problem: Digits) -> Digits:
    """Return the problem of telling all four digits apart."""
    offset = OUTPUTS * problem.clusters[:, None]
    start = jnp.broadcast_to(
        problem.pooled_starts[0], (problem.num_clients, problem.pooled_starts.shape[1])
    )
    local = replace(
        problem.local,
        targets=problem.local.targets + offset,
        start=start,
        sample_loss=_of_four(problem.network),
    )
    return replace(
        problem,
        local=local,
        start=start,
        starts=problem.pooled_starts,
        validation_labels=problem.validation_labels + offset,
    )


@pytree_dataclass
class Clustering(Method):
    """IFCA with two models. A round here is as many rounds of IFCA as a node takes steps."""

    rate: jax.Array  # shape=(): of the mean over all nodes

    def __call__(self, problem, key, rounds, every):
        """Run the solver for `rounds * steps` rounds of one gradient step each."""
        steps = problem.local.steps
        _, solver, key = self.posed(problem, key, rounds)
        method = SolverMethod(solver, _clustered)
        trace = method(problem, key, rounds * steps, every * steps)
        return {**trace, NONFINITE_ROUND: (trace[NONFINITE_ROUND] + steps - 1) // steps}

    def posed(self, problem, key, rounds):
        """Return IFCA with a rate that the curvature of the problem allows."""
        curvature = jnp.mean(jnp.sum(problem.local.features**2, -1))
        starts = jnp.stack([problem.start[0], problem.second_start])
        return problem, ifca(starts, self.rate / curvature), key


def _clustered(solver: Any, problem: Digits, state: Any) -> dict[str, jax.Array]:
    used = solver.nonempty(problem, state).astype(problem.start.dtype)
    return {**problem.accuracies(solver.estimate(state)), "clusters": used}


def _coupled(solver: Any, problem: Digits, state: Any) -> dict[str, jax.Array]:
    graph = problem.graph
    inside = problem.clusters[graph.heads] == problem.clusters[graph.tails]
    present = jnp.sum(graph.present)
    share = jnp.sum(graph.present & inside) / jnp.maximum(present, 1)
    return {
        **problem.accuracies(solver.estimate(state)),
        "inside": share.astype(problem.start.dtype),
    }


def _methods(settings: Settings, width: float) -> dict[str, Any]:
    nodes = settings["nodes"]
    steps = count("pooled_steps", settings["pooled_steps"])
    # The step ratio is given, so that the solver does not depend on the problem.
    coupled = gtv_primal_dual(None, settings["lam"], ratio=settings["ratio"])
    return {
        ALGORITHM_1: SolverMethod(coupled, _coupled),
        "local": Training(2 * nodes),
        "IFCA, k = 2": Clustering(number("ifca_rate", settings["ifca_rate"], above=0)),
        "clusters known": ConvergingTraining(2, steps=steps),
        "pooled, four outputs": ConvergingTraining(1, with_four_outputs, steps=steps),
        EARLY: Training(1, with_four_outputs),
    }


def describe(settings: Settings) -> str:
    """Return in a few words which images a run uses, and how many of them a node holds."""
    images = load_digits(settings["data"])
    each, train = digit_shares(images.places(), settings["nodes"], settings["images"])
    return (
        f"{images.source}, {OUTPUTS * train} training and {OUTPUTS * (each - train)} validation "
        "images per node"
    )


def accuracy_figure(results: Results) -> "Figure":
    """Draw every trial's validation accuracy, its mean, and what the paper prints.

    There is a panel per width; where all is drawn, a row above has the training accuracies.
    """
    kinds = {"train": "training", "validation": "validation"}
    shown = list(kinds) if figures.everything(results) else ["validation"]
    names, widths = results.methods, results.sweep
    figure = figures.blank_figure(2.4 + 3.9 * len(widths), 0.6 + 3.0 * len(shown))
    grid = figure.subplots(len(shown), len(widths), sharey=True, squeeze=False)
    rows = np.arange(len(names))[::-1]
    for axes, (metric, (i, width)) in zip(
        grid.flat, product(shown, enumerate(widths)), strict=True
    ):
        trials = 100 * np.stack([results.values(name, metric)[i, :, -1] for name in names])
        table = summarize(trials, axis=1)
        axes.plot(trials, rows, "|", color="0.6", markersize=11)
        axes.plot(table.mean, rows, "o", color="black", markersize=6, label="mean of the trials")
        for row, mean in zip(rows, table.mean, strict=True):
            text = f"{mean:.1f}" if np.isfinite(mean) else "failed"
            at = mean if np.isfinite(mean) else 50
            axes.annotate(text, (at, row), (0, 7), textcoords="offset points", ha="center")
        printed = [
            (PRINTED[name][metric], row)
            for name, row in zip(names, rows, strict=True)
            if name in PRINTED and (name != EARLY or width == 1)
        ]
        look = {"color": "black", "mfc": "white", "label": "printed in the paper"}
        axes.plot(*np.transpose(printed), "D", **look)
        axes.set_title("one hidden unit" if width == 1 else f"{width:g} hidden units", fontsize=10)
        axes.set_xlabel(f"{kinds[metric]} accuracy (%)")
        axes.set_ylim(-0.5, len(names) - 0.3)
    grid[0, 0].set_yticks(rows, list(map(figures.readable, names)))
    return figures.finish(figure, results)


EXPERIMENTS = (
    Experiment(
        **texts(__file__)["nfl-digits"],
        sweep=Sweep("width", "width of the hidden layer", (1.0, 32.0), static=True),
        problem=_problem,
        methods=_methods,
        metrics={
            "train": "training accuracy",
            "validation": "validation accuracy",
            "error": "error rate on validation images",
            "stationarity": "gradient of the training loss over that at the start, largest",
            "silent": "share of networks that no training image activates",
            "inside": "share of edges inside clusters",
            "clusters": "models in use, of two",
            "numbers_up": "numbers sent up (networks of the largest width)",
            "numbers_down": "numbers sent down (networks of the largest width)",
        },
        figure=accuracy_figure,
        published=Published(
            figures={
                "table-2": partial(
                    figures.printed_table,
                    rows={"Algorithm 1": ALGORITHM_1, "aggregated": EARLY},
                    metrics={"train": 0.01, "validation": 0.01},
                    printed={"Algorithm 1": ["99", "97"], "aggregated": ["97", "64"]},
                    at=1.0,
                )
            }
        ),
        settings={
            "data": "",
            "embedding": "pca",
            "nodes": 20,
            "images": 500,
            "neighbours": 3,
            "lam": 0.01,
            "ratio": 10.0,
            "rate": 0.2,
            "steps": 5,
            "ifca_rate": 2.5,
            "biases": 1,
            "starts": 8,
            "pooled_steps": 40,
        },
        rounds=50,
        records=10,
        quick={"trials": 2, "rounds": 10},
        data=describe,
    ),
)
