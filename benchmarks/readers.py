"""Reading ratings: `read_ratings` and splitting, beside what polars and pandas take to parse.

    python benchmarks/readers.py                       10 million ratings
    python benchmarks/readers.py --ratings 100000000   2.6 GB of disk

The file has user, item, rating and time, separated by tabs, in random order: 480,189 users, 17,770
items. Each reader runs in a process of its own, in turns; those that are not installed are left
out. Processor time is told beside wall time: readers use different numbers of cores.
"""

import os
import statistics
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

from side_by_side import measure, parser, run_one

USERS, ITEMS, PART = 480_189, 17_770, 10**7
_FILE = "FEDJAX_ADMM_BENCHMARK_FILE"


def write(path: Path, ratings: int) -> None:
    """Write different pairs in random order: the multiples of one number modulo all pairs."""
    import numpy as np
    import pyarrow
    import pyarrow.csv

    rng, stride = np.random.default_rng(0), 5_363_222_357  # a prime
    with open(path, "wb") as file:
        for start in range(0, ratings, PART):
            size = min(PART, ratings - start)
            pairs = np.full(size, stride, np.int64)
            pairs[0] = stride * start % (USERS * ITEMS)
            pairs = np.cumsum(pairs) % (USERS * ITEMS)
            columns = {
                "user": pairs // ITEMS + 1,
                "item": pairs % ITEMS + 1,
                "rating": rng.integers(1, 11, size) / 2,
                "time": rng.integers(10**9, 12 * 10**8, size),
            }
            options = pyarrow.csv.WriteOptions(include_header=False, delimiter="\t")
            pyarrow.csv.write_csv(pyarrow.table(columns), file, options)


def timed(go) -> tuple[dict[str, float], object]:
    wall, processor = time.perf_counter(), time.process_time()
    result = go()
    taken = {"wall": time.perf_counter() - wall, "processor": time.process_time() - processor}
    return taken, result


def ours() -> dict[str, float]:
    """Read and sort."""
    from fedjax_admm.ratings import read_ratings

    return timed(lambda: read_ratings(os.environ[_FILE]))[0]


def ours_split() -> dict[str, float]:
    """Read, sort and split among 100 clients."""
    import jax

    from fedjax_admm.problems import matrix_completion
    from fedjax_admm.ratings import read_ratings

    def go():
        table = read_ratings(os.environ[_FILE])
        return jax.block_until_ready(matrix_completion(table, jax.random.key(0), clients=100))

    return timed(go)[0]


def polars() -> dict[str, float]:
    """Parse three columns."""
    import polars as pl

    schema = {"user": pl.Int32, "item": pl.Int32, "rating": pl.Float64, "time": pl.String}
    path = os.environ[_FILE]
    lazy = pl.scan_csv(path, separator="\t", has_header=False, schema=schema, glob=False)
    return timed(lambda: lazy.select("user", "item", "rating").collect())[0]


def pyarrow() -> dict[str, float]:
    """Parse three columns."""
    import pyarrow as pa
    import pyarrow.csv as csv

    kinds = {"user": pa.int32(), "item": pa.int32(), "rating": pa.float64()}
    read = csv.ReadOptions(column_names=[*kinds, "time"])
    parse, convert = csv.ParseOptions(delimiter="\t"), csv.ConvertOptions(column_types=kinds)
    convert.include_columns = [*kinds]
    return timed(lambda: csv.read_csv(os.environ[_FILE], read, parse, convert))[0]


def pandas() -> dict[str, float]:
    """Parse three columns, rounding as Python does."""
    import pandas as pd

    kinds = {0: "int32", 1: "int32", 2: "float64"}
    options = {"sep": "\t", "header": None, "usecols": [*kinds], "dtype": kinds}
    path = os.environ[_FILE]
    return timed(lambda: pd.read_csv(path, float_precision="round_trip", **options))[0]


READERS = {
    "read_ratings": ours,
    "read_ratings and split": ours_split,
    "pyarrow, parse": pyarrow,
    "polars, parse": polars,
    "pandas, parse": pandas,
}


def main() -> None:
    options = parser(__doc__, repeats=3)
    options.add_argument("--ratings", type=int, default=10**7)
    arguments = options.parse_args()
    if arguments.one:
        run_one(READERS[arguments.one])
        return
    with tempfile.TemporaryDirectory() as folder:
        os.environ[_FILE] = str(Path(folder) / "ratings.tsv")
        write(Path(os.environ[_FILE]), arguments.ratings)
        names = [name for name in READERS if "," not in name or find_spec(name.split(",")[0])]
        rows = {name: [] for name in names}
        for _ in range(arguments.repeats):
            for name in names:
                rows[name].append(measure(__file__, name))
    print("| reader | wall (s) | processor (s) | peak memory (MiB) |")
    print("|---|---|---|---|")
    for name, taken in rows.items():
        middle = [statistics.median(row[key] for row in taken) for key in taken[0]]
        print(f"| {name} | {middle[0]:.1f} | {middle[1]:.1f} | {middle[2]:.0f} |")


if __name__ == "__main__":
    main()
