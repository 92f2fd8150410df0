from fedjax_admm.trials.experiments._experiment import (
    ROUNDS as ROUNDS,
    AdaptedMethod as AdaptedMethod,
    DirectMethod as DirectMethod,
    Experiment as Experiment,
    Method as Method,
    Settings as Settings,
    SolverMethod as SolverMethod,
    Sweep as Sweep,
    recording_interval as recording_interval,
    trial_keys as trial_keys,
)
from fedjax_admm.trials.experiments._finding import all_experiments as all_experiments, find as find
