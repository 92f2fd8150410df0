"""The columns of files of ranges: what each holds, the names that it may have, and its units."""

import math
from collections.abc import Mapping, Sequence

AXES = ("x", "y", "z")
_LENGTHS = {"m": 1.0, "cm": 0.01, "mm": 0.001, "km": 1000.0, "ft": 0.3048}
_TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_ANGLES = {"rad": 1.0, "deg": math.pi / 180}
_DEGREES = {"deg": 1.0}
_ANCHOR = ("anchor", "beacon", "node", "tag")

# In letters and digits alone, the usual name first; metres, seconds, radians or degrees.
_PLACES: dict[str, tuple[Sequence[str], Mapping[str, float]]] = {
    "x": (("x",), _LENGTHS),
    "y": (("y",), _LENGTHS),
    "z": (("z", "altitude", "alt", "height"), _LENGTHS),
    "latitude": (("latitude", "lat"), _DEGREES),
    "longitude": (("longitude", "lon", "lng"), _DEGREES),
}
COLUMNS: dict[str, tuple[Sequence[str], Mapping[str, float]]] = {
    "time": (("time", "timestamp", "t", "datetime", "stamp"), _TIMES),
    "anchor": ([name + end for name in _ANCHOR for end in ("", "id")], {}),
    "tag": ([name + end for name in ("tag", "target", "mobile") for end in ("", "id")], {}),
    "range": (("range", "distance", "dist"), _LENGTHS),
    "sigma": (("sigma", "std", "deviation"), _LENGTHS),
    "distance": (("distance", "dist"), _LENGTHS),
    "turn": (("turn", "dtheta", "yaw"), _ANGLES),
    **_PLACES,
    **{  # of an anchor, in the rows of its ranges
        f"anchor_{what}": ([own + name for own in _ANCHOR for name in names], units)
        for what, (names, units) in _PLACES.items()
    },
}
