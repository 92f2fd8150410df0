"""The accountant of Gaussian releases: from budgets to epsilon and delta, and back.

Two data sets are neighbours if one sample of one client is replaced by any other sample. A release
is a vector plus Gaussian noise of standard deviation sigma per entry; Delta is the largest distance
between the vectors of neighbours, given all earlier releases. Only the noise multiplier
z = sigma / Delta counts: the release satisfies phi-zCDP (zero-concentrated differential privacy)
with the budget phi = 1 / (2 z^2). Budgets of adaptive releases add up. Since the replaced sample
belongs to one client, the budgets of different clients do not.

    budget          phi, of one release or the sum over all
    epsilon, delta  differential privacy: P(S) <= e^epsilon P'(S) + delta for every event S
    release n       n = 1, ..., rounds

Budgets phi >= 0, epsilons >= 0 and multipliers z >= 0 may be numbers or arrays, and results have
their shape; an infinite budget or epsilon means no privacy, and so does z = 0. delta is between 0
and 1. Everything is computed on the host in float64, whatever the precision of the session.
"""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
