r"""Certificates: the clusters on which GTV minimisation has equal models, known before a run.

    print(explain_clusters(graph, problem, labels, 0.1))    a promise, or none, for every cluster
    critical_lambda(graph, problem)                         on a tree: where all models become equal

They hold for squared losses and a norm phi: `network_lasso` or `entrywise_l1`, whose dual norms
||.||_* are the Euclidean norm and the largest modulus. For a cluster C of nodes let

    w_C       minimise sum_{i in C} L_i            its own model, from its accessible data
    alpha_C = 2 lambda_min(sum_{i in C} Q_i)       strong convexity of that sum
    beta_i  = 2 lambda_max(Q_i)                    Lipschitz constant of the gradient of L_i
    delta_i = ||grad L_i(w_C)||_*                  dual norm of the gradient of node i at w_C
    o_i                                            weight of the edges from i out of C
    |dC|    = sum_{i in C} o_i                     the boundary

and kappa = 1, or sqrt(dim) with `entrywise_l1`. C is well connected if it has a node, the root,
such that for every nonempty set S of its other nodes

    sum_{i in S} demand_i < weight between S and C \ S,
    demand_i = o_i + kappa beta_i |dC| / alpha_C + delta_i / lam.                             (35)

Then all minimisers of the problem have equal models on C, at a distance of at most
`kappa lam |dC| / alpha_C` (Euclidean, for both penalties) from w_C.                          (37)

Proof: the flows from the rest of the network into C add a linear term of at most `lam o_i` (in the
dual norm) to L_i. The best common model of C therefore moves from w_C by at most that bound, and
every node keeps a remainder of at most `lam demand_i`. By max-flow min-cut, (35) says that all
remainders can be sent to the root at once, through edges below their capacity; and neighbours are
equal where a flow is below capacity. The promise of a cluster needs nothing of the other clusters,
while the paper asks that all clusters are well connected.

The paper prints (37) with a spare factor 2. The sharper bound is strong monotonicity,
`alpha_C ||w - w_C||_2 <= ||sum_{i in C} grad L_i(w)||_2 <= kappa lam |dC|`; the printed bound would
need a factor 2 in the middle term of (35) too. The paper has no kappa, which stands for
`||g||_2 <= sqrt(dim) ||g||_inf`. A single node beside a distant one attains the bound with it, and
without it (35) makes false promises.

(35) is sufficient and far from necessary: the demand of all nodes but the root has to enter one
node, so that |dC| can hardly exceed the weight at that node. The bound (37) holds whenever the
models on C are equal, promised or not.

On a tree, every edge carries the sum of the gradients on one of its sides when all models are
equal. That condition is exact.

Reference: Y. SarcheshmehPour, Y. Tian, L. Zhang, A. Jung, "Clustered Federated Learning via
Generalized Total Variation Minimization", 2023, conditions (35) and (37).
"""

from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.typing import ArrayLike

from fedjax_admm._checks import InputError, instance, known, refuse, scalar
from fedjax_admm.capabilities import Access, Clients, NodeLosses, needs
from fedjax_admm.graphs import Graph
from fedjax_admm.losses import SquaredLoss
from fedjax_admm.penalties import EdgePenalty, EntrywiseL1, NetworkLasso

_Norm = Callable[[np.ndarray], np.ndarray]  # of rows

# Eigenvalues of a pooled Gram matrix that are smaller than this share of the largest are zero.
_SINGULAR = 1e-10
# Flows are whole numbers of 32 bits, and their algorithm adds two of them.
_UNITS = 2**30 - 1
# Roots that are tried in any cluster, and the largest cluster of which all nodes are tried.
FIRST_ROOTS, ALL_ROOTS = 3, 200


