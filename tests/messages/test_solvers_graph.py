"""Messages between nodes of a graph: loud channels, codes, delays, liars, absence, resumption."""

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import InputError, graphs, messages, participation, penalties
from fedjax_admm._pytrees import register_dataclass
from fedjax_admm.messages import exchange
from fedjax_admm.protocol import RoundInfo
from fedjax_admm.solvers import decentralized_admm, extra, gtv_primal_dual, pg_extra
from tests.messages.loud import Loud
from tests.reference import graph_peers as reference
from tests.solvers.graph.nodes import NodeQuadratics, first_models, nodes

SOLVERS = {
    "extra": partial(extra, 0.5),
    "pg_extra": partial(pg_extra, 0.5, penalties.l1(0.1)),
    "decentralized_admm": partial(decentralized_admm, 0.2),
    "gtv": partial(gtv_primal_dual, None, 0.1, ratio=1.0),
}
ALONE = [name for name in SOLVERS if name != "pg_extra"]  # which is EXTRA in this
HALF = participation.bernoulli(0.5)
NODES, EDGES = 12, [(i, j) for i in range(12) for j in range(i + 1, 12)]
LIARS = np.arange(NODES) % 5 == 2


@register_dataclass
@dataclass(frozen=True, eq=False)
class LoudMean:
    """The mean, as if it were another aggregator."""

    def __call__(self, *arguments):
        return messages.mean()(*arguments)


def go(solver, problem, rounds=40, part=None, **options):
    return fa.run(solver, problem, jax.random.key(0), rounds=rounds, participation=part, **options)


def ends(solver, problem, rounds=40, part=None):
    """Return the models at the end, shape (nodes, dim)."""
    return np.asarray(go(solver, problem, rounds, part).estimate)


def crowd(scale=0.0):
    """Return a problem where every node hears every other, from models of this size."""
    rng = np.random.default_rng(7)
    h, b = rng.uniform(0.5, 2, (NODES, 2)), rng.standard_normal((NODES, 2))
    graph, start = graphs.from_edges(NODES, EDGES), scale * rng.standard_normal((NODES, 2))
    return NodeQuadratics(*map(jnp.asarray, (h, b)), jnp.zeros(()), graph, jnp.asarray(start))


