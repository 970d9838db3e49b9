"""Whether two models are the same to the last bit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np


def assert_same_arrays(before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Assert that two results of ``to_arrays`` are the same to the last bit."""
    assert before.keys() == after.keys()
    for name, value in before.items():
        if isinstance(value, np.ndarray):
            assert value.dtype == after[name].dtype, name
            assert value.tobytes() == after[name].tobytes(), name
        else:
            assert value == after[name], name
