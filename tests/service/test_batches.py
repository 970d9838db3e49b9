"""Readings of many feeds in one call, in one process: what fails of one or of the store, and what becomes of others."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from livesvm.service.errors import IdempotencyConflict, QueueFull
from livesvm.service.feeds import model_selection, step_model
from livesvm.service.feeds.batch import Batch
from livesvm.service.feeds.commands import Observations, decode_call
from livesvm.service.feeds.forecaster import Forecaster
from livesvm.service.feeds.row_tables import table_of
from livesvm.service.feeds.snapshot import from_arrays, to_arrays
from livesvm.service.feeds.spec import FeedSpec, StepRecipe, spec_of
from livesvm.service.feeds.state import FeedState
from livesvm.service.history.journal import append_together
from livesvm.service.hosting import batch as batches
from livesvm.service.hosting.kinds import FEED, HostedFeeds
from livesvm.service.store import codec
from livesvm.service.store.base import StoreUnavailable
from livesvm.solvers.errors import NotOptimal
from tests.support.feeds import FEED as SETTINGS
from tests.support.feeds import rows_of, series
from tests.support.live_models import FailingStore, context_of

NAMES = ("x/a", "x/b", "x/c")
SPEC: FeedSpec = spec_of(SETTINGS)


@pytest.fixture
def feeds(store: FailingStore) -> Iterator[HostedFeeds]:
    feeds = HostedFeeds(FEED, context_of(store, queue_size=1), lambda size: None)
    yield feeds
    for feed in feeds.all_handles():
        feed.stop()


def batch(first: int, last: int, request: str | None = None, names: tuple[str, ...] = NAMES) -> Batch:
    tables = {id_: table_of(rows_of(series(last, seed))[first:]) for seed, id_ in enumerate(names)}
    return Batch(tables, request, 2e9, SPEC)


def positions(feeds: HostedFeeds) -> list[int]:
    return [feed.view.position for feed in feeds.page("", None, "x/")]


@pytest.mark.parametrize("after_effect", [False, True])
def test_a_store_that_fails_is_asked_again_and_nothing_is_doubled(
    store: FailingStore, feeds: HostedFeeds, after_effect: bool
) -> None:
    feeds.observe_many(batch(0, 10))
    store.failing, store.after_effect = "append_many", after_effect
    with pytest.raises(StoreUnavailable):
        feeds.observe_many(batch(10, 12, "r"))
    assert positions(feeds) == [10, 10, 10]
    store.failing = ""
    done = feeds.observe_many(batch(10, 12, "r"))
    assert (len(done.answers), done.replayed, done.refused) == (3, 0, {})
    assert positions(feeds) == [12, 12, 12]
    assert [len([one for one in store.log(f"feed.{id_}", 0) if not one.aborted]) for id_ in NAMES] == [2, 2, 2]


def test_an_answer_that_was_not_kept_is_the_same_all_the_same(store: FailingStore, feeds: HostedFeeds) -> None:
    store.failing = "remember_many"
    first = feeds.observe_many(batch(0, 10, "r"))
    store.failing = ""
    again = feeds.observe_many(batch(0, 10, "r"))
    assert (again.answers, again.replayed) == (first.answers, 3)
    with pytest.raises(IdempotencyConflict):
        feeds.observe_many(batch(0, 11, "r"))
    assert positions(feeds) == [10, 10, 10]


def test_a_choice_that_was_not_kept_is_that_of_feeds_that_have_it(feeds: HostedFeeds) -> None:
    chosen = feeds.observe_many(batch(0, 70)).given
    assert chosen is not None
    known = feeds.observe_many(batch(70, 71)).given
    assert known is not None
    assert known[:2] == chosen[:2]


def test_a_new_series_beside_ten_full_ones_has_their_recipe_from_its_fortieth_reading_on(store: FailingStore) -> None:
    spec, new = spec_of(SETTINGS | {"window": 100, "season": None}), "x/new"
    tables = {f"x/{n}": table_of(rows_of(np.round(series(100, n)))) for n in range(10)}  # so that C is not the usual
    feeds = HostedFeeds(FEED, context_of(store), lambda size: None)
    given = feeds.observe_many(Batch(tables, None, 2e9, spec)).given
    assert given is not None
    assert given.season == 12
    recipes = [recipe._asdict() for recipe in given.recipes]
    assert {recipe["C"] for recipe in recipes} != {model_selection.START_C}
    alone = Forecaster(spec.model_copy(update={"season": given.season, "recipes": [StepRecipe(**r) for r in recipes]}))
    rows = rows_of(series(104, 11))
    for n, row in enumerate(rows[:50], 1):
        feeds.observe_many(Batch({new: table_of([row])}, None, 2e9, spec, given))
        fleet, other = feeds.get(new).current.forecaster, alone.observe([row])
        assert fleet.latest == other.forecasts
        early = [] if fleet.early is None else fleet.early.chosen()
        assert [step["C"] for step in early] == ([recipe["C"] for recipe in recipes] if n >= 40 else [])
    logged = [decode_call(one.data) for one in store.log(f"feed.{new}", 0)]
    assert [call.given is not None for call in logged if isinstance(call, Observations)] == [True] + [False] * 49
    back, restored = Forecaster(spec), from_arrays(spec, to_arrays(fleet))
    for call in logged:
        call.apply(back, None)
    for one in (back, restored):
        assert codec.encode(to_arrays(one)) == codec.encode(to_arrays(fleet))
    later = [one.observe(rows[50:]).forecasts for one in (alone, back, restored)]  # they choose nothing
    assert later[0] == later[1] == later[2]
    assert back.chosen() == alone.chosen()
    for feed in feeds.all_handles():
        feed.stop()


def test_a_feed_that_cannot_learn_is_refused_and_the_others_are_in(
    feeds: HostedFeeds, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeds.observe_many(batch(0, 70))
    apply = FeedState.apply

    def fails(state: FeedState, *arguments: Any) -> Any:
        if feeds.get("x/b").current is state:
            raise NotOptimal("no optimum was reached")
        return apply(state, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(FeedState, "apply", fails)
        done = feeds.observe_many(batch(70, 71, "r"))
    assert {id_: one.reason for id_, one in done.refused.items()} == {"x/b": "no optimum was reached"}
    assert positions(feeds) == [71, 70, 71]
    done = feeds.observe_many(batch(70, 71, "r"))
    assert (done.replayed, done.refused) == (2, {})
    assert positions(feeds) == [71, 71, 71]


def test_of_many_that_wake_for_a_call_few_are_hot_at_once(feeds: HostedFeeds, monkeypatch: pytest.MonkeyPatch) -> None:
    feeds.observe_many(batch(0, 70))
    assert all(feed.rest() for feed in feeds.page("", None, "x/"))
    monkeypatch.setattr(batches, "HOT", 1)
    monkeypatch.setattr(step_model, "LARGEST", 10)  # as with larger windows, whose models wake as they were
    hot: list[bool] = []

    def noted(*given: Any) -> Any:
        hot.extend(feeds.get(name).current.hot_bytes > 0 for name in NAMES)
        return append_together(*given)

    monkeypatch.setattr(batches, "append_together", noted)
    done = feeds.observe_many(batch(70, 71))
    assert (len(done.answers), sum(hot)) == (3, 1)
    assert positions(feeds) == [71, 71, 71]


def test_what_is_at_rest_wakes_and_other_calls_wait_for_the_batch(feeds: HostedFeeds) -> None:
    feeds.observe_many(batch(0, 70))
    assert all(feed.rest() for feed in feeds.page("", None, "x/"))
    one = feeds.get("x/a")
    held: Future[None] = one.hold()
    assert held.done()
    waits = one.observe(rows_of(series(71))[70:], None)
    assert not waits.done()
    with pytest.raises(QueueFull):
        feeds.observe_many(batch(70, 71))
    one.let_go()
    waits.result()
    done = feeds.observe_many(batch(70, 71))
    assert sorted(done.answers) == sorted(NAMES)
    assert positions(feeds) == [71, 71, 71]
    assert feeds.count("x/") == 3
    assert feeds.page() == []
