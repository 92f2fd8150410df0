from fedjax_admm.testing._exchange import check_exchange_part as check_exchange_part
from fedjax_admm.testing._problems import check_problem as check_problem
from fedjax_admm.testing._proxes import check_penalty as check_penalty, check_prox as check_prox
from fedjax_admm.testing._solvers import check_solver as check_solver
