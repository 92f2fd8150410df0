"""A figure as files: the same bytes whenever it is drawn."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from fedjax_admm.trials import files
from fedjax_admm.trials.figures._looks._captions import figure_caption
from fedjax_admm.trials.figures._looks._choices import (
    CAPTION,
    FigureFiles,
    FigureStyle,
    checked_formats,
)
from fedjax_admm.trials.figures._looks._measures import any_letters
from fedjax_admm.trials.figures._looks._restyling import restyle
from fedjax_admm.trials.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_DOTS = 30_000  # along a side of a picture: matplotlib draws 65,535 at most
# Letters lie in a PDF as TrueType, which publishers take, and are outlines in an SVG, which looks
# the same everywhere. The salt makes the names in an SVG the same every time.
_ALIKE: Any = {
    "pdf.fonttype": 42,
    "svg.fonttype": "path",
    "svg.hashsalt": "fedjax-admm",
}
_DATES: dict[str, dict[str, Any]] = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}


def save_figure(
    figure: "Figure",
    folder: Path,
    name: str = "figure",
    *,
    formats: Sequence[str] = ("png", "pdf"),
    style: FigureStyle | None = None,
    caption: str | None = None,
) -> None:
    """Write `name.png`, `name.pdf` or others, atomically: the same bytes whenever it is drawn.

    Args:
      figure: it takes the style, and keeps it.
      folder: where the files go; they replace others of their names.
      name: of the files.
      formats: "png", "pdf" (fonts embedded) or "svg" (letters as outlines).
      style: how it looks; None leaves it as it was drawn.
      caption: what is written into `name.txt`.
    """
    import matplotlib

    look = style or FigureStyle()
    kinds = checked_formats(formats)
    with any_letters(), matplotlib.rc_context(_ALIKE):
        restyle(figure, look)
        dots = min(look.dots, _MOST_DOTS / max(figure.get_size_inches()))
        with _laid_out(figure, dots):
            for kind in kinds:
                write = partial(_write, figure, kind, dots)
                files.write_atomically(folder / f"{name}.{kind}", write)
    if caption is not None:
        files.write_text(folder / f"{name}.{CAPTION}", caption)


def write_figure(figure: "Figure", results: Results, folder: Path, chosen: FigureFiles) -> None:
    """Write the figure of a run in the formats and the style that are asked for, and its caption.

    Args:
      figure: as the experiment draws it; it takes the style.
      results: what it shows.
      folder: where the files go.
      chosen: which files they are.
    """
    caption = figure_caption(figure, results)
    save_figure(figure, folder, formats=chosen.formats, style=chosen.look, caption=caption)


@contextmanager
def _laid_out(figure: "Figure", dots: float) -> Iterator[None]:
    """Give every part its place once, for all files; matplotlib would draw all parts for each."""
    engine, usual = figure.get_layout_engine(), figure.dpi
    if engine is None:
        yield
        return
    try:
        figure.dpi = dots
        engine.execute(figure)
        figure.dpi = usual
        figure.set_layout_engine(None)
        yield
    finally:
        figure.dpi = usual
        figure.set_layout_engine(engine)


def _write(figure: "Figure", kind: str, dots: float, file: BinaryIO) -> None:
    figure.savefig(file, format=kind, dpi=dots, metadata=_DATES.get(kind, {}))
