"""Ratings of items by users: an incomplete matrix as a list of what is known of it.

    read_ratings("u.data")             from a file: MovieLens, CSV or Parquet
    from_arrays(users, items, values)  from arrays
    draw_ratings(key, "ml-1m")         synthetic ones, of the shape of a well-known table

Whether an entry is known is decided by its presence in the list: 0 is a rating like any other.
The modules `blocks`, `layout` and `quadratics` serve problems, solvers and measures.
"""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
