"""What the problem of a file would take, counted before it is computed.

    time     rounds, of a microsecond each at least, and numbers that are computed, at the peak of
             this machine's vector units
    memory   the arrays that are there at once

Both are lower bounds and often ten times too low: what is refused would take longer than a day, or
more than the memory, by any reckoning.
"""

from fedjax_admm._checks import InputError
from fedjax_admm.trials import limits
from fedjax_admm.trials.solve._settings import Settings

_ROUND = 1e-6  # seconds: no step of a loop takes less


def check_work(
    settings: Settings, what: str, remedy: str, *, steps: float, numbers: float, held: float
) -> None:
    """Check that a problem is solved within a day and the memory.

    Args:
      settings: the options, which the remedy may name in braces.
      what: what takes so much, as a sentence begins: "3000 rounds on 8 sensors".
      remedy: what to do about it.
      steps: how many steps are taken one after the other.
      numbers: how many numbers are computed, at least.
      held: how many numbers are in memory at once, at least.

    Raises:
      InputError: it takes longer, or more.
    """
    try:
        size = held * (8 if settings.wide() else 4)
        limits.check_memory(what, int(size), remedy)
        limits.check_time(what, max(numbers, steps * _ROUND * limits.speed()), remedy)
    except InputError as error:
        raise settings.mistake(str(error)) from None
