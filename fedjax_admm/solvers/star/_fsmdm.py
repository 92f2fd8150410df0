r"""FSMDM: federated smoothing ADMM with a Moreau envelope, for differences of convex functions.

    minimise over w   sum_l f_l(w) + g(w),    f_l = Gamma_l - phi_l

The constraint x_l = w of client l is replaced by the exact penalty omega ||w - x_l||_1, which is
split with the copies g_l = x_l and q_l = w. The augmented Lagrangian of client l is

    Gamma_l(x) - e_l(z, mu_phi) + <psi, x - z> + sigma_psi/2 ||x - z||^2
      + omega h(g - q, mu_h) + <xi, x - g> + sigma_xi/2 ||x - g||^2
      + <zeta, w - q> + sigma_xi/2 ||w - q||^2

with the Moreau envelope e_l of phi_l and the smoothed l1 norm h. With the client's own count k of
updates, including the present one, a local update computes

    sigma_psi = c sqrt(k),  mu_phi = alpha / sqrt(k),  sigma_xi = d sqrt(k),  mu_h = beta / sqrt(k)
    x    <- Prox_Gamma((sigma_psi z + sigma_xi g - psi - xi) / upsilon; 1/upsilon),
                                                   upsilon = sigma_psi + sigma_xi       (15)-(18)
    z    <- Prox_{-e(., mu_phi)}(x + psi / sigma_psi; 1 / sigma_psi)                    (20)-(22)
    psi  <- psi + sigma_psi (x - z)                                                     (24)
    A = x + xi / sigma_xi,  B = w + zeta / sigma_xi,
    e = Prox_{h(., mu_h)}(B - A; 2 omega / sigma_xi)
    g, q <- (A + B - e) / 2, (A + B + e) / 2                                            (23)
    xi   <- xi + sigma_xi (x - g),  zeta <- zeta + sigma_xi (w - q)                     (25), (26)

The code uses the closed form of the last two lines: e = (B - A) - 2 y / sigma_xi with
y = omega clip((B - A) / (mu_h + 2 omega / sigma_xi), -1, 1), hence g = A + y / sigma_xi,
q = B - y / sigma_xi, xi = -y and zeta = y. The duals are slopes of the smoothed link, which omega
bounds. Clients store xi only with an exchange, which changes zeta.

The server averages the last uploads of all clients, with s_l = d sqrt(k_l + 1), S = sum_l s_l:

    w <- sum_l (s_l q_l - zeta_l) / S                                                   (27)

The paper has no regulariser. With a regulariser g (which is not a copy g_l) the server computes

    w <- prox_{g / S}(sum_l (s_l q_l - zeta_l) / S)

With an exchange the clients' uploads are u_l = q_l - zeta_l / s_l with the weights s_l, and the
aggregate of all clients' last uploads replaces the mean in (27). Where u^_l arrives in the place of
u_l, the client continues with q_l - (u_l - u^_l) / 2 and zeta_l + s_l (u_l - u^_l) / 2.

Two misprints of the paper are corrected: the centre of the z-step has a plus sign (with the printed
minus the iterates diverge within tens of rounds), and so has the quadratic part of (23).

Reference: R. Mirzaeifard, A. Moradi, M. Yukawa, S. Werner, "Federated Smoothing ADMM for
Localization", arXiv:2503.09497 (2025), Algorithm 1. Numbers in brackets are its equations.
"""

from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from fedjax_admm import _checks
from fedjax_admm._checks import build, count, declared
from fedjax_admm.capabilities import DifferenceOfConvex, OnStar
from fedjax_admm.schedules import Schedule, ScheduleLike, as_schedule, sqrt_decay, sqrt_growth
from fedjax_admm.solvers import _roles as roles
from fedjax_admm.solvers.star._fsmdm_constants import (
    FSMDM_PRESETS,
    check_product,
    check_schedules,
)


class FSMDMClients(NamedTuple):
    """What the clients hold, stacked; inactive ones keep all of it."""

    x: jax.Array  # shape=(clients, dim): local model
    z: jax.Array  # shape=(clients, dim): copy of x in the concave part
    g: jax.Array  # shape=(clients, dim): copy of x in the link
    q: jax.Array  # shape=(clients, dim): copy of w in the link
    psi: jax.Array  # shape=(clients, dim): dual of x = z
    zeta: jax.Array  # shape=(clients, dim): dual of w = q
    updates: jax.Array  # shape=(clients,), int32: local updates done
    xi: Any = ()  # shape=(clients, dim): dual of x = g; () without an exchange, where it is -zeta


