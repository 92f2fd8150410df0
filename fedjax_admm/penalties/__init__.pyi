from fedjax_admm.penalties._concave import (
    capped_l1 as capped_l1,
    l0 as l0,
    log_sum as log_sum,
    mcp as mcp,
    scad as scad,
)
from fedjax_admm.penalties._edges import (
    EdgePenalty as EdgePenalty,
    EntrywiseL1 as EntrywiseL1,
    NetworkLasso as NetworkLasso,
    entrywise_l1 as entrywise_l1,
    mocha as mocha,
    network_lasso as network_lasso,
    quadratic_difference as quadratic_difference,
    squared_difference as squared_difference,
)
from fedjax_admm.penalties._entries import (
    SquaredL2 as SquaredL2,
    Zero as Zero,
    box as box,
    elastic_net as elastic_net,
    huber_norm as huber_norm,
    l1 as l1,
    non_negative as non_negative,
    non_negative_l1 as non_negative_l1,
    squared_l2 as squared_l2,
    zero as zero,
)
from fedjax_admm.penalties._groups import (
    group_l0 as group_l0,
    group_l2 as group_l2,
    group_mcp as group_mcp,
    group_scad as group_scad,
    sparse_group as sparse_group,
)
from fedjax_admm.penalties._motion import (
    motion as motion,
    motion_variation as motion_variation,
)
from fedjax_admm.penalties._protocols import (
    Penalty as Penalty,
    SmoothablePenalty as SmoothablePenalty,
)
from fedjax_admm.penalties._structures import (
    fused_lasso as fused_lasso,
    nuclear as nuclear,
    total_variation as total_variation,
)
from fedjax_admm.penalties._sums import add as add
from fedjax_admm.penalties._vectors import (
    l1_ball as l1_ball,
    l2_ball as l2_ball,
    linf as linf,
    simplex as simplex,
    slope as slope,
)
