"""Trees: four ways to write the same tree, sums over its parts, and what is refused."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from fedjax_admm import InputError, trees

# --- a plain model: nested lists of client numbers, walked with loops ---


def is_server(part):
    return isinstance(part, list)


def clients_under(part):
    return (
        [client for child in part for client in clients_under(child)] if is_server(part) else [part]
    )


def servers_by_level(nested):
    """Return the servers of every level, breadth first, each with its parent's place above."""
    levels, level = [], [(None, nested)]
    while level:
        levels.append(level)
        level = [
            (place, child)
            for place, (_, server) in enumerate(level)
            for child in server
            if is_server(child)
        ]
    return levels


def assert_is(tree, nested):
    """Compare the whole structure of a tree with the model."""
    levels = servers_by_level(nested)
    sizes = tuple(len(level) for level in levels)
    assert tree.level_sizes == sizes
    assert tree.depth == len(levels) == len(tree.server_parents) + 1
    assert tree.num_servers == sum(sizes)
    assert tree.num_clients == len(clients_under(nested))
    assert tree.num_links == tree.num_clients + tree.num_servers - 1

    above = {}
    servers = [server for level in levels for _, server in level]
    for number, server in enumerate(servers):
        above.update({child: number for child in server if not is_server(child)})
    np.testing.assert_array_equal(tree.client_parents, [above[n] for n in range(len(above))])
    assert tree.client_parents.dtype == jnp.int32
    for parents, level in zip(tree.server_parents, levels[1:], strict=True):
        np.testing.assert_array_equal(parents, [place for place, _ in level])
        assert parents.dtype == jnp.int32

    # The mask over links: clients first, then the servers of each level from 1.
    links = np.split(np.arange(tree.num_links), tree.link_offsets)
    assert [len(part) for part in links] == [tree.num_clients, *sizes[1:]]


def assert_equal(first, second):
    assert first.level_sizes == second.level_sizes
    for one, other in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True):
        np.testing.assert_array_equal(one, other)
        assert one.dtype == other.dtype


def parents_of(nested, order=None):
    """Return the parent of every node, and the nodes of clients 0, 1, ...; `order` renumbers."""
    parents, client_nodes = [-1], {}

    def add(server, number):
        for child in server:
            node = len(parents)
            parents.append(number)
            if is_server(child):
                add(child, node)
            else:
                client_nodes[child] = node

    add(nested, 0)
    order = list(range(len(parents))) if order is None else order
    renumbered = [-1] * len(parents)
    for node, parent in enumerate(parents):
        renumbered[order[node]] = order[parent] if parent >= 0 else -1
    return renumbered, [order[client_nodes[n]] for n in range(len(client_nodes))]


def sorted_by_node(parents, clients):
    """Return the nested lists whose servers' children stand in increasing order of their nodes."""
    number = {node: client for client, node in enumerate(clients)}

    def part(node):
        if node in number:
            return number[node]
        return [part(child) for child, parent in enumerate(parents) if parent == node]

    return part(parents.index(-1))


@st.composite
def nested_lists(draw):
    """Draw a tree of up to ten servers anywhere, with clients in any order at any of them."""
    servers = [[] for _ in range(draw(st.integers(1, 10)))]
    for number in range(1, len(servers)):
        servers[draw(st.integers(0, number - 1))].append(servers[number])
    shuffle = draw(st.randoms(use_true_random=False)).shuffle
    own = [draw(st.integers(0 if server else 1, 3)) for server in servers]
    labels = list(range(sum(own)))
    shuffle(labels)
    for server, number in zip(servers, own, strict=True):
        server += [labels.pop() for _ in range(number)]
        shuffle(server)
    return servers[0]


@st.composite
def nested_counts(draw):
    """Draw numbers of clients in nested lists, as `from_counts` takes them."""
    inner = st.recursive(
        st.integers(1, 4), lambda part: st.lists(part, min_size=1, max_size=4), max_leaves=8
    )
    return draw(st.lists(inner, min_size=1, max_size=4))


def with_clients(counts):
    """Return the nested lists of client numbers, from left to right."""
    following = iter(range(10**6))

    def part(inner):
        if is_server(inner):
            return [part(child) for child in inner]
        return [next(following) for _ in range(inner)]

    return part(counts)


# --- the constructors against the model and each other ---


@pytest.mark.thorough
@given(nested_lists())
@settings(max_examples=100)
def test_nested_lists_give_the_tree_of_the_model(nested):
    tree = trees.from_nested(nested)
    assert_is(tree, nested)
    assert_equal(trees.from_parents(*parents_of(nested)), tree)


