"""Error against bits: compressors under all families of solvers, tuned alike.

Every task of `_tasks` is solved with every channel of `channels_of`, upwards (on a graph: along the
edges); what servers send goes uncompressed, and its bits are in the metric bits_down. Compressors
stand inside coded differences; "no memory" is the compressor alone, "error feedback" EF14. A
message of SCAFFOLD has two vectors, one of HFSAD and FSMDM a weight of 32 bits besides. What GTV
says along an edge counts both ways.

The error is looked at after every round, so that the bits until the target are exact. Runs that do
not reach it count with all their bits, and the metric "reached" says how many do.

Tuning. Every channel of a task gets the same 12 settings of its solver; `python benchmarks/tune.py
messages-compression` takes the one with the fewest bits until the target, on problems of other
seeds; compressors have the parameters of the settings `levels` and `share` throughout.
"""

import math
from dataclasses import field
from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm import messages
from fedjax_admm._checks import count, number
from fedjax_admm._pytrees import pytree_dataclass
from fedjax_admm._run._results import Measure
from fedjax_admm._run._rounds import run
from fedjax_admm.messages import Channel, exchange
from fedjax_admm.traffic import NUMBER
from fedjax_admm.trials import figures
from fedjax_admm.trials.experiments._catalogue import texts
from fedjax_admm.trials.experiments._data import tuned_rows
from fedjax_admm.trials.experiments._experiment import Experiment, Settings, Sweep
from fedjax_admm.trials.experiments._methods import Method, recorded_rounds
from fedjax_admm.trials.experiments._tuning import Setting
from fedjax_admm.trials.experiments.messages._by_number import AChannel
from fedjax_admm.trials.experiments.messages._tasks import TASKS, Posed, Task, draw_data
from fedjax_admm.trials.results import MESSAGES, NONFINITE_ROUND

FLOOR = 1e-6
"""What is below counts as that: references are no more exact."""
BELOW = 1e-4
"""A run is below the reference by more than rounding from here on."""


@pytree_dataclass
class Compressed(Method):
    """A solver of a task whose messages pass one of several channels."""

    place: jax.Array  # shape=(), int32: of the channel
    setting: Setting  # of the solver, numbers of shape ()
    target: jax.Array  # shape=(): the suboptimality to be reached
    channels: tuple[Channel, ...]
    task: str = field(metadata={"static": True})

    in_turn = True

    def __call__(self, problem, key, rounds, every):
        """Run the solver, look at it after every round, and keep some of them."""
        trace, bad = self.traced(problem[self.task], key, rounds)
        records = recorded_rounds(rounds, every) - 1
        sent = jnp.cumsum(trace.pop(MESSAGES))[records]
        return {
            **{name: values[records] for name, values in trace.items()},
            MESSAGES: jnp.diff(sent, prepend=0),
            NONFINITE_ROUND: bad,
        }

    def traced(
        self, posed: Posed, key: jax.Array, rounds: int
    ) -> tuple[dict[str, jax.Array], jax.Array]:
        """Return what is measured after every round, and the first that was not finite."""
        most = min(rounds, TASKS[self.task].most)
        solver = self.solver(posed.problem, AChannel(self.channels, self.place))
        result = run(solver, posed.problem, key, rounds=most, measure=MEASURES[self.task], every=1)
        error = (result.trace["objective"] - posed.least) / (posed.first - posed.least)
        messages = jnp.cumsum(result.trace[MESSAGES])
        sent = messages.astype(error.dtype) * self._bits(posed.problem).astype(error.dtype)
        there = error <= self.target
        reached = jnp.cumsum(there) > 0
        # Where it is never reached, all that was sent counts, and more is needed.
        trace = {
            "error": jnp.maximum(error, FLOOR),
            "below": (error < -BELOW).astype(error.dtype),
            "bits": sent,
            "bits_to_target": jnp.where(reached, sent[jnp.argmax(there)], sent),
            "reached": reached.astype(error.dtype),
        }
        later = (0, rounds - most)
        trace = {name: jnp.pad(values, later, mode="edge") for name, values in trace.items()}
        return {**trace, MESSAGES: jnp.pad(result.trace[MESSAGES], later)}, result.status.nonfinite

    def solver(self, problem: Any, channel: Channel) -> Any:
        """Return the solver of a problem, with a channel towards the server or the neighbours."""
        return TASKS[self.task].solver(problem, self.setting, exchange=exchange(channel))

    def posed(self, problem, key, rounds):
        """Return the task's problem, and its solver with the channel of this method."""
        asked = problem[self.task].problem
        return asked, self.solver(asked, self.channels[int(self.place)]), key

    def _bits(self, problem: Any) -> jax.Array:
        """Return the bits of a message that passes the channel, shape ()."""
        bits = []
        for channel in self.channels:
            sizes = self.solver(problem, channel).traffic(problem)
            up, down = (
                NUMBER * numbers if said is None else said
                for numbers, said in ((sizes.up, sizes.up_bits), (sizes.down, sizes.down_bits))
            )
            bits.append(up + down if TASKS[self.task].both_ways else up)
        return jnp.asarray(bits, jnp.int32)[self.place]


