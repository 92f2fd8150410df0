"""Who takes what: every solver, on the problem of a user's own loss, and what it ends at.

The rows make the table in `docs/howto/which-solver.md`, which `python -m tests.solvers.matrix`
writes anew, and the runs of `test_matrix.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import fedjax_admm as fa
from fedjax_admm import penalties, privacy, solvers
from fedjax_admm.capabilities import Clients, OnGraph, OnStar, OnTree, has
from fedjax_admm.graphs import from_edges
from fedjax_admm.schedules import constant, geometric, schedule
from fedjax_admm.trees import from_counts

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "which-solver.md"
BEGIN, END = "<!-- matrix: python -m tests.solvers.matrix -->", "<!-- end of matrix -->"
SIZES = (8, 40, 11, 20, 33, 9, 8, 12, 15, 31)
EDGES = [*((i, (i + 1) % 10) for i in range(10)), (0, 5), (2, 7)]
TOPOLOGIES = {
    "star": lambda: None,
    "tree": lambda: from_counts([5, 5]),
    "graph": lambda: from_edges(10, EDGES),
}
OTHERS = {
    "localization": fa.problems.Localization,
    "phase_retrieval": fa.problems.PhaseRetrieval,
    "robust_regression": fa.problems.RobustRegression,
    "networked_regression": fa.problems.Networked,
    "consensus_regression": fa.problems.ConsensusRegression,
    "matrix_completion": fa.problems.MatrixCompletion,
}


@dataclass(frozen=True)
class Row:
    """A solver with a setting in which it converges."""

    build: Callable[[Any], Any]  # problem -> solver
    rounds: int = 300
    on: str = "star"
    minimises: str = "mean"  # a name in `test_matrix.TARGETS`; empty where its own tests say what
    inside: str = ""  # what of the setting the table tells
    precise: bool = False  # whether the inner solver of the prox has to be


def pseudo_huber(params: Any, sample: Any) -> jax.Array:
    x, y = sample
    w, b = params["w"], params["b"]
    return jnp.sqrt(1 + (x @ w + b - y) ** 2) - 1 + 0.05 * (w @ w + b * b)


def student_t(params: Any, sample: Any) -> jax.Array:
    """Student's t with two degrees of freedom: outliers weigh little, and it is not convex."""
    x, y = sample
    return 1.5 * jnp.log1p((x @ params["w"] + params["b"] - y) ** 2 / 2)


