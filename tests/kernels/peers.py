"""What other packages export as proximal maps and projections, and what it is called here.

Each right-hand side names our functions in backticks (a test looks for them) or gives the reason
why there is none.
"""

from typing import NamedTuple


class Peer(NamedTuple):
    """A package, and its exports as keys (several that are one map stand in one key)."""

    title: str
    maps: dict[str, str]


JAXOPT = Peer(
    "jaxopt 0.8.5 (`jaxopt.prox`, `jaxopt.projection`; no longer maintained)",
    {
        "prox_none": "none: it is the identity",
        "prox_lasso": "`prox_l1`",
        "prox_non_negative_lasso": "`prox_non_negative_l1`",
        "prox_elastic_net": "`prox_elastic_net`",
        "prox_group_lasso": "`prox_group_l2`",
        "prox_ridge": "`prox_squared_l2` (there the docstring says the square, the code halves it)",
        "prox_non_negative_ridge": "`prox_non_negative_squared_l2`",
        "make_prox_from_projection": "none: a projection is the prox at every step",
        "projection_non_negative": "`project_non_negative`",
        "projection_box projection_hypercube": "`project_box`",
        "projection_simplex": "`project_simplex`",
        "projection_sparse_simplex": "`project_sparse_simplex`",
        "projection_l1_sphere": "`project_l1_sphere` (there zeros stay, off the sphere)",
        "projection_l1_ball": "`project_l1_ball`",
        "projection_l2_sphere": "`project_l2_sphere`",
        "projection_l2_ball": "`project_l2_ball`",
        "projection_linf_ball": "`project_linf_ball`",
        "projection_hyperplane": "`project_hyperplane`",
        "projection_halfspace": "`project_halfspace`",
        "projection_affine_set": "`affine_factor`, `project_affine`",
        "projection_polyhedron": "none: a quadratic program, for a solver of such",
        "projection_box_section": "`project_box_section`",
        "projection_transport": "`project_transport`",
        "projection_birkhoff": "`project_birkhoff`",
        "kl_projection_transport": "`project_kl_transport`",
        "kl_projection_birkhoff": "`project_kl_birkhoff`",
    },
)

OPTAX = Peer(
    "optax 0.2.8 (`optax.projections`; of trees: see `tree_prox`)",
    {
        "projection_non_negative": "`project_non_negative`",
        "projection_box projection_hypercube": "`project_box`",
        "projection_simplex": "`project_simplex`",
        "projection_l1_sphere": "`project_l1_sphere` (there zeros stay, off the sphere)",
        "projection_l1_ball": "`project_l1_ball`",
        "projection_l2_sphere": "`project_l2_sphere`",
        "projection_l2_ball": "`project_l2_ball`",
        "projection_linf_ball": "`project_linf_ball`",
        "projection_vector": "`project_line` (there NaN for the vector 0)",
        "projection_hyperplane": "`project_hyperplane`",
        "projection_halfspace": "`project_halfspace`",
    },
)

SCICO = Peer(
    "scico 0.0.7 (`scico.functional`)",
    {
        "AnisotropicTVNorm": "`prox_tv2d_anisotropic`, `with_gap` (there approximate)",
        "IsotropicTVNorm": "`prox_tv2d_isotropic`, `with_gap` (there approximate)",
        "HuberNorm": "`prox_huber`; not separable: `prox_group_huber`",
        "L0Norm": "`prox_l0` (there the threshold is `step`, which is not that of the prox)",
        "L1Norm": "`prox_l1`",
        "SquaredL2Norm": "`prox_squared_l2` with the weight 2",
        "L2Norm": "`prox_group_l2`",
        "L21Norm": "`prox_group_l2` along the axis",
        "L1MinusL2Norm": "`prox_l1_minus_l2`",
        "NuclearNorm": "`prox_nuclear`",
        "NonNegativeIndicator": "`project_non_negative`",
        "BoxIndicator": "`project_box`",
        "L2BallIndicator": "`project_l2_ball`",
        "SetDistance": "`distance_to`, `distance_prox`",
        "SquaredSetDistance": "`squared_distance_to`, `squared_distance_prox`",
        "ProximalAverage": "`proximal_average`",
        "ScaledFunctional": "`postscale`",
        "SeparableFunctional": "`separable`",
        "ComposedFunctional": "`precompose_orthogonal`, `precompose_diagonal`",
        "ZeroFunctional": "none: it is the identity",
        "BM3D BM4D DnCNN": "none: denoisers are no proximal maps",
    },
)

