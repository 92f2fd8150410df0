from fedjax_admm.trials.solve import (
    localization as localization,
    networked as networked,
    private as private,
    ratings as ratings,
)
from fedjax_admm.trials.solve._command import (
    Solution as Solution,
    Stages as Stages,
    claimed_folder as claimed_folder,
    put_solution as put_solution,
    solve_file as solve_file,
    write_solution as write_solution,
)
from fedjax_admm.trials.solve._families import FAMILIES as FAMILIES
from fedjax_admm.trials.solve._options import (
    Columns as Columns,
    Format as Format,
    Option as Option,
    Style as Style,
    choice as choice,
    flag as flag,
    number as number,
    random_seed as random_seed,
    real_number as real_number,
    text as text,
    whole as whole,
    whole_number as whole_number,
)
from fedjax_admm.trials.solve._settings import Settings as Settings, options as options
