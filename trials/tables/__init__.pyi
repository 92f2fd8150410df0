from fedjax_admm.trials.tables._digits import (
    DIGITS as DIGITS,
    deal as deal,
    embed as embed,
    load as load,
    shares as shares,
)
from fedjax_admm.trials.tables._node_graphs import (
    QUANTILES as QUANTILES,
    NodeGraph as NodeGraph,
    build_graph as build_graph,
    node_distances as node_distances,
)
from fedjax_admm.trials.tables._observations import (
    Observations as Observations,
    read_observations as read_observations,
)
