r"""The solvers of the field on images of digits, split among clients that differ.

Three tasks on the same images of ten digits, and two more with `models=deep` (`_networks`):

    logistic     softmax(W x + b), cross entropy
    l1 logistic  the same with l1_weight ||(W, b)||_1 at the server
    network      softmax(W2 relu(W1 x + b1) + b2) with a hidden layer, cross entropy
    batch norm   a network with batch norm and dropout, whose loss has a state and a key
    convolution  a small convolutional network

The mean loss over all training images is minimised (clients weigh by their numbers of images). A
fifth of all images, always the same, is for testing; of the others every trial keeps some for
validation and deals the rest to clients, of different sizes, by labels that are drawn from a
Dirichlet distribution per client or two labels each (`_splits`). Some clients are drawn in every
round, the same ones for all methods.

Images are divided by the root of their mean squared norm, so that losses have a curvature of about
one whatever the size of the images.

Tuning. Every method has 12 settings (`RECIPES`). `python benchmarks/tune.py
federated-benchmark` runs them all on problems of other seeds and takes the one with the smallest
mean error on images for validation after the last round, for each task and split; the table
`tuned/benchmarks.csv` holds them. Images for testing are not looked at.

Work. Clients take `STEPS` local gradient steps on all of their images, or with deep models on
minibatches of `smallest` images, which all clients have; or one step where the method has one per
round (federated subgradient descent, ProxSkip, consensus ADMM). FSMDM needs the prox of a
client's loss; it gets about that, by as many gradient steps from the centre of the prox. Consensus
ADMM computes all clients in every round and keeps those who were drawn; for the network it is left
out, because that takes ten times as long as the others. Deep models are trained by six methods:
ProxSkip, subgradients, FSMDM and consensus ADMM do not carry the states of losses, and FedPD and
Fed-PLT are slow where a tenth of the clients is drawn. The server averages the states.

Images. Which are used is said by the setting `data`, as in `load_digits`; of a larger
collection a part, drawn once for all.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedjax_admm import solvers
from fedjax_admm._checks import count, default_float, number, one_of
from fedjax_admm.capabilities import at_state
from fedjax_admm.penalties import Penalty, l1
from fedjax_admm.problems import Federated, federated
from fedjax_admm.trials import figures
from fedjax_admm.trials.experiments import _tuning
from fedjax_admm.trials.experiments._catalogue import texts
from fedjax_admm.trials.experiments._experiment import Experiment, Settings, Sweep
from fedjax_admm.trials.experiments._tuning import (
    ONLY,
    STEPS,
    Setting as Setting,
    between,
    with_steps,
)
from fedjax_admm.trials.experiments.peers import _networks as networks
from fedjax_admm.trials.experiments.peers._roster import (
    PeerMethod,
    Recipe,
    peer_methods,
    tuned_places,
    tuning_score as tuning_score,
)
from fedjax_admm.trials.experiments.peers._splits import deal, draw_sizes, label_odds
from fedjax_admm.trials.tables._digits import Images, load_digits

LINEAR, NETWORK, NORMALIZED, CONVOLVED = "linear", "network", "batch norm", "convolution"
TASKS = {
    "logistic": LINEAR,
    "l1 logistic": LINEAR,
    "network": NETWORK,
    "batch norm": NORMALIZED,
    "convolution": CONVOLVED,
}
"""Task -> which model it trains."""
MODELS = {"plain": (LINEAR, NETWORK), "deep": (NORMALIZED, CONVOLVED)}
"""What the setting `models` says -> which models a run trains."""
SPLITS = (0.1, 0.5, 10.0, 0.0)
MOST_IMAGES = 8000
_SHARE_OF_TEST, _SHARE_OF_VALIDATION = 0.2, 0.15


# --- images ---


class Pool(NamedTuple):
    """Images on the host."""

    pixels: np.ndarray  # shape=(images, pixels), uint8
    digits: np.ndarray  # shape=(images,), int32
    scale: float  # what pixels are multiplied with


@lru_cache(maxsize=4)
def pools(images: Images) -> tuple[Pool, Pool]:
    """Return the images for training and validation, and those for testing, always the same."""
    order = np.random.default_rng(0).permutation(len(images.digits))[:MOST_IMAGES]
    tested = round(_SHARE_OF_TEST * len(order))
    squares = np.mean(np.sum(images.scaled() ** 2, 1))
    scale = float(1 / (images.white * np.sqrt(squares)))
    rest, test = (
        Pool(images.pixels[places], images.digits[places], scale)
        for places in (order[tested:], order[:tested])
    )
    return rest, test


def _samples(pool: Pool, places: jax.Array | None = None) -> dict[str, jax.Array]:
    # Kept as bytes, a quarter of their size as floats: they are a constant of the program.
    pixels, digits = jnp.asarray(pool.pixels), jnp.asarray(pool.digits)
    if places is not None:
        pixels, digits = pixels[places], digits[places]
    return {"image": pixels.astype(default_float()) * pool.scale, "digit": digits}


# --- models ---


def _logits(params: Any, image: jax.Array) -> jax.Array:
    inner = image
    if "first" in params:
        first, bias = params["first"]
        inner = jax.nn.relu(jnp.matmul(first, image, precision=jax.lax.Precision.HIGHEST) + bias)
    last, bias = params["last"]
    return jnp.matmul(last, inner, precision=jax.lax.Precision.HIGHEST) + bias


def cross_entropy(params: Any, sample: Any) -> jax.Array:
    """Return the loss of one image, shape ()."""
    outputs = _logits(params, sample["image"])
    return optax.softmax_cross_entropy_with_integer_labels(outputs, sample["digit"])


def is_right(params: Any, sample: Any) -> jax.Array:
    """Return 1 where the largest output is that of the digit, else 0, shape ()."""
    outputs = _logits(params, sample["image"])
    return (jnp.argmax(outputs) == sample["digit"]).astype(outputs.dtype)


def _start(model: str, pixels: int, hidden: int, key: jax.Array) -> dict[str, Any]:
    dtype = default_float()
    if model == LINEAR:
        return {
            "last": (jnp.zeros((networks.DIGITS, pixels), dtype), jnp.zeros(networks.DIGITS, dtype))
        }
    first_key, last_key = jax.random.split(key)
    # Images have length one: so have the inputs of hidden units, about.
    first = jax.random.normal(first_key, (hidden, pixels), dtype)
    last = jax.random.normal(last_key, (networks.DIGITS, hidden), dtype) * (2 / hidden) ** 0.5
    return {
        "first": (first, jnp.zeros(hidden, dtype)),
        "last": (last, jnp.zeros(networks.DIGITS, dtype)),
    }


def _some_steps(params: Any, step: jax.Array, samples: Any, size: jax.Array, *, curvature: float):
    """Take the gradient steps that stand for FSMDM's prox, from its centre."""
    here = jnp.arange(samples["digit"].shape[0], dtype=jnp.int32) < size

    def loss(w):
        losses = jax.vmap(cross_entropy, (None, 0))(w, samples)
        return jnp.sum(jnp.where(here, losses, 0)) / size.astype(losses.dtype)

    def descend(_, w):
        def moved(z, slope, centre):
            return z - (slope + (z - centre) / step) / (curvature + 1 / step)

        return jax.tree.map(moved, w, jax.grad(loss)(w), params)

    return jax.lax.fori_loop(0, STEPS, descend, params)


