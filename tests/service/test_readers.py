"""Readers during updates: versions in order, each one whole."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from livesvm.service.client import Client
from livesvm.solvers import IncrementalSVC
from tests.service.conftest import Make
from tests.service.process import ServiceProcess


def test_readers_see_whole_versions_in_order(service: ServiceProcess, make: Make) -> None:
    rng = np.random.default_rng(3)
    model = make(C=10.0, kernel={"gamma": 0.5})
    library = IncrementalSVC(C=10.0, gamma=0.5, classes=(-1, 1))
    probe = rng.normal(size=(5, 3))
    expected: dict[int, Any] = {}
    seen: list[list[tuple[int, list[float]]]] = [[] for _ in range(3)]
    done = threading.Event()

    def read(answers: list[tuple[int, list[float]]]) -> None:
        with Client(service.url) as client:
            while not done.is_set():
                answer = client.predict(model, probe)
                answers.append((answer["version"], answer["decision"]))

    with Client(service.url) as client:
        readers = [threading.Thread(target=read, args=(answers,)) for answers in seen]
        for version in range(1, 41):
            y = rng.choice([-1.0, 1.0], 20)
            X = rng.normal(size=(20, 3)) + 0.5 * y[:, None]
            leaving = library.keys_[:15] if version > 3 else []
            library.update(add=(X, y), remove=leaving)
            expected[version] = library.decision_function(probe)
            client.update(model, X, y, remove={"keys": leaving} if leaving else None)
            if version == 1:
                for reader in readers:
                    reader.start()
    done.set()
    for reader in readers:
        reader.join()
    for answers in seen:
        versions = [version for version, _ in answers]
        assert versions == sorted(versions)
        for version, decision in answers:
            np.testing.assert_allclose(decision, expected[version], rtol=0, atol=1e-12)
    assert len({version for answers in seen for version, _ in answers}) > 5
