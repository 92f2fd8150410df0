from fedjax_admm.trials import (
    engine as engine,
    experiments as experiments,
    figures as figures,
    report as report,
    results as results,
    running as running,
    solve as solve,
)
from fedjax_admm.trials.engine import (
    MonteCarlo as MonteCarlo,
    default_mesh as default_mesh,
    monte_carlo as monte_carlo,
)
from fedjax_admm.trials.experiments import (
    DirectMethod as DirectMethod,
    Experiment as Experiment,
    SolverMethod as SolverMethod,
    Sweep as Sweep,
)
from fedjax_admm.trials.results import (
    Results as Results,
    load as load,
    paired_difference as paired_difference,
    summarize as summarize,
)
from fedjax_admm.trials.running import Request as Request, run_experiment as run_experiment
