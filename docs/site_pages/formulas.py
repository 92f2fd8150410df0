r"""The formulas of kernels in LaTeX: name -> penalty or set, and map.

The step is \tau, S_t(v) = sign(v) max(|v| - t, 0) is the soft threshold, and parameters have the
letters of the docstrings, which say more: ties, derivatives, and what holds at the ends.
"""

# ruff: noqa: E501

_SVD = r"v = U \operatorname{diag}(s)\, V^\top"
_EIGEN = r"\tfrac12 (v + v^\top) = Q \operatorname{diag}(\ell)\, Q^\top"
_ROW = r"r = \langle a, v \rangle - b"
_RADIAL = r"\frac{v}{\|v\|_2}\; "

FORMULAS: dict[str, tuple[str, str]] = {
    # Entry by entry.
    "project_binary": (
        r"C = \{\mathrm{low}, \mathrm{high}\}",
        r"\begin{cases} \mathrm{low} & v < (\mathrm{low} + \mathrm{high}) / 2 \\ \mathrm{high} & \text{else} \end{cases}",
    ),
    "project_box": (r"C = [l, u]", r"\min(\max(v, l), u)"),
    "project_linf_ball": (r"C = \{x : \|x\|_\infty \le r\}", r"\min(\max(v, -r), r)"),
    "project_non_negative": (r"C = \{x : x \ge 0\}", r"\max(v, 0)"),
    "prox_bernoulli": (
        r"g(x) = -t \log x - (1 - t) \log(1 - x)",
        r"x \in [0, 1] : \quad (x - v)\, x\, (1 - x) + \tau (x - t) = 0",
    ),
    "prox_box_l1": (
        r"g(x) = |x| \;\text{ where } l \le x \le u, \text{ else } \infty",
        r"\min(\max(S_\tau(v), l), u)",
    ),
    "prox_box_squared_l2": (
        r"g(x) = \tfrac{w}{2} x^2 \;\text{ where } l \le x \le u, \text{ else } \infty",
        r"\min\Bigl(\max\Bigl(\frac{v}{1 + \tau w}, l\Bigr), u\Bigr)",
    ),
    "prox_capped_l1": (
        r"g(x) = \min(|x|, \theta)",
        r"\begin{cases} S_\tau(v) & \tau \le 2\theta,\; |v| \le \theta + \tau/2 \\ 0 & \tau > 2\theta,\; |v| \le \sqrt{2 \tau \theta} \\ v & \text{else} \end{cases}",
    ),
    "prox_capped_quadratic": (
        r"g(x) = \min(\tfrac{w}{2} x^2, c)",
        r"\begin{cases} \dfrac{v}{1 + \tau w} & |v| \le \sqrt{2 c\, (\tau + 1/w)} \\ v & \text{else} \end{cases}",
    ),
    "prox_cross_entropy": (
        r"g(x) = \log(1 + e^x) - t x",
        r"x : \quad x = v + \tau \Bigl(t - \frac{1}{1 + e^{-x}}\Bigr)",
    ),
    "prox_elastic_net": (
        r"g(x) = \lambda_1 |x| + \tfrac{\lambda_2}{2} x^2",
        r"\frac{S_{\tau \lambda_1}(v)}{1 + \tau \lambda_2}",
    ),
    "prox_entropy": (
        r"g(x) = x \log x",
        r"\tau\, W\!\left(\tfrac{1}{\tau}\, e^{v / \tau - 1}\right) \quad\text{with Lambert's } W",
    ),
    "prox_exponential_type": (
        r"g(x) = \frac{1 - e^{-\gamma |x|}}{1 - e^{-\gamma}}",
        r"\begin{cases} 0 & c \le 1,\; \gamma |v| \le c \\ \operatorname{sign}(v)\, (|v| - \omega / \gamma) & \text{where its objective is the smaller one} \\ 0 & \text{else} \end{cases} \qquad \omega e^{-\omega} = c\, e^{-\gamma |v|},\; c = \frac{\tau \gamma^2}{1 - e^{-\gamma}}",
    ),
    "prox_geman": (
        r"g(x) = \frac{|x|}{|x| + \gamma}",
        r"\begin{cases} 0 & \tau \le \gamma^2 / 2,\; |v| \le \tau / \gamma \\ \operatorname{sign}(v)\, x & x > 0,\; \tau / (x + \gamma) < |v| - x / 2 \\ 0 & \text{else} \end{cases} \qquad (x - |v|)(x + \gamma)^2 + \tau \gamma = 0, \text{ the largest root}",
    ),
    "prox_hinge": (
        r"g(x) = \max(0, 1 - x)",
        r"\begin{cases} \min(v + \tau, 1) & v < 1 \\ v & \text{else} \end{cases}",
    ),
    "prox_huber": (
        r"g(x) = \begin{cases} x^2 / 2 & |x| \le \delta \\ \delta\, (|x| - \delta / 2) & \text{else} \end{cases}",
        r"\begin{cases} \dfrac{v}{1 + \tau} & |v| \le (1 + \tau)\, \delta \\ v - \tau \delta \operatorname{sign}(v) & \text{else} \end{cases}",
    ),
    "prox_kl": (
        r"g(x) = x \log \frac{x}{y} - x + y",
        r"\tau\, W\!\left(\tfrac{y}{\tau}\, e^{v / \tau}\right) \quad\text{with Lambert's } W",
    ),
    "prox_l0": (
        r"g(x) = \begin{cases} 1 & x \ne 0 \\ 0 & x = 0 \end{cases}",
        r"\begin{cases} 0 & |v| \le \sqrt{2 \tau} \\ v & \text{else} \end{cases}",
    ),
    "prox_l1": (r"g(x) = |x|", r"S_\tau(v) = \operatorname{sign}(v) \max(|v| - \tau, 0)"),
    "prox_l_half": (
        r"g(x) = |x|^{1/2}",
        r"\begin{cases} 0 & |v| \le \tfrac32 \tau^{2/3} \\ \tfrac23 v \left(1 + \cos\bigl(\tfrac23 (\pi - \arccos(\tfrac{\tau}{4} (|v| / 3)^{-3/2}))\bigr)\right) & \text{else} \end{cases}",
    ),
    "prox_l_two_thirds": (
        r"g(x) = |x|^{2/3}",
        r"\begin{cases} 0 & |v| \le 2\, (\tfrac23 \tau)^{3/4} \\ v\, u^3 & \text{else} \end{cases} \qquad u^4 - u + \tfrac23 \tau |v|^{-4/3} = 0, \text{ the largest root}",
    ),
    "prox_linear": (r"g(x) = c\, x", r"v - \tau c"),
    "prox_log_barrier": (
        r"g(x) = -w \log x",
        r"\tfrac12 \left(v + \sqrt{v^2 + 4 \tau w}\right)",
    ),
    "prox_log_sum": (
        r"g(x) = \log(1 + |x| / \epsilon)",
        r"\begin{cases} 0 & \tau \le \epsilon^2,\; |v| \le \tau / \epsilon \\ \operatorname{sign}(v)\, x & x > 0 \text{ and its objective is the smaller one} \\ 0 & \text{else} \end{cases} \qquad x = \tfrac12 \left(|v| - \epsilon + \sqrt{(|v| + \epsilon)^2 - 4 \tau}\right)",
    ),
    "prox_logistic": (
        r"g(x) = \log(1 + e^{-x})",
        r"x : \quad x = v + \frac{\tau}{1 + e^x}",
    ),
    "prox_mcp": (
        r"g(x) = \begin{cases} \lambda |x| - x^2 / (2 \gamma) & |x| \le \gamma \lambda \\ \gamma \lambda^2 / 2 & \text{else} \end{cases}",
        r"\begin{cases} \dfrac{S_{\tau \lambda}(v)}{1 - \tau / \gamma} & \tau < \gamma,\; |v| \le \gamma \lambda \\ 0 & \tau \ge \gamma,\; |v| \le \lambda \sqrt{\gamma \tau} \\ v & \text{else} \end{cases}",
    ),
    "prox_non_negative_l1": (
        r"g(x) = x \;\text{ where } x \ge 0, \text{ else } \infty",
        r"\max(v - \tau, 0)",
    ),
    "prox_non_negative_squared_l2": (
        r"g(x) = \tfrac{w}{2} x^2 \;\text{ where } x \ge 0, \text{ else } \infty",
        r"\frac{\max(v, 0)}{1 + \tau w}",
    ),
    "prox_pinball": (
        r"g(x) = \max(q x, (q - 1) x)",
        r"\max(v - \tau q, 0) + \min(v + \tau (1 - q), 0)",
    ),
    "prox_poisson": (
        r"g(x) = x - c \log x",
        r"\tfrac12 \left(v - \tau + \sqrt{(v - \tau)^2 + 4 \tau c}\right)",
    ),
    "prox_scad": (
        r"g(x) = \begin{cases} \lambda |x| & |x| \le \lambda \\ \dfrac{2 \gamma \lambda |x| - x^2 - \lambda^2}{2 (\gamma - 1)} & \lambda < |x| \le \gamma \lambda \\ (\gamma + 1) \lambda^2 / 2 & \text{else} \end{cases}",
        r"\begin{array}{ll} \tau < \gamma - 1: & \begin{cases} S_{\tau \lambda}(v) & |v| \le (1 + \tau) \lambda \\ \dfrac{(\gamma - 1) v - \operatorname{sign}(v)\, \tau \gamma \lambda}{\gamma - 1 - \tau} & |v| \le \gamma \lambda \\ v & \text{else} \end{cases} \\[3em] \gamma - 1 \le \tau \le \gamma + 1: & \begin{cases} S_{\tau \lambda}(v) & |v| \le (\gamma + 1 + \tau) \lambda / 2 \\ v & \text{else} \end{cases} \\[1.5em] \tau > \gamma + 1: & \begin{cases} 0 & |v| \le \lambda \sqrt{\tau (\gamma + 1)} \\ v & \text{else} \end{cases} \end{array}",
    ),
    "prox_smoothed_abs": (
        r"g(x) = h_\mu(x) = \begin{cases} |x| & |x| \ge \mu \\ x^2 / (2 \mu) + \mu / 2 & \text{else} \end{cases}",
        r"\begin{cases} \dfrac{\mu}{\mu + \tau}\, v & |v| \le \mu + \tau \\ v - \tau \operatorname{sign}(v) & \text{else} \end{cases}",
    ),
    "prox_smoothed_mcp": (
        r"g(x) = P(h_\mu(x)) \quad\text{with the minimax concave } P",
        r"\begin{cases} \text{as prox_mcp} & \text{where the result is at least } \mu \\ \operatorname{sign}(v)\, x : \; x \Bigl(1 + \dfrac{\tau \lambda}{\mu} - \dfrac{\tau}{2 \gamma}\Bigr) - \dfrac{\tau x^3}{2 \gamma \mu^2} = |v| & \text{inside, the smallest root} \end{cases}",
    ),
    "prox_smoothed_scad": (
        r"g(x) = P(h_\mu(x)) \quad\text{with SCAD's } P",
        r"\begin{cases} \text{as prox_scad} & \text{where the result is at least } \mu \\ \dfrac{\mu}{\mu + \tau \lambda}\, v & h_\mu(x) \le \lambda \\ \operatorname{sign}(v)\, x : \; x \Bigl(1 + \dfrac{\tau (\gamma \lambda - \mu / 2)}{\mu (\gamma - 1)}\Bigr) - \dfrac{\tau x^3}{2 \mu^2 (\gamma - 1)} = |v| & h_\mu(x) \le \gamma \lambda \\ v & \text{else} \end{cases}",
    ),
    "prox_squared_hinge": (
        r"g(x) = \max(0, 1 - x)^2",
        r"\begin{cases} \dfrac{v + 2 \tau}{1 + 2 \tau} & v < 1 \\ v & \text{else} \end{cases}",
    ),
    "prox_squared_l2": (r"g(x) = \tfrac{w}{2} x^2", r"\frac{v}{1 + \tau w}"),
    "prox_sum_positive": (
        r"g(x) = \max(x, 0)",
        r"\max(v - \tau, 0) + \min(v, 0)",
    ),
    # Groups.
    "prox_cube_l2": (
        r"g(x) = \|x\|_2^3",
        r"\frac{2 v}{1 + \sqrt{1 + 12 \tau \|v\|_2}}",
    ),
    "prox_group_huber": (
        r"g(x) = \begin{cases} \|x\|_2^2 / 2 & \|x\|_2 \le \delta \\ \delta\, (\|x\|_2 - \delta / 2) & \text{else} \end{cases}",
        r"\begin{cases} \dfrac{v}{1 + \tau} & \|v\|_2 \le (1 + \tau)\, \delta \\ \Bigl(1 - \dfrac{\tau \delta}{\|v\|_2}\Bigr) v & \text{else} \end{cases}",
    ),
    "prox_group_l0": (
        r"g(x) = \begin{cases} 1 & x \ne 0 \\ 0 & x = 0 \end{cases}",
        r"\begin{cases} 0 & \|v\|_2 \le \sqrt{2 \tau} \\ v & \text{else} \end{cases}",
    ),
    "prox_group_l2": (
        r"g(x) = \|x\|_2",
        r"\max\Bigl(0, 1 - \frac{\tau}{\|v\|_2}\Bigr) v",
    ),
    "prox_group_l_half": (
        r"g(x) = \|x\|_2^{1/2}",
        _RADIAL + r"\operatorname{prox}_{\tau |\cdot|^{1/2}}(\|v\|_2)",
    ),
    "prox_group_mcp": (
        r"g(x) = P(\|x\|_2) \quad\text{with the minimax concave } P",
        _RADIAL + r"\operatorname{prox}_{\tau P}(\|v\|_2)",
    ),
    "prox_group_scad": (
        r"g(x) = P(\|x\|_2) \quad\text{with SCAD's } P",
        _RADIAL + r"\operatorname{prox}_{\tau P}(\|v\|_2)",
    ),
    "prox_negative_moreau_norm": (
        r"g(z) = -e_\mu(z), \quad e_\mu(z) = \begin{cases} \|z - a\|_2^2 / (2 \mu) & \|z - a\|_2 \le \mu \\ \|z - a\|_2 - \mu / 2 & \text{else} \end{cases}",
        r"c + \tau\, \frac{c - a}{\max(\|c - a\|_2,\; \mu - \tau)}",
    ),
    "prox_range_excess": (
        r"g(x) = 2 \max(0, \|x - a\|_2 - d)",
        r"p - \operatorname{clip}(r - d, 0, 2 \tau)\, \frac{p - a}{r} \qquad r = \|p - a\|_2",
    ),
    "prox_ranges": (
        r"g(x) = \min_{l \le b \le u} \sum_{t,i} w_{ti} \bigl|\, \|x_t - a\|_2 + c_t + b - d_{ti} \bigr| + \tfrac{\rho}{2} (b - b_0)^2 + \sum_t \pi_t \|x_t - a\|_2",
        r"\operatorname*{argmin}_x\; g(x) + \tfrac{1}{2 \tau} \|x - p\|^2 \quad\text{along the rays from } a \text{ through } p_t",
    ),
    "prox_segments_l2": (
        r"g(x) = \sum_s w_s \|x_s\|_2",
        r"x_s = \max\Bigl(0, 1 - \frac{\tau w_s}{\|v_s\|_2}\Bigr) v_s",
    ),
    "prox_smoothed_group_mcp": (
        r"g(x) = P(h_\mu(\|x\|_2)) \quad\text{with the minimax concave } P",
        _RADIAL + r"\operatorname{prox}_{\tau P \circ h_\mu}(\|v\|_2)",
    ),
    "prox_smoothed_group_scad": (
        r"g(x) = P(h_\mu(\|x\|_2)) \quad\text{with SCAD's } P",
        _RADIAL + r"\operatorname{prox}_{\tau P \circ h_\mu}(\|v\|_2)",
    ),
    "prox_sparse_group": (
        r"g(x) = \lambda_1 \|x\|_1 + \lambda_2 \|x\|_2",
        r"\max\Bigl(0, 1 - \frac{\tau \lambda_2}{\|z\|_2}\Bigr) z \qquad z = S_{\tau \lambda_1}(v)",
    ),
    "prox_sparse_segments": (
        r"g(x) = \sum_i \lambda_i |x_i| + \sum_s w_s \|x_s\|_2",
        r"x_s = \max\Bigl(0, 1 - \frac{\tau w_s}{\|z_s\|_2}\Bigr) z_s \qquad z = S_{\tau \lambda}(v)",
    ),
    # Vectors.
    "project_box_section": (
        r"C = \{x : l \le x \le u,\; \langle w, x \rangle = m\}",
        r"\operatorname{clip}(v - t w, l, u) \quad\text{with } t \text{ such that } \langle w, x \rangle = m",
    ),
    "project_isotonic": (
        r"C = \{x : x_1 \le x_2 \le \dots \le x_n\}",
        r"x_i = \max_{j \le i} \min_{k \ge i} \operatorname{mean}(v_j, \dots, v_k)",
    ),
    "project_l1_ball": (
        r"C = \{x : \|x\|_1 \le r\}",
        r"\begin{cases} v & \|v\|_1 \le r \\ S_t(v) & \text{else, with } t \text{ such that } \|x\|_1 = r \end{cases}",
    ),
    "project_l1_sphere": (
        r"C = \{x : \|x\|_1 = r\}",
        r"S_t(v) \quad\text{with } t \text{ such that } \|x\|_1 = r",
    ),
    "project_l2_ball": (
        r"C = \{x : \|x\|_2 \le r\}",
        r"\begin{cases} v & \|v\|_2 \le r \\ r\, v / \|v\|_2 & \text{else} \end{cases}",
    ),
    "project_l2_sphere": (r"C = \{x : \|x\|_2 = r\}", r"r\, \frac{v}{\|v\|_2}"),
    "project_permutahedron": (
        r"C = \operatorname{conv} \{(w_{\pi(1)}, \dots, w_{\pi(n)}) : \pi \text{ a permutation}\}",
        r"v - u, \quad u_{(i)} \text{ the nearest falling sequence to } v_{(i)} - w_{(i)}",
    ),
    "project_simplex": (
        r"C = \{x : x \ge 0,\; \textstyle\sum_i x_i = m\}",
        r"\max(v - t, 0) \quad\text{with } t \text{ such that } \textstyle\sum_i x_i = m",
    ),
    "project_sparse_simplex": (
        r"C = \{x : x \ge 0,\; \textstyle\sum_i x_i = m,\; \|x\|_0 \le k\}",
        r"x_i = \begin{cases} \max(v_i - t, 0) & v_i \text{ among the } k \text{ largest} \\ 0 & \text{else} \end{cases}",
    ),
    "project_top_k": (
        r"C = \{x : \|x\|_0 \le k\}",
        r"x_i = \begin{cases} v_i & |v_i| \text{ among the } k \text{ largest} \\ 0 & \text{else} \end{cases}",
    ),
    "project_top_k_groups": (
        r"C = \{x : \text{at most } k \text{ of the groups } x_j \text{ are not } 0\}",
        r"x_j = \begin{cases} v_j & \|v_j\|_2 \text{ among the } k \text{ largest} \\ 0 & \text{else} \end{cases}",
    ),
    "project_weighted_l1_ball": (
        r"C = \{x : \langle w, |x| \rangle \le r\}",
        r"\begin{cases} v & v \in C \\ \operatorname{sign}(v) \max(|v| - t w, 0) & \text{else, with } t \text{ such that } \langle w, |x| \rangle = r \end{cases}",
    ),
    "project_weighted_simplex": (
        r"C = \{x : x \ge 0,\; \langle w, x \rangle = m\}",
        r"\max(v - t w, 0) \quad\text{with } t \text{ such that } \langle w, x \rangle = m",
    ),
    "prox_k_support": (
        r"g(x) = \tfrac12 \bigl(\|x\|_k^{\mathrm{sp}}\bigr)^2",
        r"x_i = \begin{cases} v_i / (1 + \tau) & |v_i| \ge c \\ S_{c \tau / (1 + \tau)}(v_i) & \text{else} \end{cases} \qquad \sum_i \operatorname{clip}\Bigl(\frac{(1 + \tau) |v_i|}{c} - \tau, 0, 1\Bigr) = k",
    ),
    "prox_l1_minus_l2": (
        r"g(x) = \|x\|_1 - \alpha \|x\|_2",
        r"\begin{cases} z\, (1 + \alpha \tau / \|z\|_2), \quad z = S_\tau(v) & \max_i |v_i| > \tau \\ \operatorname{sign}(v_i) \max(|v_i| - (1 - \alpha) \tau, 0) \text{ in the largest entry alone} & \text{else} \end{cases}",
    ),
    "prox_linf": (
        r"g(x) = \max_i |x_i|",
        r"\operatorname{clip}(v, -t, t) \quad\text{with } t \text{ such that } \textstyle\sum_i |v_i - x_i| = \tau; \; 0 \text{ where } \|v\|_1 \le \tau",
    ),
    "prox_max": (
        r"g(x) = \max_i x_i",
        r"\min(v, t) \quad\text{with } t \text{ such that } \textstyle\sum_i (v_i - x_i) = \tau",
    ),
    "prox_slope": (
        r"g(x) = \sum_i w_i |x|_{(i)}, \quad |x|_{(1)} \ge |x|_{(2)} \ge \dots",
        r"\operatorname{sign}(v) \max(u, 0), \quad u_{(i)} \text{ the nearest falling sequence to } |v|_{(i)} - \tau w_i",
    ),
    "prox_sum_largest": (
        r"g(x) = \sum_{i = 1}^{k} x_{(i)}, \quad x_{(1)} \ge x_{(2)} \ge \dots",
        r"v - u, \quad u \text{ nearest to } v \text{ among } 0 \le u \le \tau,\; \textstyle\sum_i u_i = k \tau",
    ),
    "prox_top_k_envelope": (
        r"g \text{ the largest function below the indicator of } \|x\|_0 \le k \text{ with } g + \tfrac12 \|\cdot\|^2 \text{ convex}",
        r"\begin{cases} v_i & |v_i| \ge c \\ S_{\tau c}(v_i) / (1 - \tau) & \text{else} \end{cases} \;\; (\tau < 1), \qquad \text{the projection on } \|x\|_0 \le k \;\; (\tau \ge 1)",
    ),
    # Sets and cones.
    "project_affine": (r"C = \{x : A x = b\}", r"v - A^+ (A v - b)"),
    "project_dual_exponential_cone": (
        r"C = \operatorname{cl} \{(x, y, z) : x < 0,\; -x\, e^{y / x} \le e z\}",
        r"v + P_K(-v) \quad\text{with the exponential cone } K",
    ),
    "project_exponential_cone": (
        r"C = \operatorname{cl} \{(x, y, z) : y > 0,\; y\, e^{x / y} \le z\}",
        r"\begin{cases} v & v \in C \\ 0 & v \in C^\circ \\ (r, 0, \max(t, 0)) & r \le 0,\; s \le 0 \\ \dfrac{A}{Q} (\rho, 1, e^\rho) & \text{else} \end{cases} \qquad \begin{aligned} v &= (r, s, t), & A &= (\rho - 1) r + s, \\ B &= r - \rho s, & Q &= \rho^2 - \rho + 1, \end{aligned} \quad e^\rho A - e^{-\rho} B = Q t",
    ),
    "project_graph": (
        r"C = \{(x, y) : y = A x\}",
        r"(x, A x) \quad\text{with } (I + A^\top A)\, x = v_x + A^\top v_y",
    ),
    "project_halfspace": (
        r"C = \{x : \langle a, x \rangle \le b\}",
        r"v - \frac{\max(\langle a, v \rangle - b, 0)}{\|a\|_2^2}\, a",
    ),
    "project_hyperplane": (
        r"C = \{x : \langle a, x \rangle = b\}",
        r"v - \frac{\langle a, v \rangle - b}{\|a\|_2^2}\, a",
    ),
    "project_hyperslab": (
        r"C = \{x : l \le \langle a, x \rangle \le u\}",
        r"v - \frac{\max(p - u, 0) + \min(p - l, 0)}{\|a\|_2^2}\, a \qquad p = \langle a, v \rangle",
    ),
    "project_intersection": (
        r"C = C_1 \cap \dots \cap C_k",
        r"\text{limit of } \; x^+ = P_i(x + p_i), \quad p_i^+ = x + p_i - x^+ \quad\text{in turns, from } x = v,\; p_i = 0",
    ),
    "project_line": (
        r"C = \{t\, a : t \in \mathbb{R}\}",
        r"\frac{\langle a, v \rangle}{\|a\|_2^2}\, a",
    ),
    "project_rotated_second_order_cone": (
        r"C = \{(a, b, x) : \|x\|_2^2 \le 2 a b,\; a, b \ge 0\}",
        r"R\, P_Q(R v), \quad R (a, b, x) = \Bigl(\frac{a + b}{\sqrt 2}, \frac{a - b}{\sqrt 2}, x\Bigr), \quad Q \text{ the second-order cone}",
    ),
    "project_second_order_cone": (
        r"C = \{(t, x) : \|x\|_2 \le t\}",
        r"\begin{cases} (t, x) & \|x\|_2 \le t \\ 0 & \|x\|_2 \le -t \\ \dfrac{t + \|x\|_2}{2} \Bigl(1, \dfrac{x}{\|x\|_2}\Bigr) & \text{else} \end{cases}",
    ),
    # Matrices.
    "project_birkhoff": (
        r"C = \{x \ge 0 : \text{all rows and columns sum to } 1\}",
        r"x_{ij} = \max(v_{ij} + f_i + g_j, 0)",
    ),
    "project_hankel": (
        r"C = \{x : x_{ij} = h_{i + j}\}",
        r"x_{ij} = \operatorname{mean} \{v_{kl} : k + l = i + j\}",
    ),
    "project_kl_birkhoff": (
        r"C = \{x \ge 0 : \text{all rows and columns sum to } 1\}, \quad \operatorname{argmin}_{x \in C} \mathrm{KL}(x \,|\, e^v)",
        r"x_{ij} = e^{v_{ij} + f_i + g_j}",
    ),
    "project_kl_transport": (
        r"C = \{x \ge 0 : x \mathbf 1 = r,\; x^\top \mathbf 1 = c\}, \quad \operatorname{argmin}_{x \in C} \mathrm{KL}(x \,|\, e^v)",
        r"x_{ij} = e^{v_{ij} + f_i + g_j}",
    ),
    "project_nuclear_ball": (
        r"C = \{x : \textstyle\sum_i s_i(x) \le r\}",
        r"U \operatorname{diag}(P_{\|\cdot\|_1 \le r}(s))\, V^\top \qquad " + _SVD,
    ),
    "project_orthogonal": (r"C = \{x : x^\top x = I\}", r"U V^\top \qquad " + _SVD),
    "project_psd": (
        r"C = \{x : x = x^\top,\; x \succeq 0\}",
        r"Q \operatorname{diag}(\max(\ell, 0))\, Q^\top \qquad " + _EIGEN,
    ),
    "project_rank": (
        r"C = \{x : \operatorname{rank} x \le k\}",
        r"U \operatorname{diag}(s_1, \dots, s_k, 0, \dots, 0)\, V^\top \qquad " + _SVD,
    ),
    "project_spectral_ball": (
        r"C = \{x : \max_i s_i(x) \le r\}",
        r"U \operatorname{diag}(\min(s, r))\, V^\top \qquad " + _SVD,
    ),
    "project_stiefel": (
        r"C = \{x : x^\top x = I\} \quad\text{(rows, where } v \text{ is wide)}",
        r"U V^\top \qquad " + _SVD,
    ),
    "project_transport": (
        r"C = \{x \ge 0 : x \mathbf 1 = r,\; x^\top \mathbf 1 = c\}",
        r"x_{ij} = \max(v_{ij} + f_i + g_j, 0)",
    ),
    "prox_log_det": (
        r"g(x) = -\log \det x \;\text{ where } x \succ 0",
        r"Q \operatorname{diag}\Bigl(\tfrac12 \bigl(\ell + \sqrt{\ell^2 + 4 \tau}\bigr)\Bigr) Q^\top \qquad "
        + _EIGEN,
    ),
    "prox_nuclear": (
        r"g(x) = \sum_i s_i(x)",
        r"U \operatorname{diag}(\max(s - \tau, 0))\, V^\top \qquad " + _SVD,
    ),
    "prox_rank_envelope": (
        r"g \text{ the largest function below the indicator of } \operatorname{rank} x \le k \text{ with } g + \tfrac12 \|\cdot\|_F^2 \text{ convex}",
        r"U \operatorname{diag}(\operatorname{prox}(s))\, V^\top \;\text{ with the map of prox_top_k_envelope} \qquad "
        + _SVD,
    ),
    "prox_spectral": (
        r"g(x) = \sum_i p(s_i(x))",
        r"U \operatorname{diag}(\operatorname{prox}_{\tau p}(s))\, V^\top \qquad " + _SVD,
    ),
    "prox_spectral_log_det": (
        r"g(x) = \sum_i \log(1 + s_i(x) / \epsilon)",
        r"U \operatorname{diag}(\operatorname{prox}_{\tau p}(s))\, V^\top, \quad p(t) = \log(1 + |t| / \epsilon) \qquad "
        + _SVD,
    ),
    "prox_spectral_mcp": (
        r"g(x) = \sum_i P(s_i(x)) \quad\text{with the minimax concave } P",
        r"U \operatorname{diag}(\operatorname{prox}_{\tau P}(s))\, V^\top \qquad " + _SVD,
    ),
    "prox_spectral_scad": (
        r"g(x) = \sum_i P(s_i(x)) \quad\text{with SCAD's } P",
        r"U \operatorname{diag}(\operatorname{prox}_{\tau P}(s))\, V^\top \qquad " + _SVD,
    ),
    # Losses of data.
    "prox_absolute_loss": (
        r"g(x) = \sum_i |\langle a_i, x \rangle - b_i|",
        r"v - \tau A^\top u, \quad u_i \in \partial |\cdot| (\langle a_i, x \rangle - b_i)",
    ),
    "prox_absolute_residual": (
        r"g(x) = |\langle a, x \rangle - b|",
        r"v - a \operatorname{clip}\Bigl(\frac{r}{\|a\|_2^2}, -\tau, \tau\Bigr) \qquad " + _ROW,
    ),
    "prox_least_squares": (
        r"g(x) = \tfrac12 \|A x - b\|_2^2",
        r"(I + \tau A^\top A)^{-1} (v + \tau A^\top b)",
    ),
    "prox_least_squares_circular": (
        r"g(x) = \tfrac12 \|k * x - b\|_2^2",
        r"\mathcal F^{-1} \left(\frac{\hat v + \tau\, \overline{\hat k}\, \hat b}{1 + \tau |\hat k|^2}\right)",
    ),
    "prox_logistic_loss": (
        r"g(x) = \sum_i \log\bigl(1 + e^{-(\langle a_i, x \rangle - b_i)}\bigr)",
        r"x : \quad x = v + \tau A^\top \frac{1}{1 + e^{A x - b}}",
    ),
    "prox_logistic_residual": (
        r"g(x) = \log\bigl(1 + e^{-(\langle a, x \rangle - b)}\bigr)",
        r"v + a\, \frac{s - r}{\|a\|_2^2} \qquad s = r + \frac{\tau \|a\|_2^2}{1 + e^s}, \quad "
        + _ROW,
    ),
    "prox_phase_residual": (
        r"g(w) = |y - \langle x, w \rangle^2|",
        r"v + x\, \frac{u - u_0}{\|x\|_2^2}, \quad u = \operatorname{sign}(u_0) \min\Bigl(\max\Bigl(s, \frac{|u_0|}{1 + 2 \rho}\Bigr), H\Bigr) \qquad \begin{aligned} u_0 &= \langle x, v \rangle, \quad \rho = \tau \|x\|_2^2, \quad s = \sqrt{\max(y, 0)}, \\ H &= \frac{|u_0|}{1 - 2 \rho} \text{ if } 2 \rho < 1, \text{ else } \infty \end{aligned}",
    ),
    "prox_phase_residual_box": (
        r"g(w) = |y - \langle x, w \rangle^2| \;\text{ where } \|w\|_\infty \le R, \text{ else } \infty",
        r"w(\nu) = \operatorname{clip}(v + \nu x, -R, R) \quad\text{at the best zero of } \nu \pm 2 \tau p(\nu),\; p(\nu) \mp s \qquad p(\nu) = \langle x, w(\nu) \rangle,\; s = \sqrt{\max(y, 0)}",
    ),
    "prox_phase_residual_clipped": (
        r"g(w) = |y - \langle x, w \rangle^2| \;\text{ where } \|w\|_\infty \le R, \text{ else } \infty",
        r"\approx\; \operatorname{clip}\bigl(\operatorname{prox}_{\tau |y - \langle x, \cdot \rangle^2|}(v), -R, R\bigr)",
    ),
    "prox_pinball_loss": (
        r"g(x) = \sum_i \max(q r_i, (q - 1) r_i), \quad r_i = \langle a_i, x \rangle - b_i",
        r"v - \tau A^\top u, \quad u_i \in \begin{cases} \{q\} & r_i > 0 \\ \{q - 1\} & r_i < 0 \\ [q - 1, q] & r_i = 0 \end{cases}",
    ),
    "prox_pinball_residual": (
        r"g(x) = \max(q r, (q - 1) r), \quad r = \langle a, x \rangle - b",
        r"v - a \operatorname{clip}\Bigl(\frac{r}{\|a\|_2^2}, \tau (q - 1), \tau q\Bigr) \qquad "
        + _ROW,
    ),
    "prox_quadratic": (
        r"g(x) = \tfrac12 x^\top Q x + q^\top x",
        r"(I + \tau Q)^{-1} (v - \tau q)",
    ),
    # Chains and images.
    "prox_fused_lasso": (
        r"g(x) = \lambda_1 \sum_i |x_i| + \lambda_2 \sum_i |x_{i+1} - x_i|",
        r"S_{\tau \lambda_1}\bigl(\operatorname{prox}_{\tau \lambda_2 \mathrm{TV}}(v)\bigr)",
    ),
    "prox_trend_filter": (
        r"g(x) = \sum_i |(D^{k + 1} x)_i|",
        r"\text{ADMM: } \; x^+ = (I + \rho A^\top A)^{-1} (v + \rho A^\top (a + u)), \; a^+ = \operatorname{prox}_{\tau \mathrm{TV} / \rho}(A x^+ - u), \; u^+ = u + a^+ - A x^+, \quad A = D^k",
    ),
    "prox_tv1d": (
        r"g(x) = \sum_i w_i |x_{i+1} - x_i|",
        r"\operatorname{mean}(v) + \tau\, \frac{w_r s_r - w_l s_l}{\text{length}} \;\text{ on every segment, with the signs } s \text{ of the jumps at its ends}",
    ),
    "prox_tv2d_anisotropic": (
        r"g(x) = \sum_{ij} \|(D x)_{ij}\|_1",
        r"v - D^\top q, \quad q = \operatorname*{argmin}_{|q| \le \tau} \|v - D^\top q\|^2",
    ),
    "prox_tv2d_isotropic": (
        r"g(x) = \sum_{ij} \|(D x)_{ij}\|_2",
        r"v - D^\top q, \quad q = \operatorname*{argmin}_{\|q_{ij}\|_2 \le \tau} \|v - D^\top q\|^2",
    ),
}
