from fedjax_admm.trials.folders._lock import (
    LOCK as LOCK,
    locked as locked,
    remove_unfinished as remove_unfinished,
)
from fedjax_admm.trials.folders._places import (
    check_new as check_new,
    check_places as check_places,
    new_folder as new_folder,
    remove_empty as remove_empty,
    write_new as write_new,
)
from fedjax_admm.trials.folders._records import (
    CONFIG as CONFIG,
    check_empty as check_empty,
    check_own as check_own,
    publish as publish,
    read_config as read_config,
    remove as remove,
    rewrite as rewrite,
    rewrite_locked as rewrite_locked,
    staged as staged,
    write_config as write_config,
)