def test_what_changes_nothing_changes_nothing():
    """One round of EXTRA with some absent; the thorough run has the others, and many rounds."""
    problem, active = nodes(start=first_models()), jnp.arange(8) % 3 > 0

    def once(solver):
        info = RoundInfo(jnp.int32(0), jax.random.key(1), active)
        return solver.step(problem, solver.init(problem, jax.random.key(0)), info)

    @jax.jit
    def steps(solvers):
        return [once(solver) for solver in solvers]

    plain, loud = extra(0.5), extra(0.5, exchange=exchange(Loud()))
    wanted, found = steps([plain, loud])
    assert wanted.post == ()
    np.testing.assert_array_equal(found.post.channel, np.asarray(active))
    for one, other in zip(wanted.nodes, found.nodes, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    for make in SOLVERS.values():
        sizes = make(exchange=exchange(Loud())).traffic(problem)
        assert sizes == fa.Traffic(up=3, down=3, up_bits=7, down_bits=7)


def test_mistakes_are_told():
    down = exchange(down=messages.qsgd(4))
    for make in SOLVERS.values():
        with pytest.raises(InputError, match="must have no channel down, because nodes of a graph"):
            make(exchange=down)
        with pytest.raises(InputError, match=r"must be messages\.exchange"):
            make(exchange=messages.qsgd(4))
    with pytest.raises(InputError, match="a neighbour moves a node by at most lam A_e"):
        SOLVERS["gtv"](exchange=exchange(aggregator=messages.coordinate_median()))
    with pytest.raises(InputError, match="mixing must be at most 1"):
        extra(mixing=1.5)


@pytest.mark.thorough
def test_small_neighbourhoods_are_told():
    krum = exchange(aggregator=messages.krum(1))
    for make in (SOLVERS["extra"], SOLVERS["decentralized_admm"]):
        with pytest.raises(InputError, match="bad must have 2 bad"):
            make(exchange=krum).check(nodes(), 10)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", ALONE)
def test_loud_channels_give_the_plain_trajectory(name):
    problem, make, part = nodes(start=first_models()), SOLVERS[name], HALF
    wanted = ends(make(), problem, part=part)
    with jax.debug_key_reuse(True):
        found = [ends(make(exchange=exchange(Loud())), problem, part=part)]
        if name != "gtv":
            mean = exchange(aggregator=LoudMean())
            found.append(ends(make(exchange=mean), problem, part=part))
    for one in found:
        np.testing.assert_allclose(one, wanted, rtol=0, atol=1e-12)


CODES = {"gtv": messages.rand_k(1), "extra": messages.qsgd(2)}


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", ["extra", "gtv"])
def test_coded_differences_end_at_the_plain_limit(name):
    problem, make = nodes(start=first_models()), SOLVERS[name]
    coded = make(exchange=exchange(messages.differences(CODES[name])))
    wanted = ends(make(), problem, 1000)
    found = ends(coded, problem, 1000, HALF)
    np.testing.assert_allclose(found, wanted, atol=1e-9)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_delays_do_not_move_the_limit():
    problem = nodes(start=first_models())
    lossy = exchange(delay=messages.geometric_delay(1.0, depth=3))
    for name, options in {"extra": {"mixing": 0.25}, "decentralized_admm": {}, "gtv": {}}.items():
        wanted = ends(SOLVERS[name](), problem, 1000)
        found = ends(SOLVERS[name](**options, exchange=lossy), problem, 1000, HALF)
        np.testing.assert_allclose(found, wanted, atol=1e-9)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_extra_stands_a_lag_up_to_where_the_docstring_says():
    """Curvature 1 and s = 1/2, models known a round late: mu^2 < 2 (1 - mu / 2), that is mu < 1."""
    problem, late = nodes(start=first_models()), exchange(delay=messages.fixed_delay(1))
    problem = replace(problem, h=jnp.ones_like(problem.h))
    largest = 1 - np.linalg.eigvalsh(reference.metropolis(reference.EDGES, reference.NODES))[0]
    below, above = (
        ends(extra(0.5, mixing=factor / largest, exchange=late), problem, 1000)
        for factor in (0.98, 1.02)
    )
    assert np.abs(below - np.asarray(problem.b).mean(0, keepdims=True)).max() < 1e-2
    assert np.abs(above).max() > 10


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_coarse_codes_of_extra_need_less_mixing():
    problem, coded = nodes(), exchange(messages.differences(messages.rand_k(1)))
    assert not np.abs(ends(extra(0.5, exchange=coded), problem, 400)).max() < 1e3
    found = ends(extra(0.5, mixing=0.25, exchange=coded), problem, 1000)
    optimum = reference.minimizer(*reference.curvatures_and_centres())
    np.testing.assert_allclose(found, np.broadcast_to(optimum, found.shape), atol=1e-9)


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_corrections_add_up_to_zero_whatever_happens_on_the_way():
    liars = messages.constant_message(value=5.0, who=np.arange(8) == 1)
    way = {"up": messages.natural(), "attack": liars, "delay": messages.bounded_delay(2)}
    found = go(extra(0.5, exchange=exchange(**way)), nodes(), 30, HALF)
    corrections = found.state.solver.nodes.p
    assert np.abs(corrections).max() > 0.1
    np.testing.assert_allclose(corrections.sum(0), 0, atol=1e-12)
    robust = exchange(**way, aggregator=messages.coordinate_median())
    found = go(extra(0.5, exchange=robust), nodes(), 30, HALF)
    assert np.abs(found.state.solver.nodes.p.sum(0)).max() > 1e-2


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("make", [partial(extra, 0.25), partial(decentralized_admm, 0.1)])
def test_robust_neighbourhoods_survive_liars(make):
    """The honest agree, among the minimisers of the honest; a mean goes where liars want it."""
    problem, attack = crowd(), messages.constant_message(value=100.0, who=LIARS)
    honest = np.asarray(problem.b)[~LIARS]
    carried = ends(make(exchange=exchange(attack=attack)), problem, 500)[~LIARS]
    assert carried.min() > 10
    way = exchange(aggregator=messages.coordinate_median(), attack=attack)
    found = ends(make(exchange=way), problem, 500)[~LIARS]
    assert np.ptp(found, 0).max() < 1e-9
    assert np.all((found > honest.min(0)) & (found < honest.max(0)))
    assert np.linalg.norm(found[0] - honest.mean(0)) < 1


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_what_an_aggregator_loses():
    """Agreement at another point than the minimiser: of EXTRA, one that depends on the start."""
    way = exchange(aggregator=messages.coordinate_median())
    limits = {}
    for name, make in {"extra": partial(extra, 0.25), "admm": decentralized_admm}.items():
        plain = ends(make(), crowd(), 500)
        limits[name] = [ends(make(exchange=way), crowd(size), 500) for size in (0.0, 1.0)]
        for limit in limits[name]:
            assert np.ptp(limit, 0).max() < 1e-9
            assert np.abs(limit[0] - plain[0]).max() > 0.05
    moved = {name: np.abs(two[0][0] - two[1][0]).max() for name, two in limits.items()}
    assert moved["extra"] > 0.05
    assert moved["admm"] < 1e-6


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_a_liar_moves_nodes_of_gtv_by_so_much_at_most():
    """The honest solve sums of their losses and of pulls of length lam A_e: nothing is carried."""
    problem, lam = crowd(), 0.1
    attack = messages.constant_message(value=1e6, who=LIARS)
    solver = gtv_primal_dual(None, lam, ratio=1.0, exchange=exchange(attack=attack))
    found = go(solver, problem, 500)
    flows = np.asarray(found.state.solver.u)
    assert np.linalg.norm(flows, axis=-1).max() < lam + 1e-9
    alone = np.asarray(problem.b)
    pulls = np.linalg.norm(np.asarray(problem.h) * (np.asarray(found.estimate) - alone), axis=-1)
    assert pulls[~LIARS].max() < lam * (NODES - 1) + 1e-6


@pytest.mark.thorough
@pytest.mark.usefixtures("x64")
def test_the_absent_keep_everything():
    problem, active = nodes(start=first_models()), np.arange(8) % 2 > 0
    coded = messages.differences(messages.top_k(1))
    solver = decentralized_admm(
        0.2, exchange=exchange(coded, aggregator=messages.coordinate_median())
    )
    once = go(solver, problem, 3)
    then = go(solver, problem, 2, participation.replay(np.tile(active, (5, 1))), start=once.state)
    old, new = once.state.solver, then.state.solver
    stays = partial(
        jax.tree.map, lambda a, b: np.testing.assert_array_equal(a[~active], b[~active])
    )
    stays(old.nodes, new.nodes)
    stays(old.post.last, new.post.last)
    senders = np.stack([problem.graph.heads, problem.graph.tails], 1).reshape(-1)
    active = active[senders] & np.repeat(np.asarray(problem.graph.present), 2)
    stays((old.post.known, old.post.channel), (new.post.known, new.post.channel))
    assert np.abs(old.post.known - new.post.known)[active].max() > 0


@pytest.mark.thorough
def test_liars_among_letters_are_nodes():
    problem = nodes()
    who = np.arange(8) == 5
    attack = messages.constant_message(value=9.0, who=who)
    solver = decentralized_admm(0.2, relaxation=2.0, exchange=exchange(attack=attack))
    letters = np.asarray(go(solver, problem, 1).state.solver.letters)
    graph = problem.graph
    present = np.asarray(graph.present)
    np.testing.assert_array_equal((letters[:, 0] == 9).all(-1), who[graph.tails] & present)
    np.testing.assert_array_equal((letters[:, 1] == 9).all(-1), who[graph.heads] & present)
