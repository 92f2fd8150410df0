from fedjax_admm.trials.solve.ratings._figure import draw_ratings_fit as draw_ratings_fit
from fedjax_admm.trials.solve.ratings._fit import (
    RatingsFit as RatingsFit,
    fit_ratings as fit_ratings,
    read_table as read_table,
)
from fedjax_admm.trials.solve.ratings._report import solution as solution, summary as summary
from fedjax_admm.trials.solve.ratings._settings import RatingsSettings as RatingsSettings
