r"""Error against the share of Byzantine senders, by aggregator and attack, on four tasks.

    FSMDM      range localisation with lying sensors; ranges have Cauchy noise. The error is the
               distance of the server's position from the target, in metres
    HFSAD      robust regression on a tree, clients below edge servers, of which some are captured
               and lie to the cloud; smoothed gradients. The error is as below
    FedADMM    least absolute deviations on a star, clients with a prox; some clients lie
    FedAvg     the same, clients with five subgradient steps

The last three have the data of `_tasks`, and their error is `||w - w*|| / ||w*||` with w* the
minimiser of the mean loss of all HONEST clients' samples: what a server could know at best. It is
found by ADMM on these samples together.

Byzantine senders are the first `floor(share n)` of n sensors, clients or edge servers; all are
drawn alike, so that which of them lie is of no account. With a larger share there are only more.
"""

from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm import messages, problems, solvers, trees
from fedjax_admm._checks import count, number
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm.kernels import safe_norm
from fedjax_admm.trials import figures
from fedjax_admm.trials.experiments._catalogue import texts
from fedjax_admm.trials.experiments._data import tuned_rows
from fedjax_admm.trials.experiments._experiment import Experiment, Settings, Sweep
from fedjax_admm.trials.experiments._tuning import ONLY, STEPS, between
from fedjax_admm.trials.experiments.messages._by_number import (
    AnAggregator,
    AnAttack,
    SoughtMethod,
)
from fedjax_admm.trials.experiments.messages._tasks import draw_data, least_deviations
from fedjax_admm.trials.experiments.peers._pinball import pinball_problem

AGGREGATORS = (
    "mean",
    "median",
    "trimmed mean",
    "geometric median",
    "Krum",
    "multi-Krum",
    "centred clipping",
    "norm bounding",
)
ATTACKS = (
    "sign flip",
    "noise",
    "constant",
    "mimic",
    "a little is enough",
    "inner product",
    "stale replay",
    "label flip",
)
SHOWN = {
    "FSMDM": ("sign flip", "noise", "mimic", "a little is enough", "stale replay"),
    "HFSAD": ("sign flip", "mimic", "a little is enough"),
    "FedADMM": ATTACKS,
    "FedAvg": ("sign flip", "mimic", "a little is enough", "label flip"),
}
"""Task -> the attacks on it."""
PASSES = 3
AGE = 20
"""How old, in messages, is what a stale replay says."""
_ROUNDING = 1e-5


class Attackable(NamedTuple):
    """A problem, who lies, and what is to be found."""

    problem: Any
    false: Any  # the same problem as Byzantine senders with false labels have it
    byzantine: jax.Array  # shape=(senders,), bool
    solution: jax.Array  # shape=(dim,)
    unit: jax.Array  # shape=(): of the error


class Radii(NamedTuple):
    """What aggregators of a radius are given, in the unit of the messages."""

    clipping: ArrayLike
    bounding: ArrayLike


class Target(NamedTuple):
    """A task: what is drawn, who solves it, and the numbers of attackers and aggregators."""

    draw: Callable[[Settings, Any, jax.Array], Attackable]
    build: Callable[..., Any]  # (problem, number, exchange=) -> solver
    senders: str  # the setting that says among how many there are Byzantine senders
    reach: float  # how far noise and constant messages are off, in the unit of the messages
    grid: tuple[float, ...]  # values of the solver's number that are tried
    radii: tuple[float, ...]  # of clipping and bounding that are tried


def first_of(share: Any, number_of_all: int) -> jax.Array:
    """Return a share of all, rounded down: the first ones, bool, shape (number_of_all,)."""
    byzantine = jnp.floor(jnp.asarray(share) * number_of_all * (1 + _ROUNDING)).astype(jnp.int32)
    return jnp.arange(number_of_all, dtype=jnp.int32) < byzantine


def _cube(settings: Settings, share: Any, key: jax.Array) -> Attackable:
    noise = problems.cauchy_noise(number("noise", settings["noise"], at_least=0))
    problem = problems.draw_localization(key, noise, clients=settings["sensors"])
    byzantine = first_of(share, settings["sensors"])
    target = jnp.asarray(problem.target)
    return Attackable(problem, problem, byzantine, target, jnp.ones((), target.dtype))


