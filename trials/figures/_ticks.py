"""Labels of ticks."""

from matplotlib.ticker import LogFormatter


class PlainNumbers(LogFormatter):
    """Labels of a logarithmic axis as 0.5, 2 and 10 instead of 5e-1, 2e0 and 10^1."""

    def __call__(self, x, pos=None):
        """Return the number where `LogFormatter` would label the tick."""
        return f"{x:g}" if super().__call__(x, pos) else ""