def clients() -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the data of ten clients with 8 to 40 samples, whose truths differ, in float64."""
    rng = np.random.default_rng(0)
    data = []
    for size in SIZES:
        x = rng.standard_normal((size, 3))
        truth = np.array([1.0, -2.0, 0.5]) + 0.3 * rng.standard_normal(3)
        data.append((x, x @ truth + 0.5 * rng.standard_t(2, size) + 0.3))
    return data


def problem(
    on: str = "star", loss: Any = pseudo_huber, *, groups: int = 1, **options: Any
) -> fa.problems.Federated:
    """Return the problem at one of the topologies; of two groups the second has the other truth."""
    start = {"w": jnp.zeros(3), "b": jnp.zeros(())}
    data = [(x, -y if k % groups else y) for k, (x, y) in enumerate(clients())]
    return fa.problems.federated(loss, data, start, topology=TOPOLOGIES[on](), **options)


def tight(weight: float) -> Any:
    """Return a link that holds models together, with constants that do not grow."""
    return solvers.tree_link(constant(1.0), constant(1e-6), penalties.l1(weight))


def still(solver: Any) -> Any:
    """Return a hierarchical solver whose links have the schedules of `tight`."""
    held = [replace(tight(1.0), penalty=part.penalty) for part in (solver.clients, *solver.servers)]
    return replace(solver, clients=held[0], servers=tuple(held[1:]))


def late(k: jax.Array, scale: float, delay: float) -> jax.Array:
    return scale / (k + delay)


EXACT = privacy.exact_release()
BY_PROX: dict[str, Any] = {"local": solvers.local_prox()}

ROWS: dict[str, Row] = {
    "apfl": Row(lambda _: solvers.apfl(mixing=0.9, local_steps=1), 3000, minimises="own"),
    "centralized_subgradient": Row(
        lambda _: solvers.centralized_subgradient(geometric(1.0, 0.97)), 600, "tree"
    ),
    "consensus_admm": Row(lambda _: solvers.consensus_admm(tight(50.0)), 150),
    "decentralized_admm": Row(
        lambda _: solvers.decentralized_admm(), 100, "graph", inside="local_prox()"
    ),
    "decentralized_admm by gradients": Row(
        lambda _: solvers.decentralized_admm(local=solvers.local_gradient()),
        on="graph",
        inside="local_gradient()",
    ),
    "ditto": Row(
        lambda _: solvers.ditto(solvers.scaffold(), 0.5),
        minimises="",
        inside="scaffold()",
    ),
    "extra": Row(lambda _: solvers.extra(), 1000, "graph"),
    "fed_admm": Row(lambda _: solvers.fed_admm(), inside="local_gradient()"),
    "fed_admm by prox": Row(lambda _: solvers.fed_admm(**BY_PROX), 80, inside="local_prox()"),
    "fed_dr": Row(lambda _: solvers.fed_dr(), inside="local_gradient()"),
    "fed_dr by prox": Row(lambda _: solvers.fed_dr(**BY_PROX), 80, inside="local_prox()"),
    "fed_dyn": Row(lambda _: solvers.fed_dyn(), inside="local_gradient()"),
    "fed_dyn by prox": Row(lambda _: solvers.fed_dyn(**BY_PROX), 80, inside="local_prox()"),
    "fed_pd": Row(lambda _: solvers.fed_pd(), inside="local_gradient()"),
    "fed_pd by prox": Row(lambda _: solvers.fed_pd(**BY_PROX), 80, inside="local_prox()"),
    "fed_plt": Row(lambda _: solvers.fed_plt(), inside="local_gradient()"),
    "fed_plt by prox": Row(lambda _: solvers.fed_plt(**BY_PROX), 80, inside="local_prox()"),
    "fed_prox": Row(
        lambda _: solvers.fed_prox(1.0, local=solvers.local_gradient(steps=50)),
        minimises="",
        inside="local_gradient()",
    ),
    "fed_prox by prox": Row(
        lambda _: solvers.fed_prox(1.0, **BY_PROX),
        80,
        minimises="",
        inside="local_prox()",
    ),
    "fed_avg": Row(lambda _: solvers.fed_avg(), 1000),
    "fed_avg_prox": Row(
        lambda _: solvers.fed_avg_prox(1.0),
        100,
        "graph",
        "",
    ),
    "fed_subgradient": Row(lambda _: solvers.fed_subgradient(constant(0.5))),
    "fed_mavg": Row(lambda _: solvers.fed_mavg()),
    "fed_mc_admm": Row(lambda _: solvers.fed_mc_admm()),
    "fsmdm": Row(
        lambda _: solvers.fsmdm(
            sigma_psi=constant(1.0),
            mu_phi=constant(1.5),
            sigma_xi=constant(1.0),
            mu_h=constant(1e-6),
            omega=50.0,
        ),
        # It asks for its proxes afresh, so that their accuracy does not tighten by itself.
        precise=True,
    ),
    "gtv": Row(
        lambda problem: solvers.gtv(problem, 0.5, penalties.squared_difference()),
        100,
        "graph",
        "coupled",
    ),
    "gtv_primal_dual": Row(
        lambda problem: solvers.gtv_primal_dual(
            problem, 0.5, penalties.squared_difference(), ratio=1.0
        ),
        400,
        "graph",
        "coupled",
    ),
    "hfsad": Row(
        lambda problem: still(solvers.hfsad(problem, omega=5.0, sparse=False, passes=1)),
        on="tree",
        inside='client_update="prox"',
    ),
    "hierarchical_admm": Row(
        lambda _: solvers.hierarchical_admm(tight(50.0), [tight(250.0)]),
        on="tree",
        inside='client_update="prox"',
    ),
    "hierarchical_admm, linearised": Row(
        lambda _: solvers.hierarchical_admm(
            tight(50.0), [tight(250.0)], client_update="linearized"
        ),
        on="tree",
        inside='client_update="linearized"',
    ),
    "ifca": Row(
        lambda _: solvers.ifca(jnp.array([[0.0, 0.5, -1.0, 0.0], [0.0, -0.5, 1.0, 0.0]]), 0.5),
        2000,
        minimises="groups",
    ),
    "p_admm": Row(lambda _: solvers.p_admm(EXACT), on="graph"),
    "p_fed_me": Row(
        lambda _: solvers.p_fed_me(1.0, local_steps=1),
        minimises="",
        inside="local_gradient()",
    ),
    "personal": Row(
        lambda _: solvers.personal(solvers.scaffold(), 0.5),
        600,
        minimises="heads",
        inside="scaffold()",
    ),
    "pg_extra": Row(
        lambda _: solvers.pg_extra(regularizer=penalties.l1(0.1)), 1000, "graph", "mean + l1"
    ),
    "private_networked_admm": Row(
        lambda _: solvers.private_networked_admm(EXACT, rho=0.2, step_size=constant(0.5)),
        1000,
        "graph",
    ),
    "private_subgradient": Row(
        lambda _: solvers.private_subgradient(
            EXACT, step_size=schedule(late, scale=8.0, delay=20.0)
        ),
        200_000,
        "graph",
    ),
    "prox_skip": Row(lambda _: solvers.prox_skip()),
    "scaffold": Row(lambda _: solvers.scaffold()),
}


def needed(solver: Any) -> tuple[type, ...]:
    """Return what a solver and the objects in its fields ask of a problem, each once."""
    fields = vars(solver).values()
    asked = list(getattr(solver, "requires", ()))
    for part in fields:
        # What a solver inside asks, a wrapper checks with all of its fields.
        asked += needed(part) if hasattr(part, "step") else getattr(part, "requires", ())
    return tuple(dict.fromkeys(asked))


def takes(solver: Any, problem: Any) -> bool:
    """Whether a problem has all that is asked, and stands where the solver can use it."""
    try:
        solver.participants(problem)
    except (fa.InputError, AttributeError):
        return False
    return has(problem, *needed(solver))


def table() -> str:
    """Return who takes what, in Markdown."""
    places = {place: problem(place) for place in TOPOLOGIES}
    heads = ["solver", "asks for", *(f"federated, {place}" for place in places)]
    lines = ["| " + " | ".join([*heads, *(f"`{name}`" for name in OTHERS)]) + " |"]
    lines.append("|" + "---|" * (len(heads) + len(OTHERS)))
    for name, row in ROWS.items():
        builder = name.split()[0].rstrip(",")
        solver = row.build(places[row.on])
        wanted = needed(solver)
        marks = [takes(solver, task) for task in places.values()]
        marks += [has(kind, *wanted) for kind in OTHERS.values()]
        standing = {"clients": Clients, "star": OnStar, "tree": OnTree, "graph": OnGraph}
        where = [place for place, capability in standing.items() if capability in wanted]
        asked = [c.__name__ for c in wanted if c not in standing.values()]
        what = f"`{builder}`" + (f" with `{row.inside}`" if row.inside else "")
        asks = ", ".join([*where[-1:], *(f"`{one}`" for one in asked)])
        cells = [what, asks, *("yes" if mark else "" for mark in marks)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def written(page: str) -> str:
    """Return a page with the table of today."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text("utf-8")), "utf-8")
