from fedjax_admm.measures._consensus import (
    consensus_error as consensus_error,
    consensus_gap as consensus_gap,
    consensus_releases as consensus_releases,
)
from fedjax_admm.measures._models import (
    adjusted_rand_index as adjusted_rand_index,
    central_signal_error as central_signal_error,
    connected as connected,
    localization_error as localization_error,
    model_error as model_error,
    network_error as network_error,
    personal_error as personal_error,
    position_error as position_error,
    signal_error as signal_error,
    tree_signal_error as tree_signal_error,
)
from fedjax_admm.measures._ratings import (
    augmented_lagrangian as augmented_lagrangian,
    completion_objective as completion_objective,
    completion_residual as completion_residual,
    factor_error as factor_error,
    fresh_rating_error as fresh_rating_error,
    rating_error as rating_error,
    theory_beta as theory_beta,
)
