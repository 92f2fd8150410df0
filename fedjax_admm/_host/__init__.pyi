from fedjax_admm._host._ahead import ahead as ahead
from fedjax_admm._host._archives import (
    UNFINISHED as UNFINISHED,
    Archive as Archive,
    bytes_of as bytes_of,
    digest_of_arrays as digest_of_arrays,
    digest_of_json as digest_of_json,
    read_archive as read_archive,
    reason_of as reason_of,
    write_arrays as write_arrays,
    write_atomically as write_atomically,
)
from fedjax_admm._host._input_files import (
    check_room as check_room,
    opened as opened,
    unpacked as unpacked,
)
from fedjax_admm._host._memory import (
    cores as cores,
    host_bytes as host_bytes,
    shown as shown,
)
from fedjax_admm._host._programs import (
    KEPT as KEPT,
    NO_LIBRARY_REDUCTIONS as NO_LIBRARY_REDUCTIONS,
    compiled as compiled,
    compiled_alone as compiled_alone,
    compiled_once as compiled_once,
    known_options as known_options,
    leaves_at as leaves_at,
)
from fedjax_admm._host._tables import (
    LARGEST_NUMBER as LARGEST_NUMBER,
    LONGEST_NAME as LONGEST_NAME,
    MISSING as MISSING,
    SMALLEST_NUMBER as SMALLEST_NUMBER,
    Layout as Layout,
    Table as Table,
    edge_columns as edge_columns,
    first_row as first_row,
    numbers_of as numbers_of,
    read_columns as read_columns,
    read_table as read_table,
    read_texts as read_texts,
)
from fedjax_admm._host._trees import (
    Leaves as Leaves,
    kind_of as kind_of,
    read_tree as read_tree,
    write_tree as write_tree,
)