@dataclass(frozen=True, eq=False)
class ClusterCertificate:
    """Certificate of one cluster; arrays have one entry per node of it, in order of `nodes`."""

    label: Hashable  # its name in `labels`
    nodes: np.ndarray  # shape=(members,): numbers of its nodes
    accessible: np.ndarray  # shape=(members,), bool: which data can be used
    model: np.ndarray  # shape=(dim,): w_C; of minimum norm where alpha is 0
    boundary: float  # |dC|: weight of the edges that leave it
    outgoing: np.ndarray  # shape=(members,): o_i
    alpha: float  # strong convexity; 0 where the data do not determine w_C
    beta: np.ndarray  # shape=(members,): Lipschitz constants of the gradients
    delta: np.ndarray  # shape=(members,): dual norms of the gradients at w_C
    demand: np.ndarray  # shape=(members,): routed to the root in (35); infinite where alpha is 0
    bound: float  # (37): models that are equal are no farther from w_C; infinite where alpha is 0
    parts: int  # number of connected parts without the other nodes
    well_connected: bool  # (35), strictly, beyond rounding: the promise
    root: int | None  # number of the node that takes the demand, or most of it; None: none tried
    routable: float  # share of the other nodes' demand that reaches the root; 0 if none was tried
    conclusive: bool  # whether (35) was decided; False: not all roots of a large cluster were tried

    def __str__(self) -> str:
        """Return the verdict in one line."""
        size, known = len(self.nodes), int(self.accessible.sum())
        cluster = f"cluster {self.label} ({size} node{'s' * (size != 1)}, {known} with data)"
        if self.well_connected:
            if self.bound:
                equal = "its models are equal," if size > 1 else "its model is"
                verdict = f"{equal} within {rounded_up(self.bound)} of"
            else:
                verdict = f"its {'models are' if size > 1 else 'model is'} equal to"
            return f"{cluster}: promised: {verdict} the cluster's own model"
        return f"{cluster}: no promise: {self._why_not()}"

    def _why_not(self) -> str:
        if self.alpha == 0:
            return (
                "its accessible data are too few to determine the cluster's own model of "
                f"{len(self.model)} parameters"
            )
        if self.parts > 1:
            return f"it falls into {self.parts} parts that only other clusters join"
        # Rounded down: 100 % would be a promise.
        share = int(min(99, 100 * self.routable))
        untried = "" if self.conclusive else " (not all of its nodes were tried)"
        return (
            f"only {share} % of the demand can be routed to node {self.root}{untried}; the "
            "condition is sufficient, not necessary"
        )


@dataclass(frozen=True, eq=False)
class ClusterExplanation:
    """Certificates of all clusters; printed, a short report."""

    clusters: tuple[ClusterCertificate, ...]  # in order of their labels
    lam: float
    critical_lam: float | None  # all models can be equal from here on; None: not a tree

    @property
    def promised(self) -> tuple[bool, ...]:
        """Return for which clusters equal models within the bound are promised."""
        return tuple(cluster.well_connected for cluster in self.clusters)

    def __str__(self) -> str:
        """Return one line per cluster, and one on the critical strength where it is known."""
        lines = [str(cluster) for cluster in self.clusters]
        if self.critical_lam is not None:
            here = "they are" if self.lam >= self.critical_lam else "they are not"
            lines.append(
                "the graph is a tree: all models are equal if and only if lam is at least "
                f"{self.critical_lam:.6g}; at {self.lam:.6g} {here}"
            )
        return "\n".join(lines)