def _measure_of(task: Task) -> Measure:
    def measure(solver: Any, problem: Any, state: Any) -> dict[str, jax.Array]:
        return {"objective": task.objective(solver, problem, state)}

    return measure


MEASURES = {name: _measure_of(task) for name, task in TASKS.items()}
"""Task -> what is recorded of it: "objective"."""


def channels_of(settings: Settings, task: Task) -> dict[str, Channel]:
    """Return the channels of a task by name, the uncompressed one first; low rank with a rank."""
    levels, share = count("levels", settings["levels"]), settings["share"]
    number("share", share, above=0, at_most=1)
    entries = max(1, round(share * math.prod(task.shape(settings))))
    top_k, qsgd = messages.top_k(entries), messages.qsgd(levels)
    remembered = {
        "float16": messages.cast("float16"),
        "natural": messages.natural(),
        "QSGD": qsgd,
        "sign": messages.scaled_sign(),
        "top-k": top_k,
        "rand-k": messages.rand_k(entries),
    }
    channels: dict[str, Channel] = {
        "none": messages.identity(),  # beside which all others stand: 32 bits per number
        **{name: messages.differences(each) for name, each in remembered.items()},
        "QSGD, no memory": qsgd,
        "top-k, no memory": top_k,
        "top-k, error feedback": messages.error_feedback(top_k),
    }
    if task.rank is not None:
        channels["low rank"] = messages.differences(messages.low_rank(task.rank))
    return channels


def draw_problems(
    settings: Settings, target: Any, key: jax.Array, names: tuple[str, ...] = tuple(TASKS)
) -> dict[str, Posed]:
    """Draw the problems of tasks; those of them on the same data get the same."""
    number("target", target, above=0)
    data_key, key = jax.random.split(key)
    data = draw_data(settings, data_key)
    keys = dict(zip(TASKS, jax.random.split(key, len(TASKS)), strict=True))
    return {name: TASKS[name].draw(settings, data, keys[name]) for name in names}


CHOSEN = {(row["task"], row["channel"]): int(row["place"]) for row in tuned_rows("compression")}
"""Task and channel -> place of the best setting in the task's grid."""


def methods_of(settings: Settings, target: Any) -> dict[str, Compressed]:
    """Return a method for every channel of every task, with its tuned numbers."""
    methods = {}
    for name, task in TASKS.items():
        channels = channels_of(settings, task)
        for place, called in enumerate(channels):
            chosen = task.grid()[CHOSEN[name, called]]
            methods[f"{name}{figures.SEPARATOR}{called}"] = Compressed(
                jnp.asarray(place, jnp.int32),
                Setting(*map(jnp.asarray, chosen)),
                number("target", target, above=0),
                tuple(channels.values()),
                name,
            )
    return methods


EXPERIMENTS = (
    Experiment(
        **texts(__file__)["messages-compression"],
        sweep=Sweep("target", "relative suboptimality to be reached", (1e-3,)),
        problem=draw_problems,
        methods=methods_of,
        figure=figures.bits_figure,
        metrics={
            "error": "relative suboptimality",
            "below": "share of trials below the reference",
            "bits": "bits of all messages that are compressed",
            "bits_to_target": "bits until it is reached (all bits where it never is)",
            "reached": "share of trials that reach it",
        },
        settings={
            "clients": 20,
            "edges": 4,
            "samples": 16,
            "dim": 32,
            "items": 24,
            "shift": 1.0,
            "levels": 3,
            "share": 0.25,
        },
        rounds=300,
        records=50,
        quick={"trials": 4, "rounds": 60},
    ),
)
