from fedjax_admm.trials.experiments._catalogue import (
    Headline as Headline,
    meanings as meanings,
)
from fedjax_admm.trials.experiments._deployed import find_study as find_study, study as study
from fedjax_admm.trials.experiments._experiment import (
    ROUNDS as ROUNDS,
    Experiment as Experiment,
    Origin as Origin,
    Settings as Settings,
    Sweep as Sweep,
    trial_keys as trial_keys,
)
from fedjax_admm.trials.experiments._finding import (
    all_experiments as all_experiments,
    find as find,
    find_again as find_again,
    headlines as headlines,
    refused_plugins as refused_plugins,
)
from fedjax_admm.trials.experiments._methods import (
    AdaptedMethod as AdaptedMethod,
    DirectMethod as DirectMethod,
    Method as Method,
    SolverMethod as SolverMethod,
    at_every_record as at_every_record,
    recorded as recorded,
    recorded_rounds as recorded_rounds,
    recording_interval as recording_interval,
)
from fedjax_admm.trials.experiments._published import Published as Published