@given(nested_lists(), st.data())
@settings(max_examples=100)
def test_nodes_may_be_numbered_in_any_way(nested, data):
    count = len(parents_of(nested)[0])
    order = data.draw(st.permutations(range(count)))
    parents, clients = parents_of(nested, order)
    same = sorted_by_node(parents, clients)
    tree = trees.from_parents(parents, clients)
    assert_is(tree, same)
    assert_equal(trees.from_nested(same), tree)
    # Without a list of clients, the rows of the data follow the nodes.
    assert_equal(trees.from_parents(parents), trees.from_parents(parents, sorted(clients)))


@given(nested_counts())
def test_counts_give_the_tree_of_the_model(counts):
    tree = trees.from_counts(counts)
    assert_is(tree, with_clients(counts))
    assert_equal(trees.from_nested(with_clients(counts)), tree)


@pytest.mark.parametrize("clients", [1, 2, 7])
def test_a_star_in_three_ways(clients):
    tree = trees.star(clients)
    assert_is(tree, list(range(clients)))
    assert_equal(trees.from_nested(range(clients)), tree)
    assert_equal(trees.from_parents([-1] + [0] * clients), tree)
    # One edge server is not a star: the cloud stands above it.
    assert_is(trees.from_counts([clients]), [list(range(clients))])


def test_the_examples_of_the_module():
    assert_is(trees.star(5), [0, 1, 2, 3, 4])
    three = trees.from_counts([50, 50, 20])
    assert three.level_sizes == (1, 3)
    assert [int(n) for n in three.clients_below()[1]] == [50, 50, 20]
    regions = trees.from_counts([[4, 4], [4, 4, 2]])
    assert regions.depth == 3
    assert regions.level_sizes == (1, 2, 5)
    assert [int(n) for n in regions.clients_below()[1]] == [8, 10]
    assert_is(trees.from_nested([[0, 2], [1, 3], 4]), [[0, 2], [1, 3], 4])
    assert_is(trees.from_parents([-1, 0, 0, 1, 1, 2]), [[0, 1], [2]])


def test_numbers_may_come_in_any_sequence():
    wanted = trees.from_counts([2, 3])
    assert_equal(trees.from_counts((np.int64(2), np.int32(3))), wanted)
    assert_equal(trees.from_nested(([0, 1], range(2, 5))), wanted)
    parents = [-1, 0, 0, 1, 1, 2, 2, 2]
    for kind in (tuple, np.array, jnp.array, lambda values: np.array(values, np.int8)):
        assert_equal(trees.from_parents(kind(parents)), wanted)
    assert_equal(trees.from_parents(parents, np.arange(3, 8)), wanted)


# --- sums ---


@jax.jit
@jax.vmap
def _batched(copy):
    return _everything(*copy)


def _everything(tree, values, per_server):
    levels = tree.by_level(per_server)
    return {
        "levels": levels,
        "above clients": tree.above_clients(levels),
        "above servers": [
            tree.above_servers(levels[level - 1], level) for level in range(1, tree.depth)
        ],
        "clients": tree.sum_of_clients(values),
        "servers": [tree.sum_of_servers(levels[level], level) for level in range(1, tree.depth)],
        "below": tree.clients_below(),
        "children": tree.children(),
    }


def expected_sums(nested, values, per_server):
    """Return what `_everything` should, by loops over the model."""
    levels = servers_by_level(nested)
    starts = np.cumsum([len(level) for level in levels[:-1]])
    parts = np.split(per_server, starts)
    of_servers = []
    for level in range(1, len(levels)):
        total = np.zeros_like(parts[level - 1])
        for (place, _), value in zip(levels[level], parts[level], strict=True):
            total[place] += value
        of_servers.append(total)

    def own(server):
        rows = [values[child] for child in server if not is_server(child)]
        return np.sum(rows, 0) if rows else np.zeros_like(values[0])

    above = {
        child: value
        for level, rows in zip(levels, parts, strict=True)
        for (_, server), value in zip(level, rows, strict=True)
        for child in server
        if not is_server(child)
    }
    return {
        "levels": parts,
        "above clients": np.stack([above[client] for client in range(len(values))]),
        "above servers": [
            np.stack([parts[level - 1][place] for place, _ in levels[level]])
            for level in range(1, len(levels))
        ],
        "clients": [np.stack([own(server) for _, server in level]) for level in levels],
        "servers": of_servers,
        "below": [np.array([len(clients_under(s)) for _, s in level]) for level in levels],
        "children": [np.array([len(s) for _, s in level]) for level in levels],
    }


