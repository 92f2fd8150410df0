"""FedMC-ADMM: a million ratings (as ml-1m), rank 5, 10 of 100 clients drawn, 10 inner steps.

Work of a round, per drawn client: 40 flops per rating in each of two passes; 65 per inner step of a
user or an item; 4 rank per entry and 30 per row for bounds, duals and sums. Read are the ratings
twice (place and value), and a row of a factor for each; read and written are copies, duals and the
sum; read is V.
"""

from typing import Any

import numpy as np

from limits import Work, timed

NUMPY_REPEATS = 2
CLIENTS, DRAWN, STEPS, RANK, BETA, WEIGHT = 100, 10, 10, 5, 1e5, 1e-6


def draw(quick: bool) -> dict[str, Any]:
    import jax
    import jax.numpy as jnp

    import fedjax_admm as fa
    from fedjax_admm.participation import without_replacement

    ratings = jax.jit(lambda key: fa.ratings.draw_ratings(key, "ml-1m"))(jax.random.key(0))
    made = fa.problems.matrix_completion(ratings, jax.random.key(1), clients=CLIENTS)
    rounds = 5 if quick else 50
    start = fa.run(_solver(), made, jax.random.key(2), rounds=1, participation=_drawn()).state

    def chosen(index):
        key, _ = jax.random.split(jax.random.fold_in(jax.random.key(2), index))
        process = without_replacement(DRAWN)
        return process.draw((), index, key, (CLIENTS,))[1].sampled

    return {
        "problems": jax.device_get(made),
        "start": jax.device_get(start),
        "chosen": np.asarray(jax.lax.map(chosen, jnp.arange(1, rounds + 1))),
        "trials": 1,
        "rounds": rounds,
    }


def _solver():
    import fedjax_admm as fa

    return fa.solvers.fed_mc_admm(rank=RANK, beta=BETA)


def _drawn():
    from fedjax_admm.participation import without_replacement

    return without_replacement(DRAWN)


def pack(problem) -> list[np.ndarray]:
    made, state = problem["problems"], problem["start"].solver
    width, items = state.clients.users.shape[1], made.num_items
    clients = [_client_of(made, i) for i in range(CLIENTS)]
    sizes = (len(clients), width, items, problem["rounds"], DRAWN, STEPS)
    return [
        np.array(sizes, np.int32),
        np.array([BETA, WEIGHT], np.float32),
        problem["chosen"],
        *_table(clients, width, "rows", "columns", "values"),
        *_table(clients, items, "item_columns", "item_rows", "item_values"),
        *state.clients,
        state.items,
        state.exchange.sums[0],
    ]


def _table(clients, rows: int, row: str, other: str, value: str) -> list[np.ndarray]:
    """Return first places of the rows of all clients, the number of ratings, places and values."""
    firsts, done = [], 0
    for client in clients:
        counts = np.bincount(client[row], minlength=rows)
        firsts.append(done + np.concatenate([[0], np.cumsum(counts)]))
        done += counts.sum()
    places, values = (np.concatenate([one[name] for one in clients]) for name in (other, value))
    return [np.stack(firsts).astype(np.int32), np.array([done], np.int32), places, values]


