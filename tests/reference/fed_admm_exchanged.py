"""Independent NumPy float64 reference of FedADMM whose messages something happens to.

Written client by client; nothing here imports the package. Client i sends u_i = w_i + y_i / rho_i,
the server reads another value u^_i of it and keeps it until the next one, and the client takes over
what the server reads: with the dual y_i of before its step, that is the model w^_i with which the
step of the dual gives the upload that was read,

    u^_i = w^_i + y^_i / rho_i,    y^_i = y_i + rho_i (w^_i - z)

    z = location of all u^_i with weights rho_i
"""

import numpy as np


def fed_admm_exchanged(
    hessians, linear, *, rounds, rho, arrives, location=None, masks=None, byzantine=(), lie=None
):
    """FedADMM on quadratic clients with exact solutions.

    Args:
      hessians: (N, d, d).
      linear: (N, d).
      rounds: how many.
      rho: a number, or one per client.
      arrives: `(round, client, message) -> what the server reads`.
      location: `(uploads, weights) -> z`; the weighted mean if None.
      masks: who takes part (rounds, N).
      byzantine: clients that say `lie(message)` in the place of their messages.
      lie: what they say.

    Returns:
      Server's models (rounds, d), clients' duals (rounds, N, d).
    """
    clients, dim = linear.shape
    rho = np.broadcast_to(np.asarray(rho, float), (clients,))
    z, w, y = np.zeros(dim), np.zeros((clients, dim)), np.zeros((clients, dim))
    known = np.zeros((clients, dim))
    servers, duals = [], []
    for index in range(rounds):
        for i in range(clients):
            if masks is not None and not masks[index][i]:
                continue
            bent = hessians[i] + rho[i] * np.eye(dim)
            before = y[i].copy()
            w[i] = np.linalg.solve(bent, linear[i] + rho[i] * z - before)
            y[i] = before + rho[i] * (w[i] - z)
            upload = w[i] + y[i] / rho[i]
            if i in byzantine:
                known[i] = arrives(index, i, lie(upload))
            else:
                known[i] = arrives(index, i, upload)
                w[i] = (known[i] + z - before / rho[i]) / 2
                y[i] = before + rho[i] * (w[i] - z)
        z = np.average(known, 0, rho) if location is None else location(known, rho)
        servers.append(z.copy())
        duals.append(y.copy())
    return np.array(servers), np.array(duals)