PYPROXIMAL = Peer(
    "pyproximal 0.13.0 (NumPy, one flat vector at a time)",
    {
        "Box": "`project_box`",
        "Simplex": "`project_simplex`, `project_box_section`",
        "AffineSet": "`affine_factor`, `project_affine`",
        "Quadratic": "`quadratic_factor`, `prox_quadratic`",
        "Euclidean": "`prox_group_l2`",
        "EuclideanBall": "`project_l2_ball`, `translate`",
        "L0": "`prox_l0` (there the threshold is `step`, which is not that of the prox)",
        "L0Ball": "`project_top_k`",
        "L01Ball L10Ball": "`project_top_k_groups` (there the columns of largest l1 norm are kept, "
        "which is not the nearest point)",
        "L1": "`prox_l1`",
        "L1Ball": "`project_l1_ball`",
        "L2": "`prox_squared_l2`, `least_squares_factor` and `prox_least_squares`",
        "L2Convolve": "`prox_least_squares_circular`",
        "L21": "`prox_group_l2` along the axis",
        "L21_plus_L1": "`prox_sparse_group`",
        "Huber": "`prox_huber`, `step / alpha` for `step` (there linear too early)",
        "HuberCircular": "`prox_group_huber`, `step / alpha` for `step`",
        "TV": "`prox_tv1d` (exact), `prox_tv2d_isotropic`",
        "RelaxedMumfordShah": "`prox_capped_quadratic`",
        "Nuclear": "`prox_nuclear`",
        "NuclearBall": "`project_nuclear_ball`",
        "Orthogonal": "`precompose_orthogonal`",
        "SCAD": "`prox_scad` (there wrong for large steps)",
        "Log": "`prox_log_sum`",
        "Log1": "`prox_log_sum` (there the threshold is where a stationary point exists: wrong)",
        "ETP": "`prox_exponential_type`",
        "Geman": "`prox_geman`",
        "QuadraticEnvelopeCard": "`prox_mcp` with `lam = sqrt(2 mu)`, `gamma = 1` (there wrong for "
        "steps over 1)",
        "QuadraticEnvelopeCardIndicator": "`prox_top_k_envelope` (there from the step 1 on a hard "
        "threshold, which keeps any number of entries)",
        "QuadraticEnvelopeRankL2": "`prox_rank_envelope`, its docstring has the misfit (there "
        "an IndexError at some points)",
        "SingularValuePenalty": "`prox_spectral`",
        "Hankel": "`project_hankel`",
        "HalfSpace": "`project_halfspace`",
        "Intersection GenericIntersectionProx": "`project_intersection`",
        "Sum": "`project_intersection` for sets; for two penalties `fedjax_admm.penalties.add`",
        "VStack": "`separable`",
        "Nonlinear": "`inexact_prox`",
        "RED": "none: denoisers are no proximal maps",
    },
)

