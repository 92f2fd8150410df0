"""Settings of the private methods, found by search.

`PUBLISHED` is what the learning curves are drawn with. `TUNED` and `HETEROGENEOUS` are what
`python benchmarks/zcdp_tuning.py --settings 200 --trials 8` prints: for every method on every task
the best of 300 settings (P-ADMM: 60), by the mean error after 200 rounds on 8 tuning problems,
which stands behind each row. No experiment draws these problems; the cost of such a search on
private data would not be accounted for.
"""

import math
from collections.abc import Mapping

from fedjax_admm.privacy import PrivateSetting

ZCDP, GRAD, P_ADMM = "zCDP-NFL", "zCDP-grad", "P-ADMM"
ADVANCED, BASIC = "DP-NFL, advanced", "DP-NFL, basic"
TASKS = _ELASTIC, _LAD, _RIDGE = "elastic net", "LAD", "ridge"

_Table = Mapping[tuple[str, str], Mapping[float, PrivateSetting]]

# Step, power, rho, clip, tau. A method without a step or a rho does not look at it.
PUBLISHED: _Table = {
    (_ELASTIC, ZCDP): {
        1.0: PrivateSetting(3.467, 0.5, 11.42, 5.0, 0.985),
        8.0: PrivateSetting(673.8, 1.0, 10.07, 6.61, 0.97),
    },
    (_LAD, ZCDP): {
        1.0: PrivateSetting(23.8, 0.5, 0.884, 0.36, 0.985),
        8.0: PrivateSetting(2.389, 0.0, 1.08, 0.5, 0.97),
    },
    (_RIDGE, ZCDP): {
        1.0: PrivateSetting(2.254, 0.5, 6.088, 2.72, 0.985),
        8.0: PrivateSetting(24.26, 1.0, 3.382, 2.15, 0.975),
    },
    (_ELASTIC, GRAD): {
        1.0: PrivateSetting(0.0218, 0.0, 1.0, 3.71, 0.985),
        8.0: PrivateSetting(1.49, 1.0, 1.0, 4.84, 0.985),
    },
    (_LAD, GRAD): {
        1.0: PrivateSetting(0.132, 0.0, 1.0, 0.5, 0.985),
        8.0: PrivateSetting(8.73, 1.0, 1.0, 0.37, 0.99),
    },
    (_RIDGE, GRAD): {
        1.0: PrivateSetting(0.0275, 0.0, 1.0, 2.57, 0.985),
        8.0: PrivateSetting(2.02, 1.0, 1.0, 2.82, 0.985),
    },
    (_RIDGE, P_ADMM): {
        1.0: PrivateSetting(1.0, 0.0, 10.28, 5.0, 0.98),
        8.0: PrivateSetting(1.0, 0.0, 5.0, 2.8, 0.97),
    },
}
"""Task and method -> epsilon -> setting, of the learning curves."""


def nearest(table: Mapping[float, PrivateSetting], value: float) -> PrivateSetting:
    """Return the setting at the number nearest to `value`, in ratio if all are positive."""
    if min(table) > 0 and value > 0:
        return table[min(table, key=lambda known: abs(math.log(known / value)))]
    return table[min(table, key=lambda known: abs(known - value))]


def tuned(task: str, method: str, epsilon: float) -> PrivateSetting:
    """Return the setting of a method on a task that was found at the nearest epsilon."""
    return nearest(TUNED[task, method], epsilon)


