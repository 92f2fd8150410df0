"""Values of beta for FedMC-ADMM: those that work well, and the bound of the convergence proof.

    typical   1e5 (users / 943) (100 / p)^2                       scaled from MovieLens 100K
    theory    8 (8 + N) max_i l_i^2 / (p_min p min_i l_i),        l_i = ||U_i^T U_i||_F

with p clients, N inner steps, and p_min the smallest probability of a client to be drawn.

Reference: P. Hytla, T. T. A. Nghia, D. N. Phan, A. Rice, "A Linearized Alternating Direction
Multiplier Method for Federated Matrix Completion Problems".
"""

from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp

from fedjax_admm._states import CopiesState, LinearizedCopies
from fedjax_admm.capabilities import FactorData, needs
from fedjax_admm.kernels import safe_norm
from fedjax_admm.ratings.quadratics import gram_matrix

FED_MC_PRESETS = MappingProxyType({"paper": 1e4, "default": 1e5})
"""Values of beta."""


@needs(FactorData)
def fed_mc_typical_beta(problem: Any) -> float:
    """Return a beta from which to search: 1e5 on MovieLens 100K with 100 clients, carried over.

    A client's curvature in the items, over p, grows with its number of users over p; beta weighs
    against it: `1e5 (users / 943) (100 / p)^2`, for starts uniform on [0, 2e-4]. The best values
    that were found lie within a factor of about 10.

    Args:
      problem: a `MatrixCompletion`.
    """
    users, clients = problem.places.shape[0], problem.num_clients
    return FED_MC_PRESETS["default"] * (users / 943) * (100 / clients) ** 2


@needs(solver=[LinearizedCopies], state=[CopiesState])
def fed_mc_theory_beta(solver: Any, problem: Any, state: Any, sampled: int) -> jax.Array:
    """Return the beta that the convergence proof asks for, as a diagnostic: far above useful ones.

    `8 (8 + N) max_i l_i^2 / (p_min p min_i l_i)` with l_i = ||U_i^T U_i||_F, p_min = sampled / p:
    the second of the proof's two bounds, at the factors as they are; infinite where a client's are
    all zero; shape ().
    """
    gram = gram_matrix(state.clients.users)
    curvature = safe_norm(gram.reshape(gram.shape[0], -1))
    steps = 8.0 * (8 + solver.inner_steps)
    least = jnp.min(curvature)
    bound = steps * jnp.max(curvature) ** 2 / (sampled * jnp.where(least > 0, least, 1))
    return jnp.where(least > 0, bound, jnp.inf)
