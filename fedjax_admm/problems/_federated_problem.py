r"""A federated problem with a loss of the user's own, over any parameters and any samples.

    f_l(w) = c_l / M_l sum_j loss(w, sample_lj)          (or the sum without 1 / M_l)

Client l has M_l samples and the weight c_l. A loss of whole minibatches has those of B samples, in
the order of the data, in the place of the samples; what does not fill the last one is left out:

    f_l(w) = c_l / K_l sum_k loss(w, batch_lk),  K_l = floor(M_l / B).

A loss with a parameter `key` gets a key of its own for each term of the sum, see `terms_of`.

A loss with a parameter `state` returns its value and the state after it. All terms of a sum read
the client's state s_l of before, and the state after the sum is the mean of what they return,

    s_l <- mean over the terms j of s_lj,   (loss(w, sample_lj, s_l), s_lj)

of what is no floating array that of the first term. The gradient is that in w. A state stays with
its client, and changes where the client computes a gradient of it alone. With `average_state` every
client begins a round with the server's state instead, the mean of those that it received last.

Inside a solver a model is a vector of dim numbers, which `parameters` turns into the user's pytree.
The topology is a star, a tree or a graph.

Where only a part of the parameters travels, the points of a solver are that part. The rest is in
`private`, a row per client, which `with_private` changes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp

from fedjax_admm._checks import refuse
from fedjax_admm._pytrees import FlatLayout, pytree_dataclass
from fedjax_admm._threefry import fold_in, of_kind, one_loop
from fedjax_admm.capabilities import KeptStates, kept_states
from fedjax_admm.graphs import Graph
from fedjax_admm.kernels import safe_norm
from fedjax_admm.losses import clipped_mean
from fedjax_admm.problems._client_data import Client, ClientData
from fedjax_admm.problems._client_losses import (
    LOSS,
    at_client_state,
    client_value,
    client_value_and_state,
    of_an_epoch,
    parameter,
    present,
    terms_of,
    with_replacement,
)
from fedjax_admm.problems._inner import ProximalMap, minimize_by_lbfgs, prepared_rows
from fedjax_admm.problems._smoothing import Smoothing
from fedjax_admm.problems._streamed import in_groups, shaped
from fedjax_admm.trees import Tree

_SOLO_STEPS = 200  # iterations of L-BFGS of a client that learns on its own
_LATE = 1_000_000  # number of a call with the accuracy 0.1 / k = 1e-7


class Batch(NamedTuple):
    """Which minibatch: the number of a step within the draws of a key."""

    key: jax.Array  # a typed key
    step: jax.Array  # shape=(), int32


@dataclass(frozen=True)
class Difference:
    """A loss that is the difference of two convex functions."""

    convex: Callable[[Any, Any], jax.Array]
    concave: Callable[[Any, Any], jax.Array]

    def __call__(self, params: Any, sample: Any) -> jax.Array:
        """Return `convex - concave`."""
        return self.convex(params, sample) - self.concave(params, sample)


class MovingStates(NamedTuple):
    """The states of clients whose private parts move with every gradient."""

    own: Any  # a pytree (clients, ...): of the losses; None where they have none
    private: jax.Array  # shape=(clients, private_dim): h_l


@pytree_dataclass
class Federated:
    """Clients with samples and a loss of the user's own; build it with `federated`."""

    data: ClientData
    client_weights: jax.Array  # shape=(clients,): c_l
    start: jax.Array  # shape=(dim,), or (clients, dim) on a graph: what travels
    private: jax.Array  # shape=(clients, private_dim): what stays; private_dim is often 0
    proximal: ProximalMap
    smoothing: Smoothing
    tree: Tree | None  # a star where nothing else is given; None for some of all clients
    graph: Graph | None
    layout: FlatLayout
    held_out: Any  # a pytree of samples (samples, ...) by which models are judged; None: all data
    prepared: Any  # a pytree (clients, ...) that an exact prox gets in the place of the samples
    states: Any  # a pytree (clients, ...): s_l, or `MovingStates`; None of a loss without
    private_rate: Any  # shape=(): of private parts that move with each gradient; None if they stay
    prepare: Callable[..., Any] | None = field(metadata={"static": True})  # its function
    loss: Callable[..., jax.Array] = field(metadata={"static": True})
    score: Callable[[Any, Any], jax.Array] | None = field(metadata={"static": True})
    mean: bool = field(metadata={"static": True})  # over samples; else their sum
    batch_size: int | None = field(metadata={"static": True})
    epochs: bool = field(metadata={"static": True})  # minibatches without replacement
    batch: bool = field(metadata={"static": True})  # the loss is of minibatches, not of samples
    average_state: bool = field(metadata={"static": True})  # in every round; else it is private

    spread: ClassVar[tuple[str, ...]] = ("client_weights", "private", "prepared", "states")

    @property
    def num_clients(self) -> int:
        """Return the number of clients."""
        return self.client_weights.shape[0]

    @property
    def sizes(self) -> jax.Array:
        """Return the number of samples of every client, shape (clients,), int32."""
        return self.data.sizes

    @property
    def public_start(self) -> jax.Array:
        """Return the first models, which hold no data, of the shape of `start`."""
        return self.start

    # --- models -----------------------------------------------------------------------------------

    def parameters(self, points: jax.Array) -> Any:
        """Return the parameters of models: (..., dim) to a pytree of arrays (..., *shape).

        Points may hold the private part too. Where they do not, (clients, dim) are completed by
        each client's own, and one model (dim,) by every client's own: its arrays get an axis of
        clients.
        """
        whole = sum(self.layout.sizes)
        if points.shape[-1] != whole:
            rows = jnp.broadcast_to(points, (self.num_clients, points.shape[-1]))
            points = jnp.concatenate([rows, self.private], -1)
        return self.layout.tree(points)

    def with_static(self, params: Any) -> Any:
        """Return parameters whose static leaves are None with these, such as functions."""
        return self.layout.with_static(params)

    def with_private(self, private: jax.Array) -> "Federated":
        """Return the problem with other private parts, shape (clients, private_dim)."""
        return replace(self, private=private)

    def with_states(self, states: Any) -> "Federated":
        """Return the problem at other states of the clients, a pytree (clients, ...)."""
        private = states.private if isinstance(states, MovingStates) else self.private
        return replace(self, states=states, private=private)

    def averaged(self, states: Any, rows: Any, speaks: jax.Array) -> Any:
        """Return states whose floating arrays are, for all, the mean over those who send.

        Args:
          states: a pytree (clients, ...).
          rows: shape (drawn,), int32: those of whom `speaks` tells; all if None.
          speaks: bool: who sends. If nobody does, all stays.
        """
        own = states.own if isinstance(states, MovingStates) else states
        number = jnp.sum(speaks, dtype=jnp.int32)

        def mean(leaf: jax.Array) -> jax.Array:
            if not jnp.issubdtype(leaf.dtype, jnp.floating):
                return leaf
            heard = leaf if rows is None else leaf[rows]
            heard = jnp.where(jnp.expand_dims(speaks, range(1, leaf.ndim)), heard, 0)
            total = jnp.sum(heard, 0) / jnp.maximum(number, 1).astype(leaf.dtype)
            return jnp.where(number > 0, jnp.broadcast_to(total, leaf.shape), leaf)

        own = jax.tree.map(mean, own)
        return states._replace(own=own) if isinstance(states, MovingStates) else own

    def with_moving_private(self, rate: jax.Array) -> "Federated":
        """Return the problem whose private parts h_l are in the states, and move with gradients.

        `gradients_and_states` takes a step `h_l <- h_l - rate grad_h f_l(w_l, h_l)` at the same
        models, samples and keys as the gradient in w.
        """
        return replace(self, states=MovingStates(self.states, self.private), private_rate=rate)

    def with_data(self, data: ClientData) -> "Federated":
        """Return the problem with other samples of the same clients."""
        return replace(self, data=data, prepared=prepared_rows(self.prepare, data))

    def take(self, clients: jax.Array) -> "Federated":
        """Return the problem of some clients, (count,), int32; it stands on neither tree nor graph.

        A minibatch is what the same client would draw among all.
        """
        return replace(
            self,
            data=self.data.take(clients),
            client_weights=self.client_weights[clients],
            private=self.private[clients],
            prepared=jax.tree.map(lambda leaf: leaf[clients], self.prepared),
            states=jax.tree.map(lambda leaf: leaf[clients], self.states),
            start=self.start if self.start.ndim == 1 else self.start[clients],
            tree=None,
            graph=None,
        )

    def shaped(self) -> "Federated":
        """Return the problem for `jax.eval_shape`, with the shapes of samples on the host."""
        return shaped(self)

    def in_groups(self, function: Callable[["Federated"], Any]) -> Any:
        """Return `function(problem)`, with leading axes of clients; by groups from the host."""
        return in_groups(self, function)

    # --- losses -----------------------------------------------------------------------------------

    def values(self, points: jax.Array) -> jax.Array:
        """Return every client's loss at its own point, shape (clients,)."""
        return self._each(client_value(self.loss, self), points)

    def gradients(self, points: jax.Array, key: Any = None) -> jax.Array:
        """Return every client's gradient at its own point, a subgradient at a kink.

        Args:
          points: shape (clients, dim).
          key: with a typed key, or what `batches` made of one, the gradient is that of a minibatch
            where the problem has a batch size: `M_l / B` times the sum over its B samples, fewer
            in the last one of an epoch, or `K_l` times the loss of the minibatch. It is also where
            the keys of a loss come from.

        Returns:
          Shape (clients, dim).
        """
        value = client_value(self.loss, self)
        return self._each(jax.grad(value), points, draw=self._draw(key))

    def gradients_and_states(self, points: jax.Array, key: Any = None) -> tuple[jax.Array, Any]:
        """Return the gradients as `gradients` does, and the clients' states after them."""
        value, draw = client_value_and_state(self.loss, self), self._draw(key)
        if self.private_rate is None:
            return self._each(jax.grad(value, has_aux=True), points, draw=draw)
        both = jax.grad(value, (0, 3), has_aux=True)
        (slopes, private), states = self._each(both, points, draw=draw)
        moved = self.private - self.private_rate * private
        return slopes, MovingStates(states, moved)

    def gradients_of(
        self, loss: Callable[..., jax.Array], points: jax.Array, extra: jax.Array
    ) -> jax.Array:
        """Return the gradients of another loss `(params, sample, extra_l)`, shape (clients, dim).

        Args:
          loss: of one sample.
          points: shape (clients, dim).
          extra: shape (clients, ...).
        """

        def gradient(point, client, scale, private, mine):
            own = client_value(lambda params, sample: loss(params, sample, mine), self)
            return jax.grad(own)(point, client, scale, private)

        return self._each(gradient, points, extra)

    def private_gradients(self, points: jax.Array, key: Any = None) -> jax.Array:
        """Return the gradients in the private parts, shape (clients, private_dim)."""

        def gradient(point, client, scale, private):
            value = client_value(self.loss, self)
            return jax.grad(lambda mine: value(point, client, scale, mine))(private)

        return self._each(gradient, points, draw=self._draw(key))

    @property
    def exact_gradients(self) -> bool:
        """Whether gradients are of all samples and of no random loss: a key changes nothing."""
        return self.batch_size is None and parameter("key", self.loss) is None

    def batches(self, key: jax.Array, steps: int) -> Batch:
        """Return what `gradients` takes for each of some steps, stacked: (steps,)."""
        return Batch(jnp.broadcast_to(key, (steps,)), jnp.arange(steps, dtype=jnp.int32))

    def clipped_gradients(self, points: jax.Array, clip: jax.Array, key: Any = None) -> jax.Array:
        """Return the gradients with that of each sample shortened to `clip`, shape (clients, dim).

        It is `1 / M_l sum_j g_lj min(1, clip / ||g_lj||)`, g_lj the gradient of sample j, without
        the client's weight. Replacing a sample by any other changes it by `2 clip / M_l` at most,
        see `losses.clipped_mean`; a gradient that is not finite counts as zero.

        Raises:
          InputError: the loss is of minibatches.
        """
        told = "must be False where the gradient of each sample is clipped"
        refuse(self.batch, "batch", told, remedy="give the loss of a sample")

        def gradient(point, client, scale, private):
            loss, terms = terms_of(self.loss, client)

            def one(term):
                return jax.grad(lambda w: loss(self._read(w, private), term)[0])(point)

            here = present(client).astype(point.dtype)
            return clipped_mean(jax.vmap(one)(terms), here, clip, client.size)

        return self._each(gradient, points, draw=self._draw(key))

    def smoothed_gradients(self, points: jax.Array, mu: jax.Array) -> jax.Array:
        """Return the gradients of the losses smoothed with mu (clients,), shape (clients, dim)."""
        return self.smoothing.gradients(self, points, mu)

    def project(self, points: jax.Array) -> jax.Array:
        """Return the points: the parameters obey no constraint."""
        return points

    def scores(self, points: jax.Array) -> jax.Array:
        """Return the mean score of every client's model, shape (clients,).

        Over the held-out samples, where there are some; else over the client's own.

        Args:
          points: shape (clients, dim), or (dim,) for one model of all.

        Raises:
          InputError: the problem was built without `score`.
        """
        score = self.score
        told = "must be given to what builds the problem, as score(params, sample)"
        refuse(score is None, "score", told)
        assert score is not None

        def mean(point, client, scale, private):
            params, samples = self._read(point, private), self.held_out
            own = at_client_state(score, client.state)
            judged = client.samples if samples is None else samples
            scores = jax.vmap(own, (None, 0))(params, judged).astype(point.dtype)
            if samples is not None:
                return jnp.mean(scores)
            total = jnp.sum(jnp.where(present(client), scores, 0))
            return total / client.size.astype(point.dtype)

        alike = not self.private.size and self.states is None
        if points.ndim == 1 and self.held_out is not None and alike:
            scores = jax.vmap(score, (None, 0))(self.layout.tree(points), self.held_out)
            return jnp.broadcast_to(jnp.mean(scores.astype(points.dtype)), (self.num_clients,))
        return self._each(mean, jnp.broadcast_to(points, (self.num_clients, points.shape[-1])))

    # --- minimisation -----------------------------------------------------------------------------

    def prox_memory(self, start: jax.Array) -> Any:
        """Return what the prox remembers before the first round, for models (clients, dim)."""
        memory, kept = jax.vmap(self.proximal.memory)(start), kept_states(self)
        return (memory, kept) if kept else memory

    def prox(self, points: jax.Array, step: jax.Array, memory: Any) -> tuple[jax.Array, Any]:
        """Return `argmin_w f_l(w) + ||w - x_l||^2 / (2 step_l)` for every client, and the memory.

        Args:
          points: shape (clients, dim).
          step: shape (clients,), positive.
          memory: what the last call returned, or `prox_memory`.

        Returns:
          The models, exact or inexact as the problem was built, and the memory. States of the
          clients stay as they are while the models are sought, and change once, at these.
        """
        if not kept_states(self):
            return self._prox_of(self.loss, points, step, memory)
        memory, (states,) = memory
        there = self.with_states(states)
        models, memory = there._prox_of(self.loss, points, step, memory)
        return models, (memory, KeptStates(there.gradients_and_states(models)[1]))

    def prox_convex_part(self, points: jax.Array, step: jax.Array) -> jax.Array:
        """Return the prox of the convex part, which is the loss where it is no difference.

        An inexact one begins at the points, and is as accurate as a late call of `prox`.
        """
        convex = self.loss.convex if isinstance(self.loss, Difference) else self.loss
        return self.lone_prox(points, step, convex)

    def prox_concave_part(self, points: jax.Array, step: jax.Array, mu: jax.Array) -> jax.Array:
        """Return `argmin_z -e_l(z) + ||z - x_l||^2 / (2 step_l)`, e_l the envelope of phi_l.

        With phi_l the function that is subtracted, `e_l(z) = min_u phi_l(u) + ||z - u||^2 /
        (2 mu_l)`, it is `(mu_l x_l - step_l p_l) / (mu_l - step_l)`, `p_l = Prox_phi(x_l;
        mu_l - step_l)`; where nothing is subtracted it is x_l.

        Args:
          points: shape (clients, dim).
          step: shape (clients,), positive, below mu.
          mu: shape (clients,).
        """
        if not isinstance(self.loss, Difference):
            return points
        rest = mu - step
        nearest = self.lone_prox(points, rest, self.loss.concave)
        return (mu[:, None] * points - step[:, None] * nearest) / rest[:, None]

    def minimizers(self) -> jax.Array:
        """Return what 200 iterations of L-BFGS find on every client alone, shape (clients, dim)."""
        value = client_value(self.loss, self)

        def alone(start, client, scale, private):
            def objective(w):
                return value(w, client, scale, private)

            return minimize_by_lbfgs(objective, start, _SOLO_STEPS, jnp.zeros((), start.dtype))[0]

        start = jnp.broadcast_to(self.start, (self.num_clients, self.start.shape[-1]))
        return self._each(alone, start)

    def typical_norm(self) -> jax.Array:
        """Return the median length of a model that a client learns on its own, shape ()."""
        return jnp.median(safe_norm(self.minimizers()))

    # --- one client -------------------------------------------------------------------------------

    def _each(self, function: Callable[..., Any], *rows: Any, draw: Any = None) -> Any:
        """Return `function(row, client, scale, private, *others)` for every client.

        Rows of whole models, as personal ones are, bring their private parts with them.
        """
        points, *others = rows
        private, dim = self.private, self.start.shape[-1]
        states = self.states.own if isinstance(self.states, MovingStates) else self.states
        if points.shape[-1] > dim:
            points, private = points[:, :dim], points[:, dim:]

        def one(client, weight, private, state, row, *others):
            client = client._replace(state=state)
            number = self._number_of_terms(client.size).astype(weight.dtype)
            scale = weight / number if self.mean else weight
            client, scale = (client, scale) if draw is None else draw(client, scale)
            return function(row, client, scale, private, *others)

        return self.data.each(one, self.client_weights, private, states, points, *others)

    def _read(self, point: jax.Array, private: jax.Array) -> Any:
        return self.layout.tree(jnp.concatenate([point, private]))

    def _number_of_terms(self, size: Any) -> Any:
        """Return of how many losses the sum over so many samples consists."""
        return size // self.batch_size if self.batch else size

    def _draw(self, key: Any) -> Callable[[Client, jax.Array], tuple[Client, jax.Array]] | None:
        """Return a function that reduces a client to its minibatch, and scales its sum.

        It also gives the client the key of its losses, if they take one.
        """
        if key is None or self.exact_gradients:
            return None
        random = parameter("key", self.loss) is not None
        batch = key if isinstance(key, Batch) else Batch(key, jnp.zeros((), jnp.int32))
        size, choose = self.batch_size, partial(of_an_epoch, whole=self.batch)
        if not self.epochs:
            choose = with_replacement

        def draw(client: Client, scale: jax.Array) -> tuple[Client, jax.Array]:
            own = jax.random.fold_in(one_loop(batch.key), client.number)
            if random:
                key = fold_in(fold_in(own, LOSS), batch.step)
                client = client._replace(key=of_kind(batch.key, key))
            if size is None:
                return client, scale
            places, drawn = choose(own, batch.step, client, size)
            samples = jax.tree.map(lambda leaf: leaf[places], client.samples)
            share = self._number_of_terms(client.size).astype(scale.dtype)
            share /= self._number_of_terms(drawn).astype(scale.dtype)
            return client._replace(samples=samples, size=drawn), scale * share

        return draw

    def lone_prox(self, points: jax.Array, step: jax.Array, loss: Any = None) -> jax.Array:
        """Return one prox without memory: begun at the points, as accurate as a late call."""
        memory = jax.vmap(lambda point: self.proximal.memory(point, _LATE))(points)
        return self._prox_of(self.loss if loss is None else loss, points, step, memory)[0]

    def _prox_of(self, loss, points, step, memory) -> tuple[jax.Array, Any]:
        value = client_value(loss, self)

        def one(point, client, scale, private, step, memory, weight, prepared):
            return self.proximal(
                lambda w: value(w, client, scale, private),
                *(point, step, memory),
                *(client.samples if prepared is None else prepared, client.size, weight),
            )

        return self._each(one, points, step, memory, self.client_weights, self.prepared)
