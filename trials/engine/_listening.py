"""Where the processes of a run listen: at the addresses that they were given, not everywhere."""

import socket
from functools import partial
from typing import Any

import jax

from fedjax_admm._checks import InputError

BIND = "JAX_COORDINATOR_BIND_ADDRESS"
"""JAX's variable for where process 0 listens, if not at the address that the others are given."""


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port) if port.isdecimal() else 0


def check_free(address: str) -> None:
    """Check that this process can listen at an address.

    Raises:
      InputError: it cannot.
    """
    host, port = _split(address)
    reason = "it has no address"
    try:
        for family, kind, _, _, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            try:
                with socket.socket(family, kind) as probe:
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                    probe.bind(place)
                    return
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
    except (OSError, UnicodeError, OverflowError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
    raise InputError(
        f"process 0 cannot listen at {address} ({reason})",
        value=address,
        remedy="name a free port and an address of its machine, or set the variable "
        f"{BIND} to the one where it shall listen",
    )


def here(address: str) -> str | None:
    """Return the address of this machine from which another one is reached; None if unknown."""
    host, port = _split(address)
    try:
        for family, _, _, _, place in socket.getaddrinfo(host, port or 1, type=socket.SOCK_DGRAM):
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect(place)  # sends nothing
                return probe.getsockname()[0]
    except (OSError, UnicodeError, OverflowError):
        return None
    return None


def gloo_at(address: str | None) -> None:
    """Have Gloo, which joins CPUs, listen at an address of this machine.

    JAX has no public option for it. By itself it listens at the address that the machine's own
    name stands for. Where this JAX makes its CPUs in another way than 0.10 does, it is left so.

    Args:
      address: where; None leaves it as it is.
    """
    try:
        from jax._src import distributed, xla_bridge
        from jax._src.lib import _jax  # pyright: ignore[reportPrivateImportUsage]

        make, listen = xla_bridge.make_cpu_client, _jax.make_gloo_tcp_collectives
        register = partial(xla_bridge.register_backend_factory, "cpu", priority=0)
    except (ImportError, AttributeError):
        return
    if address is None or jax.config.values["jax_cpu_collectives_implementation"] != "gloo":
        return

    def client() -> Any:
        joined = distributed.global_state.client
        if joined is None:
            return make()
        return make(listen(distributed_client=joined, hostname=address))

    register(client, fail_quietly=False)
