from fedjax_admm.solvers._graph import (
    FlowSolver as FlowSolver,
    GraphSolver as GraphSolver,
    Heard as Heard,
    LetterSolver as LetterSolver,
)
from fedjax_admm.solvers._local import (
    FallingGradient as FallingGradient,
    LocalGradient as LocalGradient,
    LocalProx as LocalProx,
    LocalSolver as LocalSolver,
    local_gradient as local_gradient,
    local_prox as local_prox,
)
from fedjax_admm.solvers._messages import (
    Each as Each,
    Received as Received,
    Said as Said,
    Upload as Upload,
)
from fedjax_admm.solvers._star import StarSolver as StarSolver
from fedjax_admm.solvers.factors._fedmavg import (
    FedMAvg as FedMAvg,
    fedmavg as fedmavg,
)
from fedjax_admm.solvers.factors._fedmc import (
    FedMCADMM as FedMCADMM,
    fedmc_admm as fedmc_admm,
)
from fedjax_admm.solvers.factors._fedmc_constants import (
    FEDMC_PRESETS as FEDMC_PRESETS,
    fedmc_theory_beta as fedmc_theory_beta,
    fedmc_typical_beta as fedmc_typical_beta,
)
from fedjax_admm.solvers.graph._decentralized_admm import (
    DecentralizedADMM as DecentralizedADMM,
    decentralized_admm as decentralized_admm,
)
from fedjax_admm.solvers.graph._extra import (
    EXTRA as EXTRA,
    extra as extra,
)
from fedjax_admm.solvers.graph._gtv import (
    GTVPrimalDual as GTVPrimalDual,
    gtv_primal_dual as gtv_primal_dual,
    gtv_step_ratio as gtv_step_ratio,
)
from fedjax_admm.solvers.graph._gtv_splitting import (
    GTVSplitting as GTVSplitting,
    gtv as gtv,
)
from fedjax_admm.solvers.graph._pg_extra import PGEXTRA as PGEXTRA, pg_extra as pg_extra
from fedjax_admm.solvers.private._networked_admm import (
    PrivateNetworkedADMM as PrivateNetworkedADMM,
    private_networked_admm as private_networked_admm,
)
from fedjax_admm.solvers.private._p_admm import PADMM as PADMM, p_admm as p_admm
from fedjax_admm.solvers.private._subgradient import (
    PrivateSubgradient as PrivateSubgradient,
    private_subgradient as private_subgradient,
)
from fedjax_admm.solvers.splitting._adaptive import (
    AdaptivePenalty as AdaptivePenalty,
    Agreement as Agreement,
    BalancedPenalty as BalancedPenalty,
    SpectralPenalty as SpectralPenalty,
    balanced_penalty as balanced_penalty,
    spectral_penalty as spectral_penalty,
)
from fedjax_admm.solvers.splitting._fed_admm import (
    FedADMM as FedADMM,
    fed_admm as fed_admm,
)
from fedjax_admm.solvers.splitting._fed_dr import (
    FedDR as FedDR,
    fed_dr as fed_dr,
)
from fedjax_admm.solvers.splitting._fed_dyn import (
    FedDyn as FedDyn,
    fed_dyn as fed_dyn,
)
from fedjax_admm.solvers.splitting._fed_pd import (
    FedPD as FedPD,
    fed_pd as fed_pd,
)
from fedjax_admm.solvers.splitting._fed_plt import (
    FedPLT as FedPLT,
    fed_plt as fed_plt,
)
from fedjax_admm.solvers.star._averaging import (
    FederatedAveraging as FederatedAveraging,
    GradientUpdate as GradientUpdate,
    ProximalUpdate as ProximalUpdate,
    ProxUpdate as ProxUpdate,
    fed_prox as fed_prox,
    federated_averaging as federated_averaging,
    federated_proximal_averaging as federated_proximal_averaging,
)
from fedjax_admm.solvers.star._fsmdm import (
    FSMDM as FSMDM,
    fsmdm as fsmdm,
)
from fedjax_admm.solvers.star._fsmdm_constants import (
    FSMDM_PRESETS as FSMDM_PRESETS,
    fsmdm_convergence_conditions as fsmdm_convergence_conditions,
)
from fedjax_admm.solvers.star._ifca import (
    IFCA as IFCA,
    ifca as ifca,
)
from fedjax_admm.solvers.star._prox_skip import (
    ProxSkip as ProxSkip,
    prox_skip as prox_skip,
)
from fedjax_admm.solvers.star._scaffold import (
    Scaffold as Scaffold,
    scaffold as scaffold,
)
from fedjax_admm.solvers.star._subgradient import (
    FederatedSubgradient as FederatedSubgradient,
    federated_subgradient as federated_subgradient,
    subgradient_steps as subgradient_steps,
)
from fedjax_admm.solvers.tree._centralized_subgradient import (
    CentralizedSubgradient as CentralizedSubgradient,
    PolyakStep as PolyakStep,
    ScheduledStep as ScheduledStep,
    centralized_subgradient as centralized_subgradient,
    polyak as polyak,
)
from fedjax_admm.solvers.tree._client_updates import (
    LinearizedClients as LinearizedClients,
    ProxClients as ProxClients,
)
from fedjax_admm.solvers.tree._hfsad import (
    consensus_links as consensus_links,
    hfsad as hfsad,
    scad_regularizers as scad_regularizers,
)
from fedjax_admm.solvers.tree._hierarchical import (
    HierarchicalADMM as HierarchicalADMM,
    consensus_admm as consensus_admm,
    hierarchical_admm as hierarchical_admm,
)
from fedjax_admm.solvers.tree._links import (
    TreeLink as TreeLink,
    TreeNodes as TreeNodes,
    tree_link as tree_link,
)
from fedjax_admm.solvers.wrappers._anderson import (
    Anderson as Anderson,
    AndersonHistory as AndersonHistory,
    AndersonState as AndersonState,
    anderson as anderson,
)
from fedjax_admm.solvers.wrappers._personal import (
    Personal as Personal,
    PersonalState as PersonalState,
    personal as personal,
)
