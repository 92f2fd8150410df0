"""Privacy: what noisy releases reveal about one sample, and how much noise hides it.

plan = zcdp_plan(epsilon=1, delta=1e-5, rounds=200)   the noise of every release of a run
release = gaussian_release(plan, clip=3.0)            the only road by which noise enters
plan.spent(trace["releases"])                         what each client has spent
print(plan.statement())                               unit, adversary, what is not covered
accountant                                            conversions of budgets, both ways
random_settings, tune_private                         choosing the numbers of a solver
"""

from fedjax_admm.privacy import accountant
from fedjax_admm.privacy.plans import (
    NOMINAL,
    Plan,
    Spent,
    approximate_plan,
    zcdp_plan,
    zcdp_plan_of_budget,
)
from fedjax_admm.privacy.release import (
    ExactRelease,
    GaussianRelease,
    Release,
    exact_release,
    gaussian_release,
    ledger,
)
from fedjax_admm.privacy.tuning import (
    UNACCOUNTED,
    PrivateSetting,
    Tuned,
    grid_settings,
    nearby_settings,
    random_settings,
    tune_private,
)

__all__ = [
    "NOMINAL",
    "UNACCOUNTED",
    "ExactRelease",
    "GaussianRelease",
    "Plan",
    "PrivateSetting",
    "Release",
    "Spent",
    "Tuned",
    "accountant",
    "approximate_plan",
    "exact_release",
    "gaussian_release",
    "grid_settings",
    "ledger",
    "nearby_settings",
    "random_settings",
    "tune_private",
    "zcdp_plan",
    "zcdp_plan_of_budget",
]