CURVATURE = {LINEAR: 0.1, NETWORK: 1.0, NORMALIZED: 3.0, CONVOLVED: 10.0}
"""About the largest curvature of a model's losses, by which the grids are placed."""
_PROX = {model: partial(_some_steps, curvature=CURVATURE[model]) for model in MODELS["plain"]}


# --- problems ---


def models_of(settings: Settings) -> tuple[str, ...]:
    """Return the models that a run trains."""
    one_of("models", settings["models"], MODELS)
    return MODELS[settings["models"]]


def deal_images(
    keys: Sequence[jax.Array],
    digits: np.ndarray,
    num_validation: int,
    split: jax.Array,
    sizes: Callable[[jax.Array], jax.Array],
    largest: int,
) -> tuple[jax.Array, jax.Array, jax.Array]:
    """Deal images of digits (images,) to clients, and keep some for validation.

    Returns:
      The places of the clients' images, (clients, largest), int32; which of them count, bool; and
      the places of those for validation, (num_validation,), int32.
    """
    pool_key, size_key, odds_key, deal_key = keys
    shuffled = jnp.argsort(jax.random.uniform(pool_key, digits.shape)).astype(jnp.int32)
    validation, training = shuffled[:num_validation], shuffled[num_validation:]
    client_sizes = sizes(size_key)
    odds = label_odds(odds_key, split, client_sizes.shape[0], networks.DIGITS)
    dealt, there = deal(deal_key, jnp.asarray(digits)[training], odds, client_sizes, largest)
    return training[dealt], there, validation


