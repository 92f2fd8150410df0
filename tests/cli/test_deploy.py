"""`deploy simulate`: server and clients in this process."""

from collections import Counter
from pathlib import Path

import jax
import numpy as np
import pytest

from fedjax_admm import deploy
from fedjax_admm.deploy import _files
from tests.deploy import study

ROUNDS = 3


@pytest.mark.thorough
def test_a_simulation_writes_what_its_clients_remember_once(command, tmp_path, monkeypatch):
    written, write = Counter(), _files.write_tree

    def counted(path, *content):
        written[Path(path).name] += 1
        write(path, *content)

    monkeypatch.setattr(_files, "write_tree", counted)
    outcome = command("deploy", "simulate", study.__file__, "--rounds", ROUNDS, "--out", "ends")
    assert outcome.code == 0, outcome.err
    assert "Largest difference to the simulation of these rounds" in outcome.out
    clients = {f"client-{i}.npz": 1 for i in range(study.CLIENTS)}
    assert written == {**clients, "server.npz": ROUNDS}
    ended = deploy.in_process(study.STUDY.solver, study.everybody(), study.STUDY.key, rounds=ROUNDS)
    for i, client in enumerate(ended.clients):
        kept = study.STUDY.client(i)
        kept.resume(tmp_path / "ends" / f"client-{i}.npz")
        jax.tree.map(np.testing.assert_array_equal, kept.clients, client.clients)