def _client_of(problem, i: int) -> dict:
    """Return a client's ratings, sorted by user and by item."""

    def flat(listed):
        first, number = int(listed.first[i]), int(listed.counts[i])
        blocks = slice(first, first + -(-number // listed.users.shape[1]))
        parts = (listed.users, listed.items, listed.values)
        return [np.asarray(part[blocks]).ravel()[:number] for part in parts]

    rows, columns, values = flat(problem.by_user)
    item_rows, item_columns, item_values = flat(problem.by_item)
    return {
        "m": int(problem.members[i]),
        "rows": rows,
        "columns": columns,
        "values": values,
        "item_rows": item_rows,
        "item_columns": item_columns,
        "item_values": item_values,
    }


def _gram_update(client, users, copy, shared, dual):
    """Take N steps per block on one small quadratic per row."""
    bound = _constants(copy)
    gram, right, there = _quadratics(copy, client["columns"], client["rows"], client["values"])
    part = users[there]
    for _ in range(STEPS):
        slope = np.einsum("tab,tb->ta", gram, part) - right
        part = (bound * part - slope) / (bound + WEIGHT)
    shrink = (bound / (bound + WEIGHT)) ** STEPS
    users = (shrink * users).astype(np.float32)
    users[there] = part
    bound = _constants(users) / CLIENTS
    gram, right, there = _quadratics(
        users, client["item_rows"], client["item_columns"], client["item_values"]
    )
    slope = np.zeros_like(copy)
    for _ in range(STEPS):
        slope[there] = (np.einsum("tab,tb->ta", gram, copy[there]) - right) / CLIENTS
        copy = (bound * copy + BETA * shared - slope - dual) / (bound + BETA)
    return users, copy.astype(np.float32)


def _quadratics(factor, others, rows, values):
    near = factor[others]
    starts = np.flatnonzero(np.concatenate([[True], rows[1:] != rows[:-1]]))
    gram = np.add.reduceat(near[:, :, None] * near[:, None], starts)
    return gram, np.add.reduceat(values[:, None] * near, starts), rows[starts]


def _constants(factor) -> float:
    return max(float(np.linalg.norm(factor.T @ factor)), 1e-20)


def numpy(problem):
    made, state = problem["problems"], problem["start"].solver
    clients = [_client_of(made, i) for i in range(CLIENTS)]

    def go():
        users = [np.array(u[: c["m"]]) for u, c in zip(state.clients.users, clients, strict=True)]
        copies, duals = np.array(state.clients.copies), np.array(state.clients.duals)
        shared, total = np.array(state.items), np.array(state.exchange.sums[0])
        for chosen in problem["chosen"]:
            for i in chosen:
                old = copies[i] + duals[i] / BETA
                users[i], copies[i] = _gram_update(
                    clients[i], users[i], copies[i], shared, duals[i]
                )
                duals[i] += BETA * (copies[i] - shared)
                total += copies[i] + duals[i] / BETA - old
            shared = total / CLIENTS * (CLIENTS * BETA / (CLIENTS * BETA + WEIGHT))
            shared = shared.astype(np.float32)
        width = state.clients.users.shape[1]
        padded = [np.pad(u, ((0, width - len(u)), (0, 0))) for u in users]
        return np.concatenate([np.ravel(padded), shared.ravel()])

    return go


def one_round(problem):
    import jax

    made, start = jax.tree.map(jax.numpy.asarray, (problem["problems"], problem["start"]))
    options = {"participation": _drawn(), "start": start, "key": jax.random.key(2)}
    return _solver(), made, options


def engine(problem):
    import jax

    import fedjax_admm as fa

    made, start = jax.tree.map(jax.numpy.asarray, (problem["problems"], problem["start"]))
    solver, drawn, rounds = _solver(), _drawn(), problem["rounds"]

    def run():
        result = fa.run(
            solver,
            made,
            jax.random.key(2),
            rounds=rounds,
            every=rounds,
            participation=drawn,
            start=start,
        )
        found = result.state.solver.factors
        return np.concatenate([np.ravel(found.users), np.ravel(found.items)])

    return timed(run)


def score(problem, result) -> float:
    import jax

    import fedjax_admm as fa

    users = problem["start"].solver.clients.users
    split = users.size
    factors = fa.ratings.Factors(
        result[0, :split].reshape(users.shape), result[0, split:].reshape(-1, users.shape[-1])
    )
    made, factors = jax.tree.map(jax.numpy.asarray, (problem["problems"], factors))
    return float(jax.jit(fa.measures.factor_error)(made, factors)["error"])


def work(problem) -> Work:
    made, rank = problem["problems"], RANK
    ratings = made.by_user.counts.mean()
    rows = made.num_items + made.by_user.users_per_client
    flops = ratings * 2 * 40 + rows * (STEPS * 65 + 30) + 4 * rank * rows
    moved = ratings * 2 * (2 + rank) + made.num_items * rank * 7 + rows
    drawn = DRAWN
    return Work(problem["rounds"], drawn * flops, 4 * drawn * moved, "10 clients")
