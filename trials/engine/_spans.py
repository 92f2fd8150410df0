"""Which trials of a run are missing, and how they are cut into chunks."""

from collections.abc import Iterable, Iterator, Sequence

from fedjax_admm.trials.engine._layout import Pace


def gaps_between(spans: Iterable[Sequence[int]], trials: int) -> list[range]:
    """Return the trials that are not there.

    Args:
      spans: the first of some trials that are there, and the one after their last; in their order.
      trials: how many are wanted.
    """
    gaps, reached = [], 0
    for first, stop in [*spans, (trials, trials)]:
        if reached < first:
            gaps.append(range(reached, first))
        reached = max(reached, stop)
    return gaps


def paced(gaps: Iterable[range], pace: Pace) -> Iterator[range]:
    """Yield what is computed together; how much it is, is asked when it is wanted."""
    for gap in gaps:
        first = gap.start
        while first < gap.stop:
            length = pace.length(gap.stop - first)
            yield range(first, first + length)
            first += length
