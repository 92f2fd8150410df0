"""Training of one network per group of nodes, on data that lie together or at a node alone.

Two things can keep a network from what it could do, and the measures tell them apart:

    stationarity  ||gradient|| / ||gradient at the start||, of the mean loss of a group's training
                  images; the largest of all groups. A fit that has converged has a small one.
    silent        the share of networks in which no training image of theirs activates a hidden
                  unit. They give all images the same outputs, and their gradient is zero but for
                  the last biases: they are stationary, and for ever.

A fit from one start is neither sure to converge nor to stay alive. One from several starts goes on
with all of them, and takes at every record the one of least loss, group by group.
"""

from collections.abc import Callable
from dataclasses import field
from typing import Any

import jax
import jax.numpy as jnp
import optax

from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.kernels import safe_norm, safe_ratio
from fedjax_admm.trials.experiments._methods import Method, recorded, recorded_rounds
from fedjax_admm.trials.results import NONFINITE_ROUND

BOOST = 3.0
"""How many times a node's rate a converging fit begins with; it falls to zero (half a cosine)."""

ENOUGH = 2e-4
"""Mean cross entropy at which a converging fit ends. Below log(2) / m all m images are classified
correctly, since a misclassified one costs log(2) or more: so it is for up to 3,465 images."""


@pytree_dataclass
class Training(Method):
    """One network per group, as a node trains: from its start, with its steps and its rate."""

    groups: int = field(metadata={"static": True})  # of equally many nodes each, in their order
    view: Callable[[Any], Any] | None = field(default=None, metadata={"static": True})

    def __call__(self, problem, key, rounds, every):
        """Return the accuracies and both measures; the first non-finite record is the round."""
        problem = problem if self.view is None else self.view(problem)
        steps = self._steps(problem)
        optimizer = problem.local.optimizer(self._rate(problem, rounds * steps))
        images, labels = self._gathered(problem)
        starts = self._starts(problem)

        def losses(models):
            one = jax.vmap(problem.network, (None, 0, 0))
            of_groups = jax.vmap(lambda w, x, y: jnp.mean(one(w, x, y)))
            return jax.vmap(of_groups, (0, None, None))(models, images, labels)

        slopes = jax.grad(lambda models: jnp.sum(losses(models)))
        first_slopes = safe_norm(slopes(starts))

        def step(carry, _):
            models, state = carry
            with jax.numpy_dtype_promotion("standard"):  # optax adds counts to floats
                update, state = optimizer.update(slopes(models), state, models)
            return (models + update, state), None

        def train(carry):
            return jax.lax.scan(step, carry, length=steps)[0]

        def one_round(carry, _):
            ended = self._ended(losses(carry[0]))
            return jax.lax.cond(ended, lambda carry: carry, train, carry), None

        def advance(carry, rounds, every):
            def record(carry, _):
                carry, _ = jax.lax.scan(one_round, carry, length=every)
                models = carry[0]
                best = jnp.argmin(losses(models), 0)[None, :, None]
                chosen = jnp.take_along_axis(models, best, 0)[0]
                size = safe_ratio(safe_norm(slopes(models)), first_slopes)
                measured = problem.accuracies(self._of_nodes(problem, chosen))
                stationarity = jnp.max(jnp.take_along_axis(size, best[..., 0], 0))
                bad = ~jnp.all(jnp.isfinite(chosen))
                return carry, {**measured, "stationarity": stationarity, "bad": bad}

            return jax.lax.scan(record, carry, length=rounds // every)

        _, trace = recorded(advance, (starts, optimizer.init(starts)), rounds, every)
        bad = trace.pop("bad")
        done = jnp.asarray(recorded_rounds(rounds, every), jnp.int32)
        return {**trace, NONFINITE_ROUND: jnp.where(jnp.any(bad), done[jnp.argmax(bad)], 0)}

    def _steps(self, problem: Any) -> int:
        return problem.local.steps

    def _rate(self, problem: Any, steps: int) -> Any:
        return problem.local.rate

    def _ended(self, losses: jax.Array) -> Any:
        """Return whether no further round is trained, by the losses (starts, groups)."""
        return False

    def _starts(self, problem: Any) -> jax.Array:
        """Return the first models, shape (starts, groups, dim)."""
        return problem.start[None, : self.groups]

    def _gathered(self, problem: Any) -> tuple[jax.Array, jax.Array]:
        """Return each group's training images (groups, images, pixels) and their labels."""
        images, labels = problem.local.features, problem.local.targets
        return (
            images.reshape(self.groups, -1, images.shape[-1]),
            labels.reshape(self.groups, -1),
        )

    def _of_nodes(self, problem: Any, models: jax.Array) -> jax.Array:
        """Return every node's model: that of its group, (groups, dim) to (nodes, dim)."""
        return jnp.repeat(models, problem.num_clients // self.groups, 0)


@pytree_dataclass
class ConvergingTraining(Training):
    """One network per group, trained from several starts with more steps and a falling rate.

    Training ends before a round in which the best start of every group has a mean cross entropy
    below `ENOUGH`. Where a network can tell the groups' images apart, the cross entropy has no
    minimum: further steps scale the outputs and lower it for ever.
    """

    steps: int = field(default=40, metadata={"static": True})  # in a round

    def _steps(self, problem: Any) -> int:
        return self.steps

    def _rate(self, problem: Any, steps: int) -> Any:
        return optax.cosine_decay_schedule(BOOST * problem.local.rate, steps)

    def _ended(self, losses: jax.Array) -> Any:
        return jnp.all(jnp.min(losses, 0) < ENOUGH)

    def _starts(self, problem: Any) -> jax.Array:
        return jnp.repeat(problem.starts[:, None], self.groups, 1)
