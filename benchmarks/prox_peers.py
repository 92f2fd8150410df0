"""The maps of other packages beside ours: the same function of the same points.

Each function returns `{kernel: map}` of one package, at the parameters of `OURS`; it imports the
package, and is left out where that is not installed.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

import fedjax_admm.kernels as kernels

Map = Callable[[Any], Any]
STEP = 0.5
MASS = 3.0
NORMAL = 0.3

# What each kernel is measured on: "vector" of any length, or "matrix".
KINDS: dict[str, tuple[str, Map]] = {
    "prox_l1": ("vector", lambda v: kernels.prox_l1(v, STEP)),
    "prox_non_negative_l1": ("vector", lambda v: kernels.prox_non_negative_l1(v, STEP)),
    "prox_elastic_net": ("vector", lambda v: kernels.prox_elastic_net(v, STEP, 1.0, 0.7)),
    "prox_squared_l2": ("vector", lambda v: kernels.prox_squared_l2(v, STEP, 1.0)),
    "prox_group_l2": ("vector", lambda v: kernels.prox_group_l2(v, STEP)),
    "prox_huber": ("vector", lambda v: kernels.prox_huber(v, STEP, 0.8)),
    "prox_l0": ("vector", lambda v: kernels.prox_l0(v, STEP)),
    "prox_l_half": ("vector", lambda v: kernels.prox_l_half(v, STEP)),
    "prox_l_two_thirds": ("vector", lambda v: kernels.prox_l_two_thirds(v, STEP)),
    "prox_log_sum": ("vector", lambda v: kernels.prox_log_sum(v, STEP, 1.0, 1.0)),
    "prox_mcp": ("vector", lambda v: kernels.prox_mcp(v, STEP, 1.0, 3.0)),
    "prox_scad": ("vector", lambda v: kernels.prox_scad(v, STEP, 1.0, 3.7)),
    "prox_logistic": ("vector", lambda v: kernels.prox_logistic(v, STEP)),
    "prox_slope": (
        "vector",
        lambda v: kernels.prox_slope(v, STEP, _falling(v.shape[-1]).astype(v.dtype)),
    ),
    "prox_linf": ("vector", lambda v: kernels.prox_linf(v, STEP)),
    "prox_tv1d": ("vector", lambda v: kernels.prox_tv1d(v, STEP)),
    "project_box": ("vector", lambda v: kernels.project_box(v, -0.5, 0.7)),
    "project_linf_ball": ("vector", lambda v: kernels.project_linf_ball(v, 0.5)),
    "project_simplex": ("vector", lambda v: kernels.project_simplex(v, MASS)),
    "project_l1_ball": ("vector", lambda v: kernels.project_l1_ball(v, MASS)),
    "project_l2_ball": ("vector", lambda v: kernels.project_l2_ball(v, 1.0)),
    "project_top_k": ("vector", lambda v: kernels.project_top_k(v, 10)),
    "project_isotonic": ("vector", lambda v: kernels.project_isotonic(v)),
    "project_halfspace": (
        "vector",
        lambda v: kernels.project_halfspace(v, _normal(v), 0.1),
    ),
    "prox_nuclear": ("matrix", lambda v: kernels.prox_nuclear(v, STEP)),
    "project_birkhoff": ("square", lambda v: kernels.project_birkhoff(v)),
}


def _falling(size: int) -> np.ndarray:
    return np.linspace(1.0, 0.1, size)


def _normal(v: Any) -> Any:
    return v * 0 + NORMAL


def jaxopt() -> Mapping[str, Map]:
    """Return maps of jaxopt, of one vector or matrix."""
    from jaxopt import projection, prox

    return {
        "prox_l1": lambda v: prox.prox_lasso(v, 1.0, STEP),
        "prox_non_negative_l1": lambda v: prox.prox_non_negative_lasso(v, 1.0, STEP),
        "prox_elastic_net": lambda v: prox.prox_elastic_net(v, (1.0, 0.7), STEP),
        "prox_squared_l2": lambda v: prox.prox_ridge(v, 1.0, STEP),
        "prox_group_l2": lambda v: prox.prox_group_lasso(v, 1.0, STEP),
        "project_box": lambda v: projection.projection_box(v, (-0.5, 0.7)),
        "project_linf_ball": lambda v: projection.projection_linf_ball(v, 0.5),
        "project_simplex": lambda v: projection.projection_simplex(v, MASS),
        "project_l1_ball": lambda v: projection.projection_l1_ball(v, MASS),
        "project_l2_ball": lambda v: projection.projection_l2_ball(v, 1.0),
        "project_halfspace": lambda v: projection.projection_halfspace(v, (_normal(v), 0.1)),
        "project_birkhoff": lambda v: projection.projection_birkhoff(v),
    }


def optax() -> Mapping[str, Map]:
    """Return maps of optax, of one vector."""
    from optax import projections

    return {
        "project_box": lambda v: projections.projection_box(v, -0.5, 0.7),
        "project_linf_ball": lambda v: projections.projection_linf_ball(v, 0.5),
        "project_simplex": lambda v: projections.projection_simplex(v, MASS),
        "project_l1_ball": lambda v: projections.projection_l1_ball(v, MASS),
        "project_l2_ball": lambda v: projections.projection_l2_ball(v, 1.0),
        "project_halfspace": lambda v: projections.projection_halfspace(v, _normal(v), 0.1),
    }


def scico() -> Mapping[str, Map]:
    """Return maps of scico, of one vector or matrix."""
    from scico import functional

    return {
        "prox_l1": lambda v: functional.L1Norm().prox(v, STEP),
        "prox_squared_l2": lambda v: functional.SquaredL2Norm().prox(v, STEP / 2),
        "prox_group_l2": lambda v: functional.L2Norm().prox(v, STEP),
        "prox_huber": lambda v: functional.HuberNorm(delta=0.8).prox(v, STEP),
        "project_l2_ball": lambda v: functional.L2BallIndicator(radius=1.0).prox(v),
        "prox_nuclear": lambda v: functional.NuclearNorm().prox(v, STEP),
    }


def pyproximal() -> Mapping[str, Map]:
    """Return maps of pyproximal (NumPy), of one flat vector or matrix."""
    import pyproximal as other

    return {
        "prox_l1": lambda v: other.L1().prox(v, STEP),
        "prox_squared_l2": lambda v: other.L2().prox(v, STEP),
        "prox_group_l2": lambda v: other.Euclidean().prox(v, STEP),
        "prox_scad": lambda v: other.SCAD(1.0, 3.7).prox(v, STEP),
        "project_box": lambda v: other.Box(-0.5, 0.7).prox(v, STEP),
        "project_simplex": lambda v: other.Simplex(v.size, MASS, engine="numba").prox(v, STEP),
        "project_l1_ball": lambda v: other.L1Ball(v.size, MASS).prox(v, STEP),
        "project_l2_ball": lambda v: other.EuclideanBall(0.0, 1.0).prox(v, STEP),
        "project_top_k": lambda v: other.L0Ball(10).prox(v, STEP),
        "project_halfspace": lambda v: other.HalfSpace(_normal(v), 0.1).prox(v, STEP),
        "prox_tv1d": lambda v: other.TV((v.size,), niter=100).prox(v, STEP),
        "prox_nuclear": lambda v: other.Nuclear(v.shape).prox(v.ravel(), STEP).reshape(v.shape),
    }


def skglm() -> Mapping[str, Map]:
    """Return maps of skglm (numba), of one vector."""
    from numba import njit
    from skglm.utils import prox_funcs

    def entrywise(scalar: Callable) -> Map:
        @njit
        def every(v, parameters):
            result = np.empty_like(v)
            for i in range(v.size):
                result[i] = scalar(v[i], *parameters)
            return result

        return every

    half, two_thirds = entrywise(prox_funcs.prox_05), entrywise(prox_funcs.prox_2_3)
    mcp, scad = entrywise(prox_funcs.prox_MCP), entrywise(prox_funcs.prox_SCAD)
    soft, log_sum = entrywise(prox_funcs.ST), entrywise(prox_funcs.prox_log_sum)

    def slope(v):
        order = np.argsort(-np.abs(v))
        result = np.empty_like(v)
        magnitudes = np.abs(v)[order].astype(np.float64)
        result[order] = prox_funcs.prox_SLOPE(magnitudes, STEP * _falling(v.size))
        return np.sign(v) * result

    return {
        "prox_l1": lambda v: soft(v, (STEP,)),
        "prox_l_half": lambda v: half(v, (STEP,)),
        "prox_l_two_thirds": lambda v: two_thirds(v, (STEP,)),
        "prox_log_sum": lambda v: log_sum(v, (STEP, 1.0)),
        "prox_mcp": lambda v: mcp(v, (STEP, 1.0, 3.0)),
        "prox_scad": lambda v: scad(v, (STEP, 1.0, 3.7)),
        "prox_slope": slope,
    }


def scikit_learn() -> Mapping[str, Map]:
    """Return the isotonic regression of scikit-learn, of one vector."""
    from sklearn.isotonic import isotonic_regression

    return {"project_isotonic": isotonic_regression}


JAX_PACKAGES = {"jaxopt": jaxopt, "optax": optax, "scico": scico}
NUMPY_PACKAGES = {"pyproximal": pyproximal, "skglm": skglm, "scikit-learn": scikit_learn}
