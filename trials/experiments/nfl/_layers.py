"""The network of two layers that every node of `nfl-digits` trains."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedjax_admm._shown import short_repr


@short_repr
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
        """Return the cross entropy of every image, shape (...)."""
        return optax.softmax_cross_entropy_with_integer_labels(self.logits(w, x), label)

    def logits(self, w: jax.Array, x: jax.Array) -> jax.Array:
        """Return the outputs before the softmax of images (..., pixels), shape (..., outputs)."""
        second, *biases = self.layers(w)[1::2]
        active = jax.nn.relu(self.inner(w, x))
        outer = jnp.matmul(active, second.T, precision=jax.lax.Precision.HIGHEST)
        return outer + jnp.broadcast_to(biases[0], outer.shape) if biases else outer

    def inner(self, w: jax.Array, x: jax.Array) -> jax.Array:
        """Return what the hidden units make of images (..., pixels), shape (..., hidden)."""
        first, *biases = self.layers(w)[::2]
        inner = jnp.matmul(x, first.T, precision=jax.lax.Precision.HIGHEST)
        return inner + jnp.broadcast_to(biases[0], inner.shape) if biases else inner

    def layers(self, w: jax.Array) -> list[jax.Array]:
        """Return W1 (hidden, pixels), W2 (outputs, hidden) and the biases, where there are any."""
        shapes = [(self.hidden, self.pixels), (self.outputs, self.hidden)]
        shapes += [(self.hidden,), (self.outputs,)] if self.biases else []
        ends = np.cumsum([np.prod(shape, dtype=int) for shape in shapes])
        parts = jnp.split(w, ends[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]

    def draw(self, key: jax.Array, width: jax.Array, mean: jax.Array) -> jax.Array:
        """Draw a flat model of which hidden units 0, ..., width - 1 are in use.

        The other units have no weights at all, in or out, so that their outputs and gradients are
        zero: they stay as they are, and the network is one with `width` hidden units. The same key
        draws the same W1 for every width. The rows of W1 are turned so that the mean image
        activates every unit: one that no image activates never learns.
        """
        first_key, second_key = jax.random.split(key)
        used = (jnp.arange(self.hidden).astype(width.dtype) < width).astype(mean.dtype)
        first = jax.random.normal(first_key, (self.hidden, self.pixels), mean.dtype)
        side = jnp.matmul(first, mean, precision=jax.lax.Precision.HIGHEST)
        first = first * jnp.where(side < 0, -used, used)[:, None] * (2 / self.pixels) ** 0.5
        second = jax.random.normal(second_key, (self.outputs, self.hidden), mean.dtype)
        second = second * used[None] * jnp.sqrt(2 / width.astype(mean.dtype))
        biases = self.hidden + self.outputs if self.biases else 0
        return jnp.concatenate([first.ravel(), second.ravel(), jnp.zeros(biases, mean.dtype)])

    def active(self, w: jax.Array, images: jax.Array) -> jax.Array:
        """Return whether any of the images (images, pixels) activates a hidden unit, shape ()."""
        return jnp.any(self.inner(w, images) > 0)

    def cut(self, w: jax.Array, hidden: int, pixels: jax.Array) -> jax.Array:
        """Return the flat model with the first hidden units and some pixels alone."""
        first, second, *biases = self.layers(w)
        parts = [first[:hidden, pixels], second[:, :hidden]]
        parts += [biases[0][:hidden], biases[1]] if biases else []
        return jnp.concatenate([part.ravel() for part in parts])

    def accuracy(self, w: jax.Array, images: jax.Array, labels: jax.Array) -> jax.Array:
        """Return the share of images classified correctly, each node's by its own model, shape ().

        Shapes: w (nodes, size), images (nodes, images, pixels), labels (nodes, images).

        Where k outputs are largest together, an image counts 1 / k: without biases that is so for
        every image that activates no hidden unit.
        """
        outputs = jax.vmap(self.logits)(w, images)
        largest = (outputs == jnp.max(outputs, -1, keepdims=True)).astype(w.dtype)
        right = jnp.take_along_axis(largest, labels[..., None], -1)[..., 0]
        found = jnp.mean(right / jnp.sum(largest, -1))
        return jnp.where(jnp.all(jnp.isfinite(w)), found, jnp.nan)
