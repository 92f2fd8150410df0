"""Settings of the methods of `compression`, found by search.

What `python benchmarks/tune_messages.py --trials 4` prints: for every channel of a task the place
of the best of its 12 settings in the task's grid (`Task.grid`), with the mean bits until the target
is reached, and the mean of the logarithm of the error in the end, on tuning problems that no
experiment draws.
"""

from collections.abc import Mapping

CHOSEN: Mapping[tuple[str, str], int] = {
    ("FedADMM", "none"): 7,  # 7.32e+05 bits, 10^-4.1
    ("FedADMM", "float16"): 7,  # 3.66e+05 bits, 10^-4.1
    ("FedADMM", "natural"): 7,  # 2.28e+05 bits, 10^-4.1
    ("FedADMM", "QSGD"): 5,  # 1.41e+05 bits, 10^-3.9
    ("FedADMM", "sign"): 5,  # 6.98e+04 bits, 10^-3.9
    ("FedADMM", "top-k"): 7,  # 2.71e+05 bits, 10^-3.7
    ("FedADMM", "rand-k"): 7,  # 6.67e+05 bits, 10^-3.4
    ("FedADMM", "QSGD, no memory"): 4,  # 5.12e+05 bits, 10^-1.0
    ("FedADMM", "top-k, no memory"): 1,  # 1.18e+06 bits, 10^-0.7
    ("FedADMM", "top-k, error feedback"): 5,  # 1.18e+06 bits, 10^-1.1
    ("SCAFFOLD", "none"): 10,  # 6.04e+05 bits, 10^-3.1
    ("SCAFFOLD", "float16"): 10,  # 3.12e+05 bits, 10^-3.1
    ("SCAFFOLD", "natural"): 10,  # 2.28e+05 bits, 10^-3.2
    ("SCAFFOLD", "QSGD"): 6,  # 1.96e+05 bits, 10^-3.2
    ("SCAFFOLD", "sign"): 6,  # 9.66e+04 bits, 10^-3.3
    ("SCAFFOLD", "top-k"): 10,  # 3.37e+05 bits, 10^-3.0
    ("SCAFFOLD", "rand-k"): 5,  # 1.18e+06 bits, 10^-3.5
    ("SCAFFOLD", "QSGD, no memory"): 5,  # 6.46e+05 bits, 10^-3.1
    ("SCAFFOLD", "top-k, no memory"): 8,  # 2.37e+06 bits, 10^-2.6
    ("SCAFFOLD", "top-k, error feedback"): 5,  # 1.33e+06 bits, 10^-3.2
    ("HFSAD", "none"): 6,  # 4.03e+06 bits, 10^-3.4
    ("HFSAD", "float16"): 6,  # 2.08e+06 bits, 10^-3.4
    ("HFSAD", "natural"): 6,  # 1.27e+06 bits, 10^-3.4
    ("HFSAD", "QSGD"): 7,  # 7.77e+05 bits, 10^-3.3
    ("HFSAD", "sign"): 4,  # 4.35e+05 bits, 10^-3.2
    ("HFSAD", "top-k"): 4,  # 1.43e+06 bits, 10^-3.3
    ("HFSAD", "rand-k"): 6,  # 1.97e+06 bits, 10^-2.9
    ("HFSAD", "QSGD, no memory"): 6,  # 1.15e+06 bits, 10^-0.4
    ("HFSAD", "top-k, no memory"): 1,  # 2.36e+06 bits, 10^-0.4
    ("HFSAD", "top-k, error feedback"): 10,  # 2.36e+06 bits, 10^-0.5
    ("private ADMM", "none"): 1,  # 1.36e+07 bits, 10^-3.1
    ("private ADMM", "float16"): 1,  # 6.74e+06 bits, 10^-3.2
    ("private ADMM", "natural"): 1,  # 4.43e+06 bits, 10^-3.1
    ("private ADMM", "QSGD"): 7,  # 2.99e+06 bits, 10^-2.8
    ("private ADMM", "sign"): 7,  # 1.49e+06 bits, 10^-2.7
    ("private ADMM", "top-k"): 2,  # 7.08e+06 bits, 10^-2.6
    ("private ADMM", "rand-k"): 1,  # 6.14e+06 bits, 10^-0.6
    ("private ADMM", "QSGD, no memory"): 10,  # 3.07e+06 bits, 10^2.6
    ("private ADMM", "top-k, no memory"): 3,  # 7.1e+06 bits, 10^-0.3
    ("private ADMM", "top-k, error feedback"): 0,  # 7.1e+06 bits, 10^-0.3
    ("FedADMM, smooth", "none"): 7,  # 1.74e+05 bits, 10^-6.0
    ("FedADMM, smooth", "float16"): 7,  # 8.7e+04 bits, 10^-6.0
    ("FedADMM, smooth", "natural"): 7,  # 5.33e+04 bits, 10^-6.0
    ("FedADMM, smooth", "QSGD"): 7,  # 3.46e+04 bits, 10^-6.0
    ("FedADMM, smooth", "sign"): 7,  # 1.47e+04 bits, 10^-6.0
    ("FedADMM, smooth", "top-k"): 6,  # 6.36e+04 bits, 10^-6.0
    ("FedADMM, smooth", "rand-k"): 7,  # 1.37e+05 bits, 10^-6.0
    ("FedADMM, smooth", "QSGD, no memory"): 10,  # 3.84e+05 bits, 10^-1.5
    ("FedADMM, smooth", "top-k, no memory"): 2,  # 8.88e+05 bits, 10^-1.2
    ("FedADMM, smooth", "top-k, error feedback"): 9,  # 8.88e+05 bits, 10^-1.6
    ("SCAFFOLD, smooth", "none"): 7,  # 2.05e+05 bits, 10^-6.0
    ("SCAFFOLD, smooth", "float16"): 7,  # 1.02e+05 bits, 10^-6.0
    ("SCAFFOLD, smooth", "natural"): 10,  # 6.91e+04 bits, 10^-6.0
    ("SCAFFOLD, smooth", "QSGD"): 9,  # 5.76e+04 bits, 10^-6.0
    ("SCAFFOLD, smooth", "sign"): 9,  # 3.14e+04 bits, 10^-6.0
    ("SCAFFOLD, smooth", "top-k"): 10,  # 1.04e+05 bits, 10^-6.0
    ("SCAFFOLD, smooth", "rand-k"): 5,  # 3.23e+05 bits, 10^-6.0
    ("SCAFFOLD, smooth", "QSGD, no memory"): 6,  # 6.02e+04 bits, 10^-3.2
    ("SCAFFOLD, smooth", "top-k, no memory"): 10,  # 7.7e+04 bits, 10^-3.0
    ("SCAFFOLD, smooth", "top-k, error feedback"): 6,  # 1.18e+05 bits, 10^-3.2
    ("GTV", "none"): 9,  # 1.66e+06 bits, 10^-6.0
    ("GTV", "float16"): 9,  # 8.28e+05 bits, 10^-6.0
    ("GTV", "natural"): 9,  # 5.02e+05 bits, 10^-6.0
    ("GTV", "QSGD"): 4,  # 1.07e+06 bits, 10^-5.3
    ("GTV", "sign"): 5,  # 5.66e+05 bits, 10^-3.1
    ("GTV", "top-k"): 6,  # 1.05e+06 bits, 10^-6.0
    ("GTV", "rand-k"): 3,  # 5.52e+06 bits, 10^-3.2
    ("GTV", "QSGD, no memory"): 4,  # 3.23e+06 bits, 10^-2.1
    ("GTV", "top-k, no memory"): 2,  # 7.46e+06 bits, 10^-1.7
    ("GTV", "top-k, error feedback"): 6,  # 7.46e+06 bits, 10^-2.2
    ("FedMC", "none"): 6,  # 2.88e+05 bits, 10^-5.7
    ("FedMC", "float16"): 6,  # 1.44e+05 bits, 10^-5.7
    ("FedMC", "natural"): 6,  # 8.32e+04 bits, 10^-5.7
    ("FedMC", "QSGD"): 6,  # 5.65e+04 bits, 10^-4.1
    ("FedMC", "sign"): 4,  # 3.45e+04 bits, 10^-3.5
    ("FedMC", "top-k"): 6,  # 8.55e+04 bits, 10^-6.0
    ("FedMC", "rand-k"): 3,  # 1.38e+05 bits, 10^-3.6
    ("FedMC", "QSGD, no memory"): 6,  # 8.8e+04 bits, 10^-0.5
    ("FedMC", "top-k, no memory"): 4,  # 2.28e+05 bits, 10^-0.8
    ("FedMC", "top-k, error feedback"): 11,  # 2.28e+05 bits, 10^-0.6
    ("FedMC", "low rank"): 6,  # 2.27e+05 bits, 10^-5.2
    ("FSMDM", "none"): 5,  # 2.65e+05 bits, 10^-3.2
    ("FSMDM", "float16"): 5,  # 1.65e+05 bits, 10^-3.2
    ("FSMDM", "natural"): 5,  # 1.24e+05 bits, 10^-3.2
    ("FSMDM", "QSGD"): 5,  # 1.53e+05 bits, 10^-3.2
    ("FSMDM", "sign"): 6,  # 1.73e+05 bits, 10^-3.2
    ("FSMDM", "top-k"): 7,  # 1.83e+05 bits, 10^-3.3
    ("FSMDM", "rand-k"): 7,  # 1.72e+05 bits, 10^-3.3
    ("FSMDM", "QSGD, no memory"): 5,  # 1.26e+05 bits, 10^-1.8
    ("FSMDM", "top-k, no memory"): 0,  # 4.16e+05 bits, 10^-0.4
    ("FSMDM", "top-k, error feedback"): 4,  # 3.37e+05 bits, 10^-1.0
}
