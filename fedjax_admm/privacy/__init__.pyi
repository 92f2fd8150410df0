from fedjax_admm.privacy import accountant as accountant
from fedjax_admm.privacy._ledger import ledger as ledger
from fedjax_admm.privacy._noise import tail_mass as tail_mass
from fedjax_admm.privacy._plans import (
    ACCOUNTINGS as ACCOUNTINGS,
    NOMINAL as NOMINAL,
    Plan as Plan,
    Spent as Spent,
    approximate_plan as approximate_plan,
    rounded_up as rounded_up,
    zcdp_plan as zcdp_plan,
    zcdp_plan_of_budget as zcdp_plan_of_budget,
)
from fedjax_admm.privacy._releases import (
    ExactRelease as ExactRelease,
    GaussianRelease as GaussianRelease,
    Release as Release,
    exact_release as exact_release,
    gaussian_release as gaussian_release,
)
