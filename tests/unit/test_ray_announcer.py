"""What an actor tells of those that live there: what changed since a moment, and no more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from livesvm.service.hosting.handle import Description
from livesvm.service.models.spec import ModelSpec
from livesvm.service.remote import announcer as telling
from livesvm.service.remote.announcer import Announcer
from livesvm.service.store.base import Indexed


def model(version: int, *, rests: bool = False) -> Any:
    """Return a model as it shows itself."""
    found = Indexed("m", version, b"", version) if rests else None
    told = {"spec": ModelSpec(id="m"), "state": "live", "reason": None, "stale": False, "indexed": found}
    return SimpleNamespace(describe=lambda: Description("live", version), **told)


def test_what_changed_since_a_moment_is_told_and_nothing_else() -> None:
    told = Announcer()
    assert [told.note(name, model(1)) for name in ("m", "k", "m", "k")] == [True, True, False, False]
    assert (told.moment, set(told.since(0)), set(told.since(1)), told.since(2)) == (2, {"m", "k"}, {"k"}, {})
    assert told.note("m", model(2))
    assert list(told.since(2)) == ["m"]
    assert told.due() == ["k", "m"]


def test_what_an_answer_has_told_is_told_again_only_with_everything() -> None:
    told = Announcer()
    for name in ("m", "k"):
        told.note(name, model(1))
    told.say("m")
    assert (list(told.since(1)), set(told.since(0))) == (["k"], {"m", "k"})
    told.note("m", model(2))
    assert set(told.since(2)) == {"m"}


def test_rest_and_the_end_of_one_are_told_and_forgotten_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(telling, "time", SimpleNamespace(monotonic=lambda: now[0]))
    told = Announcer()
    for name in ("m", "k"):
        told.note(name, model(1))
    first = told.view("m")
    assert told.note("m", model(1, rests=True))
    assert not told.note("m", model(1, rests=True))
    assert told.note("k", None)
    assert not told.note("k", None)
    new = told.since(2)
    assert new["k"] is None
    assert new["m"] is not None
    assert new["m"].rests
    assert told.due() == []
    now[0] += telling.GONE_SECONDS + 1
    told.due()
    assert told.since(0) == {}
    told.note("m", model(1))
    assert first is not None
    assert (told.view("m") or first).life != first.life  # it was at rest meanwhile
