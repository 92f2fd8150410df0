"""The machine that computes: files that it reads, texts that it writes, its memory.

with opened(path) as file: ...         a regular file, judged before it is read
host_bytes()                           how much memory is free
write_arrays(path, arrays)              whole or not there, without pickle
compiled(function)                     as jax.jit, with programs that are not kept for ever
"""
