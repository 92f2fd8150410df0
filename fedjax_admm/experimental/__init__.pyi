from fedjax_admm.experimental import on_chip as on_chip
