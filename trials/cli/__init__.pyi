from fedjax_admm.trials.cli._main import app as app, main as main
