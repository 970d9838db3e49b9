"""Hypothesis profiles: `ci`, the default, draws the same examples in every run; `long` draws new ones. Services are
forked from a process that has loaded everything."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what hundreds of processes import is compiled once
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy: as in the service; else waiting threads spin

import pytest
from hypothesis import HealthCheck, settings

from tests.service.process import ServiceProcess
from tests.support import elsewhere

sys.dont_write_bytecode = False
gc.disable()  # collecting tests makes no garbage: looking for it takes a quarter of the time
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=40,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("long", settings.get_profile("ci"), derandomize=False, max_examples=2000)
settings.load_profile("ci")

ServiceProcess.forks = True
collect_ignore = ["service/preloaded.py"]  # which loads it


LONGEST = ("test_retraining.py", "test_schema.py")
"""Files that would end after all others if they were not begun first."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave alone what is not to run, and modules without tests or examples: they load much."""
    name = collection_path.name
    if name == "adapters":
        return not any("adapters" in asked for asked in config.args) or None
    if name in ("browser", "operations"):
        return f"not {name}" in config.option.markexpr or None
    return (collection_path.suffix == ".py" and not name.startswith(("test_", "conftest", "metrics"))) or None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest files; where models live elsewhere, leave out tests of their process."""
    items.sort(key=lambda item: item.path.name not in LONGEST)
    if elsewhere.ACTORS is not None:
        items[:] = [item for item in items if item.get_closest_marker("alone") is None]


def pytest_collection_finish() -> None:
    """Collect garbage from here on, of what tests make alone."""
    gc.freeze()
    gc.enable()
