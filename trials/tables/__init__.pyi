from fedjax_admm.trials.tables._cells import csv_text as csv_text
from fedjax_admm.trials.tables._digits import (
    DIGITS as DIGITS,
    Images as Images,
    deal_digits as deal_digits,
    digit_shares as digit_shares,
    embed_digits as embed_digits,
    load_digits as load_digits,
)
from fedjax_admm.trials.tables._kits import KitLog as KitLog, Plane as Plane, read_kit as read_kit
from fedjax_admm.trials.tables._node_graphs import (
    NEAREST as NEAREST,
    QUANTILES as QUANTILES,
    WASSERSTEIN as WASSERSTEIN,
    NodeGraph as NodeGraph,
    build_graph as build_graph,
    node_distances as node_distances,
    read_node_graph as read_node_graph,
)
from fedjax_admm.trials.tables._observations import (
    Observations as Observations,
    read_observations as read_observations,
)
from fedjax_admm.trials.tables._ranges import RangeTable as RangeTable, read_ranges as read_ranges
