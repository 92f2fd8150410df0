from fedjax_admm.direct._localization import locate_centrally as locate_centrally
from fedjax_admm.direct._odometers import dead_reckoning as dead_reckoning
from fedjax_admm.direct._paths import (
    PathEstimate as PathEstimate,
    locate_path as locate_path,
    rough_path as rough_path,
)
from fedjax_admm.direct._pooling import (
    cluster_models as cluster_models,
    cluster_oracle as cluster_oracle,
    local_models as local_models,
    pooled_model as pooled_model,
)
from fedjax_admm.direct._ratings import (
    alternating_least_squares as alternating_least_squares,
    damped_biases as damped_biases,
    global_mean as global_mean,
    item_means as item_means,
)
