"""`monte_carlo` with a store, a trial, a key or a size that does not fit."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from fedjax_admm.trials import files
from fedjax_admm.trials.engine import ChunkStore, default_mesh, monte_carlo
from tests.faults.row import Misuse

CHUNK = "000002-000004.npz"
CONSTANT = np.arange(3000, dtype=np.float32)


def draw(key):
    return {"a": jax.random.uniform(key), "b": jnp.arange(3.0)}


def simulate(store, trial=draw, key=None, trials=4, **options):
    key = jax.random.key(0) if key is None else key
    options = {"batch": 1, "chunk": 2, "mesh": default_mesh(1), "progress": False} | options
    return monte_carlo(trial, key, trials, store=store, **options)


def begun(change: Callable[[Path], object] = lambda folder: None, trial=draw, **options):
    """Run four trials into a store, change something there, and ask again."""

    def call():
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "chunks"
            simulate(folder, **({"trial": options["first"]} if "first" in options else {}))
            change(folder)
            again = {name: value for name, value in options.items() if name != "first"}
            simulate(folder, trial, **{n: v() if callable(v) else v for n, v in again.items()})

    return call


def new(trial=draw, **options):
    """Run into a store that is not there yet; whatever happens, none may be there then."""

    def call():
        with tempfile.TemporaryDirectory() as place:
            try:
                simulate(Path(place) / "chunks", trial, **options)
            finally:
                assert not list(Path(place).iterdir())

    return call


def in_place_of(make):
    def call():
        with tempfile.TemporaryDirectory() as place:
            make(Path(place) / "chunks")
            simulate(Path(place) / "chunks")

    return call


def scaled(constant):
    return lambda key: {"a": jnp.sum(constant) * jax.random.uniform(key), "b": jnp.arange(3.0)}


def with_extra(key):
    return {**draw(key), "c": jnp.float32(0)}


def renamed(key):
    return {f"x{name}": array for name, array in draw(key).items()}


def narrow(key):
    return jax.tree.map(lambda array: array.astype(jnp.bfloat16), draw(key))


def longer(key):
    return draw(key) | {"b": jnp.arange(4.0)}


def widened():
    with tempfile.TemporaryDirectory() as folder:
        simulate(folder)
        with jax.enable_x64(True):
            simulate(folder)


def edited(change):
    def edit(folder):
        arrays, about = files.read_archive(folder / CHUNK)
        files.write_arrays(folder / CHUNK, change(arrays), about)

    return edit


def loud(layout, program):
    raise AssertionError("begun, although the store holds something else")


TRACED = "monte_carlo computes at once, but this call is traced"
KEYS = jax.random.split(jax.random.key(0), 2)
OTHER = "holds trials of another run: its trial function, or a constant or a setting in it"
CHANGED = f"{CHUNK} has been changed since it was written; move it away"
ROWS = [
    Misuse("in-a-trial", new(trial=lambda key: {"a": simulate(None, key=key)}), TRACED),
    Misuse("in-vmap", lambda: jax.vmap(lambda key: simulate(None, key=key))(KEYS), TRACED),
    Misuse("in-jit", lambda: jax.jit(lambda: simulate(None).arrays)(), TRACED),
    Misuse("another-function", begun(trial=scaled(1.0)), OTHER),
    Misuse("another-constant", begun(trial=scaled(2.0), first=scaled(1.0)), OTHER),
    Misuse(
        "another-large-constant",
        begun(trial=scaled(np.roll(CONSTANT, 1)), first=scaled(CONSTANT)),
        OTHER,
    ),
    Misuse("one-metric-more", begun(trial=with_extra), OTHER),
    Misuse("one-metric-less", begun(first=with_extra), OTHER),
    Misuse("other-names", begun(trial=renamed), OTHER),
    Misuse("another-type", begun(trial=narrow), OTHER),
    Misuse("another-shape", begun(trial=longer), OTHER),
    Misuse("another-order", begun(trial=lambda key: dict(reversed(draw(key).items()))), OTHER),
    Misuse("another-program-told-late", begun(trial=longer, begin=lambda: loud), OTHER),
    Misuse("another-key", begun(key=lambda: jax.random.key(1)), r"its key is \[0, 0\], not \[0, 1"),
    Misuse("another-kind-of-key", begun(key=lambda: jax.random.key(0, impl="rbg")), "its key is"),
    Misuse("another-width", begun(batch=2), "its width is 1, not 2"),
    Misuse("other-devices", begun(mesh=lambda: default_mesh(2)), "use of several devices is False"),
    Misuse("another-precision", widened, "its use of float64 is False, not True"),
    Misuse("fewer-trials", begun(trials=3), "holds 4 trials, more than the 3 that are asked for"),
    Misuse("no-trials", new(trials=0), "trials must be at least 1"),
    Misuse("endless-trials", new(trials=2**70), "trials must be at most|trials need"),
    Misuse("no-width", begun(batch=0), "batch must be at least 1"),
    Misuse("a-width-in-words", begun(batch="large"), "batch must be 'auto' or a whole number"),
    Misuse("no-chunk", begun(chunk=0), "chunk must be at least 1"),
    Misuse("no-trials-axis", begun(mesh=lambda: jax.make_mesh((1,), ("x",))), "an axis 'trials'"),
    Misuse("a-raw-key", begun(key=lambda: np.zeros(2, np.uint32)), "key must be a typed key"),
    Misuse("two-keys", begun(key=lambda: jax.random.split(jax.random.key(0))), "key must be one"),
    Misuse("no-dict", new(trial=lambda key: jax.random.uniform(key)), "must return a dict"),
    Misuse("a-key-returned", new(trial=lambda key: {"a": key}), "returns a key as 'a'"),
    Misuse("name-twice", new(trial=lambda key: {"a": {"b": 1.0}, "a/b": 2.0}), "two arrays of the"),
    Misuse(
        "a-file", in_place_of(lambda folder: folder.write_text("mine")), "is a file, not a folder"
    ),
    Misuse("a-store-that-is-a-number", lambda: simulate(3), "store must be a folder"),
    Misuse("zeroed", begun(edited(lambda a: jax.tree.map(np.zeros_like, a))), CHANGED),
    Misuse("names-exchanged", begun(edited(lambda a: {"a": a["b"], "b": a["a"]})), CHANGED),
    Misuse("one-array-less", begun(edited(lambda a: {"a": a["a"]})), CHANGED),
    Misuse("too-large", new(memory=1), "needs .* of every device, but 1 bytes are allowed"),
    Misuse(
        "saved-before-it-was-opened",
        lambda: ChunkStore("nowhere").save(0, {"a": np.zeros(2)}),
        "store must be opened",
    ),
]
