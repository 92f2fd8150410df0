from fedjax_admm._host._input_files import (
    LARGEST_NUMBER as LARGEST_NUMBER,
    LONGEST_LINE as LONGEST_LINE,
    LONGEST_NAME as LONGEST_NAME,
    SMALLEST_NUMBER as SMALLEST_NUMBER,
    check_edge_columns as check_edge_columns,
    check_room as check_room,
    edge_columns as edge_columns,
    opened as opened,
    read_rows as read_rows,
)
from fedjax_admm._host._memory import (
    available as available,
    container_room as container_room,
    host_bytes as host_bytes,
    shown as shown,
)
from fedjax_admm._host._programs import (
    KEPT as KEPT,
    compiled as compiled,
    compiled_once as compiled_once,
)
from fedjax_admm._host._texts import (
    escape_cell as escape_cell,
    printable as printable,
    unescape_cell as unescape_cell,
)