def _star(settings: Settings, share: Any, key: jax.Array) -> Attackable:
    data = draw_data(settings, key)
    byzantine = first_of(share, settings["clients"])
    problem = pinball_problem(data.x, data.y, 0.5, PASSES)
    false, _ = problems.flip_labels(problem, who=byzantine, label="y")
    solution = least_deviations(data.x, data.y, ~byzantine)
    return Attackable(problem, false, byzantine, solution, safe_norm(solution))


def _tree(settings: Settings, share: Any, key: jax.Array) -> Attackable:
    edges, each = count("edges", settings["edges"]), count("below", settings["below"])
    data = draw_data({**settings, "clients": edges * each}, key)
    problem = problems.RobustRegression(
        jnp.swapaxes(data.x, 1, 2),
        data.y,
        jnp.ones_like(data.y),
        trees.from_counts([each] * edges),
        jnp.zeros(data.x.shape[-1], data.x.dtype),
    )
    captured = first_of(share, edges)
    solution = least_deviations(data.x, data.y, ~jnp.repeat(captured, each))
    links = jnp.concatenate([jnp.zeros(edges * each, bool), captured])
    return Attackable(problem, problem, links, solution, safe_norm(solution))


def _fsmdm(problem: Any, chosen: Any, **more: Any) -> Any:
    return solvers.fsmdm("tuned", **more)


def _fed_admm(problem: Any, rho: Any, **more: Any) -> Any:
    return solvers.fed_admm(rho, local=solvers.local_prox(), **more)


def _fed_avg(problem: Any, rate: Any, **more: Any) -> Any:
    return solvers.fed_avg(rate, local_steps=STEPS, **more)


def _hfsad(problem: Any, weight: Any, **more: Any) -> Any:
    clients, *servers = solvers.consensus_links(problem.tree, weight)
    return solvers.hierarchical_admm(clients, servers, client_update="linearized", **more)


_LENGTHS = between(0.03, 10.0, 12)
TARGETS = {
    "FSMDM": Target(_cube, _fsmdm, "sensors", 30.0, ONLY, between(0.3, 100.0, 12)),
    "HFSAD": Target(_tree, _hfsad, "edges", 10.0, between(0.1, 10.0, 12), _LENGTHS),
    "FedADMM": Target(_star, _fed_admm, "clients", 10.0, between(0.3, 30.0, 12), _LENGTHS),
    "FedAvg": Target(_star, _fed_avg, "clients", 10.0, between(0.001, 0.1, 12), _LENGTHS),
}
"""What a task is called -> what it is."""


def draw_problems(settings: Settings, share: Any, key: jax.Array) -> dict[str, Attackable]:
    """Draw the problems of all tasks; FedADMM and FedAvg have the same."""
    number("share", share, at_least=0, at_most=0.5)
    count("sensors", settings["sensors"], at_least=4)
    cube_key, tree_key, star_key = jax.random.split(key, 3)
    star = TARGETS["FedADMM"].draw(settings, share, star_key)
    return {
        "FSMDM": TARGETS["FSMDM"].draw(settings, share, cube_key),
        "HFSAD": TARGETS["HFSAD"].draw(settings, share, tree_key),
        "FedADMM": star,
        "FedAvg": star,
    }


def attacks(byzantine: jax.Array, reach: float) -> tuple[messages.Attack, ...]:
    """Return the attacks in the order of `ATTACKS`; who has false labels tells the truth."""
    who: dict[str, Any] = {"who": byzantine}
    return (
        messages.sign_flip(**who),
        messages.scaled_noise(deviation=reach, around="mean", **who),
        messages.constant_message(value=reach, **who),
        messages.mimic(**who),
        messages.a_little_is_enough(**who),
        messages.inner_product_manipulation(**who),
        messages.stale_replay(age=AGE, **who),
        messages.no_attack(),
    )


def aggregators(senders: int, expected: float, radii: Radii) -> tuple[messages.Aggregator, ...]:
    """Return the aggregators in the order of `AGGREGATORS`, which expect a share of bad senders."""
    bad = int(expected * senders * (1 + _ROUNDING))
    return (
        messages.mean(),
        messages.coordinate_median(),
        messages.trimmed_mean(expected),
        messages.geometric_median(),
        messages.krum(bad),
        messages.multi_krum(bad, senders - bad),
        messages.centred_clipping(radii.clipping),
        messages.norm_bounding(radii.bounding),
    )


