r"""Two networks for images of digits whose losses are of minibatches.

    batch norm   softmax(W2 D(relu(s BN(W1 x) + t)) + b), D dropout, BN by the minibatch while
                 training, and by running statistics, the state of the loss, otherwise
    convolution  two layers of 3 x 3 filters with stride 2, each with a bias and relu, and a dense
                 layer

BN is `(h - mean) / sqrt(var + 1e-5)` for each hidden unit, with the mean and the variance of the
minibatch. The running ones move by a tenth of the way at every step, the variance by its unbiased
estimate.

Reference: S. Ioffe, C. Szegedy, "Batch Normalization: Accelerating Deep Network Training by
Reducing Internal Covariate Shift", ICML 2015; N. Srivastava et al., "Dropout: A Simple Way to
Prevent Neural Networks from Overfitting", JMLR 15 (2014).
"""

from math import isqrt
from typing import Any

import jax
import jax.numpy as jnp
import optax

from fedjax_admm._checks import InputError, default_float

DIGITS = 10
KEPT = 0.8
"""Share of the hidden units that dropout keeps."""
FILTERS = (8, 16)
"""Of the two convolutions."""
_MOMENTUM, _TINY, _STRIDE, _FILTER = 0.1, 1e-5, 2, 3


def _times(rows: jax.Array, matrix: jax.Array) -> jax.Array:
    return jnp.matmul(rows, matrix, precision=jax.lax.Precision.HIGHEST)


def _cross_entropy(outputs: jax.Array, digits: jax.Array) -> jax.Array:
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(outputs, digits))


# --- batch norm and dropout ---


def normalized(
    params: Any, images: jax.Array, state: Any, key: Any = None
) -> tuple[jax.Array, Any]:
    """Return the outputs (images, digits) and the state; a key says that it is for training."""
    hidden = _times(images, params["first"])
    now = state
    if key is not None:
        now = {"mean": jnp.mean(hidden, 0), "var": jnp.var(hidden, 0)}
        unbiased = {**now, "var": jnp.var(hidden, 0, ddof=1)}
        state = jax.tree.map(lambda old, new: old + _MOMENTUM * (new - old), state, unbiased)
    hidden = (hidden - now["mean"][None]) / jnp.sqrt(now["var"] + _TINY)[None]
    hidden = jax.nn.relu(params["scale"][None] * hidden + params["shift"][None])
    if key is not None:
        hidden = jnp.where(jax.random.bernoulli(key, KEPT, hidden.shape), hidden / KEPT, 0)
    return _times(hidden, params["last"]) + params["bias"][None], state


def normalized_loss(params: Any, batch: Any, state: Any, key: Any = None) -> tuple[jax.Array, Any]:
    """Return the mean cross entropy of a minibatch, shape (), and the state after it."""
    outputs, state = normalized(params, batch["image"], state, key)
    return _cross_entropy(outputs, batch["digit"]), state


def normalized_is_right(params: Any, sample: Any, state: Any) -> jax.Array:
    """Return 1 where the largest output is that of the digit, else 0, shape ()."""
    outputs, _ = normalized(params, sample["image"][None], state)
    return (jnp.argmax(outputs[0]) == sample["digit"]).astype(outputs.dtype)


def start_normalized(pixels: int, hidden: int, key: jax.Array) -> dict[str, jax.Array]:
    """Return the first parameters, for images of length one."""
    dtype, (first, last) = default_float(), jax.random.split(key)
    return {
        "first": jax.random.normal(first, (pixels, hidden), dtype),
        "scale": jnp.ones(hidden, dtype),
        "shift": jnp.zeros(hidden, dtype),
        "last": jax.random.normal(last, (hidden, DIGITS), dtype) * (2 / hidden) ** 0.5,
        "bias": jnp.zeros(DIGITS, dtype),
    }


def statistics(hidden: int) -> dict[str, jax.Array]:
    """Return the running statistics before the first step."""
    return {"mean": jnp.zeros(hidden, default_float()), "var": jnp.ones(hidden, default_float())}


# --- convolutions ---


def _filtered(images: jax.Array, filters: jax.Array) -> jax.Array:
    """Filter images (images, side, side, channels) by a product with all windows of 3 x 3.

    On a CPU it takes a half to a quarter of the time of `jax.lax.conv` with filters per client.
    """
    side = images.shape[1]
    framed = jnp.pad(images, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = [
        framed[:, i : i + side : _STRIDE, j : j + side : _STRIDE]
        for i in range(_FILTER)
        for j in range(_FILTER)
    ]
    return _times(jnp.concatenate(windows, -1), filters)


def convolved(params: Any, images: jax.Array) -> jax.Array:
    """Return the outputs of images (images, pixels) of length one, shape (images, digits)."""
    number, pixels = images.shape
    # Pixels with a mean square of one.
    inner = (pixels**0.5 * images).reshape(number, isqrt(pixels), isqrt(pixels), 1)
    for filters, bias in params["filters"]:
        inner = jax.nn.relu(_filtered(inner, filters) + bias[None, None, None])
    last, bias = params["last"]
    return _times(inner.reshape(number, -1), last) + bias[None]


def convolved_loss(params: Any, batch: Any) -> jax.Array:
    """Return the mean cross entropy of a minibatch, shape ()."""
    return _cross_entropy(convolved(params, batch["image"]), batch["digit"])


def convolved_is_right(params: Any, sample: Any) -> jax.Array:
    """Return 1 where the largest output is that of the digit, else 0, shape ()."""
    outputs = convolved(params, sample["image"][None])
    return (jnp.argmax(outputs[0]) == sample["digit"]).astype(outputs.dtype)


def start_convolved(pixels: int, key: jax.Array) -> dict[str, Any]:
    """Return the first parameters, with the scale of K. He et al., ICCV 2015."""
    side = isqrt(pixels)
    if side**2 != pixels:
        raise InputError(f"images must be squares for convolutions, but they have {pixels} pixels")
    dtype, (*keys, last_key) = default_float(), jax.random.split(key, len(FILTERS) + 1)
    filters, inputs = [], 1
    for filter_key, outputs in zip(keys, FILTERS, strict=True):
        shape = (_FILTER**2 * inputs, outputs)
        drawn = jax.random.normal(filter_key, shape, dtype) * (2 / shape[0]) ** 0.5
        filters.append((drawn, jnp.zeros(outputs, dtype)))
        inputs, side = outputs, -(-side // _STRIDE)
    shape = (side**2 * inputs, DIGITS)
    last = jax.random.normal(last_key, shape, dtype) * (1 / shape[0]) ** 0.5
    return {"filters": filters, "last": (last, jnp.zeros(DIGITS, dtype))}