TUNED: _Table = {
    (_ELASTIC, ZCDP): {
        0.5: PrivateSetting(0.754, 0.0, 16.66, 3.975, 0.99),  # 18.1
        1.0: PrivateSetting(115.2, 0.5, 12.0, 4.935, 0.985),  # 5.21
        2.0: PrivateSetting(5.779, 0.5, 8.218, 4.519, 0.98),  # 1.06
        4.0: PrivateSetting(264.8, 1.0, 6.878, 4.352, 0.975),  # 0.227
        8.0: PrivateSetting(264.8, 1.0, 6.878, 4.352, 0.975),  # 0.0616
        16.0: PrivateSetting(126.5, 1.0, 6.196, 4.379, 0.975),  # 0.0207
    },
    (_ELASTIC, ADVANCED): {
        0.5: PrivateSetting(0.4159, 0.0, 172.1, 1.506, 0.99),  # 49
        1.0: PrivateSetting(0.01724, 0.0, 68.69, 3.119, 0.99),  # 44.3
        2.0: PrivateSetting(98.38, 1.0, 20.91, 2.847, 0.99),  # 30.6
        4.0: PrivateSetting(201.5, 0.0, 23.29, 6.893, 0.99),  # 13.9
        8.0: PrivateSetting(1.569, 0.5, 10.06, 4.775, 0.985),  # 3.73
        16.0: PrivateSetting(0.7923, 0.0, 7.602, 4.105, 0.98),  # 0.897
    },
    (_ELASTIC, BASIC): {
        0.5: PrivateSetting(0.009915, 1.0, 146.5, 0.2792, 0.99),  # 50
        1.0: PrivateSetting(0.03912, 0.5, 80.91, 0.3775, 0.985),  # 49.7
        2.0: PrivateSetting(2.748, 0.0, 50.6, 1.231, 0.99),  # 46.9
        4.0: PrivateSetting(76.97, 0.5, 42.2, 3.141, 0.99),  # 37.1
        8.0: PrivateSetting(102.5, 1.0, 19.87, 4.492, 0.99),  # 18.7
        16.0: PrivateSetting(0.4505, 0.0, 10.3, 4.428, 0.985),  # 4.86
    },
    (_ELASTIC, GRAD): {
        0.5: PrivateSetting(0.01115, 0.0, 15.97, 3.925, 0.99),  # 14.6
        1.0: PrivateSetting(0.02095, 0.0, 14.3, 3.988, 0.98),  # 3.85
        2.0: PrivateSetting(0.1666, 0.5, 0.7592, 4.235, 0.99),  # 0.512
        4.0: PrivateSetting(0.218, 0.5, 1.552, 4.162, 0.985),  # 0.104
        8.0: PrivateSetting(0.1863, 0.5, 2.281, 4.577, 0.98),  # 0.0295
        16.0: PrivateSetting(1.328, 1.0, 15.5, 4.909, 0.985),  # 0.00662
    },
    (_LAD, ZCDP): {
        0.5: PrivateSetting(1.287, 0.5, 7.749, 1.865, 0.99),  # 16.9
        1.0: PrivateSetting(1.85, 0.0, 2.846, 1.14, 0.985),  # 3.23
        2.0: PrivateSetting(15.05, 0.5, 1.321, 0.6172, 0.98),  # 0.419
        4.0: PrivateSetting(41.33, 1.0, 1.603, 0.8703, 0.975),  # 0.0749
        8.0: PrivateSetting(41.33, 1.0, 1.603, 0.8703, 0.975),  # 0.0189
        16.0: PrivateSetting(41.33, 1.0, 1.603, 0.8703, 0.975),  # 0.00612
    },
    (_LAD, ADVANCED): {
        0.5: PrivateSetting(0.5833, 0.0, 136.4, 1.229, 0.99),  # 49
        1.0: PrivateSetting(84.6, 0.0, 17.51, 0.7112, 0.99),  # 43.8
        2.0: PrivateSetting(1.32, 0.5, 6.486, 0.8845, 0.99),  # 30.3
        4.0: PrivateSetting(22.43, 0.0, 3.163, 0.835, 0.99),  # 10.6
        8.0: PrivateSetting(324.2, 1.0, 1.321, 0.5297, 0.985),  # 1.99
        16.0: PrivateSetting(42.54, 0.0, 0.9162, 0.3893, 0.98),  # 0.345
    },
    (_LAD, BASIC): {
        0.5: PrivateSetting(0.009915, 1.0, 146.5, 0.2792, 0.99),  # 50
        1.0: PrivateSetting(0.074, 0.5, 43.64, 0.2079, 0.99),  # 49.7
        2.0: PrivateSetting(3.386, 0.0, 26.37, 0.6094, 0.99),  # 46.8
        4.0: PrivateSetting(0.05367, 0.0, 8.965, 1.02, 0.99),  # 37
        8.0: PrivateSetting(36.4, 0.0, 1.148, 0.2686, 0.99),  # 16.5
        16.0: PrivateSetting(324.2, 1.0, 1.321, 0.5297, 0.985),  # 2.91
    },
    (_LAD, GRAD): {
        0.5: PrivateSetting(0.03961, 0.0, 7.472, 1.062, 0.99),  # 12.3
        1.0: PrivateSetting(0.1439, 0.0, 1.689, 0.4257, 0.985),  # 1.89
        2.0: PrivateSetting(0.5442, 0.5, 21.12, 1.418, 0.985),  # 0.202
        4.0: PrivateSetting(0.5669, 0.5, 27.47, 0.9903, 0.985),  # 0.034
        8.0: PrivateSetting(4.457, 1.0, 0.7794, 0.7938, 0.99),  # 0.00559
        16.0: PrivateSetting(7.852, 1.0, 1.346, 0.4091, 0.985),  # 0.00276
    },
    (_RIDGE, ZCDP): {
        0.5: PrivateSetting(0.8992, 0.0, 10.21, 2.241, 0.99),  # 16.9
        1.0: PrivateSetting(113.3, 0.5, 5.928, 2.333, 0.985),  # 4.06
        2.0: PrivateSetting(5.682, 0.5, 4.059, 2.137, 0.98),  # 0.656
        4.0: PrivateSetting(1.757, 0.5, 3.495, 2.162, 0.98),  # 0.135
        8.0: PrivateSetting(1.757, 0.5, 3.495, 2.162, 0.98),  # 0.0384
        16.0: PrivateSetting(5.65, 0.5, 4.559, 2.975, 0.975),  # 0.0124
    },
    (_RIDGE, ADVANCED): {
        0.5: PrivateSetting(0.2369, 0.0, 95.02, 0.8545, 0.99),  # 49
        1.0: PrivateSetting(107.3, 0.0, 19.04, 0.8091, 0.99),  # 43.9
        2.0: PrivateSetting(1.172, 0.5, 7.537, 1.263, 0.99),  # 30.8
        4.0: PrivateSetting(327.1, 0.0, 8.449, 2.217, 0.99),  # 11.8
        8.0: PrivateSetting(0.1786, 0.0, 5.287, 2.718, 0.985),  # 2.86
        16.0: PrivateSetting(0.1786, 0.0, 5.287, 2.718, 0.985),  # 0.598
    },
    (_RIDGE, BASIC): {
        0.5: PrivateSetting(0.009915, 1.0, 146.5, 0.2792, 0.99),  # 50
        1.0: PrivateSetting(0.074, 0.5, 43.64, 0.2079, 0.99),  # 49.7
        2.0: PrivateSetting(3.386, 0.0, 26.37, 0.6094, 0.99),  # 46.8
        4.0: PrivateSetting(76.97, 0.5, 42.2, 3.141, 0.99),  # 36.9
        8.0: PrivateSetting(166.5, 1.0, 16.36, 3.392, 0.99),  # 17.7
        16.0: PrivateSetting(90.95, 0.0, 7.306, 2.914, 0.985),  # 3.71
    },
    (_RIDGE, GRAD): {
        0.5: PrivateSetting(0.02214, 0.0, 13.25, 2.05, 0.99),  # 13.3
        1.0: PrivateSetting(0.03337, 0.0, 1.514, 2.112, 0.985),  # 2.48
        2.0: PrivateSetting(0.3357, 0.5, 34.18, 2.509, 0.985),  # 0.305
        4.0: PrivateSetting(0.2553, 0.5, 2.987, 2.894, 0.985),  # 0.0582
        8.0: PrivateSetting(0.192, 0.5, 5.021, 3.64, 0.98),  # 0.0172
        16.0: PrivateSetting(1.689, 1.0, 7.307, 3.72, 0.98),  # 0.00407
    },
    (_RIDGE, P_ADMM): {
        0.5: PrivateSetting(5.068, 0.0, 10.95, 2.11, 0.985),  # 17.6
        1.0: PrivateSetting(3.007, 1.0, 3.478, 1.291, 0.99),  # 3.81
        2.0: PrivateSetting(1.792, 1.0, 5.239, 2.396, 0.98),  # 0.567
        4.0: PrivateSetting(1.112, 1.0, 5.272, 2.549, 0.975),  # 0.122
        8.0: PrivateSetting(1.112, 1.0, 5.272, 2.549, 0.975),  # 0.0354
        16.0: PrivateSetting(1.254, 0.0, 7.526, 4.628, 0.97),  # 0.0141
    },
}
"""Task and method -> epsilon -> setting."""