@pytest.mark.thorough
@given(nested_lists(), st.integers(0, 2**31 - 1))
@settings(max_examples=6)
def test_sums_are_those_of_loops(nested, seed):
    """Under jit and vmap: two trees of one shape at once, the second with its clients reversed."""
    generator = np.random.default_rng(seed)
    tree = trees.from_nested(nested)
    mirrored = _renamed(nested, tree.num_clients)
    values = generator.integers(-9, 10, (2, tree.num_clients, 3)).astype(np.float32)
    per_server = generator.integers(-9, 10, (2, tree.num_servers, 2)).astype(np.float32)
    copies = [replace(one, each=(0,) * one.depth) for one in (tree, trees.from_nested(mirrored))]
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), *copies)
    found = _batched((both, values, per_server))
    for copy, shape in enumerate((nested, mirrored)):
        wanted = expected_sums(shape, values[copy], per_server[copy])
        one = jax.tree.map(lambda leaf, copy=copy: leaf[copy], found)
        assert jax.tree.structure(one) == jax.tree.structure(wanted)
        jax.tree.map(np.testing.assert_array_equal, one, wanted)
    assert all(part.dtype == jnp.int32 for part in found["below"] + found["children"])


@pytest.mark.parametrize(
    ("nested", "each"),
    [
        ([0, 1, 2], (3,)),
        ([[0, 1], [2, 3], [4, 5]], (2, 3)),
        ([[[0, 1], [2, 3]], [[4, 5], [6, 7]]], (2, 2, 2)),
        ([[[0], [1]], [[2]]], (1, 2, 0)),
        ([[0, 1, 2], [3]], (0, 2)),
        ([[0, 2], [1, 3]], (0, 2)),
        ([[0, 1], [2, 3], 4, 5], (0, 2)),
    ],
)
def test_equal_groups_in_order_are_known(nested, each):
    tree = trees.from_nested(nested)
    assert tree.each == each
    values = np.arange(3.0 * tree.num_clients, dtype=np.float32).reshape(-1, 3)
    per_server = np.arange(2.0 * tree.num_servers, dtype=np.float32).reshape(-1, 2)
    wanted = expected_sums(nested, values, per_server)
    jax.tree.map(np.testing.assert_array_equal, _everything(tree, values, per_server), wanted)


def _renamed(part, clients):
    return [_renamed(child, clients) for child in part] if is_server(part) else clients - 1 - part


# --- a tree is a pytree ---


# --- mistakes ---


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (
            lambda: trees.from_parents([0, 0]),
            "parents must mark one root with -1, and have a node below it, but it is [0, 0].",
        ),
        (
            lambda: trees.from_parents([-1, 5]),
            "parents must be from -1 to 1, but entry 1 is 5.",
        ),
        (
            lambda: trees.from_parents([-1, 0, 3, 2]),
            "parents must lead every node to the root, which nodes [2, 3] never reach; "
            "break the cycle.",
        ),
        (
            lambda: trees.from_parents([-1]),
            "parents must mark one root with -1, and have a node below it, but it is [-1].",
        ),
        *[
            (
                lambda clients=clients: trees.from_parents([-1, 0, 0, 1], clients),
                f"clients must name every node without children ([2, 3]), each once, but it is "
                f"{clients}.",
            )
            for clients in ([3], [1, 3, 2], [3, 2, 9], [3, 2, 2])
        ],
        (
            lambda: trees.from_nested([0, [1, []]]),
            "nested[1][1] must hold at least one client, but it is empty.",
        ),
        (
            lambda: trees.from_nested([[1], [1, 5, 0]]),
            "nested must number its clients from 0 to 3, each once, but it is [0, 1, 1, 5].",
        ),
        (
            lambda: trees.from_nested("ab"),
            "nested must be a list of lists of client numbers, but it is 'ab'.",
        ),
        (
            lambda: trees.from_counts([[2, [3, 0]]]),
            "counts[0][1][1] must be at least 1, but it is 0.",
        ),
        (
            lambda: trees.from_counts(3),
            "counts must be a list of numbers of clients, but it is 3; for one server, use star.",
        ),
    ],
)
def test_mistakes_get_a_sentence(build, sentence):
    with pytest.raises(InputError) as caught:
        build()
    assert str(caught.value) == sentence


def test_a_tree_has_one_leaf_per_client():
    trees.check_clients(trees.star(3), 3)
    with pytest.raises(InputError) as caught:
        trees.check_clients(trees.from_counts([2, 1]), 4)
    assert str(caught.value) == (
        "tree must have one leaf per client of the data (4), but it has 3."
    )
