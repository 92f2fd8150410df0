"""Expected error statistics of FSMDM and its baselines, as measured with a NumPy program.

Expectations for the NumPy draws of ``default_rng([2025, t])``, ``t < 200``: 200 trials, 1000
rounds, float64, 21 clients, one local update and all clients active unless a name says otherwise.
A cell is ``(mean, standard_error, median, failure_percent)`` of the distance between the server's
estimate and the target, in metres; a failure is an error above 3 m. ``None`` stands where no value
was recorded. Cells are rounded as recorded, those with two decimals partly twice, so comparisons
allow for 0.6 of the last digit.

Methods: R. Mirzaeifard, A. Moradi, M. Yukawa, S. Werner, "Federated Smoothing ADMM for
Localization", arXiv:2503.09497, 2025; baseline DSRL: R. Mirzaeifard, N. K. D. Venkategowda,
S. Werner, "Robust Networked Federated Learning for Localization", APSIPA ASC 2023,
arXiv:2308.16737. The names ``dsrl_<scale>_sqrt`` and ``dsrl_<scale>_inverse`` stand for the step
sizes ``scale / sqrt(k)`` and ``scale / k``.
"""

SEED = 2025
TRIALS = 200
ROUNDS = 1000

# Ranges that are outliers with probability p: OUTLIERS[p][method].
OUTLIERS = {
    0.025: {
        "fsmdm": (0.041, 0.004, 0.000, 0.0),
        "fsmdm_tuned": (0.020, 0.002, 0.000, 0.0),
        "dsrl_16_sqrt": (0.199, 0.008, 0.213, 0.0),
        "dsrl_100_inverse": (0.039, 0.002, 0.039, 0.0),
        "dsrl_1_sqrt": (9.034, 0.628, 7.061, 64.5),
        "centralised": (0.000, 0.000, 0.000, 0.0),
    },
    0.05: {
        "fsmdm": (0.080, 0.006, 0.079, 0.0),
        "fsmdm_tuned": (0.034, 0.003, 0.034, 0.0),
        "dsrl_16_sqrt": (0.195, 0.007, 0.194, 0.0),
        "dsrl_100_inverse": (0.038, 0.001, 0.037, 0.0),
        "dsrl_1_sqrt": (9.429, 0.644, 7.183, 65.5),
        "centralised": (0.000, 0.000, 0.000, 0.0),
    },
    0.075: {
        "fsmdm": (0.111, 0.007, 0.108, 0.0),
        "fsmdm_tuned": (0.046, 0.003, 0.044, 0.0),
        "dsrl_16_sqrt": (0.190, 0.007, 0.187, 0.0),
        "dsrl_100_inverse": (0.037, 0.001, 0.036, 0.0),
        "dsrl_1_sqrt": (9.926, 0.671, 8.052, 67.0),
        "centralised": (0.000, 0.000, 0.000, 0.0),
    },
    0.1: {
        "fsmdm": (0.142, 0.008, 0.127, 0.0),
        "fsmdm_tuned": (0.059, 0.003, 0.052, 0.0),
        "dsrl_16_sqrt": (0.183, 0.007, 0.177, 0.0),
        "dsrl_100_inverse": (0.036, 0.001, 0.035, 0.0),
        "dsrl_1_sqrt": (10.424, 0.695, 9.123, 68.0),
        "centralised": (0.000, 0.000, 0.000, 0.0),
    },
    0.125: {
        "fsmdm": (0.169, 0.009, 0.152, 0.0),
        "fsmdm_tuned": (0.068, 0.003, 0.061, 0.0),
        "dsrl_16_sqrt": (0.176, 0.006, 0.165, 0.0),
        "dsrl_100_inverse": (0.036, 0.001, 0.034, 0.0),
        "dsrl_1_sqrt": (11.050, 0.721, 9.380, 70.0),
        "centralised": (0.000, 0.000, 0.000, 0.0),
    },
    0.15: {
        "fsmdm": (0.479, 0.220, 0.168, 1.5),
        "fsmdm_tuned": (0.080, 0.004, 0.066, 0.0),
        "dsrl_16_sqrt": (0.431, 0.254, 0.169, 0.5),
        "dsrl_100_inverse": (0.478, 0.322, 0.034, 1.0),
        "dsrl_1_sqrt": (11.619, 0.744, 9.918, 71.5),
        "centralised": (0.000, 0.000, 0.000, 0.0),
    },
    0.175: {
        "fsmdm": (0.534, 0.221, 0.195, 2.0),
        "fsmdm_tuned": (0.093, 0.005, 0.080, 0.0),
        "dsrl_16_sqrt": (0.602, 0.306, 0.170, 1.0),
        "dsrl_100_inverse": (0.702, 0.367, 0.033, 2.0),
        "dsrl_1_sqrt": (12.072, 0.761, 10.304, 71.5),
        "centralised": (0.000, 0.000, 0.000, 0.0),
    },
    0.2: {
        "fsmdm": (1.188, 0.410, 0.207, 4.0),
        "fsmdm_tuned": (0.364, 0.257, 0.083, 0.5),
        "dsrl_16_sqrt": (0.941, 0.394, 0.174, 2.0),
        "dsrl_100_inverse": (0.995, 0.431, 0.033, 3.0),
        "dsrl_1_sqrt": (12.710, 0.779, 11.815, 72.5),
        "centralised": (0.000, 0.000, 0.000, 0.0),
    },
    0.225: {
        "fsmdm": (1.843, 0.571, 0.241, 5.0),
        "fsmdm_tuned": (0.575, 0.326, 0.094, 1.0),
        "dsrl_16_sqrt": (1.131, 0.441, 0.156, 2.5),
        "dsrl_100_inverse": (1.188, 0.473, 0.032, 3.5),
        "dsrl_1_sqrt": (13.291, 0.799, 12.971, 74.0),
        "centralised": (0.000, 0.000, 0.000, 0.0),
    },
    0.25: {
        "fsmdm": (2.562, 0.634, 0.271, 9.0),
        "fsmdm_tuned": (1.080, 0.411, 0.108, 3.5),
        "dsrl_16_sqrt": (1.604, 0.511, 0.155, 5.0),
        "dsrl_100_inverse": (2.017, 0.577, 0.032, 7.0),
        "dsrl_1_sqrt": (13.951, 0.798, 13.911, 77.5),
        "centralised": (0.067, 0.048, 0.000, 1.0),
    },
    0.275: {
        "fsmdm": (3.198, 0.666, 0.302, 14.0),
        "fsmdm_tuned": (1.664, 0.521, 0.118, 5.5),
        "dsrl_16_sqrt": (2.086, 0.586, 0.154, 6.0),
        "dsrl_100_inverse": (2.557, 0.652, 0.031, 8.5),
        "dsrl_1_sqrt": (14.534, 0.813, 14.161, 79.0),
        "centralised": (0.456, 0.275, 0.000, 2.0),
    },
    0.3: {
        "fsmdm": (3.823, 0.718, 0.334, 16.5),
        "fsmdm_tuned": (2.204, 0.584, 0.132, 7.5),
        "dsrl_16_sqrt": (2.627, 0.650, 0.165, 8.0),
        "dsrl_100_inverse": (3.192, 0.710, 0.032, 11.5),
        "dsrl_1_sqrt": (15.193, 0.819, 14.331, 81.0),
        "centralised": (0.607, 0.307, 0.000, 3.0),
    },
}

