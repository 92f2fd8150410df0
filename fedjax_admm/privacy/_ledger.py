r"""The ledger: what clients have spent, by what was really released.

A client's n-th release is a vector plus normal noise of z_n times the vector's sensitivity, given
all that was sent before. Between neighbouring data sets it is never easier to tell two normal
distributions apart whose means differ by 1 / z_n deviations. What is known of all releases together
depends on the sum

    S = sum_n 1 / z_n^2

alone, which every private solver keeps in its state and adds up, rounded up, from the multipliers
that it uses. Which plan they come from, and how many runs one after the other, does not matter:

    exact     delta = Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu), mu = sqrt(S):
              adaptive composition of mu_n-GDP mechanisms is sqrt(sum mu_n^2)-GDP, and one release
              is 1/z_n-GDP; tight, since a sample that always moves messages the same way attains it
    zcdp      S/2 + 2 sqrt(S/2 ln(1/delta)): the budgets 1 / (2 z_n^2) add up, which is tight; their
              conversion to epsilon is not
    advanced  min( R, R tanh(R/N/2) + sqrt(2 ln(2/delta) E) ) with R = sqrt(N E) and
              E = 2 ln(2.5 N / delta) S, which is sum epsilon_n^2 of classical mechanisms,
              epsilon_n = c / z_n; a bound, since epsilon_n tanh(epsilon_n/2) is concave in
              epsilon_n^2; attained if all z_n are equal
    basic     sqrt(N E) with E = 2 ln(1.25 N / delta) S: a bound, as by Cauchy and Schwarz
              sum epsilon_n is at most sqrt(N sum epsilon_n^2); attained if all z_n are equal

N is the client's number of releases. Classical mechanisms need epsilon_n at most 1, which S does
not tell: what they claim is never given below the exact epsilon, which holds whatever the z_n.

The multipliers must be chosen without a look at what was sent. Where a later plan is chosen by
earlier messages, only the largest S that could have been reached, a number fixed before, bounds
what is spent.

Reference: J. Dong, A. Roth, W. Su, "Gaussian Differential Privacy", 2022, Corollary 3.3; M. Bun,
T. Steinke, "Concentrated Differential Privacy", 2016, Lemma 1.7; P. Kairouz, S. Oh, P. Viswanath,
"The Composition Theorem for Differential Privacy", 2017; for multipliers chosen on the way,
A. Smith, A. Thakurta, "Fully Adaptive Composition for Gaussian Differential Privacy", 2022.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import numpy as np

from fedjax_admm._checks import known, one_of, refuse
from fedjax_admm.privacy import accountant
from fedjax_admm.privacy._noise import TAIL_SHARE
from fedjax_admm.privacy._plans import ACCOUNTINGS, NOMINAL, Spent

_RECORDED = ("spent", "releases", "nominal", "tails")


def ledger(released: Any, delta: float, *, accounting: str = "zcdp") -> Spent:
    """Return what clients have spent, by what they have really released.

    It is a function of `S = sum 1 / z_n^2` over a client's releases, whatever plans they followed:
    the module derives the formulas, and says which are tight. S is rounded up, by a part of at most
    `(12 + 2 N) eps` of itself after N releases, with the eps of the problem's dtype.

    Args:
      released: a `Run` of a private solver, or of one around it, its state; or a trace with the
        records "spent", "releases", "nominal" and "tails", as `measures.consensus_releases` makes
        it.
      delta: at which epsilons are stated; the tails of the noise may add a hundredth to it.
      accounting: a key of `ACCOUNTINGS`, for `Spent.epsilon`.

    Returns:
      Arrays of shape (clients,), or (records, clients) of a trace. All are infinite after a release
      without noise. The label is `NOMINAL` if gradients were not clipped.

    Raises:
      InputError: what is given holds no spent budget, is traced, a number is out of range, or delta
        is smaller than the noise that was drawn can honour.
    """
    spent, releases, nominal, tails = map(np.asarray, _recorded(released))
    delta = accountant.checked_delta(delta)
    added = np.max(np.where(np.isfinite(spent), tails, 0), initial=0.0)
    told = f"must be at least {1.1 * added / TAIL_SHARE:.3g}, which the tails of the noise need"
    refuse(not added <= 1.01 * TAIL_SHARE * delta, "delta", told, delta)
    one_of("accounting", accounting, ACCOUNTINGS)
    pairs = np.stack([np.asarray(spent, np.float64).ravel() / 2, releases.ravel()])
    different, places = np.unique(pairs, axis=1, return_inverse=True)
    places = places.reshape(spent.shape)
    exact = np.array([accountant.gaussian_epsilon(float(b), delta) for b in different[0]])
    composed = ACCOUNTINGS[accounting].composed
    claims = [
        max(composed(float(budget), max(int(number), 1), delta), float(least)) if budget else 0.0
        for (budget, number), least in zip(different.T, exact, strict=True)
    ]
    return Spent(
        different[0][places],
        np.array(claims, np.float64)[places],
        exact.astype(np.float64)[places],
        NOMINAL if nominal.any() else "",
    )


def _recorded(released: Any) -> tuple[Any, Any, Any, Any]:
    """Return the spent sums, the numbers of releases, the unit and the mass of the tails."""
    inside = jax.tree.leaves(getattr(released, "state", released), is_leaf=_records)
    whole = [part for part in inside if _records(part)]
    told = "must be a Run of a private solver, its state, or a trace with 'spent', 'releases', "
    remedy = "run with measure=measures.consensus_releases for a trace"
    wrong = len(whole) != 1
    refuse(wrong, "released", f"{told}'nominal' and 'tails'", released, remedy=remedy)
    get = whole[0].get if isinstance(whole[0], Mapping) else partial(getattr, whole[0])
    records = [get(name) for name in _RECORDED]
    known("released", records)
    return records[0], records[1], records[2], records[3]


def _records(part: Any) -> bool:
    """Whether something tells what was spent: a state inside others, or a trace."""
    if isinstance(part, Mapping):
        return all(name in part for name in _RECORDED)
    return all(hasattr(part, name) for name in _RECORDED)
