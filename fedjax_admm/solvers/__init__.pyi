from fedjax_admm.solvers._graph import (
    FlowSolver as FlowSolver,
    GraphSolver as GraphSolver,
    Heard as Heard,
    LetterSolver as LetterSolver,
)
from fedjax_admm.solvers._local import (
    LocalSolver as LocalSolver,
    local_gradient as local_gradient,
    local_optimizer as local_optimizer,
    local_prox as local_prox,
)
from fedjax_admm.solvers._messages import (
    PerClient as PerClient,
    Received as Received,
    RoundMessage as RoundMessage,
    Upload as Upload,
)
from fedjax_admm.solvers._star import StarSolver as StarSolver
from fedjax_admm.solvers._tree import TreeSolver as TreeSolver
from fedjax_admm.solvers.factors._fed_mavg import fed_mavg as fed_mavg
from fedjax_admm.solvers.factors._fed_mc import FedMCADMM as FedMCADMM, fed_mc_admm as fed_mc_admm
from fedjax_admm.solvers.factors._fed_mc_constants import (
    fed_mc_theory_beta as fed_mc_theory_beta,
    fed_mc_typical_beta as fed_mc_typical_beta,
)
from fedjax_admm.solvers.graph._decentralized_admm import decentralized_admm as decentralized_admm
from fedjax_admm.solvers.graph._extra import extra as extra
from fedjax_admm.solvers.graph._gtv import (
    GTVPrimalDual as GTVPrimalDual,
    gtv_primal_dual as gtv_primal_dual,
    gtv_step_ratio as gtv_step_ratio,
)
from fedjax_admm.solvers.graph._gtv_splitting import gtv as gtv
from fedjax_admm.solvers.graph._pg_extra import pg_extra as pg_extra
from fedjax_admm.solvers.private._networked_admm import (
    private_networked_admm as private_networked_admm,
)
from fedjax_admm.solvers.private._p_admm import p_admm as p_admm
from fedjax_admm.solvers.private._subgradient import private_subgradient as private_subgradient
from fedjax_admm.solvers.splitting._balanced import balanced_penalty as balanced_penalty
from fedjax_admm.solvers.splitting._estimated import estimated_curvature as estimated_curvature
from fedjax_admm.solvers.splitting._fed_admm import fed_admm as fed_admm
from fedjax_admm.solvers.splitting._fed_dr import fed_dr as fed_dr
from fedjax_admm.solvers.splitting._fed_dyn import fed_dyn as fed_dyn
from fedjax_admm.solvers.splitting._fed_pd import fed_pd as fed_pd
from fedjax_admm.solvers.splitting._fed_plt import fed_plt as fed_plt
from fedjax_admm.solvers.splitting._penalty_rules import PenaltyRule as PenaltyRule
from fedjax_admm.solvers.star._apfl import apfl as apfl
from fedjax_admm.solvers.star._averaging import (
    fed_avg as fed_avg,
    fed_avg_prox as fed_avg_prox,
    fed_prox as fed_prox,
)
from fedjax_admm.solvers.star._fsmdm import fsmdm as fsmdm
from fedjax_admm.solvers.star._fsmdm_constants import (
    FSMDM_PRESETS as FSMDM_PRESETS,
    fsmdm_convergence_conditions as fsmdm_convergence_conditions,
)
from fedjax_admm.solvers.star._ifca import ifca as ifca
from fedjax_admm.solvers.star._p_fed_me import p_fed_me as p_fed_me
from fedjax_admm.solvers.star._prox_skip import prox_skip as prox_skip
from fedjax_admm.solvers.star._scaffold import scaffold as scaffold
from fedjax_admm.solvers.star._server_optimizers import (
    server_adagrad as server_adagrad,
    server_adam as server_adam,
    server_momentum as server_momentum,
    server_yogi as server_yogi,
)
from fedjax_admm.solvers.star._subgradient import (
    fed_subgradient as fed_subgradient,
    subgradient_steps as subgradient_steps,
)
from fedjax_admm.solvers.tree._centralized_subgradient import (
    centralized_subgradient as centralized_subgradient,
    polyak as polyak,
)
from fedjax_admm.solvers.tree._hfsad import (
    consensus_links as consensus_links,
    hfsad as hfsad,
    scad_regularizers as scad_regularizers,
)
from fedjax_admm.solvers.tree._hierarchical import (
    consensus_admm as consensus_admm,
    hierarchical_admm as hierarchical_admm,
)
from fedjax_admm.solvers.tree._links import tree_link as tree_link
from fedjax_admm.solvers.wrappers._ditto import ditto as ditto
from fedjax_admm.solvers.wrappers._personal import personal as personal
