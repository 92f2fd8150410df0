from fedjax_admm.privacy.accountant._arguments import (
    checked_delta as checked_delta,
    checked_number as checked_number,
)
from fedjax_admm.privacy.accountant._composition import (
    advanced_epsilon as advanced_epsilon,
    advanced_epsilons as advanced_epsilons,
    basic_epsilon as basic_epsilon,
    basic_epsilons as basic_epsilons,
    mechanism_multipliers as mechanism_multipliers,
)
from fedjax_admm.privacy.accountant._conversions import (
    gaussian_budget as gaussian_budget,
    gaussian_delta as gaussian_delta,
    gaussian_epsilon as gaussian_epsilon,
    log_delta_with_error as log_delta_with_error,
    renyi_epsilon as renyi_epsilon,
    zcdp_budget as zcdp_budget,
    zcdp_epsilon as zcdp_epsilon,
)
from fedjax_admm.privacy.accountant._releases import (
    budgets_of as budgets_of,
    noise_multipliers as noise_multipliers,
    release_budgets as release_budgets,
)
