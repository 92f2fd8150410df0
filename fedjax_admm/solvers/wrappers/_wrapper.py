"""Base classes of wrappers: what they delegate to the wrapped solver."""

from typing import Any, Self

import jax
import jax.numpy as jnp

from fedjax_admm._checks import one_line, refuse
from fedjax_admm._run._noise import check_wrapped
from fedjax_admm.capabilities import check_capabilities
from fedjax_admm.messages import Exchange, Identity
from fedjax_admm.protocol import RoundInfo, Solver
from fedjax_admm.traffic import Traffic


class SolverWrapper:
    """A solver around another one, which takes part, sends and is checked as that does.

    The state of that one is the field `inner` of the state.
    """

    solver: Solver

    def checked(self, example: str) -> Self:
        """Return this, after checking that a public solver is inside; for builders."""
        methods = ("participants", "init", "step", "estimate", "messages")
        refuse(
            isinstance(self.solver, type)
            or not all(hasattr(self.solver, name) for name in methods),
            "solver",
            f"must be a solver such as {example}, but it is {one_line(self.solver)}",
        )
        check_wrapped(self)
        return self

    @property
    def exchange(self) -> Exchange:
        """Return what happens to the messages of the solver inside; nothing if it has none."""
        return getattr(self.solver, "exchange", Exchange())

    @property
    def regularizer(self) -> Any:
        """Return the regulariser of the solver inside, None if it has none."""
        return getattr(self.solver, "regularizer", None)

    @property
    def sums_losses(self) -> bool:
        """Return whether that stands beside the sum of the losses instead of their mean."""
        return getattr(self.solver, "sums_losses", False)

    def participants(self, problem: Any) -> tuple[int, ...]:
        """Return the mask of the solver inside."""
        return self.solver.participants(problem)

    def check(self, problem: Any, rounds: int) -> None:
        """Check what the solver inside checks."""
        check_capabilities(self.solver, problem)
        check = getattr(self.solver, "check", None)
        if check is not None:
            check(problem, rounds)

    def transmitting(self, info: Any) -> jax.Array:
        """Return who takes part and sends in a round, as the solver inside says."""
        transmitting = getattr(self.solver, "transmitting", None)
        return info.active if transmitting is None else transmitting(info)

    def client_models(self, state: Any) -> jax.Array:
        """Return the clients' models of the solver inside, or its estimate where it has none."""
        return getattr(self.solver, "client_models", self.solver.estimate)(state.inner)

    def client_slopes(self, state: Any) -> jax.Array | None:
        """Return the clients' subgradients of the solver inside, None where it has none."""
        slopes = getattr(self.solver, "client_slopes", None)
        return None if slopes is None else slopes(state.inner)

    def traffic(self, problem: Any) -> Traffic:
        """Return that of the solver inside."""
        return self.solver.traffic(problem)

    def messages(self, problem: Any, active: jax.Array) -> jax.Array:
        """Count those of the solver inside."""
        return self.solver.messages(problem, active)


class PersonalWrapper(SolverWrapper):
    """A solver around another one, whose clients fit something of their own to the model they read.

    They read the model that the server sends, so that it must arrive as it is.
    """

    def checked(self, example: str) -> Self:
        """Return this, after checking the solver inside and its channel down; for builders."""
        super().checked(example)
        down = self.exchange.down
        refuse(
            not isinstance(down, Identity),
            "solver",
            "must let models reach the clients as they are, because each client fits a part of "
            f"its own to them, but its exchange has {one_line(down)} on the way down",
            remedy="leave `down` out of its exchange",
        )
        return self

    def read(self, problem: Any, inner: Any) -> jax.Array:
        """Return the models that clients read at the begin of a round, shape (clients, dim)."""
        shared = self.solver.estimate(inner)
        return jnp.broadcast_to(shared, (problem.num_clients, shared.shape[-1]))

    def clients_round(self, problem: Any, info: RoundInfo) -> RoundInfo:
        """Return the round information of the clients alone, with a key of its own.

        A tree's mask has passes and servers, too: a client takes part that does so in any pass.
        """
        key = jax.random.fold_in(jax.random.clone(info.key), 1)
        active = jnp.any(info.active.reshape(-1, info.active.shape[-1]), 0)[: problem.num_clients]
        sampled = info.sampled if info.active.shape == active.shape else None
        return info._replace(key=key, active=active, sampled=sampled)
