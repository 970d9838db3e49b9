"""Calls of which any step fails, of feeds together or of a model: what is refused is as it was; the next call works."""

from __future__ import annotations

import inspect
import itertools
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np
import pytest

from livesvm.service import feeds, history, hosting, models, store
from livesvm.service.feeds.batch import Batch
from livesvm.service.feeds.row_tables import table_of
from livesvm.service.feeds.spec import spec_of
from livesvm.service.hosting.kinds import FEED, MODEL, HostedFeeds, HostedModels
from livesvm.service.hosting.mailbox import Mailbox
from livesvm.service.models.spec import ModelSpec
from livesvm.service.resources.solve_scheduler import Solve
from livesvm.service.store.base import ModelExists, Store, StoreUnavailable
from livesvm.service.store.sqlite import SqliteStore
from tests.support.feeds import rows_of, series
from tests.support.live_models import batch as update_of
from tests.support.live_models import context_of, decisions

NAMES = ("x/a", "x/b", "x/c")
PACKAGES = tuple(path for one in (feeds, history, hosting, models, store) for path in one.__path__)
HANDLERS = frozenset(
    {
        "_release",
        "release_with",
        "check_applied",
        "let_go",
        "_go_on",
        "lose_sight",
        "owe",
        "_owe",
        "breaks",
        "_take_back",
        "_answered",
    }
    | {
        "_run",
        "_next",
        "submit",
        "release",
        "close",
        "_count",
        "_follow",
        "remember_together",
        "remember",
        "keep_solution",
    }
)
"""What deals with failures, and does not fail before it does."""
SETTINGS: dict[str, Any] = {"window": 40, "lags": 3, "rolling": {}, "season": 0, "represent": "change", "gamma": 0.1}
SPEC = spec_of({"target": "y", "every": "1h", "C": 1.0, "band": None, **SETTINGS})
ENDS = (1, 9, 30, 41, *range(42, 70))
"""Readings of each series after each call: they come to be, find their distance, fill their window, and go on."""


class Fault(Exception):
    """Nothing foresees it."""


