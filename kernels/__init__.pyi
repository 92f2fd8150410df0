from fedjax_admm.kernels._coupling import couple_pair as couple_pair
from fedjax_admm.kernels._factors import (
    factor_gram as factor_gram,
    factor_residual as factor_residual,
    gram_gradient as gram_gradient,
    gram_norm as gram_norm,
)
from fedjax_admm.kernels._graph import (
    degrees as degrees,
    edge_difference as edge_difference,
    node_divergence as node_divergence,
)
from fedjax_admm.kernels._localization import (
    prox_negative_moreau_norm as prox_negative_moreau_norm,
    prox_range_excess as prox_range_excess,
)
from fedjax_admm.kernels._phase import (
    prox_phase_residual as prox_phase_residual,
    prox_phase_residual_box as prox_phase_residual_box,
    prox_phase_residual_clipped as prox_phase_residual_clipped,
)
from fedjax_admm.kernels._safe import (
    safe_norm as safe_norm,
    safe_ratio as safe_ratio,
    sum_of_squares as sum_of_squares,
)
from fedjax_admm.kernels.calculus._trees import tree_prox as tree_prox
from fedjax_admm.kernels.elementwise._absolute import (
    prox_elastic_net as prox_elastic_net,
    prox_l1 as prox_l1,
    prox_pinball as prox_pinball,
    prox_squared_l2 as prox_squared_l2,
    soft_threshold as soft_threshold,
)
from fedjax_admm.kernels.elementwise._boxes import (
    project_box as project_box,
    project_linf_ball as project_linf_ball,
)
from fedjax_admm.kernels.elementwise._folded_concave import (
    mcp_value as mcp_value,
    prox_mcp as prox_mcp,
    prox_scad as prox_scad,
    scad_value as scad_value,
)
from fedjax_admm.kernels.elementwise._smoothed_abs import (
    prox_smoothed_abs as prox_smoothed_abs,
    smoothed_abs as smoothed_abs,
)
from fedjax_admm.kernels.elementwise._smoothed_folded_concave import (
    prox_smoothed_mcp as prox_smoothed_mcp,
    prox_smoothed_scad as prox_smoothed_scad,
)
from fedjax_admm.kernels.groups._convex import prox_group_l2 as prox_group_l2
from fedjax_admm.kernels.vectors._balls import project_l2_ball as project_l2_ball
