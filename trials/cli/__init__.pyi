from fedjax_admm.trials.cli._app import app as app
from fedjax_admm.trials.cli._main import main as main
