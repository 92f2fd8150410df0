"""Proximal maps, smoothings and projections as pure array functions: they need jax only.

``Prox_g(v; step) = argmin_x g(x) + |x - v|**2 / (2 step)``. Functions are elementwise unless they
say so, take any shape, and keep the dtype of their point; parameters are Python numbers or arrays
that broadcast, traced ones included. No function divides 0 by 0, and derivatives are finite at
every kink.
"""

from .convex import (
    prox_elastic_net,
    prox_group_l2,
    prox_l1,
    prox_pinball,
    shrink_quadratic,
    soft_threshold,
)
from .coupling import couple_pair
from .factors import factor_gram, factor_residual, gram_gradient, gram_norm
from .folded_concave import mcp_value, prox_mcp, prox_scad, scad_value
from .graph import degrees, edge_difference, node_divergence
from .localization import prox_negative_moreau_norm, prox_range_excess
from .phase import prox_phase_residual, prox_phase_residual_box, prox_phase_residual_clipped
from .projections import clip_entries, project_l2_ball, prox_box
from .safe import safe_norm, safe_ratio
from .smoothed_abs import prox_smoothed_abs, smoothed_abs
from .smoothed_folded_concave import prox_smoothed_mcp, prox_smoothed_scad

__all__ = [
    "clip_entries",
    "couple_pair",
    "degrees",
    "edge_difference",
    "factor_gram",
    "factor_residual",
    "gram_gradient",
    "gram_norm",
    "mcp_value",
    "node_divergence",
    "project_l2_ball",
    "prox_box",
    "prox_elastic_net",
    "prox_group_l2",
    "prox_l1",
    "prox_mcp",
    "prox_negative_moreau_norm",
    "prox_phase_residual",
    "prox_phase_residual_box",
    "prox_phase_residual_clipped",
    "prox_pinball",
    "prox_range_excess",
    "prox_scad",
    "prox_smoothed_abs",
    "prox_smoothed_mcp",
    "prox_smoothed_scad",
    "safe_norm",
    "safe_ratio",
    "scad_value",
    "shrink_quadratic",
    "smoothed_abs",
    "soft_threshold",
]