@needs(Clients, NodeLosses, Access)
def explain_clusters(
    graph: Graph,
    problem: Any,
    labels: Iterable[Hashable],
    lam: ArrayLike,
    penalty: EdgePenalty | None = None,
) -> ClusterExplanation:
    """Certify the clusters on which GTV minimisation finds equal models, and bound their error.

    (35) is decided by maximum flows instead of all sets S: a source feeds every node of the cluster
    with its demand, and the root drains it. The flows are whole numbers of about 1e-9 of the
    demand; demands are rounded up and weights down, so that neither rounding nor equality in (35)
    makes a promise.

    The roots with the largest capacity are tried first. Clusters of up to 200 nodes then try all
    roots that the demand of single nodes, or of all others together, does not rule out.

    Args:
      graph: the network; usually `problem.graph`.
      problem: a network with squared losses (ridge included).
      labels: the cluster of every node, shape (nodes,): numbers or anything hashable.
      lam: strength of the coupling, positive.
      penalty: `network_lasso()`, the default, or `entrywise_l1()`.

    Returns:
      The report: `clusters`, in order of their labels, `promised`, `lam` and `critical_lam`;
      computed on the host in float64.
    """
    instance("graph", graph, Graph, "a graph of fedjax_admm.graphs")
    dual_norm, kappa = _norm(penalty, problem)
    data, adjacency = _host_network(graph, problem)
    scalar("lam", lam, above=0)
    known("lam", lam)
    lam = float(np.asarray(lam, np.float64))
    names, numbers = _clusters(labels, graph.num_nodes)
    outgoing = _outgoing(adjacency, numbers)
    accessible = np.asarray(problem.accessible)
    clusters = []
    for number, name in enumerate(names):
        nodes = np.flatnonzero(numbers == number)
        own = data.of(nodes)
        gram, model = own.pooled()
        spectrum = np.linalg.eigvalsh(gram)
        singular = spectrum[0] <= _SINGULAR * spectrum[-1]
        alpha = 0.0 if singular else 2 * float(spectrum[0])
        boundary = float(outgoing[nodes].sum())
        beta, delta = own.curvature(), dual_norm(own.gradients(model))
        if alpha:
            bound = kappa * lam * boundary / alpha
            demand = outgoing[nodes] + kappa * beta * boundary / alpha + delta / lam
        else:
            bound, demand = np.inf, np.full(len(nodes), np.inf)
        parts, root, routable, conclusive = _routed(adjacency[nodes][:, nodes], demand)
        clusters.append(
            ClusterCertificate(
                name,
                nodes,
                accessible[nodes],
                model,
                boundary,
                outgoing[nodes],
                alpha,
                beta,
                delta,
                demand,
                bound,
                parts,
                routable == 1,
                None if root is None else int(nodes[root]),
                routable,
                conclusive,
            )
        )
    is_tree = _why_no_tree(adjacency) is None
    critical = _critical_lambda(adjacency, data, dual_norm) if is_tree else None
    return ClusterExplanation(tuple(clusters), lam, critical)


@needs(Clients, NodeLosses)
def critical_lambda(graph: Graph, problem: Any, penalty: EdgePenalty | None = None) -> float:
    """Return the least strength of the coupling at which all models of a tree can be equal.

    `max over edges of ||sum over one side of grad L_i(w)||_* / A_e`, where w minimises the sum of
    all L_i. From there on, and only there, equal models are a minimiser; above it they are the only
    kind. On a star the sides are the leaves. If the data do not determine w, all its minimisers
    have the same gradients: the value is the same.

    Args:
      graph: a tree; usually `problem.graph`. Stars and chains are trees.
      problem: as in `explain_clusters`.
      penalty: as in `explain_clusters`.

    Returns:
      The critical lam, computed on the host in float64.

    Raises:
      InputError: the graph is not a tree; or as `explain_clusters`.
    """
    instance("graph", graph, Graph, "a graph of fedjax_admm.graphs")
    dual_norm, _ = _norm(penalty, problem)
    data, adjacency = _host_network(graph, problem)
    why = _why_no_tree(adjacency)
    refuse(why is not None, "graph", f"must be a tree to have a known critical lam, but it {why}")
    return _critical_lambda(adjacency, data, dual_norm)


