from fedjax_admm import (
    capabilities as capabilities,
    certificates as certificates,
    deploy as deploy,
    devices as devices,
    direct as direct,
    graphs as graphs,
    kernels as kernels,
    lanes as lanes,
    losses as losses,
    measures as measures,
    messages as messages,
    participation as participation,
    penalties as penalties,
    privacy as privacy,
    problems as problems,
    ratings as ratings,
    regions as regions,
    schedules as schedules,
    search as search,
    solvers as solvers,
    testing as testing,
    traffic as traffic,
    trees as trees,
    trials as trials,
)
from fedjax_admm._checks import InputError as InputError
from fedjax_admm._optimizers import as_gradient_transformation as as_gradient_transformation
from fedjax_admm._pytrees import pytree_dataclass as pytree_dataclass
from fedjax_admm._run._checkpoints import load as load, save as save
from fedjax_admm._run._key_uses import key_reuse_allowed as key_reuse_allowed
from fedjax_admm._run._results import RoundState as RoundState, Run as Run, Status as Status
from fedjax_admm._run._rounds import run as run, run_until as run_until
from fedjax_admm._run._tracking import track as track
from fedjax_admm._version import __version__ as __version__
from fedjax_admm.devices import device_mesh as device_mesh
from fedjax_admm.participation import where_active as where_active
from fedjax_admm.protocol import RoundInfo as RoundInfo, Solver as Solver
from fedjax_admm.schedules import (
    Schedule as Schedule,
    from_optax as from_optax,
    schedule as schedule,
)
from fedjax_admm.search import grid_search as grid_search
from fedjax_admm.traffic import Traffic as Traffic
from fedjax_admm.trials.engine import monte_carlo as monte_carlo
