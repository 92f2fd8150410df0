"""A figure as commands of PGF, which LaTeX reads: written without LaTeX.

matplotlib asks LaTeX how wide each text is. Here its own fonts tell, from which LaTeX's differ
little; texts are anchored at their places, so that none is shifted by it.
"""

import io
from typing import Any, BinaryIO

from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_mixed import MixedModeRenderer
from matplotlib.backends.backend_pgf import RendererPgf
from matplotlib.figure import Figure

from fedjax_admm.trials.figures._looks._measures import renderer_of

_HEAD = r"""%% Put \usepackage{pgf} into the preamble, and \input{figure.pgf} into the figure.
\begingroup
\providecommand{\mathdefault}[1]{#1}
\makeatletter
\begin{pgfpicture}
\pgfpathrectangle{\pgfpointorigin}{\pgfqpoint{%fin}{%fin}}
\pgfusepath{use as bounding box, clip}
"""
_END = r"""\end{pgfpicture}
\makeatother
\endgroup
"""

_LETTERS = str.maketrans({"→": r"$\rightarrow$", "…": "...", "−": "-", "∞": r"$\infty$"})


class _WithoutLatex(RendererPgf):
    """Writes PGF, and measures texts with matplotlib's own fonts."""

    def draw_text(self, gc, x, y, s, prop, angle, ismath: Any = False, mtext=None):
        """Write a text, without letters that LaTeX does not have."""
        super().draw_text(gc, x, y, s.translate(_LETTERS), prop, angle, ismath, mtext)

    def get_text_width_height_descent(self, s, prop, ismath):
        """Return sizes of a text in pixels."""
        return RendererBase.get_text_width_height_descent(self, s, prop, ismath)


def write_pgf(figure: Figure, file: BinaryIO) -> None:
    """Write a figure that has been laid out as a `pgfpicture`."""
    figure.draw(renderer_of(figure))  # ticks and titles find their places
    text = io.StringIO()
    width, height = figure.get_size_inches()
    text.write(_HEAD % (width, height))
    pen = _WithoutLatex(figure, text)
    mixed: Any = MixedModeRenderer(figure, width, height, figure.dpi, pen)
    figure.draw(mixed)
    text.write(_END)
    file.write(text.getvalue().encode())
