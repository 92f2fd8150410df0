"""A figure as files: the same bytes whenever it is drawn."""

import base64
import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedjax_admm._checks import InputError
from fedjax_admm._host import _files as files
from fedjax_admm.trials.figures._captions import figure_caption
from fedjax_admm.trials.figures._choices import CAPTION, FORMATS, FigureFiles, FigureStyle
from fedjax_admm.trials.figures._layout import restyle
from fedjax_admm.trials.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_DOTS = 30_000  # along a side of a picture: matplotlib draws 65,535 at most
# Letters lie in a PDF as TrueType, which publishers take, and are outlines in an SVG, which looks
# the same everywhere. The salt makes the names in an SVG the same every time.
_ALIKE: Any = {"pdf.fonttype": 42, "svg.fonttype": "path", "svg.hashsalt": "fedjax-admm"}
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
      figure: it takes the style, and keeps it, and the places of its parts.
      folder: where the files go; they replace others of their names.
      name: of the files.
      formats: "png", "pdf" (fonts embedded) or "svg" (letters as outlines).
      style: how it looks; None leaves it as it was drawn.
      caption: what is written into `name.txt`.
    """
    look = style or FigureStyle()
    with warnings.catch_warnings():
        _allow_boxes()
        restyle(figure, look)
        # Letters are a little wider or narrower at other numbers of dots.
        figure.set_dpi(min(look.dots, _MOST_DOTS / max(figure.get_size_inches())))
        if engine := figure.get_layout_engine():  # once, for all files
            engine.execute(figure)
            figure.set_layout_engine("none")
    for kind in FigureFiles(formats=tuple(formats)).formats:
        save_picture(figure, folder / f"{name}.{kind}")
    if caption is not None:
        files.write_text(folder / f"{name}.{CAPTION}", caption)


def write_figure(
    figure: "Figure", results: Results, folder: Path, chosen: FigureFiles, name: str = "figure"
) -> None:
    """Write the figure of a run in the formats and the style that are asked for, and its caption.

    Args:
      figure: as the experiment draws it; it takes the style.
      results: what it shows.
      folder: where the files go.
      chosen: which files they are.
      name: of the files.
    """
    caption = figure_caption(figure, results)
    save_figure(figure, folder, name, formats=chosen.formats, style=chosen.look, caption=caption)


def save_picture(figure: "Figure", path: Path) -> None:
    """Write a figure as one file, atomically, in the format that its name ends with."""
    kind = picture_format(path)
    files.write_atomically(path, lambda file: _write(figure, file, kind))


def svg_address(figure: "Figure") -> str:
    """Return a figure as the address of an SVG image; the same figure gives the same address."""
    file = io.BytesIO()
    _write(figure, file, "svg")
    return f"data:image/svg+xml;base64,{base64.b64encode(file.getvalue()).decode()}"


def _write(figure: "Figure", file: Any, kind: str) -> None:
    import matplotlib

    with warnings.catch_warnings(), matplotlib.rc_context(_ALIKE):
        _allow_boxes()
        figure.savefig(file, format=kind, metadata=_DATES.get(kind, {}), dpi=figure.dpi)


def _allow_boxes() -> None:
    """Let a letter that the font does not have be a box, which shows it well enough."""
    warnings.filterwarnings("ignore", r"Glyph \d+ .* missing from", UserWarning)


def picture_format(path: Path) -> str:
    """Return the format that a picture's name asks for: one of `FORMATS`."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise InputError(
            f"must end in .png, .pdf or .svg, but it is {path.name!r}",
            argument="picture",
            value=path,
        )
    return kind