# Cauchy noise of scale gamma: CAUCHY[gamma][method].
CAUCHY = {
    0.2: {
        "fsmdm": (0.33, 0.02, 0.28, 0),
        "fsmdm_tuned": (0.28, 0.01, 0.22, 0),
        "dsrl_16_sqrt": (0.28, 0.01, 0.21, 0),
        "dsrl_100_inverse": (0.28, 0.01, 0.22, 0),
        "dsrl_1_sqrt": (9.34, 0.64, 7.04, 66),
        "centralised": (0.28, 0.01, 0.22, 0),
    },
    0.4: {
        "fsmdm": (0.56, 0.03, 0.46, 0),
        "fsmdm_tuned": (0.54, 0.03, 0.41, 0),
        "dsrl_16_sqrt": (0.56, 0.03, 0.43, 0),
        "dsrl_100_inverse": (0.56, 0.03, 0.44, 0),
        "dsrl_1_sqrt": (9.77, 0.64, 7.33, 66),
        "centralised": (0.56, 0.03, 0.44, 0),
    },
    0.6: {
        "fsmdm": (0.82, 0.04, 0.64, 2),
        "fsmdm_tuned": (0.83, 0.04, 0.61, 2),
        "dsrl_16_sqrt": (0.85, 0.04, 0.65, 2),
        "dsrl_100_inverse": (0.85, 0.04, 0.66, 2),
        "dsrl_1_sqrt": (10.14, 0.64, 7.70, 67),
        "centralised": (0.85, 0.04, 0.66, 2),
    },
    0.8: {
        "fsmdm": (1.28, 0.19, 0.84, 4),
        "fsmdm_tuned": (1.11, 0.06, 0.83, 3),
        "dsrl_16_sqrt": (1.17, 0.07, 0.88, 4),
        "dsrl_100_inverse": (1.13, 0.06, 0.89, 3),
        "dsrl_1_sqrt": (10.44, 0.64, 8.03, 68),
        "centralised": (1.13, 0.06, 0.88, 3),
    },
    1.0: {
        "fsmdm": (1.57, 0.19, 1.03, 6),
        "fsmdm_tuned": (1.40, 0.07, 1.08, 7),
        "dsrl_16_sqrt": (1.48, 0.08, 1.10, 8),
        "dsrl_100_inverse": (1.46, 0.08, 1.11, 8),
        "dsrl_1_sqrt": (10.74, 0.64, 8.54, 70),
        "centralised": (1.43, 0.07, 1.11, 8),
    },
    1.2: {
        "fsmdm": (1.85, 0.19, 1.23, 13),
        "fsmdm_tuned": (1.74, 0.10, 1.31, 13),
        "dsrl_16_sqrt": (1.76, 0.10, 1.37, 12),
        "dsrl_100_inverse": (1.76, 0.10, 1.34, 13),
        "dsrl_1_sqrt": (11.03, 0.64, 8.82, 74),
        "centralised": (1.71, 0.09, 1.34, 12),
    },
    1.4: {
        "fsmdm": (2.09, 0.18, 1.43, 16),
        "fsmdm_tuned": (2.02, 0.11, 1.52, 18),
        "dsrl_16_sqrt": (2.05, 0.11, 1.59, 20),
        "dsrl_100_inverse": (2.04, 0.11, 1.59, 18),
        "dsrl_1_sqrt": (11.27, 0.65, 9.23, 76),
        "centralised": (2.05, 0.11, 1.59, 19),
    },
    1.6: {
        "fsmdm": (2.37, 0.18, 1.64, 24),
        "fsmdm_tuned": (2.30, 0.13, 1.75, 25),
        "dsrl_16_sqrt": (2.44, 0.17, 1.83, 24),
        "dsrl_100_inverse": (2.33, 0.13, 1.84, 24),
        "dsrl_1_sqrt": (11.49, 0.64, 9.57, 78),
        "centralised": (2.33, 0.12, 1.83, 24),
    },
    1.8: {
        "fsmdm": (2.67, 0.20, 1.86, 28),
        "fsmdm_tuned": (2.60, 0.14, 2.02, 30),
        "dsrl_16_sqrt": (2.74, 0.18, 2.05, 30),
        "dsrl_100_inverse": (2.65, 0.15, 2.05, 30),
        "dsrl_1_sqrt": (11.69, 0.64, 9.45, 80),
        "centralised": (2.61, 0.14, 2.06, 30),
    },
    2.0: {
        "fsmdm": (2.97, 0.20, 2.10, 34),
        "fsmdm_tuned": (2.91, 0.16, 2.24, 36),
        "dsrl_16_sqrt": (3.02, 0.19, 2.27, 36),
        "dsrl_100_inverse": (2.93, 0.16, 2.28, 36),
        "dsrl_1_sqrt": (11.88, 0.63, 9.68, 82),
        "centralised": (2.91, 0.16, 2.28, 36),
    },
    2.2: {
        "fsmdm": (3.31, 0.22, 2.38, 42),
        "fsmdm_tuned": (3.20, 0.18, 2.49, 40),
        "dsrl_16_sqrt": (3.20, 0.17, 2.48, 40),
        "dsrl_100_inverse": (3.23, 0.17, 2.51, 41),
        "dsrl_1_sqrt": (12.08, 0.63, 10.02, 85),
        "centralised": (3.25, 0.18, 2.52, 42),
    },
    2.4: {
        "fsmdm": (3.63, 0.24, 2.68, 45),
        "fsmdm_tuned": (3.49, 0.19, 2.74, 45),
        "dsrl_16_sqrt": (3.48, 0.18, 2.69, 43),
        "dsrl_100_inverse": (3.54, 0.18, 2.75, 45),
        "dsrl_1_sqrt": (12.28, 0.63, 10.50, 86),
        "centralised": (3.54, 0.19, 2.76, 45),
    },
    2.6: {
        "fsmdm": (3.94, 0.25, 2.96, 50),
        "fsmdm_tuned": (3.79, 0.20, 2.96, 50),
        "dsrl_16_sqrt": (3.89, 0.22, 2.95, 49),
        "dsrl_100_inverse": (3.86, 0.21, 3.02, 50),
        "dsrl_1_sqrt": (12.49, 0.63, 10.74, 87),
        "centralised": (3.83, 0.21, 2.99, 50),
    },
    2.8: {
        "fsmdm": (4.28, 0.28, 3.30, 52),
        "fsmdm_tuned": (4.08, 0.22, 3.19, 54),
        "dsrl_16_sqrt": (4.33, 0.26, 3.20, 56),
        "dsrl_100_inverse": (4.16, 0.22, 3.26, 56),
        "dsrl_1_sqrt": (12.68, 0.63, 10.84, 89),
        "centralised": (4.11, 0.22, 3.21, 56),
    },
    3.0: {
        "fsmdm": (4.62, 0.31, 3.51, 59),
        "fsmdm_tuned": (4.36, 0.23, 3.49, 62),
        "dsrl_16_sqrt": (4.62, 0.28, 3.52, 61),
        "dsrl_100_inverse": (4.57, 0.26, 3.52, 61),
        "dsrl_1_sqrt": (12.88, 0.62, 11.01, 90),
        "centralised": (4.41, 0.23, 3.43, 61),
    },
    3.2: {
        "fsmdm": (4.93, 0.33, 3.76, 64),
        "fsmdm_tuned": (4.66, 0.24, 3.74, 65),
        "dsrl_16_sqrt": (4.91, 0.29, 3.76, 64),
        "dsrl_100_inverse": (4.83, 0.27, 3.75, 65),
        "dsrl_1_sqrt": (13.05, 0.62, 11.27, 92),
        "centralised": (4.69, 0.24, 3.65, 64),
    },
    3.4: {
        "fsmdm": (5.23, 0.34, 4.05, 66),
        "fsmdm_tuned": (5.04, 0.27, 3.99, 66),
        "dsrl_16_sqrt": (5.18, 0.30, 3.95, 68),
        "dsrl_100_inverse": (5.17, 0.28, 4.08, 68),
        "dsrl_1_sqrt": (13.22, 0.61, 11.86, 92),
        "centralised": (4.96, 0.25, 3.88, 67),
    },
    3.6: {
        "fsmdm": (5.52, 0.35, 4.26, 69),
        "fsmdm_tuned": (5.39, 0.28, 4.24, 69),
        "dsrl_16_sqrt": (5.52, 0.31, 4.22, 69),
        "dsrl_100_inverse": (5.45, 0.29, 4.27, 70),
        "dsrl_1_sqrt": (13.39, 0.61, 12.16, 92),
        "centralised": (5.23, 0.26, 4.10, 68),
    },
    3.8: {
        "fsmdm": (5.82, 0.36, 4.43, 72),
        "fsmdm_tuned": (5.70, 0.30, 4.48, 71),
        "dsrl_16_sqrt": (5.80, 0.32, 4.44, 70),
        "dsrl_100_inverse": (5.83, 0.32, 4.49, 71),
        "dsrl_1_sqrt": (13.55, 0.60, 12.24, 92),
        "centralised": (5.50, 0.27, 4.29, 70),
    },
    4.0: {
        "fsmdm": (6.14, 0.38, 4.65, 76),
        "fsmdm_tuned": (6.00, 0.31, 4.67, 74),
        "dsrl_16_sqrt": (6.05, 0.33, 4.58, 72),
        "dsrl_100_inverse": (6.07, 0.32, 4.65, 74),
        "dsrl_1_sqrt": (13.72, 0.60, 12.38, 92),
        "centralised": (5.76, 0.28, 4.51, 72),
    },
}

