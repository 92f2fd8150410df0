"""The command line as `python -m fedjax_admm.trials.cli`, for an interpreter with other options."""

from fedjax_admm.trials.cli import main

main()
