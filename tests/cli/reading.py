"""What tests of `solve` read of the files that it writes."""

import csv
import json

import numpy as np


def rows_of(path):
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def models_of(path, columns=("a", "b", "intercept")):
    return np.array([[float(row[name]) for name in columns] for row in rows_of(path)])


def config_of(folder):
    return json.loads((folder / "config.json").read_text())
