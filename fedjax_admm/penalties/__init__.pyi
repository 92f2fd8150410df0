from fedjax_admm.penalties._concave import (
    MCP as MCP,
    SCAD as SCAD,
    mcp as mcp,
    scad as scad,
)
from fedjax_admm.penalties._edges import (
    EdgePenalty as EdgePenalty,
    EntrywiseL1 as EntrywiseL1,
    HalfSquare as HalfSquare,
    NetworkLasso as NetworkLasso,
    Quadratic as Quadratic,
    entrywise_l1 as entrywise_l1,
    mocha as mocha,
    network_lasso as network_lasso,
    quadratic_difference as quadratic_difference,
    squared_difference as squared_difference,
)
from fedjax_admm.penalties._entries import (
    L1 as L1,
    Box as Box,
    ElasticNet as ElasticNet,
    NonNegative as NonNegative,
    SquaredL2 as SquaredL2,
    Zero as Zero,
    box as box,
    elastic_net as elastic_net,
    l1 as l1,
    non_negative as non_negative,
    squared_l2 as squared_l2,
    zero as zero,
)
from fedjax_admm.penalties._groups import (
    GroupL2 as GroupL2,
    group_l2 as group_l2,
)
from fedjax_admm.penalties._protocols import (
    Penalty as Penalty,
    SmoothablePenalty as SmoothablePenalty,
)
from fedjax_admm.penalties._sums import (
    Sum as Sum,
    add as add,
)