@roles.pytree_dataclass
class FSMDM(roles.StarSolver):
    """Federated smoothing ADMM with Moreau envelope; build it with `fsmdm`."""

    sigma_psi: Schedule  # penalty parameter of x = z
    mu_phi: Schedule  # smoothing of the concave part; mu_phi * sigma_psi > 1
    sigma_xi: Schedule  # penalty parameter of x = g and w = q
    mu_h: Schedule  # smoothing of the link, in the unit of the model
    omega: jax.Array  # shape=(): weight of the link, above the largest |partial derivative| of f_l
    regularizer: roles.Penalty = roles.regularized()  # g
    exchange: roles.Exchange = roles.exchanged()  # of q_l - zeta_l / s_l, with weights s_l
    local_updates: int = declared(count, static=True, default=1)

    requires: ClassVar[tuple[type, ...]] = (OnStar, DifferenceOfConvex)
    sums_losses: ClassVar[bool] = True  # beside the regulariser

    def start_clients(self, problem, models, key):
        """Start every copy at the first model, every dual variable at zero."""
        duals, counts = jnp.zeros_like(models), jnp.zeros(len(models), jnp.int32)
        xi = () if self.exchange.plain else duals
        clients = FSMDMClients(models, models, models, models, duals, duals, counts, xi)
        return clients, roles.RoundMessage()

    def check(self, problem, rounds: int) -> None:
        """Check that the z-step has a minimiser inside the ball in all of so many rounds."""
        super().check(problem, rounds)
        check_schedules(self.mu_phi, self.sigma_psi, rounds * self.local_updates)

    def client(self, problem, clients: FSMDMClients, server, key):
        """Return the clients after all local updates, (15)-(26)."""

        def once(clients, _):
            return self._local_update(problem, server, clients), None

        return jax.lax.scan(once, clients, length=self.local_updates)[0], roles.RoundMessage()

    def upload(self, clients: FSMDMClients) -> roles.Upload:
        """Return q_l - zeta_l / s_l, with the weight s_l."""
        (q, zeta), weight = (clients.q, clients.zeta), self.sigma_xi(clients.updates + 1)
        s = weight[:, None]
        return roles.Upload((q - zeta / s,), weight, (s * q - zeta,))

    def apply_decoded(self, clients: FSMDMClients, values) -> FSMDMClients:
        """Return clients whose upload is the value: half of the difference in q, half in zeta."""
        s = self.sigma_xi(clients.updates + 1)[:, None]
        error = (clients.q - clients.zeta / s - values[0]) / 2
        return clients._replace(q=clients.q - error, zeta=clients.zeta + s * error)

    def server(self, server, received: roles.Received, info) -> jax.Array:
        """Return (27), and what minimises g besides."""
        return self.regularizer.prox(received.means[0], 1 / received.weight)

    def client_models(self, state: roles.StarState) -> jax.Array:
        """Return the clients' own models, shape (clients, dim)."""
        return state.clients.x

    def _local_update(self, problem, server: jax.Array, client: FSMDMClients) -> FSMDMClients:
        """Return the clients after an update against what each read of the server's model."""
        count = client.updates + 1
        sigma_psi, mu_phi = self.sigma_psi(count), self.mu_phi(count)
        sigma_xi, mu_h = self.sigma_xi(count)[:, None], self.mu_h(count)[:, None]
        weight, stored = sigma_psi[:, None], not self.exchange.plain
        xi = client.xi if stored else -client.zeta
        # Inverses of what all entries of a client share: products are cheaper than quotients.
        ratio, dual_ratio, link_ratio = 1 / (weight + sigma_xi), 1 / weight, 1 / sigma_xi

        centre = (weight * client.z + sigma_xi * client.g - client.psi - xi) * ratio
        x = problem.prox_convex_part(centre, ratio[:, 0])
        z = problem.prox_concave_part(x + client.psi * dual_ratio, dual_ratio[:, 0], mu_phi)
        psi = client.psi + weight * (x - z)

        near, far = x + xi * link_ratio, server + client.zeta * link_ratio
        steepness = 1 / (mu_h + 2 * self.omega * link_ratio)
        slope = self.omega * jnp.clip((far - near) * steepness, -1.0, 1.0)
        half = slope * link_ratio
        g, q, xi = near + half, far - half, -slope if stored else ()
        return FSMDMClients(x, z, g, q, psi, slope, count, xi)


