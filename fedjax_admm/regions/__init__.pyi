from fedjax_admm.regions._bootstrap import Replicates as Replicates, bootstrap as bootstrap
from fedjax_admm.regions._bounds import dilution as dilution
from fedjax_admm.regions._conformal import (
    conformal_counts as conformal_counts,
    conformal_radius as conformal_radius,
)
from fedjax_admm.regions._covariance import Covariance as Covariance, covariance as covariance
from fedjax_admm.regions._ellipses import Ellipse as Ellipse, ellipse as ellipse
from fedjax_admm.regions._losses import (
    Cauchy as Cauchy,
    SoftL1 as SoftL1,
    cauchy as cauchy,
    soft_l1 as soft_l1,
)
from fedjax_admm.regions._profile import ProfileRegion as ProfileRegion, profile as profile
from fedjax_admm.regions._refine import Fit as Fit, refine as refine
