from fedjax_admm.trials.cli._commands import app as app, main as main