class Steps:
    """Counts the functions that are called here; the one of a number fails in place of doing anything."""

    def __init__(self, failing: int = 0, error: type[Exception] = Fault) -> None:
        self.count, self._failing, self._error = 0, failing, error
        self.failed = ""  #: the function that failed

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count what this thread calls inside."""
        sys.setprofile(self._see)
        try:
            yield
        finally:
            sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or not is_step(frame.f_code):
            return
        self.count += 1
        if self.count == self._failing:
            self.failed = frame.f_code.co_qualname
            raise self._error(self.failed)


def is_step(code: CodeType) -> bool:
    """Return whether a function may fail: a generator that goes on has to end what it began."""
    may_fail = not code.co_flags & inspect.CO_GENERATOR and code.co_name not in HANDLERS
    return may_fail and not code.co_name.startswith("<") and code.co_filename.startswith(PACKAGES)


def batch(number: int) -> Batch:
    first = ENDS[number - 1] if number else 0
    tables = {id_: table_of(rows_of(series(ENDS[number], seed))[first:]) for seed, id_ in enumerate(NAMES)}
    return Batch(tables, f"r{number}", 2e9, SPEC)


def hosted(opened: Store) -> HostedFeeds:
    found = HostedFeeds(FEED, context_of(opened), lambda size: None)
    found.learn(opened.index())
    return found


def told(found: HostedFeeds) -> dict[str, Any]:
    """Return where each feed stands; those at rest wake."""
    for id_ in NAMES:
        found.get(id_).wake().result()
    return {id_: found.get(id_).view.position for id_ in NAMES}


def forecasts(found: HostedFeeds) -> list[float]:
    return [one["value"] for id_ in NAMES for one in found.get(id_).view.forecasts]


@pytest.mark.parametrize("error", [Fault, StoreUnavailable], ids=["unforeseen", "the store is away"])
def test_whatever_fails_in_a_batch_changes_nothing_or_has_its_whole_effect(
    open_store: Callable[[], Store], tmp_path: Path, error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    opened, random = open_store(), np.random.default_rng(1)
    mine, plain = hosted(opened), hosted(SqliteStore(tmp_path / "plain"))
    for number, end in enumerate(ENDS):
        counting = Steps()
        with counting.counted():
            assert not plain.observe_many(batch(number)).refused
        failing = Steps(int(random.integers(1, counting.count + 1)), error)
        answers: dict[str, bytes] = {}
        try:
            with failing.counted():
                done = mine.observe_many(batch(number))
        except error:
            pass
        else:
            answers = done.answers
            for id_ in NAMES:
                assert (id_ in answers) is not (id_ in done.refused)
                known = mine.known(id_)
                at = known.view.position if known is not None and known.is_awake else 0
                assert at == (end if id_ in answers else ENDS[number - 1] if number else 0), failing.failed
        again = mine.observe_many(batch(number))
        assert not again.refused, failing.failed
        assert {id_: again.answers[id_] for id_ in answers} == answers, failing.failed
        assert told(mine) == dict.fromkeys(NAMES, end), failing.failed
    assert forecasts(mine) == pytest.approx(forecasts(plain), rel=1e-6)
    logged = [sum(not one.aborted for one in opened.log(f"feed.{id_}", 0)) for id_ in NAMES]
    assert logged == [len(ENDS)] * 3
    for feed in (*mine.all_handles(), *plain.all_handles()):
        feed.stop()
    opened.close()
    restarted = hosted(open_store())
    assert told(restarted) == dict.fromkeys(NAMES, ENDS[-1])
    assert forecasts(restarted) == pytest.approx(forecasts(plain), rel=1e-6)
    for feed in restarted.all_handles():
        feed.stop()


@pytest.mark.parametrize("error", [Fault, StoreUnavailable], ids=["unforeseen", "the store is away"])
def test_whatever_fails_in_an_update_changes_nothing_or_has_its_whole_effect(
    open_store: Callable[[], Store],
    tmp_path: Path,
    error: type[Exception],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.CRITICAL)
    opened, random, steps = open_store(), np.random.default_rng(1), Steps()
    submit = Mailbox.submit

    def counted(mailbox: Mailbox, call: Callable[[], Any], **options: Any) -> Any:
        """Hand in a call that is counted by the thread that makes it."""

        def run() -> Any:
            with steps.counted():
                return call()

        return submit(mailbox, run, **options)

    monkeypatch.setattr(Mailbox, "submit", counted)
    mine, plain = (
        HostedModels(MODEL, context_of(one), lambda size: None).create("m", ModelSpec(C=1.0))
        for one in (opened, SqliteStore(tmp_path / "plain"))
    )
    for number in range(40):
        steps = Steps()
        plain.update(update_of(number), f"r{number}").result()
        steps = failing = Steps(int(random.integers(1, steps.count + 1)), error)
        answer = None
        try:
            answer = mine.update(update_of(number), f"r{number}").result().body
        except error:
            assert mine.published.version == number, failing.failed
        steps = Steps()
        again = mine.update(update_of(number), f"r{number}").result()
        assert answer in (None, again.body), failing.failed
        assert mine.published.version == number + 1, failing.failed
        np.testing.assert_allclose(decisions(mine), decisions(plain), rtol=0, atol=1e-8, err_msg=failing.failed)
    assert sum(not one.aborted for one in opened.log("m", 0)) <= 40
    for model in (mine, plain):
        model.stop()
    opened.close()
    restarted = HostedModels(MODEL, context_of(open_store()), lambda size: None)
    restarted.learn(restarted._context.source.store.index())
    found = restarted.get("m")
    found.wake().result()
    assert found.published.version == 40
    np.testing.assert_allclose(decisions(found), decisions(plain), rtol=0, atol=1e-8)
    found.stop()


def test_a_model_that_was_created_without_an_answer_is_found(open_store: Callable[[], Store]) -> None:
    opened = open_store()
    home = HostedModels(MODEL, context_of(opened), lambda size: None)
    counting = Steps()
    with counting.counted():
        home.create("m", ModelSpec(C=1.0))
    for failing in range(1, counting.count + 1):
        id_, steps = f"m{failing}", Steps(failing, StoreUnavailable)
        with suppress(StoreUnavailable), steps.counted():
            home.create(id_, ModelSpec(C=1.0))
        with suppress(ModelExists):
            home.create(id_, ModelSpec(C=1.0))
        assert home.get(id_).update(update_of(0), "r").result().body, steps.failed
    stored = {one.id for one in opened.index()}
    assert stored == set(home._index)
    assert len(stored) == counting.count + 1
    for model in home.all_handles():
        model.stop()


@pytest.mark.parametrize("error", [Fault, StoreUnavailable], ids=["unforeseen", "the store is away"])
def test_whatever_fails_in_updates_of_many_models_changes_nothing_or_has_its_whole_effect(
    open_store: Callable[[], Store], tmp_path: Path, error: type[Exception], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    opened, random, names = open_store(), np.random.default_rng(1), ("a", "b", "c")
    mine, plain = (
        HostedModels(MODEL, context_of(one), lambda size: None) for one in (opened, SqliteStore(tmp_path / "plain"))
    )
    for home, name in itertools.product((mine, plain), names):
        home.create(name, ModelSpec(C=1.0))
    for number in range(30):
        updates = {name: update_of(3 * number + place) for place, name in enumerate(names)}
        counting = Steps()
        with counting.counted():
            assert not plain.update_many(updates, f"r{number}", Solve()).errors
        failing = Steps(int(random.integers(1, counting.count + 1)), error)
        answers: dict[str, bytes] = {}
        try:
            with failing.counted():
                done = mine.update_many(updates, f"r{number}", Solve())
        except error:
            pass
        else:
            answers = done.answers
            for name in names:
                assert (name in answers) is not (name in done.errors)
                assert mine.get(name).published.version == number + (name in answers), failing.failed
        again = mine.update_many(updates, f"r{number}", Solve())
        assert not again.errors, failing.failed
        assert {name: again.answers[name] for name in answers} == answers, failing.failed
        for name in names:
            assert mine.get(name).published.version == number + 1, failing.failed
            ours, theirs = decisions(mine.get(name)), decisions(plain.get(name))
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-8, err_msg=failing.failed)
    assert [sum(not one.aborted for one in opened.log(name, 0)) for name in names] == [30] * 3
    for model in (*mine.all_handles(), *plain.all_handles()):
        model.stop()
    opened.close()
