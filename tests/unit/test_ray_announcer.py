"""What an actor tells of those that live there: what changed since a moment, and no more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from livesvm.service.hosting.handle import Description
from livesvm.service.models.spec import ModelSpec
from livesvm.service.ray import announcer as telling
from livesvm.service.ray.announcer import Announcer
from livesvm.service.store.base import Indexed


def model(version: int, *, rests: bool = False) -> Any:
    """Return a model as it shows itself."""
    found = Indexed("m", version, b"", version) if rests else None
    reported = {"spec": ModelSpec(id="m"), "state": "live", "reason": None, "stale": False, "indexed": found}
    return SimpleNamespace(describe=lambda: Description("live", version=version), **reported)


def test_what_changed_since_a_moment_is_reported_and_nothing_else() -> None:
    reported = Announcer()
    assert [reported.note(name, model(1)) for name in ("m", "k", "m", "k")] == [True, True, False, False]
    assert (reported.moment, set(reported.since(0)), set(reported.since(1)), reported.since(2)) == (
        2,
        {"m", "k"},
        {"k"},
        {},
    )
    assert reported.note("m", model(2))
    assert list(reported.since(2)) == ["m"]
    assert reported.due() == ["k", "m"]


def test_rest_and_the_end_of_one_are_reported_and_forgotten_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(telling, "time", SimpleNamespace(monotonic=lambda: now[0]))
    reported = Announcer()
    for name in ("m", "k"):
        reported.note(name, model(1))
    first = reported.view("m")
    assert reported.note("m", model(1, rests=True))
    assert not reported.note("m", model(1, rests=True))
    assert reported.note("k", None)
    assert not reported.note("k", None)
    new = reported.since(2)
    assert new["k"] is None
    assert new["m"] is not None
    assert new["m"].rests
    assert reported.due() == []
    now[0] += telling.GONE_SECONDS + 1
    reported.due()
    assert reported.since(0) == {}
    reported.note("m", model(1))
    assert first is not None
    assert (reported.view("m") or first).life != first.life  # it was at rest meanwhile
