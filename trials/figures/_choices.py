"""What may be chosen of a figure: its style, its width, its bands, and the formats of its files."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
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
    height: float = 9.3  # inches: panels are lower rather than grow beyond it, as far as they may
    letters: float = 8.0  # points, of labels and titles; ticks and legends are an eighth smaller
    titled: bool = True  # whether the title stands above; the caption says it in any case
    lettered: bool = False  # whether panels are called (a), (b), ... as in the caption
    dots: int = 150  # per inch of a PNG


_PAPER: dict[str, Any] = {"titled": False, "lettered": True, "dots": 600}
_SLIDE: dict[str, Any] = {"titled": False, "height": 7.5}
_STYLES: dict[str, dict[int | None, FigureStyle]] = {
    # Widths of columns and pages: those of IEEE's journals, and a slide of 16 to 9.
    "default": {None: FigureStyle(), 1: FigureStyle(3.5), 2: FigureStyle(7.16)},
    "paper": {1: FigureStyle(3.5, **_PAPER), 2: FigureStyle(7.16, **_PAPER)},
    "slides": {
        1: FigureStyle(6.4, letters=14, **_SLIDE),
        2: FigureStyle(13.33, letters=16, **_SLIDE),
    },
}


def figure_style(name: str = "default", columns: int | None = None) -> FigureStyle:
    """Return a style by its name.

    Args:
      name: "default", "paper" (8 points, panels with letters, no title: that is the caption's), or
        "slides" (14 or 16 points, lines as much thicker).
      columns: 1 or 2 of a page with two: 3.5 and 7.16 inches, or half a slide and a whole one, 6.4
        and 13.33 inches. Without it, "default" keeps each figure's own size, and the others are as
        wide as the page or the slide.
    """
    _check("style", name, _STYLES)
    _check("columns", columns, (None, 1, 2), "1 or 2")
    widths = _STYLES[name]
    return widths.get(columns, widths[2])


def _check(argument: str, value: Any, allowed: Any, said: str = "") -> None:
    if value not in allowed or isinstance(value, bool):
        reason = f"must be {said or f'one of {listed(tuple(allowed))}'}, but it is"
        raise InputError(f"{reason} {one_line(value)}", argument=argument, value=value)


@dataclass(frozen=True)
class FigureFiles:
    """Which files of a run's figure are written, and how it looks in them."""

    style: str = "default"
    columns: int | None = None
    formats: tuple[str, ...] = ("png", "pdf")
    bands: str | None = None  # one of `BANDS`; None: as the figure is drawn by itself
    everything: bool = False  # all methods and panels, not the finding's alone
    published: tuple[str, ...] = ()  # names of figures as a paper prints them, in place of "figure"

    def __post_init__(self) -> None:
        """Check the names; formats are a tuple, each once."""
        figure_style(self.style, self.columns)
        _check("bands", self.bands, (None, *BANDS), f"one of {listed(tuple(BANDS))}")
        for kind in self.formats:
            if kind not in FORMATS:
                reason = f"must be of {listed(FORMATS)}, with commas between, but it holds"
                raise InputError(f"{reason} {one_line(kind)}", argument="format", value=kind)
        object.__setattr__(self, "formats", tuple(dict.fromkeys(self.formats)))
        object.__setattr__(self, "published", tuple(self.published))

    @property
    def names(self) -> list[str]:
        """What the files are called; the caption of a figure comes after its pictures."""
        figures = self.published or ("figure",)
        return [f"{name}.{kind}" for name in figures for kind in (*self.formats, CAPTION)]

    @property
    def look(self) -> FigureStyle:
        """How the figure looks."""
        return figure_style(self.style, self.columns)

    def stored(self) -> dict[str, Any]:
        """Return what config.json holds of it."""
        fields = {**asdict(self), "formats": list(self.formats), "published": list(self.published)}
        return {name: value for name, value in fields.items() if name != "published" or value}

    def words(self) -> list[str]:
        """Return the words of a command that ask for it; none for what is usual."""
        asked = {**asdict(self), "format": ",".join(self.formats)}
        usual = {**asdict(FigureFiles()), "format": "png,pdf"}
        names = ("style", "columns", "format", "bands")
        words = [(f"--{name}", str(asked[name])) for name in names if asked[name] != usual[name]]
        flags = {"--all": self.everything, "--as-published": bool(self.published)}
        return [*(word for pair in words for word in pair), *(f for f, on in flags.items() if on)]


def figure_files(
    earlier: Mapping[str, Any] | None = None, *, format: str | None = None, **asked: Any
) -> FigureFiles:
    """Return which files of a figure are asked for.

    Args:
      earlier: a run's configuration; what is not asked for is as it was then.
      format: formats with commas between them: "svg,pdf".
      **asked: the other fields of `FigureFiles`; None for what is not asked for.
    """
    if format is not None:
        asked["formats"] = tuple(part.strip() for part in format.split(","))
    new = {name: value for name, value in asked.items() if value is not None}
    return FigureFiles(**((earlier or {}).get("figure") or {}) | new)
