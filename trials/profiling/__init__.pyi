from fedjax_admm.trials.profiling._files import (
    PROFILE as PROFILE,
    write_profile as write_profile,
    written_profile as written_profile,
)
from fedjax_admm.trials.profiling._operations import (
    OperationCounts as OperationCounts,
    count_operations as count_operations,
)
from fedjax_admm.trials.profiling._rates import Rates as Rates, machine_rates as machine_rates
from fedjax_admm.trials.profiling._recording import (
    recording as recording,
    trace_file as trace_file,
)
from fedjax_admm.trials.profiling._report import (
    Profile as Profile,
    as_json as as_json,
    table as table,
)
