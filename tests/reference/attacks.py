"""Independent NumPy float64 reference of attacks, sender by sender and entry by entry.

Every function takes the honest messages of all rows, who lies and who is present, and returns what
is told. The attacks are those of C. Xie, O. Koyejo, I. Gupta, "Fall of Empires", arXiv:1903.03936;
G. Baruch, M. Baruch, Y. Goldberg, "A Little Is Enough", arXiv:1902.06156; S. P. Karimireddy, L. He,
M. Jaggi, "Byzantine-Robust Learning on Heterogeneous Datasets via Bucketing", arXiv:2006.09365.
Nothing here imports the package.
"""

import math
from statistics import NormalDist

import numpy as np


def honest_rows(bad, present):
    return [i for i in range(len(bad)) if present[i] and not bad[i]]


def byzantine_in(bad, present):
    return [i for i in range(len(bad)) if present[i] and bad[i]]


def mean_of(values, rows):
    total = np.zeros(values.shape[1:])
    for i in rows:
        total = total + values[i]
    return total / len(rows)


def sign_flip(values, bad, present, scale):
    told = values.copy()
    for i in byzantine_in(bad, present):
        told[i] = -scale * values[i]
    return told


def scaled_noise(values, bad, present, deviation, normals, around):
    """`normals` are standard, of the shape of the values."""
    honest = honest_rows(bad, present)
    told = values.copy()
    for i in byzantine_in(bad, present):
        if around == "zero":
            told[i] = deviation * normals[i]
        elif honest:
            told[i] = mean_of(values, honest) + deviation * normals[i]
    return told


def constant_message(values, bad, present, value):
    told = values.copy()
    for i in byzantine_in(bad, present):
        told[i] = value
    return told


def mimic(values, bad, present, whom):
    """The extreme one by an eigendecomposition of the honest second moments around the mean."""
    honest = honest_rows(bad, present)
    told = values.copy()
    if not honest:
        return told
    chosen = honest[0]
    if whom == "extreme":
        centre = mean_of(values, honest)
        apart = {i: (values[i] - centre).ravel() for i in honest}
        moments = sum(np.outer(v, v) for v in apart.values())
        leading = np.linalg.eigh(moments)[1][:, -1]
        reach = {i: abs(apart[i] @ leading) for i in honest}
        chosen = max(honest, key=lambda i: reach[i])
    for i in byzantine_in(bad, present):
        told[i] = values[chosen]
    return told


def unnoticed(honest, lying):
    """The published z; None where the formula has none."""
    n = honest + lying
    needed = math.floor(n / 2 + 1) - lying
    if not 0 < needed < honest:
        return None
    return NormalDist().inv_cdf((n - lying - needed) / (n - lying))


def a_little_is_enough(values, bad, present, z=None):
    honest = honest_rows(bad, present)
    told = values.copy()
    if not honest:
        return told
    lying = byzantine_in(bad, present)
    if z is None:
        z = unnoticed(len(honest), len(lying))
    centre = mean_of(values, honest)
    variance = np.zeros(values.shape[1:])
    for i in honest:
        variance = variance + (values[i] - centre) ** 2
    for i in lying:
        told[i] = centre - z * np.sqrt(variance / len(honest))
    return told


def inner_product_manipulation(values, bad, present, epsilon):
    honest = honest_rows(bad, present)
    told = values.copy()
    if not honest:
        return told
    for i in byzantine_in(bad, present):
        told[i] = -epsilon * mean_of(values, honest)
    return told


class StaleReplay:
    """Keeps every honest message of everybody for good."""

    def __init__(self, senders, age):
        self.past = [[] for _ in range(senders)]
        self.age = age

    def __call__(self, values, bad, present):
        told = values.copy()
        for i in range(len(bad)):
            if not present[i]:
                continue
            self.past[i].append(values[i].copy())
            if bad[i]:
                told[i] = self.past[i][max(len(self.past[i]) - 1 - self.age, 0)]
        return told