def fsmdm(
    preset: str = "published",
    *,
    local_updates: int = 1,
    c: ArrayLike | None = None,
    d: ArrayLike | None = None,
    alpha: ArrayLike | None = None,
    beta: ArrayLike | None = None,
    omega: ArrayLike | None = None,
    sigma_psi: ScheduleLike | None = None,
    mu_phi: ScheduleLike | None = None,
    sigma_xi: ScheduleLike | None = None,
    mu_h: ScheduleLike | None = None,
    regularizer: roles.Penalty | None = None,
    exchange: roles.Exchange | None = None,
) -> FSMDM:
    """Build `FSMDM` from a preset, with single constants or whole schedules replaced.

    The presets are for localisation, where models and losses are lengths of some ten metres: then
    penalty parameters are in 1/metre and smoothings in metres. For models in units of m and losses
    of slope s, sigma_psi and sigma_xi scale with s / m, mu_phi with m / s, mu_h with m, omega with
    s.

    Args:
      preset: "published" (the constants of the paper) or "tuned".
      local_updates: local updates of an active client per round.
      c: sigma_psi = c sqrt(k).
      d: sigma_xi = d sqrt(k).
      alpha: mu_phi = alpha / sqrt(k).
      beta: mu_h = beta / sqrt(k).
      omega: weight of the consensus penalty, above the largest |partial derivative| of the losses
        (1 for localisation).
      sigma_psi: a schedule in place of c: one of `fedjax_admm.schedules`, an optax schedule or
        another function of the count; or a number, which stands for a constant.
      mu_phi: likewise, in place of alpha; mu_phi sigma_psi must exceed 1 at all counts of a run.
      sigma_xi: likewise, in place of d.
      mu_h: likewise, in place of beta.
      regularizer: g at the server, one of `fedjax_admm.penalties`; none if None. It is added to the
        sum of the losses, not to their mean.
      exchange: of messages, `messages.exchange(...)`; none if None.

    Raises:
      InputError: an unknown preset, a number that is not positive, a constant given together
        with the schedule that would replace it, something that is no schedule, alpha c <= 1
        (mu_phi sigma_psi <= 1 at the first update), for which the z-step has no minimiser inside
        the ball, or a regulariser without a prox.
    """
    _checks.one_of("preset", preset, FSMDM_PRESETS)
    constants = {"c": c, "d": d, "alpha": alpha, "beta": beta, "omega": omega}
    schedules = {  # what is given in place of a constant, that constant, and what it would make
        "sigma_psi": (sigma_psi, "c", sqrt_growth),
        "mu_phi": (mu_phi, "alpha", sqrt_decay),
        "sigma_xi": (sigma_xi, "d", sqrt_growth),
        "mu_h": (mu_h, "beta", sqrt_decay),
    }
    for whole, name, _ in schedules.values():
        if whole is not None and constants[name] is not None:
            raise _checks.InputError(
                f"is {constants[name]}, but the schedule that it would make is given too",
                argument=name,
                value=constants[name],
                remedy="leave one of the two out",
            )
    numbers = {
        name: _checks.scalar(name, FSMDM_PRESETS[preset][name] if value is None else value, above=0)
        for name, value in constants.items()
    }
    solver = build(
        FSMDM,
        **{
            name: make(numbers[constant]) if whole is None else as_schedule(name, whole, above=0)
            for name, (whole, constant, make) in schedules.items()
        },
        omega=numbers["omega"],
        regularizer=regularizer,
        exchange=exchange,
        local_updates=local_updates,
    )
    if sigma_psi is None and mu_phi is None:
        check_product(numbers["alpha"], numbers["c"])
    else:
        check_schedules(solver.mu_phi, solver.sigma_psi, 1)
    return solver
