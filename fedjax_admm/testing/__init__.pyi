from fedjax_admm.testing._aggregators import (
    AGGREGATOR_CHECKS as AGGREGATOR_CHECKS,
    check_aggregator as check_aggregator,
)
from fedjax_admm.testing._attacks import (
    ATTACK_CHECKS as ATTACK_CHECKS,
    check_attack as check_attack,
)
from fedjax_admm.testing._channels import (
    CHANNEL_CHECKS as CHANNEL_CHECKS,
    check_channel as check_channel,
)
from fedjax_admm.testing._delays import DELAY_CHECKS as DELAY_CHECKS, check_delay as check_delay
from fedjax_admm.testing._penalties import (
    PENALTY_CHECKS as PENALTY_CHECKS,
    check_penalty as check_penalty,
)
from fedjax_admm.testing._problems import (
    PROBLEM_CHECKS as PROBLEM_CHECKS,
    check_problem as check_problem,
)
from fedjax_admm.testing._proxes import PROX_CHECKS as PROX_CHECKS, check_prox as check_prox
from fedjax_admm.testing._schedules import (
    SCHEDULE_CHECKS as SCHEDULE_CHECKS,
    check_schedule as check_schedule,
)
from fedjax_admm.testing._solvers import (
    SOLVER_CHECKS as SOLVER_CHECKS,
    check_solver as check_solver,
)
