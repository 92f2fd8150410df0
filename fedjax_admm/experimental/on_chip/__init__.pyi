from fedjax_admm.experimental.on_chip._launch import run_on_chip as run_on_chip
