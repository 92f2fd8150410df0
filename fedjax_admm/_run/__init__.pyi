from fedjax_admm._run._checkpoints import (
    Checkpoint as Checkpoint,
    identity_of as identity_of,
    load as load,
    save as save,
)
from fedjax_admm._run._checks import (
    check_arrays as check_arrays,
    check_methods as check_methods,
    check_start as check_start,
    difference as difference,
)
from fedjax_admm._run._estimates import in_dtype_of as in_dtype_of
from fedjax_admm._run._key_uses import (
    key_reuse_allowed as key_reuse_allowed,
    key_use as key_use,
)
from fedjax_admm._run._keys import (
    init_key as init_key,
    round_keys as round_keys,
    with_fingerprint as with_fingerprint,
)
from fedjax_admm._run._noise import check_wrapped as check_wrapped
from fedjax_admm._run._results import (
    Measure as Measure,
    RoundState as RoundState,
    Run as Run,
    Status as Status,
)
from fedjax_admm._run._rounds import run as run, run_until as run_until
from fedjax_admm._run._scan import scan_rounds as scan_rounds
from fedjax_admm._run._tracking import Tracked as Tracked, track as track
