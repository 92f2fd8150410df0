"""One import for the files of solvers: base classes, messages, and declarations of fields."""

from fedjax_admm._pytrees import pytree_dataclass as pytree_dataclass
from fedjax_admm.messages import Exchange as Exchange
from fedjax_admm.penalties import Penalty as Penalty
from fedjax_admm.solvers._declared import (
    check_exchange_obeys as check_exchange_obeys,
    check_regularizer as check_regularizer,
    exchanged as exchanged,
    regularized as regularized,
    scheduled as scheduled,
)
from fedjax_admm.solvers._local import LocalSolver as LocalSolver, locally as locally
from fedjax_admm.solvers._messages import (
    PerClient as PerClient,
    Received as Received,
    RoundMessage as RoundMessage,
    StarState as StarState,
    Upload as Upload,
)
from fedjax_admm.solvers._star import StarSolver as StarSolver
