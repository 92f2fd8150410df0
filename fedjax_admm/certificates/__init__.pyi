from fedjax_admm.certificates._clusters import (
    critical_lambda as critical_lambda,
    explain_clusters as explain_clusters,
)
from fedjax_admm.certificates._gap import (
    duality_gap as duality_gap,
    gap_within as gap_within,
    gtv_objective as gtv_objective,
    optimality_residual as optimality_residual,
)
from fedjax_admm.certificates._repair import (
    certified_gap as certified_gap,
    relative_gap as relative_gap,
)
from fedjax_admm.certificates._steps import (
    check_stability as check_stability,
    largest_safe_step as largest_safe_step,
)
