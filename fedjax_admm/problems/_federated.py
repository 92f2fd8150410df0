"""Building a federated problem from a user's own loss, data and parameters, with all its checks."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import (
    count,
    default_float,
    flag,
    function_of,
    instance,
    is_concrete,
    one_line,
    one_of,
    per_client,
    refuse,
    refuse_entries,
    shapes_of,
)
from fedjax_admm._host._programs import compiled
from fedjax_admm.graphs import Graph
from fedjax_admm.problems._client_arrays import (
    client_data,
    first_row,
    held_out_samples,
    one_client,
    one_sample,
)
from fedjax_admm.problems._client_losses import at_client_state, parameter
from fedjax_admm.problems._federated_problem import Difference, Federated
from fedjax_admm.problems._inner import as_inner, exact_prox, prepared_rows
from fedjax_admm.problems._layouts import flat_layout, shapes_of_parameters
from fedjax_admm.problems._smoothing import Smoothing, as_smoothing
from fedjax_admm.problems._streamed import StreamedData
from fedjax_admm.trees import Tree, star

Loss = Callable[..., jax.Array]


def federated(
    loss: Loss | tuple[Loss, Loss],
    data: Any,
    start: Any,
    *,
    topology: Tree | Graph | None = None,
    weights: str | ArrayLike = "mean",
    batch_size: int | None = None,
    sampling: str = "epochs",
    batch: bool = False,
    prox: Callable[..., Any] | None = None,
    prepare: Callable[..., Any] | None = None,
    optimizer: Any = None,
    smoothing: Callable[..., jax.Array] | Smoothing | None = None,
    shared: str | int | Sequence[str | int] | None = None,
    train: Any = None,
    score: Loss | None = None,
    held_out: Any = None,
    state: Any = None,
    average_state: bool = False,
    mask: ArrayLike | None = None,
    sizes: ArrayLike | None = None,
) -> Federated:
    """Build a federated problem from a loss of one's own.

    Args:
      loss: `loss(params, sample) -> scalar`, any JAX function; or two of them, (convex, concave),
        whose difference is the loss. A parameter `key`, as for dropout, gets a typed key of its own
        for each client, step and sample, from the key of the round, whoever else is computed. What
        has no such key, which are values, measures and proximal maps, leaves it at its default; if
        it has none, it gets a key that is the same in all calls. A parameter `state` gets the
        client's state, such as running statistics, and the loss returns `(value, state)`: the
        value, and the state after it.
      data: the clients' samples. A list holds a pytree per client, whose arrays have a leading
        axis of samples; the clients may have different numbers of them. Any other pytree is
        stacked: its arrays have the axes (clients, samples, ...), and `mask` marks the samples
        that count. A function makes a client's pytree from its number, a traced int32, each time
        that it is needed; `sizes` has the numbers of samples. `streamed(data)` leaves all these on
        the host, a function gets an int there, and a round has those of the clients drawn.
      start: the first parameters, a pytree of floating arrays of one dtype, which is that of the
        run and not narrower than the data's. In a module, such as one of Equinox or Flax, what is
        no floating array stays as it is, and the result is a module again. They hold no data:
        private solvers begin there too.
      topology: a tree with the clients as leaves, or a graph with the clients as nodes; a star if
        None.
      weights: "mean" or "sum" over a client's samples; "samples", the mean times the client's share
        of all samples (averaging 1 over clients); or a weight per client of the mean, shape
        (clients,), positive.
      batch_size: samples in a minibatch, drawn from the round's key; all samples if None.
      sampling: "epochs", every sample once per epoch, in a new order, and a new epoch in every
        round: a client of M samples passes its data in `ceil(M / batch_size)` steps, and the last
        minibatch of an epoch has those that are left; or "replacement", independent draws.
      batch: whether `loss(params, batch) -> scalar` is of a whole minibatch, for contrastive losses
        and batch statistics; its arrays have the axes (batch_size, ...). The loss of a client is
        the mean over its minibatches in the order of the data, without the samples that fill none;
        `weights="sum"` is their sum. A `key` is one for the minibatch.
      prox: `prox(params, step, client_data)`, the exact minimiser of the client's loss, without
        its weight in `weights`, plus `||z - params||^2 / (2 step)`. A fourth argument gets the
        number of the client's samples; the arrays are padded after them. A function of two
        arguments, such as a kernel, is taken too.
      prepare: `prepare(client_data) -> pytree`, such as a factorisation, is computed once for each
        client, and `prox` gets the result in the place of the samples. The shapes of its arrays do
        not depend on the number of samples, which a second argument gets.
      optimizer: the inner solver where the prox is not known: `inner_lbfgs(...)`,
        `inner_steps(optimizer, ...)`, or an optax optimiser, which takes ten steps;
        `inner_lbfgs()` if None.
      smoothing: `smoothed_loss(params, sample, mu) -> scalar`, `randomized_smoothing()` or
        `moreau_smoothing()`; none if None, which suits smooth losses.
      shared: names (or numbers) of the entries of `start` that travel; the others are each client's
        own, and `solvers.personal` learns them. All travel if None.
      train: which arrays of `start` are trained: `train(path) -> bool` of a path such as
        "layers/0/weight", or a pytree of bools of the structure of `start` or of its beginning.
        Only these travel; the others stay as they are, of any dtype. All floating arrays if None.
      score: `score(params, sample) -> scalar` by which models are judged, such as 1 where the class
        is right; for `measures.accuracy`. A parameter `state` gets the client's present state.
      held_out: samples for it, a pytree whose arrays have a leading axis of samples; the clients'
        own if None.
      state: the state of a client before the first round, a pytree of arrays, for a loss that has
        one. Floating arrays get the dtype of the parameters. The samples of a minibatch read the
        same state; the one after it is the mean of what they return. It is private: it changes
        where the client computes gradients in a round, and is never sent.
      average_state: whether states travel with the models. After each round, all clients have the
        plain mean of the states of those who sent in it; what is no floating array stays private.
        States travel as they are, past the solver's exchange.
      mask: bool, shape (clients, samples), for stacked data; all samples count if None.
      sizes: shape (clients,), for data that a function makes.
    """
    one_of("sampling", sampling, ("epochs", "replacement"))
    layout, first, private = flat_layout(start, shared, train)
    start = shapes_of_parameters(layout, start)
    loss_function = _loss(loss)
    clients = client_data(data, mask, sizes, first.dtype)
    number = clients.sizes.shape[0]
    _check_topology(topology, number)
    sample = jax.eval_shape(one_sample, clients)
    size = None if batch_size is None else count("batch_size", batch_size)
    refuse(batch and size is None, "batch_size", "must be given for a loss of minibatches")
    own = _first_state(loss_function, state, first.dtype)
    refuse(average_state and own is None, "average_state", "is for a loss with a {state}")
    _check_loss(loss_function, start, sample, own, size if batch else None)
    judged = None if held_out is None else held_out_samples(held_out, first.dtype)
    if score is not None:
        known = at_client_state(score, own)
        function_of("score", known, "params", "sample")
        _check_scalar("score", known, start, sample)
        if judged is not None:
            held = jax.eval_shape(first_row, judged)
            _check_scalar("score", known, start, held, "held-out sample")
    proximal = _in_dtype(as_inner(optimizer), first.dtype)
    lone = prepare is not None and prox is None
    refuse(lone, "prepare", "is for a prox of one's own", remedy="give prox as well")
    prepared = prepared_rows(prepare, clients)
    if prox is not None:
        refuse(optimizer is not None, "optimizer", "goes without {prox}, which needs none")
        told = "must be None where only a part of the parameters travels"
        refuse(shared is not None, "prox", told, remedy="take an inner solver")
        known = jax.eval_shape(one_client, clients) if prepare is None else first_row(prepared)
        proximal = exact_prox(prox, layout, first, known)
    graph = topology if isinstance(topology, Graph) else None
    if graph is not None:
        first = jnp.broadcast_to(first, (number, *first.shape))
    problem = Federated(
        data=clients,
        client_weights=_client_weights(weights, clients.sizes, first.dtype),
        start=first,
        private=jnp.broadcast_to(private, (number, *private.shape)),
        proximal=proximal,
        smoothing=_in_dtype(as_smoothing(smoothing), first.dtype),
        tree=topology if isinstance(topology, Tree) else star(number),
        graph=graph,
        held_out=judged,
        prepared=prepared,
        states=jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (number, *leaf.shape)), own),
        private_rate=None,
        prepare=prepare,
        loss=loss_function,
        score=score,
        layout=layout,
        mean=not (isinstance(weights, str) and weights == "sum"),
        batch_size=size,
        epochs=sampling == "epochs",
        batch=batch,
        average_state=flag("average_state", average_state),
    )
    _check_batch(problem)
    _check_start(problem)
    return problem


def _loss(loss: Any) -> Loss:
    if isinstance(loss, tuple) and len(loss) == 2 and all(map(callable, loss)):
        return Difference(*loss)
    kind = "a function loss(params, sample), or two whose difference is the loss"
    refuse(not callable(loss), "loss", f"must be {kind}", loss)
    function = cast(Loss, loss)
    if parameter("key", function) is None and parameter("state", function) is None:
        function_of("loss", function, "params", "sample")
    return function


def _first_state(loss: Loss, state: Any, dtype: Any) -> Any:
    """Return the state of a client before the first round, in arrays; None of a loss without."""
    asks = parameter("state", loss) is not None
    refuse(asks and state is None, "state", "must be given for a loss with a parameter state")
    told, remedy = "is for a loss with a parameter state", "write loss(params, sample, state)"
    refuse(not asks and state is not None, "state", told, remedy=remedy)
    return _in_dtype(jax.tree.map(jnp.asarray, state), dtype)


def _check_loss(loss: Loss, start: Any, sample: Any, state: Any, batch_size: int | None) -> None:
    """Check that a loss returns one floating number for a sample or a minibatch, and its state."""
    if parameter("key", loss) is not None:
        loss = partial(loss, key=jax.random.key(0))
    called = "sample" if batch_size is None else "minibatch"
    if batch_size is not None:
        sample = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct((batch_size, *leaf.shape), leaf.dtype), sample
        )
    if state is None:
        return _check_scalar("loss", loss, start, sample, called)
    both = at_client_state(loss, state)
    result = shapes_of("loss", both, {"parameters": start, f"one {called}": sample})
    pair = isinstance(result, tuple) and len(result) == 2
    refuse(not pair, "loss", f"must return (value, state), but it returns {one_line(result)}")
    wanted, returned = (jax.tree.map(lambda leaf: leaf.shape, tree) for tree in (state, result[1]))
    told = f"must return a state of the shapes {one_line(wanted)}, but it returns"
    refuse(returned != wanted, "loss", f"{told} {one_line(returned)}")
    return _check_scalar("loss", lambda params, rows: both(params, rows)[0], start, sample, called)


def _check_scalar(
    name: str, function: Any, start: Any, sample: Any, called: str = "sample"
) -> None:
    """Check that a loss or a score returns one floating number for a sample or a minibatch."""
    output = shapes_of(name, function, {"parameters": start, f"one {called}": sample})
    leaves = jax.tree.leaves(output)
    single = len(leaves) == 1 and leaves[0] is output and output.shape == ()
    floating = single and (name == "score" or jnp.issubdtype(output.dtype, jnp.floating))
    shown = one_line(jax.tree.map(lambda leaf: f"{leaf.dtype}{list(leaf.shape)}", output))
    told = f"must return one floating number for one {called}, but it returns {shown}"
    refuse(not floating, name, told)


def _check_topology(topology: Any, clients: int) -> None:
    if topology is not None:
        instance("topology", topology, (Tree, Graph), "a tree or a graph of fedjax_admm")
        on_tree = isinstance(topology, Tree)
        number = topology.num_clients if on_tree else topology.num_nodes
        told = f"must have as many leaves or nodes as there are clients ({clients}), but it has"
        refuse(number != clients, "topology", f"{told} {number}")


def _client_weights(weights: Any, sizes: jax.Array, dtype: Any) -> jax.Array:
    if isinstance(weights, str):
        one_of("weights", weights, ("mean", "sum", "samples"))
        if weights == "samples":
            numbers = sizes.astype(default_float())
            return (numbers / jnp.mean(numbers)).astype(dtype)
        return jnp.asarray(np.ones(sizes.shape[0], dtype))
    return per_client("weights", weights, sizes.shape[0]).astype(dtype)


def _in_dtype(part: Any, dtype: Any) -> Any:
    """Return an inner solver or a smoothing with its numbers in the dtype of the parameters."""

    def cast_leaf(leaf: Any) -> Any:
        array = jnp.asarray(leaf)
        return array.astype(dtype) if jnp.issubdtype(array.dtype, jnp.floating) else leaf

    return jax.tree.map(cast_leaf, part)


def _check_batch(problem: Federated) -> None:
    if problem.batch and is_concrete(problem.sizes):
        sizes = np.asarray(problem.sizes)
        told = f"must be at most {sizes.min()}, the samples of client {sizes.argmin()}"
        small = sizes.min() < problem.batch_size
        refuse(small, "batch_size", told, problem.batch_size, remedy="take less")


def _check_start(problem: Federated) -> None:
    """Check that all losses are finite at the start, where that can be computed.

    Of streamed clients only the first one is read.
    """
    if is_concrete(problem):
        if isinstance(problem.data, StreamedData):
            problem = problem.take(jnp.zeros(1, jnp.int32))
        values = np.asarray(_values_at_start(problem))
        told, remedy = "must be finite at the start", "look at the data, or begin elsewhere"
        refuse_entries(~np.isfinite(values), "loss", told, values, remedy, ", but that of client")


@compiled
def _values_at_start(problem: Federated) -> jax.Array:
    points = jnp.broadcast_to(problem.start, (problem.num_clients, problem.start.shape[-1]))
    return problem.values(points)
