from fedjax_admm.trials.folders._leftovers import remove_unfinished as remove_unfinished
from fedjax_admm.trials.folders._lock import LOCK as LOCK, locked as locked
from fedjax_admm.trials.folders._new_files import check_new as check_new, write_new as write_new
from fedjax_admm.trials.folders._ownership import (
    CONFIG as CONFIG,
    FILES as FILES,
    check_free as check_free,
    check_own as check_own,
    check_places as check_places,
    clear as clear,
    digest as digest,
    is_recorded as is_recorded,
    own_digest as own_digest,
    read_config as read_config,
)
from fedjax_admm.trials.folders._places import (
    checked_folder as checked_folder,
    new_folder as new_folder,
    remove_empty as remove_empty,
)
from fedjax_admm.trials.folders._processes import (
    boot as boot,
    is_gone as is_gone,
    started as started,
)
from fedjax_admm.trials.folders._publication import (
    publish as publish,
    rewrite as rewrite,
    staged as staged,
    write_config as write_config,
)
