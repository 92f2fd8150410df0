"""Personal models on scikit-learn's digits: accuracy of each client's own model, and calibration.

    python benchmarks/personal.py

The task is that of docs/explanation/personal_models.md: 20 clients have 40 training and 40 test
images each, of classes that a Dirichlet distribution with parameter 0.3 draws; each is present with
probability 0.3 in each of 100 rounds of five local steps of length 0.3. A row has the mean accuracy
on a client's own test images, that of the worst tenth of the clients, and the calibration error in
five bins, each in percent, as the mean over three draws with its standard error.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits

import fedjax_admm as fa
from fedjax_admm.solvers import apfl, ditto, fed_avg, local_gradient, p_fed_me, personal

CLIENTS, CLASSES, EACH, DRAWS, STEP, STEPS = 20, 10, 80, 3, 0.3, 5


def logits(model, image):
    """Return the logits of the classes."""
    return image @ model["weights"] + model["biases"]


def loss(model, sample):
    """Return the cross-entropy of an image with a little weight decay."""
    image, digit = sample
    decay = sum(jnp.sum(part**2) for part in model.values())
    fit = optax.softmax_cross_entropy_with_integer_labels(logits(model, image), digit)
    return fit + 5e-4 * decay


def right(model, sample):
    """Return whether the class of an image is found."""
    return jnp.argmax(logits(model, sample[0])).astype(jnp.int32) == sample[1]


def predict(model, sample):
    """Return the chances of the classes, and the class."""
    return jax.nn.softmax(logits(model, sample[0])), sample[1]


def dealt(seed, images, digits):
    """Return training and test images of every client; no image is dealt twice."""
    random = np.random.default_rng(seed)
    left = [list(random.permutation(np.flatnonzero(digits == digit))) for digit in range(CLASSES)]
    rows = []
    for _ in range(CLIENTS):
        shares, own = random.dirichlet(np.full(CLASSES, 0.3)), []
        while len(own) < EACH:
            chances = (shares + 1e-9) * np.array([len(each) > 0 for each in left])
            own.append(left[random.choice(CLASSES, p=chances / chances.sum())].pop())
        rows.append(random.permutation(own))
    halves = np.split(np.array(rows), 2, axis=1)
    return [(images[half], digits[half]) for half in halves]


def methods():
    """Return the solvers by name."""
    average = fed_avg(STEP, local_steps=STEPS)
    local = local_gradient(STEP, steps=STEPS)
    return {
        "FedAvg": average,
        "private biases": personal(average, STEP, steps=STEPS),
        **{f"Ditto {lam:g}": ditto(average, lam, local=local) for lam in (0.01, 0.1, 1.0)},
        **{
            f"pFedMe {lam:g}": p_fed_me(lam, 0.5 / lam, local_steps=STEPS, local=local)
            for lam in (0.1, 1.0)
        },
        "APFL, fixed 0.25": apfl(STEP, mixing=0.25, adaptive=False, local_steps=STEPS),
        "APFL, learnt from 0.5": apfl(STEP, mixing=0.5, local_steps=STEPS),
        "each client alone": apfl(STEP, mixing=1.0, adaptive=False, local_steps=STEPS),
    }


def scores(solver, private, seed, images, digits):
    """Return accuracy, that of the worst tenth, and the calibration error of one draw."""
    start = {"weights": jnp.zeros((64, CLASSES)), "biases": jnp.zeros(CLASSES)}
    shared = "weights" if private else None
    training, test = (
        fa.problems.federated(loss, part, start, score=right, shared=shared)
        for part in dealt(seed, images, digits)
    )
    present = fa.participation.bernoulli(0.3)
    run = fa.run(solver, training, jax.random.key(seed), rounds=100, participation=present)
    state = run.state.solver
    test = test.with_private(state.private) if private else test
    calibration = partial(fa.measures.calibration_error, predict=predict, bins=5)
    measures = (fa.measures.accuracy, fa.measures.worst_accuracy, calibration)
    found = jax.jit(lambda test, state: [measure(solver, test, state) for measure in measures])
    return [100 * float(*each.values()) for each in found(test, state)]


def main():
    """Print a row for each method."""
    pixels, digits = load_digits(return_X_y=True)
    images, digits = (pixels / 16).astype(np.float32), digits.astype(np.int32)
    print(f"{'':22} {'accuracy':>12} {'worst tenth':>12} {'calibration':>12}")
    for name, solver in methods().items():
        private = name == "private biases"
        rows = [scores(solver, private, seed, images, digits) for seed in range(DRAWS)]
        means, errors = np.mean(rows, 0), np.std(rows, 0, ddof=1) / np.sqrt(DRAWS)
        shown = (f"{mean:5.1f} ({error:.1f})" for mean, error in zip(means, errors, strict=True))
        print(f"{name:22}", *(f"{each:>12}" for each in shown), flush=True)


if __name__ == "__main__":
    main()
