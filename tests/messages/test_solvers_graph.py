"""Messages between nodes of a graph: equations, limits, and what Byzantine nodes can do."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fedjax_admm as fa
from fedjax_admm import InputError, graphs, messages, participation, penalties
from fedjax_admm.messages import exchange
from fedjax_admm.solvers import decentralized_admm, extra, gtv_primal_dual, pg_extra
from tests.messages.loud import Loud
from tests.reference import graph_exchanged as exchanged, graph_peers as reference
from tests.solvers.graph.nodes import NodeQuadratics, first_models, nodes

SOLVERS = {
    "extra": partial(extra, 0.5),
    "pg_extra": lambda **options: pg_extra(0.5, penalties.l1(0.05), **options),
    "decentralized_admm": partial(decentralized_admm, 0.2, relaxation=1.5),
    "gtv": partial(gtv_primal_dual, None, 0.1, ratio=1.0),
}
HALF = participation.bernoulli(0.5)
NODES, EDGES = 12, [(i, j) for i in range(12) for j in range(i + 1, 12)]
LIARS = np.arange(NODES) % 5 == 2


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


BAD = np.arange(8) == 5
MASKS = np.random.default_rng(1).random((40, 8)) < 0.7


def everything(**aggregator):
    """Return an exchange where everything happens, of which the reference knows the numbers."""
    return exchange(
        messages.differences(messages.top_k(1), step=0.9),
        attack=messages.sign_flip(who=BAD),
        delay=messages.fixed_delay(1),
        **aggregator,
    )


def followed(solver, start):
    """Return the models after every round, shape (rounds, nodes, dim)."""
    part, measure = participation.replay(MASKS), lambda solver, _, state: solver.estimate(state)
    found = go(solver, nodes(start=start), len(MASKS), part, measure=lambda *a: {"x": measure(*a)})
    return found.trace["x"]


@pytest.mark.kin(1)
@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", SOLVERS)
def test_equations_hold_where_everything_happens_to_messages(name):
    start, (h, b) = first_models(), reference.curvatures_and_centres()
    rule = {} if name == "gtv" else {"aggregator": messages.trimmed_mean(0.3, cap=100)}
    slow = {"mixing": 0.25} if "extra" in name else {}
    found = followed(SOLVERS[name](exchange=everything(**rule), **slow), start)
    wanted = {
        "extra": lambda *way: exchanged.extra(h, b, start, 0.5, *way, mixing=0.25, lasso=0.0),
        "pg_extra": lambda *way: exchanged.extra(h, b, start, 0.5, *way, mixing=0.25, lasso=0.05),
        "decentralized_admm": lambda *way: exchanged.admm(h, b, start, 0.2, *way, relaxation=1.5),
        "gtv": lambda *way: exchanged.gtv(h, b, start, 0.1, 1.0, *way),
    }[name](MASKS, BAD, 0.9)
    assert 1e-2 < np.abs(wanted[-1]).max() < 1e2
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


def test_messages_are_counted_in_the_bits_of_the_channel():
    for make in SOLVERS.values():
        sizes = make(exchange=exchange(Loud())).traffic(nodes())
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
