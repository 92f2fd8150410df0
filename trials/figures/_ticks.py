"""Labels of ticks."""

from matplotlib.ticker import LogFormatter


class PlainNumbers(LogFormatter):
    """Labels of a logarithmic axis as 0.5, 2 and 10: those of 1, 2 and 5 times a power of ten."""

    def __call__(self, x, pos=None):
        """Return the number where `LogFormatter` would label the tick."""
        labelled = super().__call__(x, pos) and f"{x:.0e}"[0] in "0125"
        return f"{x:g}" if labelled else ""
