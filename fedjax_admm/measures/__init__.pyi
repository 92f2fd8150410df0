from fedjax_admm.measures._consensus import (
    consensus_error as consensus_error,
    consensus_gap as consensus_gap,
    consensus_releases as consensus_releases,
)
from fedjax_admm.measures._hierarchy import (
    central_signal_error as central_signal_error,
    personal_error as personal_error,
    signal_error as signal_error,
    tree_signal_error as tree_signal_error,
)
from fedjax_admm.measures._localization import (
    FAILURE_DISTANCE as FAILURE_DISTANCE,
    localization_error as localization_error,
    position_error as position_error,
    region_coverage as region_coverage,
)
from fedjax_admm.measures._models import (
    agreement_residual as agreement_residual,
    disagreement as disagreement,
    dual_residual as dual_residual,
    objective as objective,
    optimum_distance as optimum_distance,
    primal_residual as primal_residual,
    stationarity as stationarity,
)
from fedjax_admm.measures._networks import (
    model_error as model_error,
    network_error as network_error,
)
from fedjax_admm.measures._ratings import (
    augmented_lagrangian as augmented_lagrangian,
    completion_objective as completion_objective,
    completion_residual as completion_residual,
    factor_error as factor_error,
    fresh_rating_error as fresh_rating_error,
    rating_error as rating_error,
)
from fedjax_admm.measures._scores import (
    accuracy as accuracy,
    calibration_error as calibration_error,
    client_accuracy as client_accuracy,
    error_rate as error_rate,
    worst_accuracy as worst_accuracy,
)
from fedjax_admm.measures._shared import total_loss as total_loss
from fedjax_admm.measures._tracking import target_regret as target_regret
