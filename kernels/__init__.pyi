from fedjax_admm.kernels._coupling import couple_pair as couple_pair
from fedjax_admm.kernels._factors import (
    factor_gram as factor_gram,
    factor_residual as factor_residual,
    gram_gradient as gram_gradient,
    gram_norm as gram_norm,
)
from fedjax_admm.kernels._gaps import with_gap as with_gap
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
from fedjax_admm.kernels._range_offsets import (
    prox_ranges as prox_ranges,
    range_offset as range_offset,
)
from fedjax_admm.kernels._safe import (
    safe_norm as safe_norm,
    safe_ratio as safe_ratio,
    sum_of_squares as sum_of_squares,
)
from fedjax_admm.kernels.calculus._affine import (
    postscale as postscale,
    precompose_diagonal as precompose_diagonal,
    regularise as regularise,
    scale as scale,
    tilt as tilt,
    translate as translate,
)
from fedjax_admm.kernels.calculus._compositions import (
    epicompose as epicompose,
    precompose_orthogonal as precompose_orthogonal,
    separable as separable,
)
from fedjax_admm.kernels.calculus._distances import (
    distance_prox as distance_prox,
    distance_to as distance_to,
    indicator_prox as indicator_prox,
    squared_distance_prox as squared_distance_prox,
    squared_distance_to as squared_distance_to,
)
from fedjax_admm.kernels.calculus._duality import (
    conjugate as conjugate,
    envelope_prox as envelope_prox,
    moreau_envelope as moreau_envelope,
)
from fedjax_admm.kernels.calculus._mixtures import (
    pointwise_minimum as pointwise_minimum,
    proximal_average as proximal_average,
)
from fedjax_admm.kernels.calculus._trees import tree_prox as tree_prox
from fedjax_admm.kernels.chains._images import (
    prox_tv2d_anisotropic as prox_tv2d_anisotropic,
    prox_tv2d_isotropic as prox_tv2d_isotropic,
    tv2d_anisotropic_value as tv2d_anisotropic_value,
    tv2d_isotropic_value as tv2d_isotropic_value,
)
from fedjax_admm.kernels.chains._total_variation import (
    fused_lasso_value as fused_lasso_value,
    prox_fused_lasso as prox_fused_lasso,
    prox_tv1d as prox_tv1d,
    tv1d_value as tv1d_value,
)
from fedjax_admm.kernels.chains._trends import (
    prox_trend_filter as prox_trend_filter,
    trend_filter_value as trend_filter_value,
)
from fedjax_admm.kernels.elementwise._absolute import (
    elastic_net_value as elastic_net_value,
    l1_value as l1_value,
    linear_value as linear_value,
    pinball_value as pinball_value,
    prox_elastic_net as prox_elastic_net,
    prox_l1 as prox_l1,
    prox_linear as prox_linear,
    prox_pinball as prox_pinball,
    prox_sum_positive as prox_sum_positive,
    soft_threshold as soft_threshold,
    sum_positive_value as sum_positive_value,
)
from fedjax_admm.kernels.elementwise._barriers import (
    log_barrier_value as log_barrier_value,
    poisson_value as poisson_value,
    prox_log_barrier as prox_log_barrier,
    prox_poisson as prox_poisson,
)
from fedjax_admm.kernels.elementwise._bernoulli import (
    bernoulli_value as bernoulli_value,
    prox_bernoulli as prox_bernoulli,
)
from fedjax_admm.kernels.elementwise._boxes import (
    box_l1_value as box_l1_value,
    box_squared_l2_value as box_squared_l2_value,
    non_negative_l1_value as non_negative_l1_value,
    non_negative_squared_l2_value as non_negative_squared_l2_value,
    project_binary as project_binary,
    project_box as project_box,
    project_linf_ball as project_linf_ball,
    project_non_negative as project_non_negative,
    prox_box_l1 as prox_box_l1,
    prox_box_squared_l2 as prox_box_squared_l2,
    prox_non_negative_l1 as prox_non_negative_l1,
    prox_non_negative_squared_l2 as prox_non_negative_squared_l2,
)
from fedjax_admm.kernels.elementwise._capped import (
    capped_l1_value as capped_l1_value,
    capped_quadratic_value as capped_quadratic_value,
    prox_capped_l1 as prox_capped_l1,
    prox_capped_quadratic as prox_capped_quadratic,
)
from fedjax_admm.kernels.elementwise._concave import (
    exponential_type_value as exponential_type_value,
    geman_value as geman_value,
    log_sum_value as log_sum_value,
    prox_exponential_type as prox_exponential_type,
    prox_geman as prox_geman,
    prox_log_sum as prox_log_sum,
)
from fedjax_admm.kernels.elementwise._entropies import (
    entropy_value as entropy_value,
    kl_value as kl_value,
    prox_entropy as prox_entropy,
    prox_kl as prox_kl,
)
from fedjax_admm.kernels.elementwise._folded_concave import (
    mcp_value as mcp_value,
    prox_mcp as prox_mcp,
    prox_scad as prox_scad,
    scad_value as scad_value,
)
from fedjax_admm.kernels.elementwise._losses import (
    cross_entropy_value as cross_entropy_value,
    hinge_value as hinge_value,
    huber_value as huber_value,
    logistic_value as logistic_value,
    prox_cross_entropy as prox_cross_entropy,
    prox_hinge as prox_hinge,
    prox_huber as prox_huber,
    prox_logistic as prox_logistic,
    prox_squared_hinge as prox_squared_hinge,
    squared_hinge_value as squared_hinge_value,
)
from fedjax_admm.kernels.elementwise._powers import (
    l0_value as l0_value,
    l_half_value as l_half_value,
    l_two_thirds_value as l_two_thirds_value,
    prox_l0 as prox_l0,
    prox_l_half as prox_l_half,
    prox_l_two_thirds as prox_l_two_thirds,
)
from fedjax_admm.kernels.elementwise._smoothed_abs import (
    prox_smoothed_abs as prox_smoothed_abs,
    smoothed_abs as smoothed_abs,
)
from fedjax_admm.kernels.elementwise._smoothed_folded_concave import (
    prox_smoothed_mcp as prox_smoothed_mcp,
    prox_smoothed_scad as prox_smoothed_scad,
    smoothed_mcp_value as smoothed_mcp_value,
    smoothed_scad_value as smoothed_scad_value,
)
from fedjax_admm.kernels.elementwise._squares import (
    prox_squared_l2 as prox_squared_l2,
    squared_l2_value as squared_l2_value,
)
from fedjax_admm.kernels.groups._concave import (
    group_l0_value as group_l0_value,
    group_l_half_value as group_l_half_value,
    group_mcp_value as group_mcp_value,
    group_scad_value as group_scad_value,
    prox_group_l0 as prox_group_l0,
    prox_group_l_half as prox_group_l_half,
    prox_group_mcp as prox_group_mcp,
    prox_group_scad as prox_group_scad,
)
from fedjax_admm.kernels.groups._convex import (
    cube_l2_value as cube_l2_value,
    group_huber_value as group_huber_value,
    group_l2_value as group_l2_value,
    prox_cube_l2 as prox_cube_l2,
    prox_group_huber as prox_group_huber,
    prox_group_l2 as prox_group_l2,
    prox_sparse_group as prox_sparse_group,
    sparse_group_value as sparse_group_value,
)
from fedjax_admm.kernels.groups._difference import (
    l1_minus_l2_value as l1_minus_l2_value,
    prox_l1_minus_l2 as prox_l1_minus_l2,
)
from fedjax_admm.kernels.groups._radial import shrink_norm as shrink_norm
from fedjax_admm.kernels.groups._segments import (
    prox_segments_l2 as prox_segments_l2,
    prox_sparse_segments as prox_sparse_segments,
    segments_l2_value as segments_l2_value,
    sparse_segments_value as sparse_segments_value,
)
from fedjax_admm.kernels.groups._smoothed import (
    prox_smoothed_group_mcp as prox_smoothed_group_mcp,
    prox_smoothed_group_scad as prox_smoothed_group_scad,
    smoothed_group_mcp_value as smoothed_group_mcp_value,
    smoothed_group_scad_value as smoothed_group_scad_value,
)
from fedjax_admm.kernels.losses._circular import (
    least_squares_circular_value as least_squares_circular_value,
    prox_least_squares_circular as prox_least_squares_circular,
)
from fedjax_admm.kernels.losses._inexact import inexact_prox as inexact_prox
from fedjax_admm.kernels.losses._least_squares import (
    least_squares_factor as least_squares_factor,
    least_squares_value as least_squares_value,
    prox_least_squares as prox_least_squares,
)
from fedjax_admm.kernels.losses._quadratic import (
    prox_quadratic as prox_quadratic,
    quadratic_factor as quadratic_factor,
    quadratic_value as quadratic_value,
)
from fedjax_admm.kernels.losses._residuals import (
    absolute_residual_value as absolute_residual_value,
    logistic_residual_value as logistic_residual_value,
    pinball_residual_value as pinball_residual_value,
    prox_absolute_residual as prox_absolute_residual,
    prox_logistic_residual as prox_logistic_residual,
    prox_pinball_residual as prox_pinball_residual,
)
from fedjax_admm.kernels.losses._sample_losses import (
    absolute_loss_value as absolute_loss_value,
    logistic_loss_value as logistic_loss_value,
    pinball_loss_value as pinball_loss_value,
    prox_absolute_loss as prox_absolute_loss,
    prox_logistic_loss as prox_logistic_loss,
    prox_pinball_loss as prox_pinball_loss,
)
from fedjax_admm.kernels.losses._samples import (
    precompose_samples as precompose_samples,
    sample_factor as sample_factor,
)
from fedjax_admm.kernels.matrices._decompositions import (
    eigh_by_rotations as eigh_by_rotations,
    svd_by_rotations as svd_by_rotations,
)
from fedjax_admm.kernels.matrices._definite import (
    log_det_value as log_det_value,
    project_psd as project_psd,
    prox_log_det as prox_log_det,
)
from fedjax_admm.kernels.matrices._envelopes import (
    prox_rank_envelope as prox_rank_envelope,
    rank_envelope_value as rank_envelope_value,
)
from fedjax_admm.kernels.matrices._frames import (
    project_orthogonal as project_orthogonal,
    project_stiefel as project_stiefel,
)
from fedjax_admm.kernels.matrices._hankel import project_hankel as project_hankel
from fedjax_admm.kernels.matrices._penalized_spectra import (
    prox_spectral as prox_spectral,
    prox_spectral_log_det as prox_spectral_log_det,
    prox_spectral_mcp as prox_spectral_mcp,
    prox_spectral_scad as prox_spectral_scad,
    spectral_log_det_value as spectral_log_det_value,
    spectral_mcp_value as spectral_mcp_value,
    spectral_scad_value as spectral_scad_value,
    spectral_value as spectral_value,
)
from fedjax_admm.kernels.matrices._singular_values import (
    nuclear_value as nuclear_value,
    project_nuclear_ball as project_nuclear_ball,
    project_rank as project_rank,
    project_spectral_ball as project_spectral_ball,
    prox_nuclear as prox_nuclear,
)
from fedjax_admm.kernels.matrices._spectra import (
    eigenvalue_map as eigenvalue_map,
    singular_values as singular_values,
    spectral_map as spectral_map,
)
from fedjax_admm.kernels.matrices._transport import (
    project_birkhoff as project_birkhoff,
    project_kl_birkhoff as project_kl_birkhoff,
    project_kl_transport as project_kl_transport,
    project_transport as project_transport,
)
from fedjax_admm.kernels.sets._affine import (
    affine_factor as affine_factor,
    graph_factor as graph_factor,
    project_affine as project_affine,
    project_graph as project_graph,
)
from fedjax_admm.kernels.sets._cones import (
    project_rotated_second_order_cone as project_rotated_second_order_cone,
    project_second_order_cone as project_second_order_cone,
)
from fedjax_admm.kernels.sets._exponential_cone import (
    project_dual_exponential_cone as project_dual_exponential_cone,
    project_exponential_cone as project_exponential_cone,
)
from fedjax_admm.kernels.sets._halfspaces import (
    project_halfspace as project_halfspace,
    project_hyperplane as project_hyperplane,
    project_hyperslab as project_hyperslab,
    project_line as project_line,
)
from fedjax_admm.kernels.sets._intersection import project_intersection as project_intersection
from fedjax_admm.kernels.sets._spheres import project_l2_sphere as project_l2_sphere
from fedjax_admm.kernels.vectors._balls import project_l2_ball as project_l2_ball
from fedjax_admm.kernels.vectors._box_section import project_box_section as project_box_section
from fedjax_admm.kernels.vectors._isotonic import project_isotonic as project_isotonic
from fedjax_admm.kernels.vectors._k_support import (
    k_support_value as k_support_value,
    prox_k_support as prox_k_support,
    prox_top_k_envelope as prox_top_k_envelope,
    top_k_envelope_value as top_k_envelope_value,
)
from fedjax_admm.kernels.vectors._l1_ball import (
    project_l1_ball as project_l1_ball,
    project_l1_sphere as project_l1_sphere,
    project_weighted_l1_ball as project_weighted_l1_ball,
)
from fedjax_admm.kernels.vectors._maximum import (
    linf_value as linf_value,
    max_value as max_value,
    prox_linf as prox_linf,
    prox_max as prox_max,
    prox_sum_largest as prox_sum_largest,
    sum_largest_value as sum_largest_value,
)
from fedjax_admm.kernels.vectors._simplex import (
    project_simplex as project_simplex,
    project_sparse_simplex as project_sparse_simplex,
    project_weighted_simplex as project_weighted_simplex,
)
from fedjax_admm.kernels.vectors._sorted_norms import (
    project_permutahedron as project_permutahedron,
    prox_slope as prox_slope,
    slope_value as slope_value,
)
from fedjax_admm.kernels.vectors._top_k import (
    project_top_k as project_top_k,
    project_top_k_groups as project_top_k_groups,
)
