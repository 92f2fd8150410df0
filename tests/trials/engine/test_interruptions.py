"""Requests to stop that come while a compiled program runs."""

import signal
import subprocess
import sys
import time

import pytest

ENDLESS = """
import signal
import jax
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a script's background
from fedjax_admm.trials.engine._interruptions import held_back
jax.config.update("jax_cpu_enable_async_dispatch", False)  # Python would wait for it at its end
endless = jax.jit(lambda x: jax.lax.while_loop(lambda x: x > 0, lambda x: x + 1e-9 * x, x))
endless = endless.lower(1.0).compile()
with held_back():
    print("begun", flush=True)
    jax.block_until_ready(endless(1.0))
"""


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_the_second_one_ends_a_program_without_end(kind):
    with subprocess.Popen(
        [sys.executable, "-c", ENDLESS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(1)  # until it waits
        try:
            process.send_signal(kind)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(5)
            process.send_signal(kind)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    # Where Python has noted the first one before the program began, the second has its usual end.
    assert process.returncode in (130, -kind)
    ended = "fedjax-admm: ended at once; what was finished before is kept.\n"
    assert said == (ended if process.returncode == 130 else "")
