"""Independent NumPy float64 reference of compressors and of feedback around them.

Everything is written for one message of one sender, entry by entry where that is short. Random
numbers are arguments. The definitions:

    QSGD            ||x|| sign(x_i) q_i / s; t = |x_i| s / ||x||, l = min(floor(t), s - 1),
                    q_i = l + [u_i < t - l]                                     arXiv:1610.02132
    natural         |x_i| in [2^e, 2^(e+1)) to 2^(e+1) if u_i < |x_i| 2^-e - 1, else to 2^e
                                                                                arXiv:1905.10988
    scaled sign     mean |x| times the sign, that of 0 being +1                 arXiv:1901.09847
    top-k, rand-k   k entries; the drawn ones times d / k                       arXiv:1809.07599
    low rank        P P^T M, P an orthonormal basis of M Q, then Q = M^T P      arXiv:1905.13727
    error feedback  p = x + e, c = h C(p), e = p - c                            arXiv:1901.09847
    differences     g = g + h C(x - g)                                          arXiv:2106.05203

Nothing here imports the package.
"""

import math

import numpy as np


def qsgd(x, levels, uniforms):
    """Round every entry to a level, up where its uniform number is below the remainder."""
    norm = math.sqrt(sum(float(entry) ** 2 for entry in x.ravel()))
    arrives = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        if norm == 0:
            continue
        t = abs(x[place]) * levels / norm
        below = min(math.floor(t), levels - 1)
        level = below + (uniforms[place] < t - below)
        arrives[place] = math.copysign(norm * level / levels, x[place])
    return arrives


def qsgd_error(x, levels):
    """The mean squared error of `qsgd`: ||x||^2 / s^2 sum p (1 - p)."""
    t = np.abs(x) * levels / np.linalg.norm(x)
    p = t - np.minimum(np.floor(t), levels - 1)
    return np.sum(x**2) / levels**2 * np.sum(p * (1 - p))


def natural(x, uniforms):
    """Round every entry to a power of two."""
    arrives = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        if x[place] == 0:
            continue
        half, above = math.frexp(abs(x[place]))
        power = above - 1 + int(uniforms[place] < 2 * half - 1)
        arrives[place] = math.copysign(math.ldexp(1.0, power), x[place])
    return arrives


def natural_error(x):
    """The mean squared error of `natural`: (2^(e+1) - |x|) (|x| - 2^e) per entry."""
    power = 2.0 ** (np.frexp(np.abs(x))[1] - 1)
    return np.sum((2 * power - np.abs(x)) * (np.abs(x) - power))


def scaled_sign(x):
    """The mean magnitude, with signs."""
    return np.mean(np.abs(x)) * np.where(x < 0, -1.0, 1.0)


def top_k(x, k):
    """The k largest entries, ties to the lowest index; zeros for the others."""
    order = sorted(range(x.size), key=lambda place: (-abs(x.ravel()[place]), place))
    arrives = np.zeros(x.size)
    arrives[order[:k]] = x.ravel()[order[:k]]
    return arrives.reshape(x.shape)


def rand_k(x, places):
    """The entries at some places, times d / k; zeros for the others."""
    arrives = np.zeros(x.size)
    arrives[places] = x.ravel()[places] * x.size / len(places)
    return arrives.reshape(x.shape)


LARGEST = {"float16": 65504.0, "bfloat16": (2 - 2.0**-7) * 2.0**127}


def cast(x, dtype):
    """The nearest number of a narrower dtype; the largest for those beyond it."""
    largest = LARGEST[np.dtype(dtype).name]
    return np.clip(x, -largest, largest).astype(dtype).astype(np.float64)


def low_rank(x, right):
    """What arrives of a matrix, and the next right factor."""
    left = np.linalg.qr(x @ right)[0]
    return left @ (left.T @ x), x.T @ left


class ErrorFeedback:
    """A sender that adds to a message what the last ones have lost."""

    def __init__(self, shape, step=1.0):
        """Owe nothing."""
        self.error = np.zeros(shape)
        self.step = step

    def send(self, x, compress):
        """Return what arrives, with `compress` a function of one array."""
        owed = x + self.error
        arrives = self.step * compress(owed)
        self.error = owed - arrives
        return arrives


class Differences:
    """A sender and a receiver that both know the same array, of which changes are sent."""

    def __init__(self, start, step=1.0):
        """Begin with what both know."""
        self.known = np.array(start, float)
        self.step = step

    def send(self, x, compress):
        """Return what both know then."""
        self.known = self.known + self.step * compress(x - self.known)
        return self.known.copy()
