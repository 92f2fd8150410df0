from fedjax_admm.trials.solve.private._fit import (
    PrivateSettings as PrivateSettings,
    fit_private as fit_private,
    noise_key as noise_key,
    read_clip as read_clip,
)
from fedjax_admm.trials.solve.private._input import (
    build_client_graph as build_client_graph,
    read_clients as read_clients,
)
from fedjax_admm.trials.solve.private._report import (
    summary as summary,
    write_results as write_results,
)
