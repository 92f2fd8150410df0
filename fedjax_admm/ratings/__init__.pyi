from fedjax_admm.ratings._blocks import (
    BLOCK as BLOCK,
    ClientRatings as ClientRatings,
    in_blocks as in_blocks,
)
from fedjax_admm.ratings._cores import cores as cores
from fedjax_admm.ratings._factors import (
    CURVATURE_BOUNDS as CURVATURE_BOUNDS,
    Factors as Factors,
    FactorStart as FactorStart,
    GivenStart as GivenStart,
    UniformStart as UniformStart,
    check_factor_start as check_factor_start,
    copy_steps as copy_steps,
    curvature_bound as curvature_bound,
    given_start as given_start,
    gram_matrix as gram_matrix,
    item_gradients as item_gradients,
    item_quadratics as item_quadratics,
    largest_eigenvalue as largest_eigenvalue,
    smallest_curvature_bound as smallest_curvature_bound,
    uniform_start as uniform_start,
    user_quadratics as user_quadratics,
    user_steps as user_steps,
)
from fedjax_admm.ratings._files import read_ratings as read_ratings
from fedjax_admm.ratings._layout import (
    Home as Home,
    Lists as Lists,
    ratings_per_client as ratings_per_client,
    sort_by_client as sort_by_client,
)
from fedjax_admm.ratings._synthetic import (
    SHAPES as SHAPES,
    DrawnRatings as DrawnRatings,
    Shape as Shape,
    draw_ratings as draw_ratings,
)
from fedjax_admm.ratings._table import Ratings as Ratings, from_arrays as from_arrays