@dataclass(frozen=True, eq=False)
class _Data:
    """The samples of some nodes, in float64."""

    features: np.ndarray  # shape=(nodes, samples, dim)
    targets: np.ndarray  # shape=(nodes, samples)
    weights: np.ndarray  # shape=(nodes, samples)
    ridge: np.ndarray  # shape=(nodes,)

    def of(self, nodes: np.ndarray) -> "_Data":
        """Return those of some of the nodes."""
        parts = (self.features, self.targets, self.weights, self.ridge)
        return _Data(*(part[nodes] for part in parts))

    def pooled(self) -> tuple[np.ndarray, np.ndarray]:
        """Return `sum_i (Q_i + ridge_i)`, shape (dim, dim), and the minimiser of `sum_i L_i`."""
        dim = self.features.shape[-1]
        rows = self.features.reshape(-1, dim)
        weighted = rows * self.weights.reshape(-1, 1)
        gram = weighted.T @ rows + self.ridge.sum() * np.eye(dim)
        model = np.linalg.lstsq(gram, weighted.T @ self.targets.reshape(-1), rcond=_SINGULAR)[0]
        return gram, model

    def gradients(self, w: np.ndarray) -> np.ndarray:
        """Return every node's gradient at one model, shape (nodes, dim)."""
        slopes = self.weights * (self.features @ w - self.targets)
        return 2 * (np.einsum("nm,nmd->nd", slopes, self.features) + self.ridge[:, None] * w)

    def curvature(self) -> np.ndarray:
        """Return the Lipschitz constants of the gradients, shape (nodes,)."""
        scaled = self.features * np.sqrt(self.weights)[..., None]
        return 2 * (np.linalg.norm(scaled, 2, axis=(-2, -1)) ** 2 + self.ridge)


def _norm(penalty: EdgePenalty | None, problem: Any) -> tuple[_Norm, float]:
    """Return the dual norm of rows and kappa."""
    told = f"must have a squared loss, but it has {type(problem.local).__name__}"
    refuse(not isinstance(problem.local, SquaredLoss), "problem", told)
    if penalty is None or isinstance(penalty, NetworkLasso):
        return (lambda rows: np.linalg.norm(rows, axis=-1)), 1.0
    if isinstance(penalty, EntrywiseL1):
        return (lambda rows: np.abs(rows).max(-1)), float(np.sqrt(problem.local.features.shape[-1]))
    told = "must be a norm, network_lasso() or entrywise_l1(): others never make models equal"
    raise InputError(told, "penalty")


def _host_network(graph: Graph, problem: Any):
    """Return the data and the symmetric sparse matrix of the edges that are there."""
    from scipy.sparse import csr_array

    local = problem.local
    known("problem", graph, problem)
    one = local.features.ndim == 3 and graph.heads.ndim == 1
    refuse(not one, "problem", "must be one network, but it is a stack")
    told = f"must have one node per node of the problem ({problem.num_clients})"
    refuse(graph.num_nodes != problem.num_clients, "graph", told, graph.num_nodes)
    parts = (local.features, local.targets, local.weights, local.ridge)
    data = _Data(*(np.asarray(part, np.float64) for part in parts))
    heads, tails = np.asarray(graph.heads), np.asarray(graph.tails)
    weights = np.asarray(graph.weights, np.float64)
    there = weights > 0
    heads, tails, weights = heads[there], tails[there], weights[there]
    ends = (np.concatenate([heads, tails]), np.concatenate([tails, heads]))
    adjacency = csr_array(
        (np.concatenate([weights, weights]), ends), shape=(graph.num_nodes,) * 2, dtype=np.float64
    )
    return data, adjacency


def _clusters(labels: Iterable[Hashable], nodes: int) -> tuple[list[Hashable], np.ndarray]:
    """Return the names of the clusters in order, and every node's place among them."""
    values = np.asarray(labels).tolist() if isinstance(labels, jax.Array) else list(labels)
    values = [value.item() if isinstance(value, np.generic) else value for value in values]
    refuse(len(values) != nodes, "labels", f"must hold one cluster per node ({nodes})", labels)
    names = list(dict.fromkeys(values))
    with suppress(TypeError):  # values of several kinds stay in the order of their first nodes
        names = sorted(names)  # pyright: ignore[reportArgumentType]
    place = {name: number for number, name in enumerate(names)}
    return names, np.array([place[name] for name in values])


def _outgoing(adjacency: Any, numbers: np.ndarray) -> np.ndarray:
    """Return the weight of every node's edges to other clusters, shape (nodes,)."""
    edges = adjacency.tocoo()
    leaving = numbers[edges.row] != numbers[edges.col]
    return np.bincount(edges.row[leaving], edges.data[leaving], minlength=len(numbers))


