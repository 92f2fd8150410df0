"""Labels of ticks."""

from matplotlib.ticker import LogFormatter

_SMALLEST, _LARGEST = 1e-3 * (1 - 1e-9), 1e5 * (1 - 1e-9)


class PlainNumbers(LogFormatter):
    """Labels of a logarithmic axis as 0.5, 2 and 10 instead of 5e-1, 2e0 and 10^1.

    Those below 0.001 and from 100,000 on are powers of ten; between them 2 and 5 have labels.
    """

    def __call__(self, x, pos=None):
        """Return the number where `LogFormatter` would label the tick."""
        if not super().__call__(x, pos) or f"{x:.0e}"[0] not in "0125":
            return ""
        if x <= 0 or _SMALLEST <= x < _LARGEST:
            return f"{x:g}"
        digit, power = f"{x:.0e}".split("e")
        times = "" if digit == "1" else rf"{digit}\times "
        return rf"${times}10^{{{int(power)}}}$"
