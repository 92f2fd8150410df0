"""Processes forked from a server that has imported JAX and the command line, nothing more."""

import multiprocessing
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import Any

_PRELOADED = [
    "fedjax_admm.trials.cli",
    "fedjax_admm.trials.experiments",
    "fedjax_admm.trials.figures",
    "fedjax_admm.trials.running",
    "fedjax_admm.trials.solve",
    "matplotlib.backends.backend_agg",
    "matplotlib.backends.backend_pdf",
]


def forked(target: Callable, *arguments: Any) -> BaseProcess:
    """Start a function in a fork of the server, which is started with the first one."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    process = context.Process(target=target, args=arguments)
    process.start()
    return process
