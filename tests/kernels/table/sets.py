"""Rows: sets."""

from tests.kernels.table.row import Row

ROWS: list[Row] = []
