"""The figure of a long run's first trials, drawn while the devices compute the next ones.

It is the run's own figure, `figure.png`, whose title calls it a preview in every style; the end of
the run replaces it. Where the rest of the run takes `WORTH_SECONDS` or more, it is drawn after the
first chunk, and again when there are twice as many trials and the last drawing took at most the
share `SHARE` of the time since then.

The main thread draws: it has nothing else to do while the devices compute, and a thread of its own
might outlive an interrupted run.
"""

import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedjax_admm._host import printable
from fedjax_admm.trials import folders
from fedjax_admm.trials.experiments import Experiment
from fedjax_admm.trials.figures import figure_files, save_figure
from fedjax_admm.trials.results import collected

WORTH_SECONDS = 20.0
"""What the rest of a run takes at least where a figure of its first trials is drawn."""

SHARE = 0.02
"""The largest share of the time between two drawings that the first of them may have taken."""


@dataclass
class EarlyFigure:
    """Draws the figure of the first trials of a run where that pays; a failure ends this alone."""

    experiment: Experiment
    config: Mapping[str, Any]
    out: Path  # the folder of the run, locked by this process
    progress: bool  # whether standard error tells of the figure
    trials: int = 0  # of the last drawing
    earliest: float = -np.inf  # time of the next one, in seconds of the performance counter

    def __call__(self, arrays: Mapping[str, np.ndarray], seconds: float) -> None:
        """Draw the trials so far if it pays; those that are left will take so many seconds."""
        trials = len(next(iter(arrays.values())))
        clock = time.perf_counter()
        if seconds < WORTH_SECONDS or trials < 2 * self.trials or clock < self.earliest:
            return
        try:
            self._draw(arrays)
        except Exception as error:
            self.earliest = np.inf
            self._tell(f"No figure of the first trials: {error}")
            return
        if not self.trials:
            self._tell(
                f"{self.out}/figure.png shows the first {trials} of {self.config['trials']} "
                "trials; it is drawn again when there are many more."
            )
        done = time.perf_counter()
        self.trials, self.earliest = trials, done + (done - clock) / SHARE

    def _draw(self, arrays: Mapping[str, np.ndarray]) -> None:
        rounds = self.experiment.recorded(self.config["rounds"])
        results = collected({**self.config, "status": "running"}, arrays, rounds)
        figure = self.experiment.draw(results)
        look = replace(figure_files(self.config).look, titled=True)  # the title says "preview"
        folders.rewrite_locked(
            self.out, lambda stage: save_figure(figure, stage, formats=("png",), style=look)
        )

    def _tell(self, words: str) -> None:
        with suppress(OSError, AttributeError):  # standard error may be closed
            if self.progress:
                sys.stderr.write(f"{printable(' '.join(words.split()))}\n")
