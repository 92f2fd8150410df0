"""Privacy: what noisy releases reveal about one sample, and how much noise hides it.

plan = zcdp_plan(epsilon=1, delta=1e-5, rounds=200)   the noise of every release of a run
release = gaussian_release(plan, clip=3.0)            the only road by which noise enters
plan.spent(trace["releases"])                         what each client has spent
print(plan.statement())                               unit, adversary, what is not covered
accountant                                            conversions of budgets, both ways
"""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
