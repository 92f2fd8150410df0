"""One localisation problem of a user's own: read the ranges, find the position, draw it."""

import csv
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from matplotlib.ticker import MaxNLocator

from fedjax_admm._checks import InputError, listed
from fedjax_admm._run import run
from fedjax_admm.direct import locate_centrally
from fedjax_admm.problems import localization
from fedjax_admm.solvers import fsmdm

AXES = ("x", "y", "z")
ROUNDS = 3000
_HALF_WIDTH = 30.0  # metres: the size of the problems for which the tuned constants were chosen
_MAD_TO_DEVIATION = 1.4826  # median absolute residual -> standard deviation of a normal


@dataclass(frozen=True)
class Ranges:
    """Measurements as read from a file."""

    anchors: np.ndarray  # shape=(sensors, dim), metres
    distances: np.ndarray  # shape=(sensors,), metres
    lines: np.ndarray  # shape=(sensors,): line of the file, from 1, the header included


@dataclass(frozen=True)
class Location:
    """A located target."""

    position: np.ndarray  # shape=(dim,), metres: the candidate of least cost
    candidates: dict[str, tuple[np.ndarray, float]]  # method -> (position, cost in metres)
    residuals: np.ndarray  # shape=(sensors,): distance from position minus measured range, metres
    threshold: float  # metres: a larger absolute residual marks a suspected outlier
    mirror: np.ndarray | None  # shape=(dim,), metres: a second position that fits as well, where
    # the sensors lie in or near one plane (in the plane: one line)

    @property
    def outliers(self) -> np.ndarray:
        """Return a bool per sensor: whether its range is a suspected outlier."""
        return np.abs(self.residuals) > self.threshold


def read_ranges(path: Path) -> Ranges:
    """Read a CSV file with the columns x, y, [z,] range: one row per sensor, metres.

    Other columns are ignored; the order does not matter.

    Raises:
      InputError: the file cannot be read, a column is missing, a cell is not a finite number, a
        range is not positive, or there are too few sensors; the sentence names line and column.
    """
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            rows = [(number, row) for number, row in _numbered(csv.reader(file)) if any(row)]
    except FileNotFoundError:
        raise InputError(f"{path} does not exist; check the name given with --input.") from None
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"{path} cannot be read as a CSV file: {reason}.") from None
    if not rows:
        raise InputError(f"{path} is empty; it must have the columns x, y, [z,] range.")

    header = [name.strip().lower() for name in rows[0][1]]
    missing = [name for name in ("x", "y", "range") if name not in header]
    if missing:
        raise InputError(
            f"{path} has no column {listed(missing)}; its first line must name the columns "
            f"x, y, [z,] range, separated by commas, but it is {','.join(rows[0][1])!r:.80}."
        )
    twice = sorted({name for name in header if name in (*AXES, "range") and header.count(name) > 1})
    if twice:
        raise InputError(f"{path} names the column {listed(twice)} twice; rename one of them.")
    axes = [name for name in AXES if name in header]
    columns = {name: header.index(name) for name in (*axes, "range")}
    numbers = np.array(
        [
            [_number(path, line, row, name, place) for name, place in columns.items()]
            for line, row in rows[1:]
        ]
    ).reshape(-1, len(columns))
    lines = np.array([line for line, _ in rows[1:]], dtype=int)
    for line, row in rows[1:]:
        if any(cell.strip() for cell in row[len(header) :]):
            raise InputError(
                f"{path}, line {line}: there are {len(row)} cells, but the first line names "
                f"{len(header)} columns; write decimal points, not decimal commas."
            )
    for line, distance in zip(lines, numbers[:, -1], strict=True):
        if distance <= 0:
            raise InputError(
                f"{path}, line {line}: range must be positive, but it is {distance:g}; "
                "remove or repair that row."
            )
    if len(numbers) < len(axes) + 1:
        raise InputError(
            f"{path} has {len(numbers)} sensors, but {len(axes)} dimensions need at least "
            f"{len(axes) + 1}."
        )
    return Ranges(numbers[:, :-1], numbers[:, -1], lines)


