from fedjax_admm.trials.solve.private._clients import (
    build_client_graph as build_client_graph,
    read_clients as read_clients,
)
from fedjax_admm.trials.solve.private._figure import draw_private_fit as draw_private_fit
from fedjax_admm.trials.solve.private._fit import (
    PrivateFit as PrivateFit,
    fit_private as fit_private,
    noise_key as noise_key,
)
from fedjax_admm.trials.solve.private._report import solution as solution, summary as summary
from fedjax_admm.trials.solve.private._settings import PrivateSettings as PrivateSettings
