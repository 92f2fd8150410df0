"""A whole trial of FSMDM in one GPU kernel, with the loop over rounds inside.

    run_on_chip(fsmdm(), problem, key, rounds=1000)                          one trial
    jax.vmap(lambda p, k: run_on_chip(fsmdm(), p, k, rounds=1000))(problems, keys)   a grid of them

Under `jax.lax.scan` a GPU launches seven kernels and two copies per round (counted in the program
compiled for an H100: `benchmarks/gpu.md`), and a trial whose state is a few kilobytes spends its
time on launches. Here one thread block holds a trial from the first round to the last: clients lie
along the lanes of a warpgroup (padded to a multiple of 128), every coordinate of every variable is
one vector in registers, and the server's mean is a reduction over the lanes. `jax.vmap` over trials
makes the grid. Who takes part is drawn before the launch, by the same keys as in `run`, and read as
one bit per client and round.

The kernel is opt-in. **Checked**, all of it without a GPU: the kernel's body in the interpreter of
Pallas against the scan and against the NumPy reference; its lowering by Mosaic GPU; and, for
Hopper (sm_90a, jax 0.10.2), the compilation to machine code: 72 to 80 registers for up to 128
sensors in space, no spills up to 512, a few bytes at 1024. **Not measured**: anything on a GPU,
neither its results there nor whether it is faster than the scan. Mosaic GPU needs Hopper or newer;
on an older card use `run`.

The arithmetic is that of `FSMDM`, but two roundings differ: sums over clients are added in another
order, and square roots and powers, for which Mosaic GPU has no instruction, are respelled with
`rsqrt`, `exp` and `log`.
"""

from fedjax_admm._lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)
