from fedjax_admm.losses._clipping import (
    bounded_rows as bounded_rows,
    clipped_mean as clipped_mean,
    clipped_slopes as clipped_slopes,
    rounding_excess as rounding_excess,
)
from fedjax_admm.losses._local import (
    LassoLoss as LassoLoss,
    LocalLoss as LocalLoss,
    LogisticLoss as LogisticLoss,
    TrainedLoss as TrainedLoss,
)
from fedjax_admm.losses._loss_checks import check_sample_loss as check_sample_loss
from fedjax_admm.losses._pooled import minimize_regression as minimize_regression
from fedjax_admm.losses._samples import (
    Absolute as Absolute,
    Huber as Huber,
    Logistic as Logistic,
    Quantile as Quantile,
    SampleLoss as SampleLoss,
    Squared as Squared,
    absolute as absolute,
    huber as huber,
    logistic as logistic,
    quantile as quantile,
    squared as squared,
)
from fedjax_admm.losses._squared import (
    SquaredLoss as SquaredLoss,
    least_squares as least_squares,
)
