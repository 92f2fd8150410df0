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


def forged(data, at, fmt, value):
    """Return a message with a field changed by somebody who has no study; its checksum fits."""
    data = bytearray(data)
    struct.pack_into(fmt, data, at, value)
    rest = bytes(data[: HEADER_BYTES - 4]), bytes(data[HEADER_BYTES:])
    struct.pack_into(">I", data, HEADER_BYTES - 4, zlib.crc32(rest[1], zlib.crc32(rest[0])))
    return bytes(data)


def sealed(end, data, **changes):
    """Return a message that was changed by somebody who has the study."""
    message = Message(*struct.unpack_from(">HIII", data, 6), data[HEADER_BYTES:])
    return write(message._replace(**changes), end._digest)


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
    for version in (0, 1, 65535):
        yield forged(good, 4, ">H", version), "version"
    for kind in (0, 1, 2, 3, 4, 99, 65535):
        yield sealed(server, good, kind=kind), "of kind"
    for client in (CLIENTS, 2**31, 2**32 - 1):
        yield sealed(server, good, client=client), "is none of"
    for index in (1, 3, 2**30 - 1):
        yield sealed(server, good, round=index), "but round 2 is open"
    for index, heard in [(0, 1), (2**30, 1), (2**32 - 1, 1), (2, 3), (2, 2**32 - 1)]:
        yield sealed(server, good, round=index, heard=heard), "the message is of round"
    for length in (0, 2**40, 2**64 - 1):
        yield forged(good, 20, ">Q", length), "cut off or too long"
    for at, fmt, value in [(6, ">H", 4), (8, ">I", 0), (12, ">I", 1), (16, ">I", 0)]:
        yield forged(good, at, fmt, value), "another solver.* or was forged"
    for at in (28, 35, 43, HEADER_BYTES, len(good) - 1):
        yield forged(good, at, ">B", good[at] ^ 255), "another solver.* or was forged"
    for at in (10, 30, HEADER_BYTES - 2, HEADER_BYTES, len(good) - 1):
        damaged = bytearray(good)
        damaged[at] ^= 16
        yield bytes(damaged), "damaged"
    yield former, "of round 1, but round 2 is open"
    for other in (b"", body[:-1], body + b"\0"):
        yield sealed(server, good, body=other), f"{len(other)} bytes"
    for number in (np.nan, np.inf, -np.inf):
        numbers = np.full(len(body) // 4, number, ">f4").tobytes()
        yield sealed(server, good, body=numbers), "not finite"


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
    with pytest.raises(deploy.MessageError, match="round 1 is over"):
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


def remembered(client):
    return [*jax.tree.leaves(client._states), client._base]


@pytest.mark.kin(1)
@pytest.mark.parametrize(
    "solver", [PLAIN, CODED, solvers.prox_skip()], ids=["plain", "coded", "replies"]
)
def test_forged_and_replayed_broadcasts_change_nothing(solver, problem):
    """Of the first model, of rounds to come and of rounds that are over."""
    study = deploy.Study.of(solver, problem, KEY)
    server, clients = study.server(), [study.client(i) for i in range(CLIENTS)]
    for client in clients:
        server.receive(client.hello())
    first = server.start()
    for client in clients:
        server.receive(client.begin(first[client.number]))
    old = []
    for index in range(3):
        sent = [server.broadcast(client.number) for client in clients]
        for client, data in zip(clients, sent, strict=True):
            server.receive(client.work(data))
        good, before = sent[1], remembered(clients[1])
        attacks = [
            (clients[1].begin, first[1], "the rounds have begun"),
            (clients[1].work, sent[2], "is for client 2"),
            (clients[1].work, first[1], "of kind 2"),
            (clients[1].finish, good, f"round {index} is over"),
            (clients[1].work, forged(good, 12, ">I", index + 1), "forged"),
            (clients[1].work, forged(good, 12, ">I", 2**32 - 1), "forged"),
            (clients[1].work, forged(good, 16, ">I", index + 1), "forged"),
            (clients[1].work, forged(good, 28, ">B", good[28] ^ 1), "forged"),
            # Who has the study can write these, but nobody can mean them.
            (clients[1].work, sealed(server, good, round=2**32 - 1), "rounds are below"),
            (clients[1].work, sealed(server, good, heard=index + 7), "the round heard comes"),
            (clients[1].finish, sealed(server, good, round=2**30), "rounds are below"),
        ]
        attacks += [(clients[1].work, data, "is over") for data in old]
        if not solver.replies:
            short = sealed(server, good, round=index + 1, heard=index + 1, body=good[-3:])
            attacks.append((clients[1].work, short, "bytes"))
        for act, data, words in attacks:
            with pytest.raises(deploy.MessageError, match=words):
                act(data)
            for x, y in zip(remembered(clients[1]), before, strict=True):
                assert x is y
        old.append(good)
        server.close_round()
    for client in clients:
        client.finish(server.broadcast(client.number))
    expected = deploy.in_process(solver, problem, KEY, rounds=3)
    assert jnp.array_equal(server.estimate, expected.server.estimate)
    for client, other in zip(clients, expected.clients, strict=True):
        jax.tree.map(np.testing.assert_array_equal, client.clients, other.clients)


def test_a_site_keeps_its_client_until_a_new_deployment_has_its_first_model(problem, tmp_path):
    """A request to join has no seal: anybody may send it."""
    study = deploy.Study.of(PLAIN, problem, KEY)
    server = study.server()
    sites = [deploy.Site(study, i, tmp_path) for i in range(CLIENTS)]
    for site in sites:
        server.receive(site.answer("hello", b""))
    for number, data in server.start().items():
        server.receive(sites[number].answer("begin", data))
    for _ in range(2):
        for number, site in enumerate(sites):
            site.answer("hello", b"")
            server.receive(site.answer("work", server.broadcast(number)))
        server.close_round()
    assert jnp.array_equal(
        server.estimate, deploy.in_process(PLAIN, problem, KEY, rounds=2).server.estimate
    )
