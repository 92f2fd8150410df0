from fedjax_admm.problems._consensus import (
    ConsensusRegression as ConsensusRegression,
    consensus_regression as consensus_regression,
    draw_consensus_regression as draw_consensus_regression,
    pooled_correlation as pooled_correlation,
    with_loss as with_loss,
)
from fedjax_admm.problems._federated import federated as federated
from fedjax_admm.problems._federated_problem import (
    Federated as Federated,
)
from fedjax_admm.problems._inner import (
    inner_lbfgs as inner_lbfgs,
    inner_steps as inner_steps,
)
from fedjax_admm.problems._label_flips import flip_labels as flip_labels
from fedjax_admm.problems._matrix_completion import (
    MatrixCompletion as MatrixCompletion,
    matrix_completion as matrix_completion,
    matrix_completion_of_clients as matrix_completion_of_clients,
)
from fedjax_admm.problems._networked import (
    Networked as Networked,
    draw_networked_regression as draw_networked_regression,
    networked_logistic as networked_logistic,
    networked_regression as networked_regression,
    networked_training as networked_training,
    with_access as with_access,
)
from fedjax_admm.problems._phase_retrieval import (
    PhaseRetrieval as PhaseRetrieval,
    draw_phase_retrieval as draw_phase_retrieval,
    phase_retrieval as phase_retrieval,
    spectral_start as spectral_start,
)
from fedjax_admm.problems._robust_regression import (
    RobustRegression as RobustRegression,
    clusters_of_clients as clusters_of_clients,
    draw_robust_regression as draw_robust_regression,
    robust_regression as robust_regression,
)
from fedjax_admm.problems._smoothing import (
    Smoothing as Smoothing,
    moreau_smoothing as moreau_smoothing,
    randomized_smoothing as randomized_smoothing,
)
from fedjax_admm.problems._streamed import streamed as streamed
from fedjax_admm.problems.ranges._draws import (
    RangeNoise as RangeNoise,
    cauchy_noise as cauchy_noise,
    draw_localization as draw_localization,
    gaussian_noise as gaussian_noise,
    no_noise as no_noise,
    outlier_noise as outlier_noise,
)
from fedjax_admm.problems.ranges._localization import (
    Localization as Localization,
    localization as localization,
)
from fedjax_admm.problems.ranges._measured import (
    RangeLocalization as RangeLocalization,
)