HETEROGENEOUS: _Table = {
    (_ELASTIC, ZCDP): {
        0.0: PrivateSetting(264.8, 1.0, 6.878, 4.352, 0.975),  # 0.0616
        0.5: PrivateSetting(334.1, 0.0, 9.787, 10.87, 0.975),  # 0.3
        1.0: PrivateSetting(431.5, 0.0, 7.686, 13.05, 0.97),  # 0.756
        2.0: PrivateSetting(735.9, 0.0, 3.288, 11.53, 0.975),  # 3.2
    },
    (_ELASTIC, GRAD): {
        0.0: PrivateSetting(0.1863, 0.5, 2.281, 4.577, 0.98),  # 0.0295
        0.5: PrivateSetting(0.1111, 0.5, 0.1912, 10.03, 0.985),  # 0.316
        1.0: PrivateSetting(1.574, 1.0, 0.2321, 12.06, 0.99),  # 0.667
        2.0: PrivateSetting(1.574, 1.0, 0.2321, 12.06, 0.99),  # 2.17
    },
    (_LAD, ZCDP): {
        0.0: PrivateSetting(41.33, 1.0, 1.603, 0.8703, 0.975),  # 0.0189
        0.5: PrivateSetting(194.9, 0.0, 1.22, 0.9233, 0.975),  # 0.111
        1.0: PrivateSetting(16.15, 0.0, 0.5803, 0.7198, 0.975),  # 0.334
        2.0: PrivateSetting(62.22, 0.0, 0.3187, 0.6074, 0.975),  # 1.05
    },
    (_LAD, GRAD): {
        0.0: PrivateSetting(4.457, 1.0, 0.7794, 0.7938, 0.99),  # 0.00559
        0.5: PrivateSetting(3.918, 1.0, 6.358, 1.664, 0.99),  # 0.113
        1.0: PrivateSetting(0.438, 0.5, 5.806, 3.113, 0.99),  # 0.612
        2.0: PrivateSetting(2.837, 0.5, 1.361, 0.6317, 0.99),  # 1.56
    },
    (_RIDGE, ZCDP): {
        0.0: PrivateSetting(1.757, 0.5, 3.495, 2.162, 0.98),  # 0.0384
        0.5: PrivateSetting(40.17, 0.0, 8.566, 7.151, 0.975),  # 0.218
        1.0: PrivateSetting(431.5, 0.0, 7.686, 13.05, 0.97),  # 0.584
        2.0: PrivateSetting(131.2, 0.5, 3.378, 7.629, 0.97),  # 1.93
    },
    (_RIDGE, GRAD): {
        0.0: PrivateSetting(0.192, 0.5, 5.021, 3.64, 0.98),  # 0.0172
        0.5: PrivateSetting(1.487, 1.0, 0.1389, 8.059, 0.99),  # 0.164
        1.0: PrivateSetting(1.487, 1.0, 0.1389, 8.059, 0.99),  # 0.515
        2.0: PrivateSetting(2.441, 1.0, 0.4595, 9.345, 0.99),  # 1.66
    },
}
"""Task and method -> deviation of the clients' true models -> setting, at epsilon 8."""