# Cauchy noise of scale 1 against the global round: CURVES[method][round]. A name ending in
# ``active_<share>`` means that each client takes part in a round with that probability; those
# draws were not recorded, so compare within the standard errors.
CURVES = {
    "fsmdm": {
        10: (23.18, 0.61, None, None),
        30: (14.58, 0.61, 14.64, None),
        100: (4.25, 0.39, 2.01, None),
        300: (1.81, 0.22, 1.16, None),
        1000: (1.57, 0.19, 1.03, None),
    },
    "fsmdm_3_local": {
        10: (20.93, 0.64, None, None),
        30: (10.89, 0.58, 9.25, None),
        100: (3.18, 0.33, 1.46, None),
        300: (1.66, 0.20, 1.08, None),
        1000: (1.58, 0.19, 1.03, None),
    },
    "fsmdm_5_local": {
        10: (20.91, 0.65, None, None),
        30: (12.05, 0.62, 11.06, None),
        100: (3.92, 0.40, 1.65, None),
        300: (1.86, 0.22, 1.22, None),
        1000: (1.45, 0.09, 1.07, None),
    },
    "fsmdm_tuned": {
        10: (16.88, 0.27, None, None),
        30: (3.39, 0.13, 2.98, None),
        100: (1.45, 0.07, 1.18, None),
        300: (1.37, 0.07, 1.05, None),
        1000: (1.40, 0.07, 1.08, None),
    },
    "fsmdm_tuned_3_local": {
        10: (4.69, 0.23, None, None),
        30: (1.55, 0.08, 1.27, None),
        100: (1.40, 0.08, 1.05, None),
        300: (1.43, 0.08, 1.08, None),
        1000: (1.46, 0.08, 1.08, None),
    },
    "fsmdm_active_0.8": {
        10: (23.64, 0.60, None, None),
        30: (16.02, 0.61, 15.96, None),
        100: (5.44, 0.43, 2.76, None),
        300: (2.05, 0.24, 1.22, None),
        1000: (1.57, 0.19, 1.04, None),
    },
    "fsmdm_active_0.5": {
        10: (25.12, 0.59, None, None),
        30: (19.43, 0.62, 20.10, None),
        100: (8.82, 0.53, 6.80, None),
        300: (2.82, 0.29, 1.43, None),
        1000: (1.55, 0.16, 1.07, None),
    },
    "fsmdm_active_0.2": {
        10: (26.93, 0.59, None, None),
        30: (24.45, 0.60, 24.94, None),
        100: (17.31, 0.62, 17.32, None),
        300: (7.48, 0.50, 4.49, None),
        1000: (2.29, 0.26, 1.30, None),
    },
    "fsmdm_tuned_active_0.5": {
        10: (23.24, 0.38, None, None),
        30: (9.64, 0.34, 9.22, None),
        100: (1.87, 0.09, 1.54, None),
        300: (1.45, 0.08, 1.17, None),
        1000: (1.40, 0.07, 1.04, None),
    },
    "fsmdm_tuned_active_0.2": {
        10: (26.43, 0.54, None, None),
        30: (21.62, 0.38, 21.79, None),
        100: (6.45, 0.28, 5.83, None),
        300: (1.69, 0.07, 1.53, None),
        1000: (1.44, 0.08, 1.03, None),
    },
    "dsrl_1_sqrt": {
        10: (27.63, 0.60, None, None),
        30: (26.15, 0.62, 27.25, None),
        100: (23.19, 0.65, 24.45, None),
        300: (18.42, 0.69, 19.51, None),
        1000: (10.74, 0.64, 8.54, None),
    },
    "dsrl_4_sqrt": {
        10: (22.77, 0.66, None, None),
        30: (16.93, 0.69, 18.02, None),
        100: (8.51, 0.60, 5.45, None),
        300: (3.52, 0.41, 1.47, None),
        1000: (1.72, 0.19, 1.12, None),
    },
    "dsrl_16_sqrt": {
        10: (8.44, 0.61, None, None),
        30: (3.06, 0.38, 1.37, None),
        100: (1.60, 0.17, 1.08, None),
        300: (1.49, 0.09, 1.09, None),
        1000: (1.48, 0.08, 1.11, None),
    },
    "dsrl_100_inverse": {
        10: (3.73, 0.26, None, None),
        30: (1.61, 0.16, 1.16, None),
        100: (1.53, 0.11, 1.09, None),
        300: (1.48, 0.08, 1.10, None),
        1000: (1.46, 0.08, 1.11, None),
    },
}
