"""Small pictures of maps as SVG, a few hundred bytes each, the same on every machine."""

import numpy as np

WIDTH, HEIGHT, MARGIN = 240, 160, 12
FRAME = "#8a8f98"  # readable on white and on black
COLOURS = ("#2563b8", "#7fa8dd")
THIRD = "#1a7f4b"
PALE, DARK = "#c3c9d2", COLOURS[0]


def _svg(parts: list[str]) -> str:
    inside = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT}">\n{inside}\n</svg>\n'
    )


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, dash: str = "") -> str:
    dashed = f' stroke-dasharray="{dash}"' if dash else ""
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{dashed}/>'
    )


def _text(x: float, y: float, words: str, colour: str = FRAME, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-family="sans-serif" font-size="9" fill="{colour}" '
        f'text-anchor="{anchor}">{words}</text>'
    )


def _scale(low: float, high: float, first: float, last: float):
    span = high - low if high > low else 1.0

    def place(x):
        return first + (np.asarray(x) - low) / span * (last - first)

    return place


def curves(
    v: np.ndarray, images: list[np.ndarray], names: list[str], penalty: np.ndarray | None
) -> str:
    """Draw maps of one number, and what they minimise: a jump of a map is a gap in its line.

    Args:
      v: the points, shape (points,).
      images: of each map, shape (points,).
      names: of the maps.
      penalty: its values at `v`, drawn where they lie in the picture; none of an indicator.
    """
    finite = [x[np.isfinite(x)] for x in images]
    top = max(4.0, *(float(np.max(np.abs(x), initial=0)) for x in finite))
    top = min(top, 6.0)
    across = _scale(v[0], v[-1], MARGIN, WIDTH - MARGIN)
    up = _scale(-top, top, HEIGHT - MARGIN, MARGIN)
    parts = [
        _line(across(v[0]), up(0), across(v[-1]), up(0), FRAME),
        _line(across(0), up(-top), across(0), up(top), FRAME),
        _line(across(v[0]), up(v[0]), across(v[-1]), up(v[-1]), FRAME, "2 3"),
    ]
    beside, below = WIDTH / 2 + 10, HEIGHT - 40  # where odd maps and penalties leave room
    parts += [
        _text(across(v[-1]), up(0) + 9, "v", anchor="end"),
        _text(across(v[0]), up(0) + 9, f"{v[0]:g}"),
        _text(across(0) + 3, up(top) + 8, f"{top:g}"),
        *(
            _text(beside, below + 10 * i, name, colour)
            for i, (name, colour) in enumerate(zip(names, COLOURS, strict=False))
        ),
    ]
    if penalty is not None:
        seen = np.flatnonzero(np.isfinite(penalty) & (np.abs(penalty) <= top))
        for piece in np.split(seen, np.flatnonzero(np.diff(seen) > 1) + 1):
            # Every fourth point is enough for a thin line.
            path = " ".join(f"{across(v[i]):.1f},{up(penalty[i]):.1f}" for i in piece[::4])
            parts.append(f'<polyline points="{path}" fill="none" stroke="{THIRD}"/>')
        parts.append(_text(beside, below + 10 * len(names), "penalty g", THIRD))
    step = v[1] - v[0]
    for x, colour in reversed(list(zip(images, COLOURS, strict=False))):
        breaks = np.flatnonzero((np.abs(np.diff(x)) > 12 * step) | ~np.isfinite(np.diff(x)))
        for piece in np.split(np.arange(len(v)), breaks + 1):
            seen = piece[np.isfinite(x[piece]) & (np.abs(x[piece]) <= top)]
            # The ends of straight pieces are enough.
            bends = np.abs(np.diff(x[seen], 2)) > 1e-9 if len(seen) > 2 else np.zeros(0, bool)
            kept = np.concatenate([seen[:1], seen[1:-1][bends], seen[-1:]]) if len(seen) else seen
            path = " ".join(f"{across(v[i]):.1f},{up(x[i]):.1f}" for i in kept)
            parts.append(
                f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>'
            )
    return _svg(parts)


def entries(before: np.ndarray, after: np.ndarray) -> str:
    """Draw the entries of a few vectors (rows) before and after as bars, a gap between vectors."""
    gap = np.full((len(before), 1), np.nan)
    before, after = (np.hstack([rows, gap]).ravel()[:-1] for rows in (before, after))
    seen = np.concatenate([[0.0], before, after])
    up = _scale(float(np.nanmin(seen)), float(np.nanmax(seen)), HEIGHT - MARGIN, MARGIN)
    room = (WIDTH - 2 * MARGIN) / len(before)
    parts = []
    for i, pair in enumerate(zip(before, after, strict=True)):
        if np.isnan(pair[0]):
            continue
        for x, colour, width, shift in (
            (pair[0], PALE, 0.8, 0.1),
            (pair[1], DARK, 0.4, 0.3),
        ):
            edge, zero = float(up(x)), float(up(0))
            parts.append(
                f'<rect x="{MARGIN + (i + shift) * room:.1f}" y="{min(edge, zero):.1f}" '
                f'width="{width * room:.1f}" height="{max(abs(edge - zero), 1):.1f}" '
                f'fill="{colour}"/>'
            )
    parts.append(_line(MARGIN, float(up(0)), WIDTH - MARGIN, float(up(0)), FRAME))
    parts.append(_text(MARGIN, HEIGHT - 2, "point v"))
    parts.append(_text(MARGIN + 40, HEIGHT - 2, "result", DARK))
    return _svg(parts)


def matrices(before: np.ndarray, after: np.ndarray) -> str:
    """Draw a matrix before (left) and after (right): blue is positive, red negative."""
    reach = max(float(np.max(np.abs([before, after]))), 1e-9)
    rows, columns = before.shape
    side = min((WIDTH / 2 - 1.5 * MARGIN) / columns, (HEIGHT - 2 * MARGIN) / rows)
    parts = []
    for start, matrix in ((MARGIN, before), (WIDTH / 2 + MARGIN / 2, after)):
        for (i, j), x in np.ndenumerate(matrix):
            colour = "#2563b8" if x > 0 else "#c2412d"
            parts.append(
                f'<rect x="{start + j * side:.1f}" y="{MARGIN + i * side:.1f}" '
                f'width="{side:.1f}" height="{side:.1f}" fill="{colour}" '
                f'fill-opacity="{abs(x) / reach:.2f}" stroke="{FRAME}" stroke-width="0.3"/>'
            )
    parts.append(_text(MARGIN, HEIGHT - 2, "point v"))
    parts.append(_text(WIDTH / 2 + MARGIN / 2, HEIGHT - 2, "result"))
    return _svg(parts)