JULIA = Peer(
    "ProximalOperators.jl",
    {
        "CrossEntropy": "`prox_bernoulli`; of logits `prox_cross_entropy`",
        "CubeNormL2": "`prox_cube_l2`",
        "ElasticNet": "`prox_elastic_net`",
        "HingeLoss": "`prox_hinge`",
        "HuberLoss": "`prox_group_huber`; entry by entry `prox_huber`",
        "IndAffine": "`affine_factor`, `project_affine`",
        "IndBallL0": "`project_top_k`",
        "IndBallL1": "`project_l1_ball`",
        "IndBallL2": "`project_l2_ball`",
        "IndBallLinf": "`project_linf_ball`",
        "IndBallRank": "`project_rank`",
        "IndBinary": "`project_binary`",
        "IndBox": "`project_box`",
        "IndExpPrimal": "`project_exponential_cone`",
        "IndExpDual": "`project_dual_exponential_cone`",
        "IndGraph": "`project_graph`",
        "IndHalfspace": "`project_halfspace`",
        "IndHyperslab": "`project_hyperslab`",
        "IndNonnegative IndNonpositive": "`project_non_negative`, `project_box`",
        "IndPoint IndFree IndZero": "none: a constant, or the identity",
        "IndPolyhedral": "none: a quadratic program, for a solver of such",
        "IndPSD": "`project_psd`",
        "IndSOC": "`project_second_order_cone`",
        "IndRotatedSOC": "`project_rotated_second_order_cone`",
        "IndSimplex": "`project_simplex`",
        "IndSphereL2": "`project_l2_sphere`",
        "IndStiefel": "`project_stiefel`",
        "LeastSquares": "`least_squares_factor`, `prox_least_squares`",
        "Linear": "`prox_linear`",
        "LogBarrier": "`prox_log_barrier`",
        "LogisticLoss": "`prox_logistic`",
        "Maximum": "`prox_max`",
        "NormL0": "`prox_l0`",
        "NormL1": "`prox_l1`",
        "NormL2": "`prox_group_l2`",
        "NormL21": "`prox_group_l2` along the axis",
        "NormLinf": "`prox_linf`",
        "NormL1plusL2": "`prox_sparse_group`",
        "NuclearNorm": "`prox_nuclear`",
        "Quadratic": "`quadratic_factor`, `prox_quadratic`",
        "SqrHingeLoss": "`prox_squared_hinge`",
        "SqrNormL2": "`prox_squared_l2`",
        "SumPositive": "`prox_sum_positive`",
        "TotalVariation1D": "`prox_tv1d`",
        "Conjugate": "`conjugate`",
        "DistL2": "`distance_to`, `distance_prox`",
        "SqrDistL2": "`squared_distance_to`, `squared_distance_prox`",
        "Epicompose": "`epicompose`",
        "MoreauEnvelope": "`moreau_envelope`",
        "PointwiseMinimum": "`pointwise_minimum`",
        "Postcompose": "`postscale`",
        "Precompose": "`precompose_orthogonal`",
        "PrecomposeDiagonal": "`precompose_diagonal`",
        "Regularize": "`regularise`",
        "SeparableSum SlicedSeparableSum": "`separable`",
        "Sum": "none: the prox of a sum of any two functions is not known; "
        "`fedjax_admm.penalties.add` has the sums whose prox is",
        "Tilt": "`tilt`",
        "Translate": "`translate`",
    },
)

SKGLM = Peer(
    "skglm 0.5 (penalties of coordinate descent)",
    {
        "L1 WeightedL1": "`prox_l1`, with a weight for each entry",
        "L2": "`prox_squared_l2`",
        "L1_plus_L2": "`prox_elastic_net`",
        "L0_5": "`prox_l_half`",
        "L2_3": "`prox_l_two_thirds`",
        "MCPenalty WeightedMCPenalty": "`prox_mcp` (there wrong for steps over gamma)",
        "SCAD": "`prox_scad` (there a ZeroDivisionError at the step `gamma - 1`)",
        "IndicatorBox": "`project_box`",
        "PositiveConstraint": "`project_non_negative`",
        "LogSumPenalty": "`prox_log_sum` (there wrong at large steps)",
        "L2_1 WeightedGroupL2": "`prox_group_l2`, ragged and weighted `prox_segments_l2`",
        "L2_05": "`prox_group_l_half` (there a ZeroDivisionError at zero)",
        "BlockMCPenalty": "`prox_group_mcp`",
        "BlockSCAD": "`prox_group_scad`",
        "WeightedL1GroupL2": "`prox_sparse_segments` (there a group takes the weight of one "
        "feature, that with the number of the group)",
        "SLOPE": "`prox_slope`",
    },
)

PACKAGES = (JAXOPT, OPTAX, SCICO, PYPROXIMAL, JULIA, SKGLM)
