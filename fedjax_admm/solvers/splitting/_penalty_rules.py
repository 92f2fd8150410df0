"""Penalty parameters as objects: where rho_i of FedADMM, FedDR and FedDyn comes from.

A rule is an object in a solver's field. It has a part at the server, which remembers something and
sends it beside the model, and a part at the clients, which read that:

    first() -> rho                                        before the first round
    start(model, num_clients) -> memory                   at the server
    send(memory) -> pytree                                goes down beside the model
    read(sent, rho, local) -> rho, local, stretch         at the clients, before their work
    measure(local) -> RoundMessage                        goes up, of what their work has met
    update(memory, received, active, regularizer) -> memory       at the server, after a round
    mean(memory, received) -> centre, step                of FedADMM's server, with the new rho

A number in the field stands for `GivenPenalty`, which remembers and sends nothing. FedDR and FedDyn
ask two more things: `of_upload`, the rho_i of a client's upload, and `of_round`, the rho of the
server's step.
"""

from typing import Any, ClassVar, NamedTuple

import jax

from fedjax_admm._checks import declared, number, scalar
from fedjax_admm.solvers import _roles as roles


class PenaltyRule:
    """What chooses penalty parameters: one that remembers, sends and measures nothing."""

    fixed: ClassVar[bool] = False  # rho_i never changes, or follows from what the server sends
    looks_at_each: ClassVar[bool] = False  # the server reads every w_i and y_i, sent apart

    def first(self) -> Any:
        """Return rho before the first round, shape () or (clients,); None if not yet known."""
        raise NotImplementedError

    def start(self, model: jax.Array, num_clients: int) -> Any:
        """Return what the server remembers before the first round, for a model (dim,)."""
        return ()

    def send(self, memory: Any) -> Any:
        """Return what goes down beside the model."""
        return ()

    def read(self, sent: Any, rho: jax.Array, local: Any) -> tuple[jax.Array, Any, Any]:
        """Return rho_i, the memory, and how far y_i / rho_i may grow where rho_i falls.

        Args:
          sent: by the server, stacked.
          rho: of the last round, shape (clients,).
          local: the memory of the clients' local solver.

        Returns:
          The last one has the shape (clients,); it is None if dual variables stay as they are.
        """
        return rho, local, None

    def measure(self, local: Any) -> roles.RoundMessage:
        """Return what the clients say after their work."""
        return roles.RoundMessage()

    def update(
        self, memory: Any, received: roles.Received, active: jax.Array, regularizer: roles.Penalty
    ) -> Any:
        """Return what the server remembers after a round, of which `active` took part."""
        return memory

    def mean(self, memory: Any, received: roles.Received) -> tuple[jax.Array, jax.Array]:
        """Return `sum_i (rho_i w_i + y_i) / sum_i rho_i` and the prox's step `N / sum_i rho_i`."""
        return received.means[0], 1 / (received.weight / received.num_clients)


@roles.pytree_dataclass
class GivenPenalty(PenaltyRule):
    """Penalty parameters that stay what they are."""

    rho: Any  # jax.Array of shape () or (clients,)

    fixed: ClassVar[bool] = True

    def first(self):
        """Return rho."""
        return self.rho

    def of_upload(self, rho, before, after):
        """Return rho_i: it is that of the upload, too."""
        return rho

    def of_round(self, before, after):
        """Return rho."""
        return self.rho


class Server(NamedTuple):
    """What a server holds whose clients have penalty parameters."""

    model: jax.Array  # shape=(dim,)
    penalty: Any  # the memory of the rule


class PenaltySolver(roles.StarSolver):
    """A solver on a star with a rule for its penalty parameters."""

    rho: Any  # a number, or a rule
    regularizer: roles.Penalty

    @property
    def rule(self) -> Any:
        """Return the rule for rho."""
        return self.rho if hasattr(self.rho, "send") else GivenPenalty(self.rho)

    @property
    def fixed_weights(self) -> bool:
        """Return whether rho_i, the weights of uploads, never change."""
        return self.rule.fixed

    @property
    def looks_at_each(self) -> bool:
        """Return whether the rule does."""
        return self.rule.looks_at_each

    def start_server(self, model, num_clients) -> Server:
        """Start at the first model."""
        return Server(model, self.rule.start(model, num_clients))

    def broadcast(self, server: Server) -> tuple[jax.Array, Any]:
        """Send the model, and what the rule sends."""
        return server.model, self.rule.send(server.penalty)

    def model(self, server: Server) -> jax.Array:
        """Return the model."""
        return server.model

    def updated(self, server: Server, received: roles.Received, info: Any) -> Any:
        """Return the memory of the rule after a round."""
        return self.rule.update(server.penalty, received, info.active, self.regularizer)


def penalty_parameter(needed: str, *, stacked: bool = False, **declaration: Any) -> Any:
    """Declare a penalty parameter, or a step 1 / rho: a number, or a rule.

    Args:
      needed: the method that the solver's rules have.
      stacked: whether it may be one number per client.
      **declaration: `argument` and `curvature` of `declared`.
    """
    numeric: Any = number if stacked else scalar

    def check(name: str, value: Any) -> Any:
        rule = hasattr(value, needed) and not isinstance(value, type)
        return value if rule else numeric(name, value, above=0)

    return declared(check, **declaration)
