from fedjax_admm.losses._local import (
    LassoLoss as LassoLoss,
    LocalLoss as LocalLoss,
    LogisticLoss as LogisticLoss,
    SquaredLoss as SquaredLoss,
    TrainedLoss as TrainedLoss,
    TrainedMemory as TrainedMemory,
    least_squares as least_squares,
)
from fedjax_admm.losses._loss_checks import check_sample_loss as check_sample_loss
from fedjax_admm.losses._pooled import (
    RegressionSolution as RegressionSolution,
    minimize_regression as minimize_regression,
)
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
