"""Columns of plain numbers, read from the bytes of many lines at once."""

import numpy as np


class NotPlainError(Exception):
    """Something in a chunk that is to be read line by line, be it wrong or just unusual."""


def require(holds: bool | np.bool) -> None:
    """Refuse what is not plain.

    Raises:
      NotPlainError: it does not hold.
    """
    if not holds:
        raise NotPlainError


def integers(data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return whole numbers that are not negative."""
    require((ends > starts).all())
    return _digits(data, starts, ends)


def decimals(data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return numbers such as 4, -0.5 and 3.52986, rounded as Python does."""
    negative = data[starts] == ord("-")
    starts = starts + negative
    points = np.append(np.flatnonzero(data == ord(".")), data.size)
    points = np.minimum(points[np.searchsorted(points, starts)], ends)
    after = np.minimum(points + 1, ends)
    places = ends - after
    digits = points - starts + places
    # Below 10**15, dividend and divisor are exact in float64, and the quotient is rounded once.
    require(digits.min() > 0 and digits.max() <= 15)
    scale = 10**places
    values = (_digits(data, starts, points) * scale + _digits(data, after, ends)) / scale
    return np.where(negative, -values, values).astype(np.float32)


def _digits(data: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the integers whose digits stand from `starts` to before `ends`; 0 where none does."""
    lengths = ends - starts
    shortest, longest = int(lengths.min()), int(lengths.max())
    require(longest <= 18)
    totals = np.zeros(len(ends), np.int32 if longest <= 9 else np.int64)
    places = ends.copy()
    for power in range(longest):
        places -= 1
        digits = data.take(places, mode="wrap") - np.uint8(ord("0"))
        if power >= shortest:
            digits *= lengths > power
        require(digits.max() <= 9)
        totals += digits * totals.dtype.type(10**power)
    return totals
