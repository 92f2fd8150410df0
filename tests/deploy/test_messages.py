"""Malformed messages are refused in a sentence, and the server goes on as if none had come."""

import struct
import zlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from fedjax_admm import deploy, messages, solvers
from fedjax_admm.deploy._messages import HEADER_BYTES, Kind, Message, write
from tests.deploy.test_star import CLIENTS, KEY, problem

__all__ = ["problem"]

PLAIN = solvers.scaffold()
CODED = solvers.scaffold(exchange=messages.exchange(messages.rand_k(2)))


@pytest.fixture(scope="module", params=[pytest.param(PLAIN, marks=pytest.mark.thorough), CODED])
def opened(request, problem):
    """A server in round 2, a fresh and a former message of client 1, and those of the others."""
    server, clients = deploy.in_process(request.param, problem, KEY, rounds=1)
    former = clients[1].work(server.broadcast(1))
    for client in clients[2:]:
        server.receive(client.work(server.broadcast(client.number)))
    server.close_round()
    fresh = [client.work(server.broadcast(client.number)) for client in clients]
    return server, former, fresh


def sealed(data, at, fmt, value):
    """Return a message with a field of its header changed, and a checksum that fits again."""
    data = bytearray(data)
    struct.pack_into(fmt, data, at, value)
    rest = bytes(data[: HEADER_BYTES - 4]), bytes(data[HEADER_BYTES:])
    struct.pack_into(">I", data, HEADER_BYTES - 4, zlib.crc32(rest[1], zlib.crc32(rest[0])))
    return bytes(data)


def with_body(server, data, body):
    client, index, heard = struct.unpack_from(">III", data, 8)
    return write(Message(Kind.UP, client, index, heard, body), server._digest)


def hostile(server, former, fresh):
    """Yield malformed messages in the place of one of client 1, and words of the refusal."""
    good = fresh[1]
    body = good[HEADER_BYTES:]
    for length in (0, 3, HEADER_BYTES - 1):
        yield good[:length], "no message of fedjax-admm"
    yield b"GET / HTTP/1.1\r\n" * 10, "no message of fedjax-admm"
    yield bytes(1000), "no message of fedjax-admm"
    for cut in (1, 2, len(body)):
        yield good[:-cut], "cut off or too long"
    for more in (1, 100, 10**6):
        yield good + bytes(more), "cut off or too long"
    for version in (0, 2, 65535):
        yield sealed(good, 4, ">H", version), "version"
    for kind in (0, 1, 2, 3, 4, 99, 65535):
        yield sealed(good, 6, ">H", kind), "of kind"
    for client in (CLIENTS, 2**31, 2**32 - 1):
        yield sealed(good, 8, ">I", client), "is none of"
    for index in (0, 1, 3, 2**32 - 1):
        yield sealed(good, 12, ">I", index), "but round 2 is open"
    for length in (0, 2**40, 2**64 - 1):
        yield sealed(good, 20, ">Q", length), "cut off or too long"
    for at in (0, 7, 15):
        yield sealed(good, 28 + at, ">B", good[28 + at] ^ 255), "another solver"
    for at in (10, 30, HEADER_BYTES - 2, HEADER_BYTES, len(good) - 1):
        damaged = bytearray(good)
        damaged[at] ^= 16
        yield bytes(damaged), "damaged"
    yield former, "of round 1, but round 2 is open"
    yield with_body(server, good, b""), "0 bytes"
    yield with_body(server, good, body[:-1]), "bytes"
    yield with_body(server, good, body + b"\0"), "bytes"
    for number in (np.nan, np.inf, -np.inf):
        numbers = np.full(len(body) // 4, number, ">f4").tobytes()
        yield with_body(server, good, numbers), "not finite"


def test_malformed_messages_change_nothing(opened):
    server, former, fresh = opened
    server.receive(fresh[0], 0)
    before = (server.heard, server.bytes_up, jax.tree.leaves(server._state))
    cases = list(hostile(server, former, fresh))
    assert len(cases) >= 40
    for data, words in cases:
        with pytest.raises(deploy.MessageError, match=words):
            server.receive(data)
    with pytest.raises(deploy.MessageError, match="client 2 has sent a message as client 1"):
        server.receive(fresh[1], 2)
    with pytest.raises(deploy.MessageError, match="client 0 has been heard in this round already"):
        server.receive(fresh[0], 0)
    assert (server.heard, server.bytes_up) == before[:2]
    for x, y in zip(jax.tree.leaves(server._state), before[2], strict=True):
        assert x is y
    server.receive(fresh[1], 1)
    assert server.close_round() == (0, 1)
    assert jnp.all(jnp.isfinite(server.estimate))


def test_a_client_refuses_what_is_not_for_it(problem):
    server, clients = deploy.in_process(PLAIN, problem, KEY, rounds=1)
    old = server.broadcast(1)
    with pytest.raises(deploy.MessageError, match="is for client 1, but this is client 0"):
        clients[0].work(old)
    for client in clients:
        server.receive(client.work(server.broadcast(client.number)))
    server.close_round()
    clients[1].work(server.broadcast(1))
    with pytest.raises(deploy.MessageError, match="which its state does not know"):
        clients[1].work(old)
    other = deploy.Client(CODED, problem.take(jnp.array([1])), 1, CLIENTS, KEY)
    with pytest.raises(deploy.MessageError, match="another solver"):
        other.work(server.broadcast(1))


@pytest.mark.parametrize(
    "arrays", ["[[1e400]]", "[[Infinity]]", "[]", "[[-2, -3]]", "[[0]]", "[[2.5]]", '[["3"]]', "7"]
)
def test_shapes_of_a_first_message_are_checked(arrays, problem):
    study = deploy.Study.of(PLAIN, problem, KEY)
    server, clients = study.server(), [study.client(i) for i in range(CLIENTS)]
    for client in clients:
        server.receive(client.hello())
    server.start()
    others = '"groups": false, "beside": false, "weights": false'
    head = f'{{"said": {arrays}, "upload": {arrays}, {others}}}'.encode()
    body = len(head).to_bytes(4) + head
    with pytest.raises(deploy.MessageError, match="the first message"):
        server.receive(write(Message(Kind.READY, 0, 0, 0, body), server._digest), 0)
    assert server.heard == ()


def test_a_round_before_that_of_the_last_work_is_over(problem):
    """An old message changes nothing, also where the server has not heard the client since."""
    server, clients = deploy.in_process(PLAIN, problem, KEY, rounds=1)
    old = server.broadcast(1)
    for client in (clients[0], clients[2]):
        server.receive(client.work(server.broadcast(client.number)))
    server.close_round()
    fresh = clients[1].work(server.broadcast(1))
    with pytest.raises(deploy.MessageError, match="round 1 is over"):
        clients[1].work(old)
    server.receive(fresh, 1)
    server.close_round()
    clients[1].work(server.broadcast(1))
