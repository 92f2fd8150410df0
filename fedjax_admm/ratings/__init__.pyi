from fedjax_admm.ratings._factors import (
    Factors as Factors,
    FactorStart as FactorStart,
    UniformStart as UniformStart,
    check_factor_start as check_factor_start,
    given_start as given_start,
    uniform_start as uniform_start,
)
from fedjax_admm.ratings._files import (
    Pairs as Pairs,
    read_pairs as read_pairs,
    read_ratings as read_ratings,
    read_titles as read_titles,
)
from fedjax_admm.ratings._synthetic import (
    SHAPES as SHAPES,
    DrawnRatings as DrawnRatings,
    Shape as Shape,
    draw_ratings as draw_ratings,
)
from fedjax_admm.ratings._table import Ratings as Ratings, from_arrays as from_arrays
