"""Labels of ticks."""

from matplotlib.ticker import LogFormatterSciNotation


class PlainNumbers(LogFormatterSciNotation):
    """Labels of a logarithmic axis as 0.5, 2 and 10: those of 1, 2 and 5 times a power of ten.

    Those below 0.001 and from 100,000 on are powers of ten.
    """

    def __call__(self, x, pos=None):
        """Return the number where matplotlib would label the tick."""
        label = super().__call__(x, pos)
        if not label or f"{x:.0e}"[0] not in "0125":
            return ""
        return f"{x:g}" if x <= 0 or 0.00099 < x < 99_999 else label
