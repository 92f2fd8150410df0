"""A column of a file, of unknown length while it is read."""

import numpy as np
from numpy.typing import DTypeLike


class Column:
    """An array that grows in place: a list of many parts would be in memory twice when joined."""

    def __init__(self, dtype: DTypeLike):
        """Hold nothing yet."""
        self._values = np.empty(0, dtype)
        self._size = 0

    def growth(self, values: np.ndarray) -> int:
        """Return how many bytes more are taken where more values do not fit any more."""
        end = self._size + values.size
        fits = end <= self._values.size
        return 0 if fits else (end + end // 2 - self._values.size) * self._values.itemsize

    def extend(self, values: np.ndarray) -> None:
        """Append values; an array of wider ones becomes one of them."""
        if values.dtype.itemsize > self._values.dtype.itemsize:
            self._values = self._values.astype(values.dtype)
        end = self._size + values.size
        if end > self._values.size:
            self._values.resize(end + end // 2, refcheck=False)
        self._values[self._size : end] = values
        self._size = end

    def taken(self) -> np.ndarray:
        """Return all values, without the room to spare."""
        self._values.resize(self._size, refcheck=False)
        return self._values
