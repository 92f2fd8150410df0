from fedjax_admm.trials.solve._families import FAMILIES as FAMILIES
from fedjax_admm.trials.solve._folder import (
    claimed_folder as claimed_folder,
    write_solution as write_solution,
)
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
from fedjax_admm.trials.solve._solution import (
    Solution as Solution,
    Stages as Stages,
    solve_file as solve_file,
)
from fedjax_admm.trials.solve.localization._settings import (
    LocalizationSettings as LocalizationSettings,
)
from fedjax_admm.trials.solve.networked._settings import NetworkedSettings as NetworkedSettings
from fedjax_admm.trials.solve.private._settings import PrivateSettings as PrivateSettings
from fedjax_admm.trials.solve.ratings._settings import RatingsSettings as RatingsSettings
