"""The table through which everything goes that happens to messages: a new one adds an entry."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedjax_admm import messages


@dataclass(frozen=True)
class Case:
    """A channel, an aggregator, an attack or a delay, and what its suite is told about it."""

    builder: Callable[..., Any]  # of `fedjax_admm.messages`
    built: Callable[[Callable[..., Any]], Any]  # builder -> what is checked
    options: dict[str, Any] = field(default_factory=dict)  # of the suite

    def part(self) -> Any:
        """Return what is checked."""
        return self.built(self.builder)


MATRICES = {"shapes": ((4, 3), (2, 2))}

CHANNELS = {
    "identity": Case(messages.identity, lambda build: build()),
    "qsgd": Case(messages.qsgd, lambda build: build(4)),
    "natural": Case(messages.natural, lambda build: build()),
    "scaled_sign": Case(messages.scaled_sign, lambda build: build()),
    "top_k": Case(messages.top_k, lambda build: build(2)),
    "top_k, all": Case(messages.top_k, lambda build: build(9)),
    "rand_k": Case(messages.rand_k, lambda build: build(2)),
    "cast, bfloat16": Case(messages.cast, lambda build: build("bfloat16")),
    "cast, float16": Case(messages.cast, lambda build: build("float16")),
    "low_rank": Case(messages.low_rank, lambda build: build(1), MATRICES),
    "error_feedback, top_k": Case(
        messages.error_feedback, lambda build: build(messages.top_k(2), step=0.9)
    ),
    "error_feedback, low_rank": Case(
        messages.error_feedback, lambda build: build(messages.low_rank(1)), MATRICES
    ),
    "differences, top_k": Case(
        messages.differences, lambda build: build(messages.top_k(2), step=0.9)
    ),
    "differences, qsgd": Case(messages.differences, lambda build: build(messages.qsgd(1))),
    "differences, error_feedback": Case(
        messages.differences,
        lambda build: build(messages.error_feedback(messages.scaled_sign())),
    ),
}

AGGREGATORS = {
    "mean": Case(messages.mean, lambda build: build()),
    "coordinate_median": Case(messages.coordinate_median, lambda build: build()),
    "coordinate_median, without a cap": Case(
        messages.coordinate_median, lambda build: build(cap=np.inf)
    ),
    "trimmed_mean": Case(messages.trimmed_mean, lambda build: build(0.2)),
    "geometric_median": Case(messages.geometric_median, lambda build: build()),
    "geometric_median, smoothed": Case(messages.geometric_median, lambda build: build(0.3, 8)),
    "krum": Case(messages.krum, lambda build: build(2)),
    "multi_krum": Case(messages.multi_krum, lambda build: build(2, 3)),
    "multi_krum, neighbours": Case(messages.multi_krum, lambda build: build(1, 2, 4)),
    "centred_clipping": Case(messages.centred_clipping, lambda build: build(0.7, 3)),
    "norm_bounding": Case(messages.norm_bounding, lambda build: build(0.7)),
}

ATTACKS = {
    "nobody": Case(messages.no_attack, lambda build: build()),
    "sign_flip": Case(messages.sign_flip, lambda build: build(0.3, 2.0)),
    "sign_flip, named": Case(
        messages.sign_flip, lambda build: build(who=np.arange(6) == 4), {"senders": 6}
    ),
    "scaled_noise": Case(messages.scaled_noise, lambda build: build(0.3, 2.0)),
    "scaled_noise, mean": Case(messages.scaled_noise, lambda build: build(0.3, around="mean")),
    "constant_message": Case(messages.constant_message, lambda build: build(0.3, [1.0, -2.0, 0.5])),
    "stale_replay": Case(messages.stale_replay, lambda build: build(0.3, 2)),
    "mimic": Case(messages.mimic, lambda build: build(0.3)),
    "mimic, first, matrices": Case(
        messages.mimic, lambda build: build(0.9, "first"), {"shapes": ((2, 3),)}
    ),
    "a_little_is_enough": Case(messages.a_little_is_enough, lambda build: build(0.3)),
    "a_little_is_enough, z": Case(messages.a_little_is_enough, lambda build: build(0.3, 1.5)),
    "inner_product_manipulation": Case(
        messages.inner_product_manipulation, lambda build: build(0.3, 0.8)
    ),
}

DELAYS = {
    "prompt": Case(messages.prompt, lambda build: build()),
    "fixed_delay": Case(messages.fixed_delay, lambda build: build(2)),
    "fixed_delay, of each": Case(
        messages.fixed_delay, lambda build: build([0, 1, 2, 3, 0, 1, 2, 3])
    ),
    "bounded_delay": Case(messages.bounded_delay, lambda build: build(3)),
    "bounded_delay, in order": Case(messages.bounded_delay, lambda build: build(3, in_order=True)),
    "geometric_delay": Case(messages.geometric_delay, lambda build: build(1.5, 4)),
    "geometric_delay, last, in order": Case(
        messages.geometric_delay, lambda build: build(1.5, 4, late="last", in_order=True)
    ),
    "heavy_tailed_delay": Case(messages.heavy_tailed_delay, lambda build: build(1.2, 4)),
    "heavy_tailed_delay, last": Case(
        messages.heavy_tailed_delay, lambda build: build(0.8, 3, scale=0.5, late="last")
    ),
    "lossy": Case(messages.lossy, lambda build: build(0.3)),
    "lossy, late": Case(messages.lossy, lambda build: build(0.3, messages.bounded_delay(2))),
    "replay_delays": Case(
        messages.replay_delays,
        lambda build: build(np.random.default_rng(0).integers(0, 4, (16, 8))),
    ),
    "replay_delays, some are lost": Case(
        messages.replay_delays,
        lambda build: build(np.random.default_rng(0).integers(0, 4, (16, 8)), 2),
    ),
}

# Kind -> the members of one of it, and the table.
KINDS = {
    "channel": (("encode", "bits"), CHANNELS),
    "aggregator": (("__call__", "check"), AGGREGATORS),
    "attack": (("who", "init"), ATTACKS),
    "delay": (("draw", "depth"), DELAYS),
}