@pytree_dataclass
class Attacked(SoughtMethod):
    """A task with an attack and an aggregator."""

    attack: jax.Array  # shape=(), int32: its place among those `SHOWN` on the task
    aggregator: jax.Array  # shape=(), int32: its place in `AGGREGATORS`
    chosen: jax.Array  # shape=(): the number of the solver that is tuned
    radii: Radii  # numbers of shape ()
    expected: float = field(metadata={"static": True})
    senders: int = field(metadata={"static": True})
    task: str = field(metadata={"static": True})

    def sought(self, problem):
        """Return the task's problem and its solution."""
        return problem[self.task]

    def posed(self, problem, key, rounds):
        """Return the task's problem with the labels of this attack, and its solver."""
        asked = problem[self.task]
        solved = asked.problem
        if "label flip" in SHOWN[self.task]:
            false = self.attack == SHOWN[self.task].index("label flip")
            solved = jax.tree.map(
                lambda true, told: jnp.where(false, told, true), solved, asked.false
            )
        return solved, self.solver(solved, asked.byzantine), key

    def solver(self, problem: Any, byzantine: jax.Array) -> Any:
        """Return the solver of a problem, among Byzantine senders."""
        target = TARGETS[self.task]
        lies = dict(zip(ATTACKS, attacks(byzantine, target.reach), strict=True))
        attack = AnAttack(tuple(lies[name] for name in SHOWN[self.task]), self.attack)
        rules = aggregators(self.senders, self.expected, self.radii)
        told = messages.exchange(attack=attack, aggregator=AnAggregator(rules, self.aggregator))
        return target.build(problem, self.chosen, exchange=told)


# --- the experiment ---

CHOSEN = {
    row["task"]: tuple(float(row[name]) for name in ("number", "clipping", "bounding"))
    for row in tuned_rows("byzantine")
}
"""Task -> the number of its solver, and the radii of clipping and bounding, as `python
benchmarks/tune.py messages-byzantine` prints them from 8 tuning problems: the best number
without Byzantine senders, then the best radii by the mean over attacks at the share 0.2."""
EXPECTED = 0.4
"""The share of Byzantine senders that trimmed means, Krum and multi-Krum are told to expect."""
RULES = ("mean", "median", "trimmed mean", "geometric median", "multi-Krum", "centred clipping")
"""The aggregators that the figure shows."""
COLUMNS = ("sign flip", "mimic", "a little is enough")


def methods_of(settings: Settings, share: Any) -> dict[str, Attacked]:
    """Return a method for every attack and aggregator of every task."""
    methods = {}
    for task, target in TARGETS.items():
        number, clipping, bounding = (jnp.asarray(each, float) for each in CHOSEN[task])
        for which, attack in enumerate(SHOWN[task]):
            for place, aggregator in enumerate(AGGREGATORS):
                methods[f"{task}{figures.SEPARATOR}{aggregator}, {attack}"] = Attacked(
                    jnp.asarray(which, jnp.int32),
                    jnp.asarray(place, jnp.int32),
                    number,
                    Radii(clipping, bounding),
                    EXPECTED,
                    settings[target.senders],
                    task,
                )
    return methods


EXPERIMENTS = (
    Experiment(
        **texts(__file__)["messages-byzantine"],
        sweep=Sweep("share", "share of Byzantine senders", (0.0, 0.1, 0.2, 0.4, 0.45)),
        problem=draw_problems,
        methods=methods_of,
        figure=partial(
            figures.attacks_figure,
            metric="error",
            attacks=COLUMNS,
            leading=("FedADMM", "FSMDM", "HFSAD"),
        ),
        shown=tuple(f"{rule}, {attack}" for rule in RULES for attack in ATTACKS),
        metrics={"error": "error (FSMDM: in metres; else relative)"},
        settings={
            "sensors": 21,
            "noise": 1.0,
            "clients": 21,
            "edges": 11,
            "below": 3,
            "samples": 10,
            "dim": 5,
            "shift": 1.0,
        },
        rounds=80,
        records=4,
        quick={"trials": 4, "rounds": 20},
    ),
)
