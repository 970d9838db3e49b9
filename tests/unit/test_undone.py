"""An update that fails at its end leaves every example with the place and the loss it had."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from livesvm.solvers import IncrementalSVC
from livesvm.solvers.errors import NotPositiveSemidefinite
from livesvm.solvers.homotopy import batch_update
from livesvm.solvers.homotopy.run import follow

CHANGES: list[Callable[[list[Any]], dict[str, Any]]] = [
    lambda keys: {"remove": keys[:7]},
    lambda keys: {"relabel": {keys[3]: 1, keys[4]: -1}, "reweight": {keys[5]: 0.0, keys[6]: 3.0}},
    lambda keys: {"remove": keys[:4], "reweight": {keys[9]: 2.0}},
    lambda keys: {"decay": 0.5, "C": 7.0},
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("m", [0, 3, 11, 200])
def test_every_example_has_its_place_and_loss_of_before(
    change: Callable[[list[Any]], dict[str, Any]], m: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(5)
    X = rng.normal(size=(300, 3))
    y = np.where(X[:, 0] + rng.normal(size=300) > 0, 1, -1)
    model = IncrementalSVC(C=3.0, gamma=0.5).fit(X[:60], y[:60])
    model.update(remove=model.keys_[20:30])  # slots that others may take
    state = model._window.state
    n = state.n_slots
    before = [array[:n].copy() for array in state.examples]
    arrays = model.to_arrays()

    def fails(*args: Any, **kwargs: Any) -> None:
        follow(*args, **kwargs)
        raise NotPositiveSemidefinite("as if", field="kernel")

    monkeypatch.setattr(batch_update, "follow", fails)
    with pytest.raises(NotPositiveSemidefinite):
        model.update(add=(X[60 : 60 + m], y[60 : 60 + m]) if m else None, **change(model.keys_))
    monkeypatch.setattr(batch_update, "follow", follow)
    used = np.sort(model._window.slots)
    vacant = np.setdiff1d(np.arange(n), used)
    for name, old, new in zip(state.examples._fields, before, state.examples, strict=True):
        np.testing.assert_array_equal(new[used], old[used], err_msg=name)
    assert vacant.size == 10
    assert not state.examples.n_kinks[vacant].any()
    assert not state.examples.levels[vacant].any()
    assert not state.examples.beta[vacant].any()
    assert np.isinf(state.examples.kinks[vacant]).all()
    for name, value in model.to_arrays().items():
        np.testing.assert_array_equal(value, arrays[name], err_msg=name)
    assert model.certificate().relative_gap < 1e-9
    model.update(add=(X[100:130], y[100:130]), remove=model.keys_[:5])
    assert model.certificate().relative_gap < 1e-9


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_the_updates_of_one_change_are_undone_together(n_classes: int, kernel: str) -> None:
    rng = np.random.default_rng(6)
    X, y = rng.normal(size=(90, 3)), np.arange(90) % n_classes
    given = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2)) if kernel == "precomputed" else X

    def rows(new: slice, n: int) -> Any:
        return given[new, : n + 10] if kernel == "precomputed" else X[new]

    model = IncrementalSVC(C=3.0, gamma=0.5, kernel=kernel).fit(
        given[:60, :60] if kernel == "precomputed" else X[:60], y[:60]
    )
    before, learnt = model.to_arrays(), dict(vars(model))

    def fail() -> None:
        with model._window.changing():
            model.update(add=(rows(slice(60, 70), 60), y[60:70]))
            model.update(remove=model.keys_[:50], reweight={59: 3.0})
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        fail()
    model.__dict__.update(learnt)
    for name, value in model.to_arrays().items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
    assert model.certificate().relative_gap < 1e-9
    model.update(add=(rows(slice(60, 70), 60), y[60:70]))
    assert model.certificate().relative_gap < 1e-9
