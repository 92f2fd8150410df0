"""The machine that computes: files that it reads, texts that it writes, memory that is free.

with opened(path) as file: ...         a regular file, judged before it is read
escape_cell("=1+1")                    a text that no spreadsheet takes for a formula
host_bytes()                           how much memory is free
"""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
