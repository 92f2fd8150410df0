"""What may be chosen of a figure: its style, its width, and the formats of its files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedjax_admm._checks import InputError, listed, one_line

FORMATS = ("png", "pdf", "svg")
CAPTION = "txt"
PICTURES = tuple(f"figure.{kind}" for kind in (*FORMATS, CAPTION))
"""The names that files of a run's figure may have: its pictures, and its caption."""

BANDS = {
    "errors": "mean ± standard error",
    "deviations": "mean ± standard deviation",
    "quantiles": "mean, 10–90 % of trials",
}
"""What may be drawn around means over trials, and what titles call it."""


@dataclass(frozen=True)
class FigureStyle:
    """How a figure looks where it is printed or shown."""

    width: float | None = None  # inches; None: as it was drawn, and all else too
    height: float = 9.3  # inches: panels are laid side by side rather than grow beyond it
    letters: float = 8.0  # points, of labels and titles; ticks and legends are an eighth smaller
    titled: bool = True  # whether the title stands above; the caption says it in any case
    lettered: bool = False  # whether panels are called (a), (b), ... as in the caption
    dots: int = 150  # per inch of a PNG


_STYLES: dict[str, dict[int | None, FigureStyle]] = {
    # Widths of columns and pages: those of IEEE's journals, and a slide of 16 to 9.
    "default": {
        None: FigureStyle(),
        1: FigureStyle(3.5),
        2: FigureStyle(7.16),
    },
    "paper": {
        1: FigureStyle(3.5, titled=False, lettered=True, dots=600),
        2: FigureStyle(7.16, titled=False, lettered=True, dots=600),
    },
    "slides": {
        1: FigureStyle(6.4, height=7.5, letters=14, titled=False),
        2: FigureStyle(13.33, height=7.5, letters=16, titled=False),
    },
}
STYLES = tuple(_STYLES)


def figure_style(name: str = "default", columns: int | None = None) -> FigureStyle:
    """Return a style by its name.

    Args:
      name: "default", "paper" (8 points, panels with letters, no title: that is the caption's), or
        "slides" (14 or 16 points, lines as much thicker).
      columns: 1 or 2 of a page with two: 3.5 and 7.16 inches, or half a slide and a whole one, 6.4
        and 13.33 inches. Without it, "default" keeps each figure's own size, and the others are as
        wide as the page or the slide.
    """
    if name not in _STYLES:
        reason = f"must be one of {listed(STYLES)}, but it is {one_line(name)}"
        raise InputError(reason, argument="style", value=name)
    if columns not in (None, 1, 2) or isinstance(columns, bool):
        reason = f"must be 1 or 2, but it is {one_line(columns)}"
        raise InputError(reason, argument="columns", value=columns)
    widths = _STYLES[name]
    return widths[columns] if columns in widths else widths[2]


def checked_formats(formats: Sequence[str]) -> tuple[str, ...]:
    """Return formats after checking that each can be written, each once."""
    for kind in formats:
        if kind not in FORMATS:
            reason = (
                f"must be of {listed(FORMATS)}, with commas between, but it holds {one_line(kind)}"
            )
            raise InputError(reason, argument="format", value=kind)
    if not formats:
        raise InputError("names no format", argument="format", remedy="give png, for example")
    return tuple(dict.fromkeys(formats))


@dataclass(frozen=True)
class FigureFiles:
    """Which files of a run's figure are written, and how it looks in them."""

    style: str = "default"
    columns: int | None = None
    formats: tuple[str, ...] = ("png", "pdf")
    bands: str | None = None  # one of `BANDS`; None: as the figure is drawn by itself
    everything: bool = False  # all methods and panels, not the finding's alone

    def __post_init__(self) -> None:
        """Check the names."""
        figure_style(self.style, self.columns)
        checked_formats(self.formats)
        if self.bands is not None and self.bands not in BANDS:
            reason = f"must be one of {listed(tuple(BANDS))}, but it is {one_line(self.bands)}"
            raise InputError(reason, argument="bands", value=self.bands)

    @property
    def names(self) -> list[str]:
        """What the files are called, the caption last."""
        return [f"figure.{kind}" for kind in (*self.formats, CAPTION)]

    @property
    def look(self) -> FigureStyle:
        """How the figure looks."""
        return figure_style(self.style, self.columns)

    def stored(self) -> dict[str, Any]:
        """Return what config.json holds of it."""
        return {
            "style": self.style,
            "columns": self.columns,
            "formats": list(self.formats),
            "bands": self.bands,
            "everything": self.everything,
        }

    def words(self) -> list[str]:
        """Return the words of a command that ask for it; none for what is usual."""
        usual = FigureFiles()
        words: list[str] = []
        for name, asked, text in (
            ("--style", self.style != usual.style, self.style),
            ("--columns", self.columns is not None, str(self.columns)),
            ("--format", self.formats != usual.formats, ",".join(self.formats)),
            ("--bands", self.bands is not None, str(self.bands)),
        ):
            words += [name, text] if asked else []
        return [*words, "--all"] if self.everything else words


def figure_files(
    earlier: Mapping[str, Any] | None = None,
    *,
    style: str | None = None,
    columns: int | None = None,
    format: str | None = None,
    bands: str | None = None,
    everything: bool | None = None,
) -> FigureFiles:
    """Return which files of a figure are asked for.

    Args:
      earlier: a run's configuration; what is not asked for is as it was then.
      style: as `figure_style` takes it.
      columns: the same.
      format: formats with commas between them: "svg,pdf".
      bands: around means: "errors", "deviations" or "quantiles".
      everything: whether all methods and panels are drawn, not the finding's alone.
    """
    before = dict((earlier or {}).get("figure") or {})
    asked: dict[str, Any] = {"style": style, "columns": columns, "bands": bands}
    asked["everything"] = everything
    if format is not None:
        asked["formats"] = tuple(part.strip() for part in format.split(","))
    both = before | {name: value for name, value in asked.items() if value is not None}
    both["formats"] = checked_formats(both.get("formats", FigureFiles().formats))
    return FigureFiles(**both)
