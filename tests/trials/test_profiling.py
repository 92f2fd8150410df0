"""A profiled run leaves a trace that Perfetto opens."""

import gzip
import json

import jax

from fedjax_admm.trials.engine import default_mesh
from fedjax_admm.trials.profiling import write_trace


def test_a_trace_holds_what_the_devices_did(tmp_path):
    def trial(key):
        return {"value": jax.random.normal(key, (3,)).sum()}

    write_trace(tmp_path / "profile", trial, jax.random.key(0), default_mesh(1), width=2)
    (path,) = tmp_path.glob("profile/plugins/profile/*/*.trace.json.gz")
    assert json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