def draw_problem(
    settings: Settings, split: Any, key: jax.Array, *, tuning: bool = False
) -> dict[str, Federated]:
    """Draw the clients and the models of a trial; for tuning, all models.

    Returns:
      The problem of each model, stacked along an axis of one.
    """
    split = number("split", split, at_least=0)
    models = CURVATURE if tuning else models_of(settings)
    # The variance of a minibatch needs two images.
    smallest = count("smallest", settings["smallest"], at_least=1 + (NORMALIZED in models))
    largest = count("largest", settings["largest"], at_least=smallest)
    rest, test = pools(load_digits(settings["data"], networks.DIGITS))
    num_validation = round(_SHARE_OF_VALIDATION * len(rest.digits))
    most = (
        len(rest.digits) - num_validation
    ) // 4  # so that even two labels leave nobody without an image
    clients = count("clients", settings["clients"], at_most=most)
    count("drawn", settings["drawn"], at_most=clients)
    *deal_keys, start_key = jax.random.split(key, 5)
    sizes = partial(draw_sizes, clients=clients, smallest=smallest, largest=largest)
    dealt, there, validation = deal_images(
        deal_keys, rest.digits, num_validation, split, sizes, largest
    )
    data = _samples(rest, dealt)
    judged = _samples(rest, validation) if tuning else _samples(test)

    pixels, hidden = rest.pixels.shape[1], count("hidden", settings["hidden"])
    deep = {"batch": True, "batch_size": smallest}

    def of(model: str) -> Federated:
        if model == NORMALIZED:
            start = networks.start_normalized(pixels, hidden, start_key)
            more = {"state": networks.statistics(hidden), "average_state": True, **deep}
            return build(networks.normalized_loss, start, networks.normalized_is_right, **more)
        if model == CONVOLVED:
            start = networks.start_convolved(pixels, start_key)
            return build(networks.convolved_loss, start, networks.convolved_is_right, **deep)
        start = _start(model, pixels, hidden, start_key)
        return build(cross_entropy, start, is_right, prox=_PROX[model])

    def build(loss: Any, start: Any, score: Any, **more: Any) -> Federated:
        more |= {"mask": there, "score": score, "held_out": judged}
        return federated(loss, data, start, weights="samples", **more)

    return {model: jax.tree.map(lambda leaf: leaf[None], of(model)) for model in models}


# --- methods ---


def _consensus(setting: Setting, regularizer: Penalty) -> Any:
    sigma, omega = setting.first, setting.second
    link = solvers.tree_link(sigma, omega / sigma, l1(omega))
    return solvers.consensus_admm(link, regularizer, client_update="linearized")


def smooth_recipes(curvature: float) -> dict[str, Recipe]:
    """Return all star methods with their grids, for losses of about this curvature."""
    rates = tuple(rate / curvature for rate in (0.3, 1.0, 2.0))
    penalties = tuple(penalty * curvature for penalty in (0.003, 0.01, 0.03, 0.1))
    lengths = tuple(length / curvature for length in (3.0, 10.0, 30.0, 100.0))
    slow = tuple(rate / curvature for rate in (0.3, 1.0, 3.0, 10.0))
    sigmas = tuple(sigma * curvature for sigma in (0.1, 0.3, 1.0, 3.0))
    some = between(1 / curvature, 100 / curvature, 6)
    return {
        "FedAvg": Recipe(_tuning.averaging, between(0.01 / curvature, 3 / curvature, 12), ONLY),
        "FedProx": Recipe(with_steps(solvers.fed_prox), penalties, rates),
        "SCAFFOLD": Recipe(_tuning.with_variates, (1.0, 2.0, 4.0, 8.0), rates),
        "ProxSkip": Recipe(_tuning.skipping, (0.3, 0.6, 1.0), slow, 1),
        "FedADMM": Recipe(with_steps(solvers.fed_admm), penalties, rates),
        "FedDR": Recipe(with_steps(solvers.fed_dr), lengths, rates, passes_before=STEPS),
        "FedPD": Recipe(with_steps(solvers.fed_pd), lengths, rates),
        "FedDyn": Recipe(with_steps(solvers.fed_dyn), penalties, rates),
        "Fed-PLT": Recipe(with_steps(solvers.fed_plt), lengths, rates),
        "subgradient": Recipe(_tuning.subgradient, some, (0.0, 0.5), 1),
        "FSMDM": Recipe(_tuning.smoothing, sigmas, (0.1, 0.3, 1.0), sums=True),
        "consensus ADMM": Recipe(_consensus, sigmas, (0.3, 1.0, 3.0), 1, sums=True),
    }


