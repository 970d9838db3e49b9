"""The service is the library: the same updates give the same decisions."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np
import pytest

from livesvm.service.client import Client
from livesvm.solvers import IncrementalSVC
from tests.service.conftest import Make
from tests.service.process import ServiceProcess

KERNELS: list[dict[str, Any]] = [
    {"name": "rbf", "gamma": 0.3},
    {"name": "rbf"},
    {"name": "linear"},
    {"name": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.5},
]
ROUNDING = 1e-10
"""With C = 100, sums of |beta| k(x, x) reach 1e6, and f is rounded by so much."""


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("C", [0.1, 100.0])
def test_the_service_equals_the_library(
    kernel: dict[str, Any], C: float, http: httpx.Client, make: Make, service: ServiceProcess
) -> None:
    rng = np.random.default_rng(7)
    model = make(C=C, kernel=kernel)
    parameters = {name: value for name, value in kernel.items() if name != "name"}
    library = IncrementalSVC(C=C, kernel=kernel["name"], classes=(-1, 1), **parameters)
    Z = rng.normal(size=(50, 4))
    with Client(service.url) as client:
        for _ in range(12):
            y = rng.choice([-1.0, 1.0], 8)
            X = np.round(rng.normal(size=(8, 4)) + 0.5 * y[:, None], 2)
            leaving = library.keys_[: int(rng.integers(0, 6))] if hasattr(library, "keys_") else []
            library.update(add=(X, y), remove=leaving)
            answer = client.update(model, X, y, remove={"keys": leaving} if leaving else None)
            assert answer["n_examples"] == library.n_window_
            decision = np.array(client.predict(model, Z)["decision"])
            expected = library.decision_function(Z)
            np.testing.assert_allclose(decision, expected, rtol=1e-12, atol=ROUNDING)
        assert client.certificate(model)["relative_gap"] <= 1e-8
