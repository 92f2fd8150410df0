"""Feedback: what compression removes from a message is sent later.

    error feedback (EF14)    p = x + e,      c = h C(p),    e+ = p - c,    c arrives
    differences (EF21)       c = C(x - g),   g+ = g + h c,                 g+ arrives

EF14 keeps at the sender what has not arrived yet, so that sums are kept,

    sum_(t <= T) c_t + e_T = sum_(t <= T) x_t

as sums of steps need. EF21 codes the change against g, what the receiver knows, which suits
messages that settle: for constant x, and a contractive C with constant a, the error shrinks by
sqrt(1 - a) per message or more.

Both need h C to be contractive: it is for contractive C and h = 1, and for an unbiased C with
h = 1 / (1 + omega). Without that factor, differences and remainders of an unbiased C with
omega >= 1 can diverge.

References: F. Seide, H. Fu, J. Droppo, G. Li, D. Yu, "1-Bit Stochastic Gradient Descent and its
Application to Data-Parallel Distributed Training of Speech DNNs", Interspeech 2014; A. Elgabli,
J. Park, A. S. Bedi, C. Ben Issaid, M. Bennis, V. Aggarwal, "Q-GADMM: Quantized Group ADMM for
Communication Efficient Decentralized Machine Learning", arXiv:1910.10453 (differences under ADMM).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm._checks import build, declared, having, optional, scalar
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.messages._channels import Channel


class Remainder(NamedTuple):
    """Memory of `error_feedback`."""

    error: jax.Array  # of the shape of the message: e, which the sender alone knows
    channel: Any  # of the channel inside


class Held(NamedTuple):
    """Memory of `differences`."""

    value: jax.Array  # of the shape of the message: g, which both ends know
    channel: Any  # of the channel inside


_check_channel = having(
    "init",
    "encode",
    "bits",
    "in_order",
    kind="a compressor",
    remedy="build one, such as fedjax_admm.messages.top_k(8)",
)
_check_step = optional(scalar, above=0, at_most=1)


class _Around:
    """A channel around another one, whose code travels."""

    channel: Any

    def layout(self, shape):
        """Return what the code of the channel inside is on the wire."""
        return self.channel.layout(shape)

    def bits(self, shape):
        """Return the bits of the channel inside."""
        return self.channel.bits(shape)

    def listen(self, message):
        """Return what the receiver of the channel inside remembers."""
        return self.channel.listen(jnp.zeros_like(message))


@pytree_dataclass
class ErrorFeedback(_Around):
    """The remainder of a message is added to the next; build it with `error_feedback`."""

    channel: Channel = declared(_check_channel)
    step: jax.Array | None = declared(_check_step)  # shape=(): h; None is its default

    @property
    def in_order(self) -> bool:
        """Return the answer of the channel inside: a message stands for itself."""
        return self.channel.in_order

    def init(self, message):
        """Return that nothing is owed."""
        return Remainder(jnp.zeros_like(message), self.channel.init(jnp.zeros_like(message)))

    def encode(self, message, state, key):
        """Return h C(x + e), and what of x + e is not in it."""
        owed = message + state.error
        arrives, inner = self.channel.encode(owed, state.channel, key)
        arrives = self._scaled(arrives)
        return arrives, Remainder(owed - arrives, inner)

    def send(self, message, state, key):
        """Return the code of x + e, and what of x + e is not in it."""
        code, _ = self.channel.send(message + state.error, state.channel, key)
        return code, self.encode(message, state, key)[1]

    def receive(self, code, held, shape, dtype):
        """Return h times what the channel inside reads."""
        arrives, held = self.channel.receive(code, held, shape, dtype)
        return self._scaled(arrives), held

    def _scaled(self, arrives):
        omega = _omega(self.channel, arrives.shape)
        return _step(self.step, 1 / (1 + omega) if omega >= 1 else 1.0, arrives)


@pytree_dataclass
class Differences(_Around):
    """Changes travel against what the receiver knows; build it with `differences`."""

    channel: Channel = declared(_check_channel, argument="compressor")
    step: jax.Array | None = declared(_check_step)  # shape=(): h; None is its default

    @property
    def in_order(self) -> bool:
        """Return True: both ends must have added the same changes."""
        return True

    def init(self, message):
        """Return the message, which both ends know at the start."""
        return Held(message, self.channel.init(jnp.zeros_like(message)))

    def encode(self, message, state, key):
        """Return g + h C(x - g), which is what both ends know then."""
        change, inner = self.channel.encode(message - state.value, state.channel, key)
        value = state.value + self._scaled(change)
        return value, Held(value, inner)

    def send(self, message, state, key):
        """Return the code of x - g, and the new g."""
        code, _ = self.channel.send(message - state.value, state.channel, key)
        return code, self.encode(message, state, key)[1]

    def listen(self, message):
        """Return the message, which both ends know at the start."""
        return Held(message, self.channel.listen(jnp.zeros_like(message)))

    def receive(self, code, held, shape, dtype):
        """Return g plus h times the change that the channel inside reads."""
        change, inner = self.channel.receive(code, held.channel, shape, dtype)
        value = held.value + self._scaled(change)
        return value, Held(value, inner)

    def _scaled(self, change):
        return _step(self.step, 1 / (1 + _omega(self.channel, change.shape)), change)


def error_feedback(channel: Channel, step: ArrayLike | None = None) -> ErrorFeedback:
    r"""Build error feedback (EF14): what a message lost is added to the next one.

        p = x + e,    c = h C(p) arrives,    e+ = p - c,    e = 0 at the start

    so that all that has arrived and the remainder e are together all that was said, to rounding.
    Multiply messages by step sizes before, not after. Sums are right, single messages are not:
    where x settles, c goes on to vary around it.

    Args:
      channel: a compressor, whose code travels; or a channel around one.
      step: h, above 0 and at most 1. By default 1 where that makes the remainder contract on
        average, that is for contractive compressors and unbiased ones with omega < 1, as published;
        for other unbiased ones 1 / (1 + omega), without which the remainder grows without bound.

    Reference: S. P. Karimireddy, Q. Rebjock, S. U. Stich, M. Jaggi, "Error Feedback Fixes SignSGD
    and other Gradient Compression Schemes", ICML 2019, arXiv:1901.09847, algorithm 2.
    """
    return build(ErrorFeedback, **locals())


def differences(compressor: Channel, step: ArrayLike | None = None) -> Differences:
    r"""Build coded differences (EF21): changes travel against what the receiver knows.

        c = C(x - g) travels,    g+ = g + h c arrives

    g is at the start what `init` is given, which both ends know. For constant x and a contractive C
    with h = 1, E ||g+ - x||^2 <= (1 - a) ||g - x||^2; with `top_k(k)`, g = x after d / k messages
    at most. For an unbiased C with h = 1 / (1 + omega) the same holds with a = 1 / (1 + omega).
    Every message must arrive, and in order.

    Args:
      compressor: whose code travels.
      step: h, above 0 and at most 1. By default 1 for contractive compressors, and
        1 / (1 + omega) for unbiased ones: with 1 and omega >= 1, errors can grow.

    References: P. Richtarik, I. Sokolov, I. Fatkhullin, "EF21: A New, Simpler, Theoretically
    Better, and Practically Faster Error Feedback", NeurIPS 2021, arXiv:2106.05203, lemma 1 and
    algorithm 2; K. Mishchenko, E. Gorbunov, M. Takac, P. Richtarik, "Distributed Learning with
    Compressed Gradient Differences", arXiv:1901.09269.
    """
    return build(Differences, **locals())


def _omega(channel: Channel, shape: tuple[int, ...]) -> float:
    """Return the constant of an unbiased compressor; 0 for any other channel."""
    omega = getattr(channel, "omega", lambda shape: None)(shape)
    return 0.0 if omega is None else omega


def _step(given: jax.Array | None, default: float, value: jax.Array) -> jax.Array:
    """Return a step times a value, which stays as it is where the step is 1 by default."""
    if given is None:
        return value if default == 1 else default * value
    return given.astype(value.dtype) * value
