from fedjax_admm.trials.results._comparison import compare as compare
from fedjax_admm.trials.results._contract import (
    MESSAGES as MESSAGES,
    NONFINITE_ROUND as NONFINITE_ROUND,
    Results as Results,
    load as load,
)
from fedjax_admm.trials.results._summaries import (
    paired_difference as paired_difference,
    summarize as summarize,
)
