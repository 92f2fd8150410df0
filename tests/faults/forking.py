"""Processes forked from a server that has imported JAX and the command line, nothing more."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any

# Rooms import what is asked of them, so that the modules behind them are named here.
_PRELOADED = [
    "fedjax_admm.trials.cli._app",
    "fedjax_admm.trials.results._comparison",
    "fedjax_admm.trials.running._running",
    "fedjax_admm.trials.solve._folder",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_pdf",
    "tests.trials.small",
    "typer._adapters",
]


def forked(target: Callable, *arguments: Any) -> BaseProcess:
    """Start a function in a fork of the server, which is started with the first one."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    process = context.Process(target=target, args=arguments)
    process.start()
    return process
