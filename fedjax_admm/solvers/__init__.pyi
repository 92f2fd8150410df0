from fedjax_admm.solvers.factors._fedmavg import FedMAvg as FedMAvg, fedmavg as fedmavg
from fedjax_admm.solvers.factors._fedmc import (
    FedMCADMM as FedMCADMM,
    fedmc_admm as fedmc_admm,
    typical_beta as typical_beta,
)
from fedjax_admm.solvers.graph._gtv import (
    GTVPrimalDual as GTVPrimalDual,
    gtv_primal_dual as gtv_primal_dual,
    gtv_step_ratio as gtv_step_ratio,
)
from fedjax_admm.solvers.private._networked_admm import (
    PrivateNetworkedADMM as PrivateNetworkedADMM,
    private_networked_admm as private_networked_admm,
)
from fedjax_admm.solvers.private._p_admm import PADMM as PADMM, p_admm as p_admm
from fedjax_admm.solvers.private._subgradient import (
    PrivateSubgradient as PrivateSubgradient,
    private_subgradient as private_subgradient,
)
from fedjax_admm.solvers.star._averaging import (
    FederatedAveraging as FederatedAveraging,
    federated_averaging as federated_averaging,
    federated_proximal_averaging as federated_proximal_averaging,
)
from fedjax_admm.solvers.star._fsmdm import (
    FSMDM as FSMDM,
    ClientState as ClientState,
    FSMDMState as FSMDMState,
    fsmdm as fsmdm,
)
from fedjax_admm.solvers.star._ifca import IFCA as IFCA, ifca as ifca
from fedjax_admm.solvers.star._subgradient import (
    FederatedSubgradient as FederatedSubgradient,
    federated_subgradient as federated_subgradient,
    subgradient_steps as subgradient_steps,
)
from fedjax_admm.solvers.tree._centralized_subgradient import (
    CentralizedSubgradient as CentralizedSubgradient,
    centralized_subgradient as centralized_subgradient,
    polyak as polyak,
)
from fedjax_admm.solvers.tree._hfsad import (
    consensus_links as consensus_links,
    hfsad as hfsad,
    scad_regularizers as scad_regularizers,
)
from fedjax_admm.solvers.tree._hierarchical import (
    HierarchicalADMM as HierarchicalADMM,
    TreeLink as TreeLink,
    consensus_admm as consensus_admm,
    hierarchical_admm as hierarchical_admm,
    tree_link as tree_link,
)
