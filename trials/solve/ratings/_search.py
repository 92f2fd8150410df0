"""Which of some values is best, found without running each of them to the end.

Errors after equal numbers of rounds are compared: of a coarse half of the grid first, then of the
neighbours of the best one, which alone go on. A value that leads later has its neighbours looked at
too: large values are slow at first. The last rounds are left to two.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np

STAGES = (0.15, 0.4, 1.0)  # of the rounds: coarse, fine, to the end
FINALISTS = 2

Look = Callable[[Sequence[int], int], Sequence[float]]
"""`look(places, rounds)`: errors of the values at some places after so many rounds."""


class Trials:
    """What is known of the values of a grid."""

    def __init__(self, number: int, look: Look) -> None:
        """Know nothing yet of so many values; `look` tells their errors."""
        self.errors = np.full(number, np.inf)  # after the last look
        self.rounds = np.zeros(number, int)  # at the last look; 0: not looked at
        self._look = look

    def look(self, places: Sequence[int], rounds: int) -> None:
        """Run the values at some places until so many rounds are done."""
        behind = [place for place in places if self.rounds[place] < rounds]
        if behind:
            errors = np.asarray(self._look(behind, rounds), float)
            self.errors[behind] = np.where(np.isfinite(errors), errors, np.inf)
            self.rounds[behind] = rounds

    def best(self, rounds: int) -> list[int]:
        """Return the places that are so far and finite, the smallest error first."""
        order = np.argsort(self.errors, kind="stable").tolist()
        return [n for n in order if self.rounds[n] == rounds and np.isfinite(self.errors[n])]

    def around(self, place: int) -> list[int]:
        """Return the neighbours of a place."""
        return [n for n in (place - 1, place + 1) if 0 <= n < self.errors.size]

    def look_around_best(self, rounds: int) -> None:
        """Look at the neighbours of the best value until none of them is better."""
        while best := self.best(rounds)[:1]:
            around = self.around(best[0])
            if all(self.rounds[n] >= rounds for n in around):
                return
            self.look(around, rounds)


def search(number: int, rounds: Sequence[int], look: Look) -> Trials:
    """Find the value of a grid, in ascending order, whose error after the last round is smallest.

    Returns:
      What is known; the best one is `best(rounds[-1])[0]`, if any is finite.
    """
    trials = Trials(number, look)
    if number == 1:
        trials.look([0], rounds[-1])
        return trials
    trials.look(range(1, number, 2), rounds[0])
    if not trials.best(rounds[0]):
        trials.look(range(number), rounds[0])
    trials.look_around_best(rounds[0])
    for done, following in pairwise(rounds):
        best = trials.best(done)
        if following == rounds[-1]:
            trials.look(best[:FINALISTS], following)
        elif best:
            trials.look([*best[:1], *trials.around(best[0])], following)
            trials.look_around_best(following)
    return trials


def stages(rounds: int, every: int) -> list[int]:
    """Return after how many rounds values are compared: multiples of `every`, up to `rounds`."""
    marks = {max(1, round(share * rounds / every)) * every for share in STAGES}
    return sorted(marks)