def locate(ranges: Ranges, rounds: int = ROUNDS) -> Location:
    """Locate the target by tuned FSMDM and by the centralised reference; keep the cheaper answer.

    The measurements are moved and scaled to the size for which FSMDM's constants were chosen.
    The cost of a position is `sum_l | ||w - a_l|| - d_l |`. A sensor is suspected where its
    residual exceeds three standard deviations, estimated as 1.4826 times the median absolute
    residual (at least a thousandth of the median range).

    Args:
      ranges: the measurements.
      rounds: global rounds of FSMDM.

    Returns:
      The location.
    """
    centre = ranges.anchors.mean(0)
    typical = float(np.median(ranges.distances))
    scale = _HALF_WIDTH / max(float(np.abs(ranges.anchors - centre).max()), typical)
    problem = localization((ranges.anchors - centre) * scale, ranges.distances * scale)
    federated = run(fsmdm("tuned", local_updates=3), problem, jax.random.key(0), rounds=rounds)
    # Exact ranges: by the triangle inequality the target is no further from the centre of the
    # sensors than the mean range, so that the grid, of the size of the median one, is near it.
    reference = jax.jit(locate_centrally)(problem)
    candidates = {}
    for name, scaled in (("FSMDM", federated.estimate), ("centralised", reference)):
        position = np.asarray(scaled, np.float64) / scale + centre
        candidates[name] = (position, _cost(ranges, position))
    position = min(candidates.values(), key=lambda candidate: candidate[1])[0]
    residuals = _residuals(ranges, position)
    deviation = _MAD_TO_DEVIATION * float(np.median(np.abs(residuals)))
    threshold = max(3 * deviation, 1e-3 * typical)
    return Location(
        position, candidates, residuals, threshold, _mirror(ranges, position, threshold)
    )


def report(ranges: Ranges, location: Location) -> str:
    """Return the text that a person reads: position, candidates, residual of every sensor."""
    dim = ranges.anchors.shape[1]
    names = AXES[:dim]
    lines = [f"position (m): {_coordinates(names, location.position)}", ""]
    for name, (position, cost) in location.candidates.items():
        where = _coordinates(names, position)
        lines.append(f"  {name:<12} {where}   sum of |residuals| {cost:.4g} m")
    lines += ["", f"{'line':>6} {'range':>12} {'residual':>12}"]
    rows = zip(ranges.lines, ranges.distances, location.residuals, location.outliers, strict=True)
    for line, distance, residual, outlier in rows:
        mark = "  outlier?" if outlier else ""
        lines.append(f"{line:>6} {distance:>12.4f} {residual:>+12.4f}{mark}")
    suspected = int(location.outliers.sum())
    lines += [
        "",
        f"{suspected} of {len(ranges.distances)} sensors are suspected outliers "
        f"(|residual| above {location.threshold:.4g} m).",
    ]
    if location.mirror is not None:
        flat = "plane" if dim == 3 else "line"
        lines.append(
            f"The sensors lie in or near one {flat}, so the mirror image "
            f"{_coordinates(names, location.mirror)} fits as well "
            f"(sum of |residuals| {_cost(ranges, location.mirror):.4g} m)."
        )
    return "\n".join(lines)


def draw_location(ranges: Ranges, location: Location) -> Figure:
    """Draw sensors, range circles and the estimate: the plane, or two cross-sections of space.

    In three dimensions each panel is the plane through the estimate; a sensor's circle is where
    its range sphere meets that plane, so good ranges pass through the estimate.
    """
    dim = ranges.anchors.shape[1]
    planes = [(0, 1)] if dim == 2 else [(0, 1), (0, 2)]
    figure = Figure(figsize=(6.4 * len(planes), 6.6), layout="constrained")
    for axes, plane in zip(figure.subplots(1, len(planes), squeeze=False)[0], planes, strict=True):
        _draw_plane(axes, ranges, location, plane)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle(
        f"{len(ranges.distances)} sensors, estimate {_coordinates(AXES[:dim], location.position)} m"
    )
    return figure


