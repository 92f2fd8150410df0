from fedjax_admm._checks._declared import (
    build as build,
    counted as counted,
    declared as declared,
    flagged as flagged,
    having as having,
    option as option,
    optional as optional,
    positive as positive,
    ranged as ranged,
)
from fedjax_admm._checks._kinds import (
    flag as flag,
    function_of as function_of,
    instance as instance,
    several as several,
    shapes_of as shapes_of,
)
from fedjax_admm._checks._sizes import (
    countable as countable,
    largest_squarable as largest_squarable,
    squarable as squarable,
)
from fedjax_admm._checks._values import (
    InputError as InputError,
    count as count,
    default_float as default_float,
    finite_array as finite_array,
    is_concrete as is_concrete,
    is_real as is_real,
    listed as listed,
    multiple as multiple,
    not_deleted as not_deleted,
    number as number,
    one_line as one_line,
    one_of as one_of,
    per_client as per_client,
    real_array as real_array,
    scalar as scalar,
    shape_text as shape_text,
    typed_key as typed_key,
)
