from fedjax_admm.trials.results._comparison import (
    Comparison as Comparison,
    ComparisonRow as ComparisonRow,
    compare as compare,
    compare_results as compare_results,
)
from fedjax_admm.trials.results._contract import (
    ARRAYS as ARRAYS,
    CONFIG as CONFIG,
    DETAILS as DETAILS,
    MESSAGES as MESSAGES,
    NONFINITE_ROUND as NONFINITE_ROUND,
    SUMMARY as SUMMARY,
    Results as Results,
)
from fedjax_admm.trials.results._overview import (
    Overview as Overview,
    OverviewRow as OverviewRow,
    overview as overview,
)
from fedjax_admm.trials.results._paper import (
    paper_table as paper_table,
    trials_table as trials_table,
)
from fedjax_admm.trials.results._reading import (
    check_configuration as check_configuration,
    collected as collected,
    load as load,
)
from fedjax_admm.trials.results._summaries import (
    Difference as Difference,
    Summary as Summary,
    paired_difference as paired_difference,
    summarize as summarize,
    unpaired_difference as unpaired_difference,
)
from fedjax_admm.trials.results._text_table import number_text as number_text