_DEEP = ("FedAvg", "FedProx", "SCAFFOLD", "FedADMM", "FedDR", "FedDyn")
RECIPES = {model: smooth_recipes(curvature) for model, curvature in CURVATURE.items()}
"""Model -> method -> how it is built, and the settings that are tried."""
del RECIPES[NETWORK]["consensus ADMM"]  # it works for all clients in every round: too slow
for _model in MODELS["deep"]:
    RECIPES[_model] = {name: RECIPES[_model][name] for name in _DEEP}


def measure(solver: Any, problem: Federated, state: Any) -> dict[str, jax.Array]:
    """Return "error", the error rate on held-out images, and "loss", their mean loss.

    States of losses are averaged, so that those of the first client are those of all.
    """
    params, images = problem.parameters(solver.estimate(state)), problem.held_out
    assert problem.score is not None
    states = jax.tree.map(lambda leaf: leaf[0], at_state(problem, state).states)
    more = () if states is None else (states,)
    right = jax.vmap(partial(problem.score, params), (0, *(None for _ in more)))(images, *more)
    if not problem.batch:
        losses = jax.vmap(problem.loss, (None, 0))(params, images)
        return {"error": jnp.mean(1 - right), "loss": jnp.mean(losses)}
    loss = problem.loss(params, images, *more)
    return {"error": jnp.mean(1 - right), "loss": loss[0] if more else loss}


def penalty_of(task: str, settings: Settings) -> Callable[[Any], Penalty]:
    """Return what the server of a task adds: factor -> penalty, one of weight 0 for most."""
    weight = number("l1_weight", settings["l1_weight"], at_least=0)
    used = weight if task.startswith("l1") else jnp.zeros_like(weight)
    return lambda factor: l1(factor * used)


TUNED = tuned_places("federated-benchmark")


def _methods(settings: Settings, split: Any) -> dict[str, PeerMethod]:
    methods, models = {}, models_of(settings)
    for task, model in TASKS.items():
        if model in models:
            kind = (settings, split, penalty_of(task, settings), model, 0, measure)
            methods |= peer_methods(task, RECIPES[model], TUNED, *kind)
    return methods


def recipes(task: str) -> dict[str, Recipe]:
    """Return the methods of a task."""
    return RECIPES[TASKS[task]]


def tasks_of(problems: dict[str, Federated], task: str) -> Federated:
    """Return the problems of a task among those drawn for tuning, stacked (trials, ...)."""
    return jax.tree.map(lambda leaf: leaf[:, 0], problems[TASKS[task]])


def describe(settings: Settings) -> str:
    """Return in a few words which images a run uses."""
    images = load_digits(settings["data"], networks.DIGITS)
    rest, test = pools(images)
    num_validation = round(_SHARE_OF_VALIDATION * len(rest.digits))
    return (
        f"{images.source}, ten digits: {len(rest.digits) - num_validation} images to be dealt, "
        f"{len(test.digits)} for testing"
    )


EXPERIMENTS = (
    Experiment(
        **texts(__file__)["federated-benchmark"],
        sweep=Sweep("split", "concentration of labels (0: two labels per client)", SPLITS),
        problem=draw_problem,
        figure=partial(figures.peers_figure, metric="error", tasks=("logistic", "network")),
        shown=("SCAFFOLD", "FedDyn", "FedADMM", "FedAvg", "FedProx", "subgradient"),
        methods=_methods,
        metrics={
            "error": "test error",
            "loss": "mean loss of the test images",
            "gradients": "gradients of single samples, all clients",
        },
        settings={
            "models": "plain",
            "data": "",
            "clients": 100,
            "drawn": 10,
            "smallest": 4,
            "largest": 24,
            "hidden": 32,
            "l1_weight": 1e-4,
        },
        rounds=200,
        records=20,
        quick={"trials": 2, "rounds": 40},
        data=describe,
    ),
)
