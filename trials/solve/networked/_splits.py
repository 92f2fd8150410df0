"""Which rows of every node are held out."""

import numpy as np


def rows_needed(validation: float) -> int:
    """Return how many rows a node needs, so that one at least is left for training."""
    # Near the answer: a share of 1 - 1e-12 needs so many rows that counting up would not end.
    rows = max(2, int((1 - 1e-9) / (1 - validation)) - 2)
    while rows - held_out_rows(rows, validation) < 1:
        rows += 1
    return rows


def held_out_rows(rows: int, validation: float) -> int:
    """Return `ceil(validation * rows)`, rounding errors aside."""
    return int(np.ceil(validation * rows - 1e-9))


def draw_splits(counts: np.ndarray, validation: float, splits: int, seed: int) -> np.ndarray:
    """Hold out a random part of every node's rows, once per split.

    Split s (from 0) permutes the rows of node after node with `numpy.random.default_rng([seed, s])`
    and holds the first `ceil(validation * rows)` out; counts (nodes,) are its rows.

    Returns:
      Shape (splits, nodes, max(counts)), bool: which rows are held out.
    """
    held_out = np.zeros((splits, len(counts), int(max(counts))), bool)
    for s in range(splits):
        random = np.random.default_rng([seed, s])
        for i, rows in enumerate(counts):
            held_out[s, i, random.permutation(rows)[: held_out_rows(rows, validation)]] = True
    return held_out
