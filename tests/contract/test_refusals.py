"""A call that fails at any step of its store leaves the model as it was, or has had its whole effect."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from livesvm.service.history.erasure import ErasurePart, Intent
from livesvm.service.hosting.model import HostedModel
from livesvm.service.models.commands import Removal
from livesvm.service.store.base import Store, StoreUnavailable
from livesvm.service.store.sqlite import SqliteStore
from livesvm.solvers.models.change import Change, Edits
from tests.contract.conftest import Open
from tests.support.live_models import SPEC, alive, batch, decisions

MOST = 40  #: calls of the store that a call of a model makes, at most


class Failing:
    """A store whose n-th call from now fails, before or after it had its effect."""

    def __init__(self, store: Store) -> None:
        self.store, self.left, self.after_effect = store, -1, False
        self.error: type[Exception] = StoreUnavailable

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.store, name)
        if not callable(found):
            return found

        def call(*arguments: Any, **options: Any) -> Any:
            self.left -= 1
            fails = self.left == 0
            if fails and not self.after_effect:
                raise self.error(f"{name} failed")
            answer = found(*arguments, **options)
            if fails:
                raise self.error(f"{name} failed after it had its effect")
            return answer

        return call


def erased(model: HostedModel) -> Any:
    intent = Intent(model.id, (ErasurePart(model.id, sequence=2, found=2),))
    object.__setattr__(intent, "keys", (intent.hash(3), intent.hash(9)))
    return model.erase(intent)


VERBS: dict[str, Callable[[HostedModel], Any]] = {
    "add": lambda model: model.update(batch(2), "named"),
    "remove": lambda model: model.update(Change(remove=Removal(oldest=3)), None),
    "relabel": lambda model: model.update(Change(edits=Edits(relabel={4: 1.0, 9: -1.0}, reweight={5: 0.5})), "named"),
    "C": lambda model: model.update(Change(edits=Edits(C=2.0)), None),
    "restore": lambda model: model.restore(1, "named"),
    "erase": erased,
    "checkpoint": lambda model: model.checkpoint(),
    "write_back": lambda model: model.write_back(),
}


def begun(store: Any, name: str) -> HostedModel:
    """Return a model of two updates, of which a snapshot holds the first."""
    model = alive(store, store.create(name, b""), SPEC.model_copy(update={"id": name}))
    model.update(batch(0), None).result()
    model.checkpoint()
    model.update(batch(1), None).result()
    return model


def finished(verb: str, model: HostedModel) -> Any:
    found = VERBS[verb](model)
    return found.result() if isinstance(found, Future) else found


def state_of(model: HostedModel) -> tuple[int, bytes]:
    shown = model.published
    return shown.version, np.round(decisions(model), 7).tobytes()


UNFORESEEN = (RuntimeError, MemoryError)


@pytest.mark.parametrize("errors", [(StoreUnavailable,), UNFORESEEN], ids=["store", "unforeseen"])
@pytest.mark.parametrize("verb", VERBS)
def test_a_call_has_its_whole_effect_or_none(verb: str, errors: tuple[type[Exception], ...], open_store: Open) -> None:
    store = open_store()
    first = isinstance(store, SqliteStore)  # what fails in one way here fails in the other way there
    expected = begun(store, "expected")
    before = state_of(expected)
    finished(verb, expected)
    after = state_of(expected)
    failed = 0
    for after_effect in (False, True):
        for number in range(1, MOST):
            failing, error = Failing(store), errors[(number + first) % len(errors)]
            name = f"m-{after_effect}-{number}".lower()
            model = begun(failing, name)
            failing.left, failing.error, failing.after_effect = number, error, after_effect
            try:
                finished(verb, model)
                raised = False
            except error:
                raised = True
            is_over = failing.left > 0
            failing.left = -1
            assert state_of(model) in ([before, after] if raised else [after])
            again = open_store()
            model.update(batch(3), None).result()
            reference = state_of(model)
            model.stop()
            restored = alive(again, again.acquire(name), SPEC.model_copy(update={"id": name}))
            assert state_of(restored) == reference
            restored.stop()
            failed += raised
            if is_over:
                break
        else:
            raise AssertionError("more calls of the store than are tried")
    assert failed