def _draw_plane(axes: Axes, ranges: Ranges, location: Location, plane: tuple[int, int]) -> None:
    across, up = plane
    others = [axis for axis in range(ranges.anchors.shape[1]) if axis not in plane]
    height = np.square(ranges.anchors[:, others] - location.position[others]).sum(1)
    radius = np.sqrt(np.maximum(np.square(ranges.distances) - height, 0))
    for anchor, size, outlier in zip(ranges.anchors, radius, location.outliers, strict=True):
        circle = Circle(
            (anchor[across], anchor[up]),
            size,
            fill=False,
            linewidth=0.9 if outlier else 0.7,
            linestyle="--" if outlier else "-",
            edgecolor="#D55E00" if outlier else "#0072B2",
            alpha=0.7,
        )
        axes.add_patch(circle)
    good, bad = ~location.outliers, location.outliers
    for chosen, marker, colour, label in (
        (good, "o", "#0072B2", "sensor and range"),
        (bad, "x", "#D55E00", "suspected outlier (dashed)"),
    ):
        if chosen.any():
            places = ranges.anchors[chosen]
            axes.scatter(places[:, across], places[:, up], marker=marker, c=colour, label=label)
    stars = [(location.position, "black", "estimate")]
    if location.mirror is not None:
        stars.append((location.mirror, "white", "mirror image, fits as well"))
    for depth, (place, colour, label) in enumerate(stars):
        axes.scatter(
            place[across],
            place[up],
            marker="*",
            s=220,
            c=colour,
            edgecolors="black",
            zorder=6 - depth,
            label=label,
        )
    # Outlying circles may be huge: the view is a square that holds the sensors and the estimate.
    shown = np.vstack([ranges.anchors, *(place[None] for place, *_ in stars)])
    middle, extent = (shown.max(0) + shown.min(0)) / 2, np.ptp(shown, axis=0).max()
    low, high = middle - 0.6 * extent, middle + 0.6 * extent
    axes.set(
        xlim=(low[across], high[across]),
        ylim=(low[up], high[up]),
        aspect="equal",
        xlabel=f"{AXES[across]} (m)",
        ylabel=f"{AXES[up]} (m)",
    )
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.ticklabel_format(useOffset=False, style="plain")
    axes.grid(True, linewidth=0.4, alpha=0.6)


def _numbered(reader):
    """Yield (line of the file, row)."""
    for row in reader:
        yield reader.line_num, row


def _number(path: Path, line: int, row: list[str], name: str, place: int) -> float:
    if place >= len(row) or not row[place].strip():
        raise InputError(f"{path}, line {line}: {name} is missing; fill it in or remove that row.")
    try:
        # Python reads 1_000 as a number; in a file it is a slip.
        value = float(row[place].replace("_", "?"))
    except ValueError:
        raise InputError(
            f"{path}, line {line}: {name} must be a number, but it is {row[place].strip()!r}; "
            "repair that row."
        ) from None
    if not np.isfinite(value):
        raise InputError(
            f"{path}, line {line}: {name} must be finite, but it is {row[place].strip()!r}; "
            "repair that row."
        )
    return value


def _mirror(ranges: Ranges, position: np.ndarray, threshold: float) -> np.ndarray | None:
    """Return the image of a position in the sensors' plane, if it is another one that fits.

    It fits if the mean absolute residual grows by less than one standard deviation, a third of
    the threshold. Sensors on one line of space have many such images; one is returned.
    """
    centre = ranges.anchors.mean(0)
    _, _, directions = np.linalg.svd(ranges.anchors - centre)
    limit = _cost(ranges, position) + threshold / 3 * len(ranges.distances)
    for kept in reversed(range(len(position))):
        across = directions[kept:]
        image = position - 2 * across.T @ (across @ (position - centre))
        if np.linalg.norm(image - position) > threshold and _cost(ranges, image) < limit:
            return image
    return None


def _residuals(ranges: Ranges, position: np.ndarray) -> np.ndarray:
    return np.linalg.norm(position[None] - ranges.anchors, axis=1) - ranges.distances


def _cost(ranges: Ranges, position: np.ndarray) -> float:
    return float(np.abs(_residuals(ranges, position)).sum())


def _coordinates(names: tuple[str, ...], position: np.ndarray) -> str:
    return ", ".join(f"{name} = {value:.4f}" for name, value in zip(names, position, strict=True))