def _routed(inside: Any, demand: np.ndarray) -> tuple[int, int | None, float, bool]:
    """Look for a root that all demand of a cluster reaches.

    Args:
      inside: the edges within the cluster, a symmetric sparse matrix.
      demand: shape (members,).

    Returns:
      The number of parts, the best root tried (None if none), the share of the other members'
      demand that reaches it (1 only if the condition holds), and whether that decides.
    """
    from scipy.sparse.csgraph import connected_components

    size = len(demand)
    parts = int(connected_components(inside, directed=False)[0])
    if parts > 1 or not np.all(np.isfinite(demand)):
        return parts, None, 0.0, True
    if size == 1:
        return 1, 0, 1.0, True
    inward = inside.sum(1)
    # Two kinds of sets rule out roots: all nodes but the root, and single nodes (their demand is
    # too much for their own edges). The margin leaves doubtful cases to the flow.
    margin = 1e-9 * demand.sum()
    heavy = demand > inward + margin
    possible = (demand.sum() < inward + demand + margin) & (heavy.sum() - heavy == 0)
    order = np.argsort(-(inward + demand), kind="stable")
    rest = order[FIRST_ROOTS:]
    rest = rest[possible[rest]]
    tried = [*order[:FIRST_ROOTS], *(rest if size <= ALL_ROOTS else [])]
    best, routable = None, -1.0
    for root in tried:
        share = _flow_share(inside, demand, int(root))
        if share > routable:
            best, routable = int(root), share
        if share == 1:
            return 1, best, 1.0, True
    return 1, best, routable, size <= ALL_ROOTS or not len(rest)


def _flow_share(inside: Any, demand: np.ndarray, root: int) -> float:
    """Return the share of all other nodes' demand that reaches the root; 1 for all, exactly."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import maximum_flow

    source = len(demand)
    others = np.delete(np.arange(source), root)
    edges = inside.tocoo()
    scale = _UNITS / max(demand[others].sum(), edges.data.min())
    supply = np.floor(demand[others] * scale).astype(np.int64) + 1
    total = int(supply.sum())
    # No edge carries more than everything.
    room = np.floor(np.minimum(edges.data * scale, total)).astype(np.int64)
    rows = np.concatenate([edges.row, np.full(source - 1, source)]).astype(np.int32)
    columns = np.concatenate([edges.col, others]).astype(np.int32)
    capacity = np.concatenate([room, supply]).astype(np.int32)
    network = csr_array((capacity, (rows, columns)), shape=(source + 1,) * 2)
    return int(maximum_flow(network, source, root).flow_value) / total


def _why_no_tree(adjacency: Any) -> str | None:
    """Return what keeps a graph from being a tree, or None."""
    from scipy.sparse.csgraph import connected_components

    parts = int(connected_components(adjacency, directed=False)[0])
    if parts > 1:
        return f"is not connected: it has {parts} parts"
    return "has a cycle" if adjacency.nnz // 2 >= adjacency.shape[0] else None


def _critical_lambda(adjacency: Any, data: _Data, dual_norm: _Norm) -> float:
    """Add up gradients from the leaves to node 0, and compare each edge's with its weight."""
    from scipy.sparse.csgraph import breadth_first_order

    order, parent = breadth_first_order(adjacency, 0, directed=False)
    below = data.gradients(data.pooled()[1])
    for node in order[:0:-1]:
        below[parent[node]] += below[node]
    edges = adjacency.tocoo()
    upward = parent[edges.row] == edges.col
    sizes = dual_norm(below[edges.row[upward]])
    return float(np.max(sizes / edges.data[upward], initial=0))


def rounded_up(value: float) -> str:
    """Write a bound with two digits, never smaller than it is."""
    unit = 10.0 ** (np.floor(np.log10(value)) - 1)
    return f"{np.ceil(value / unit) * unit:.2g}"
