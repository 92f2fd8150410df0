"""Capabilities of clients: one name, one signature and one meaning for every method.

A capability is a `typing.Protocol`, whose members a problem has or has not. Solvers list in
`requires` all that they use; measures and direct methods declare it with a decorator:

    @needs(KnownTarget)
    def localization_error(solver, problem, state): ...

One sentence names what is missing before anything is traced. A problem has a capability if it has
every member, and no datum of it is None; its class needs no base. A new capability is a Protocol
class with its members.

**Shapes.** Points are stacked, `(clients, dim)`: row l is the point of client l, and so is row l of
what comes back. Numbers per client (steps, smoothing) have shape `(clients,)`.
"""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
