"""The handle of a model that lives in an actor: how long a copy here predicts, and when it says that it may be stale.

No Ray is started: the actor is played, and so is the clock.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from livesvm.service.errors import ModelUnavailable, Restoring
from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.feeds.state import FeedState
from livesvm.service.feeds.state import View as ForecastsOfFeed
from livesvm.service.hosting.context import Context
from livesvm.service.hosting.handle import Description, Glimpse, Reply
from livesvm.service.hosting.logged import first_summary
from livesvm.service.hosting.summary import Summary
from livesvm.service.models.commands import Command
from livesvm.service.models.published import Published
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.state import ModelState
from livesvm.service.models.types import ServingState
from livesvm.service.ray import commands
from livesvm.service.ray.actors import RemoteActor
from livesvm.service.ray.handle import DECIDED_ROWS, LATELY_SECONDS, RemoteFeed, RemoteModel, RemoteReplica
from livesvm.service.ray.messages import Answer, FeedNow, News, Question, View, packed, unpacked
from livesvm.service.ray.places import place_of
from livesvm.service.resources.solve_scheduler import Solve
from livesvm.service.settings import Settings
from livesvm.service.store.base import Indexed
from livesvm.solvers.models.change import Batch, Change

SPEC = ModelSpec(id="m", C=2.0)
ROWS = np.array([[0.5], [2.5]])
LEASE, STALE = 5.0, 3.0
FIRST, SECOND = ("first", 1), ("second", 1)


@dataclass
class Clock:
    """Seconds that a test lets pass."""

    now: float = 1000.0

    def monotonic(self) -> float:
        return self.now


@dataclass
class Actor:
    """Answers calls as a test says, and remembers them; also the owner of its models, and all actors."""

    answer: Callable[[Question], Any]
    asked: list[Question] = field(default_factory=list)
    open: set[Any] = field(default_factory=set)
    share: int = 64

    @property
    def actors(self) -> Any:
        return self

    def at(self, stored: str) -> RemoteActor:
        return RemoteActor(place_of("m", 1), cast(Any, self))

    def seen(self, stored: str, view: View | None) -> None:
        """Something is known of one."""

    @property
    def cluster(self) -> Any:
        return SimpleNamespace(is_known=lambda place: True, call=self._answered)

    def _answered(self, place: Any, message: bytes, *, by_line: bool) -> Future[bytes]:
        asked, found = unpacked(message), Future[bytes]()
        self.asked.append(asked)
        try:
            found.set_result(packed(Answer(self.answer(asked))))
        except Exception as error:
            found.set_result(packed(Answer(error=error)))
        return found


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    for module in ("handle", "actors", "calls"):
        monkeypatch.setattr(f"livesvm.service.ray.{module}.time", clock)
    return clock


def hear(live: RemoteReplica, reported: View, clock: Clock) -> None:
    """Have an answer tell of a replica."""
    live.hear(clock.now)
    live.there.hear({live.stored: reported})


def version(number: int) -> Published:
    """Return a version that decides everything as its number."""
    state = ModelState.empty(SPEC, 16)
    state.apply(
        Command(Batch(np.array([[0.0], [3.0]]), np.array([-1.0, 1.0]), ["a", "b"]), [], arrived=1.0, next_key=0)
    )
    state.version = number
    return state.published()


def view(number: int, life: tuple[str, int] = FIRST, state: ServingState = "live", *, stale: bool = False) -> View:
    now = Description(state, version=number, n_features=1, C=2.0, can_predict=True)
    return View(SPEC, state, None, stale, now, life, moment=number)


def model(actor: Actor, **settings: Any) -> RemoteModel:
    chosen = {"ray_stale_seconds": STALE, **settings}
    reported = first_summary(SPEC, wakes=False)
    return RemoteModel(
        "m",
        "m",
        Indexed("m", 0, reported, 0),
        cast(Context, SimpleNamespace(settings=Settings(lease_seconds=LEASE, **chosen))),
        actor,
    )


def reader(live: RemoteModel, X: Any) -> Published:
    """Return the version that rows are to be decided by."""
    steps = live.reading(X)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Published = end.value
            return found


def newest(number: int) -> Actor:
    """Return an actor whose model is at a version."""
    return Actor(lambda asked: version(number))


def away(asked: Question) -> Any:
    raise ModelUnavailable("its actor does not answer")


def test_a_copy_predicts_as_long_as_it_is_the_newest_and_no_call_is_made_for_that(clock: Clock) -> None:
    actor = newest(1)
    live = model(actor)
    hear(live, view(1), clock)
    for _ in range(5):
        assert reader(live, ROWS).version == 1
        clock.now += STALE + 1
        live.hear(clock.now)
    assert [asked.command for asked in actor.asked] == [commands.PUBLISHED]


@pytest.mark.parametrize("seconds", [0.0, STALE])
def test_one_that_is_not_the_newest_predicts_for_the_seconds_of_the_setting_and_no_longer(
    seconds: float, clock: Clock
) -> None:
    actor = newest(1)
    live = model(actor, ray_stale_seconds=seconds)
    hear(live, view(1), clock)
    reader(live, ROWS)
    clock.now += 100.0
    assert reader(live, ROWS).version == 1  # it was the newest until now
    hear(live, view(2), clock)
    actor.answer = lambda asked: version(2)
    if seconds:
        clock.now += seconds - 0.1
        assert reader(live, ROWS).version == live.published.version == 1
        clock.now += 0.1
    assert live.published.predictor is None
    assert reader(live, ROWS).version == 2
    assert len(actor.asked) == 2


def test_using_a_copy_that_is_not_the_newest_does_not_prolong_its_time(clock: Clock) -> None:
    actor = newest(1)
    live = model(actor)
    hear(live, view(1), clock)
    reader(live, ROWS)
    hear(live, view(2), clock)
    actor.answer = lambda asked: version(2)
    found = []
    for _ in range(4):
        clock.now += STALE / 3
        found.append(reader(live, ROWS).version)
    assert found == [1, 1, 2, 2]


def test_a_copy_of_an_earlier_life_is_gone_even_if_its_version_is_the_newest(clock: Clock) -> None:
    actor = newest(1)
    live = model(actor)
    hear(live, view(1), clock)
    reader(live, ROWS)
    hear(live, view(1, SECOND), clock)  # restored, or another model of that name
    assert live.published.predictor is None
    reader(live, ROWS)
    assert len(actor.asked) == 2
    hear(live, view(1, SECOND), clock)
    assert live.published.predictor is not None


def test_a_newer_life_counts_and_an_older_moment_of_one_does_not(clock: Clock) -> None:
    live = model(newest(1))
    hear(live, view(5), clock)
    hear(live, view(4), clock)
    assert live.describe().version == 5
    hear(live, view(2, SECOND), clock)
    assert live.describe().version == 2


@pytest.mark.parametrize("held", [True, False])
def test_while_the_actor_is_away_the_copy_that_is_here_predicts_and_says_that_it_may_be_stale(
    held: bool, clock: Clock
) -> None:
    actor = newest(1)
    live = model(actor)
    hear(live, view(1), clock)
    if held:
        reader(live, ROWS)
    hear(live, view(2), clock)
    clock.now += LEASE + 0.1
    actor.answer = away
    assert live.stale
    if not held:
        with pytest.raises(ModelUnavailable):
            reader(live, ROWS)
        return
    assert reader(live, ROWS).version == 1


def test_it_may_be_stale_when_nothing_was_heard_for_longer_than_a_lease(clock: Clock) -> None:
    live = model(newest(1))
    assert live.stale
    hear(live, view(1), clock)
    clock.now += LEASE
    assert (live.age, live.stale) == (LEASE, False)
    clock.now += 0.1
    assert live.stale
    live.hear(clock.now)
    assert (live.age, live.stale) == (0.0, False)
    live.hear(clock.now - LEASE - 1)  # heard late: what was heard since counts
    assert live.age == 0.0
    hear(live, view(2, stale=True), clock)
    assert live.stale


def test_it_may_be_stale_once_its_actor_is_lost_and_until_that_is_heard_of_again(clock: Clock) -> None:
    live = model(newest(1))
    hear(live, view(1), clock)
    live.there._lose()
    assert live.stale
    assert (live.state, live.describe().error) == ("restoring", "its actor was lost, and is started again")
    hear(live, view(1), clock)
    assert (live.stale, live.state) == (False, "live")


def test_a_newer_copy_is_taken_an_older_one_is_not(clock: Clock) -> None:
    live = model(newest(3))
    hear(live, view(3), clock)
    live.hold(version(3))
    live.hold(version(2))
    assert live.published.version == 3
    assert live.published.predictor is not None
    live.hold(version(4))
    hear(live, view(4), clock)
    assert live.published.version == 4
    assert live.published.predictor is not None


def test_rows_go_to_the_actor_where_that_is_set_unless_they_are_many(clock: Clock) -> None:
    actor = Actor(
        lambda asked: version(7) if asked.command == commands.PUBLISHED else (7, np.zeros(2), np.zeros(2), None)
    )
    live = model(actor, ray_predictions="actor")
    hear(live, view(7), clock)
    live.hold(version(7))
    assert reader(live, ROWS).decide(SPEC, ROWS)[0].tolist() == [0.0, 0.0]
    assert live.published.predictor is None
    assert reader(live, np.zeros((DECIDED_ROWS + 1, 1))).predictor is not None
    assert [asked.command.do for asked in actor.asked] == [commands.DECIDE.do, commands.PUBLISHED.do]


def test_an_update_brings_the_new_version_along_if_one_here_predicted_lately(clock: Clock) -> None:
    actor = Actor(lambda asked: version(1) if asked.command == commands.PUBLISHED else Reply(b"{}"))
    live = model(actor)
    hear(live, view(1), clock)
    change = Change(Batch(ROWS, np.ones(2)))
    live.update(change, None).result(1)
    reader(live, ROWS)
    clock.now += LATELY_SECONDS - 0.1
    live.update(change, None).result(1)
    clock.now += 0.1
    live.update(change, "named").result(1)
    live.certificate().result(1)
    calls = [asked for asked in actor.asked if asked.command != commands.PUBLISHED]
    assert [asked.predicts for asked in calls] == [False, True, False, False]


@pytest.mark.parametrize("name", ["mine", None])
def test_a_change_is_sent_by_a_name_so_that_it_has_one_effect_and_only_its_own_name_is_a_repetition(
    name: str | None, clock: Clock
) -> None:
    actor = Actor(lambda asked: Reply(b"{}", replayed=True))
    live, solve = model(actor), Solve(until=clock.now + 3.0)
    change = Change(Batch(ROWS, np.ones(2)))
    replies = [live.update(change, name, solve).result(1), live.update(change, name, solve=solve).result(1)]
    assert [reply.replayed for reply in replies] == [name is not None] * 2
    names = [asked.command.arguments[-1] for asked in actor.asked]
    assert all(isinstance(one, str) for one in names)
    assert len(set(names)) == (1 if name else 2)
    assert [asked.seconds is not None for asked in actor.asked] == [True, True]


def test_what_reads_may_be_ended_and_what_changes_may_not(clock: Clock) -> None:
    reads = {"certificate", "seen", "copy", "examples", "history", "what_if", "events", "_calibrated"}
    named = {"update", "restore", "_swap", "observe", "take"}
    for kind in (RemoteModel, RemoteFeed):
        asked = {name: one for name, one in vars(kind).items() if isinstance(one, commands.Command)}
        assert {name for name, one in asked.items() if not one.mutates} == reads & asked.keys()
        assert {name for name, one in asked.items() if one.named} == named & asked.keys()


@pytest.mark.parametrize(
    ("state", "error"), [("restoring", None), ("failed", ModelUnavailable), ("live", None), ("fenced", None)]
)
def test_one_that_its_actor_does_not_serve_is_refused(
    state: ServingState, error: type[Exception] | None, clock: Clock
) -> None:
    live = model(newest(1))
    assert live.serving() is live  # its actor knows
    hear(live, view(1, state=state), clock)
    if error is None:
        assert live.serving() is live
    else:
        with pytest.raises(error):
            live.serving()


def test_a_feed_may_be_stale_as_a_model_may(clock: Clock) -> None:
    actor = newest(1)
    feed, spec = feed_of(actor)
    now = FeedNow(1, 0, None, None, ForecastsOfFeed.of(FeedState.empty(spec)))
    reported = View(spec, "live", None, False, now, FIRST, moment=2)
    assert feed.stale
    hear(feed, reported, clock)
    feed.learn()
    clock.now += LEASE
    assert not feed.stale
    clock.now += 0.1
    assert feed.stale
    feed.hear(clock.now)
    assert not feed.stale
    feed.there._lose()
    assert feed.stale
    assert (feed.state, feed.shown) == ("restoring", None)
    hear(feed, reported, clock)
    assert (feed.stale, feed.state, feed.shown) == (False, "live", feed.view)


def feed_of(actor: Actor) -> tuple[RemoteFeed, FeedSpec]:
    spec = FeedSpec(target="level", every="1h")
    context = SimpleNamespace(settings=Settings(lease_seconds=LEASE, ray_actors=1))
    found = Indexed("feed.f", 0, first_summary(spec, wakes=False), 0)
    return RemoteFeed("f", "feed.f", found, cast(Context, context), actor), spec


def test_a_feed_at_rest_shows_what_the_index_tells_of_it_and_no_forecasts(clock: Clock) -> None:
    feed, spec = feed_of(newest(1))
    now = FeedNow(1, 0, None, None, ForecastsOfFeed.of(FeedState.empty(spec)))
    awake = View(spec, "live", None, False, now, FIRST, moment=1)
    hear(feed, awake, clock)
    feed.learn()
    assert (feed.shown, feed.reported) == (feed.view, awake)
    shown: dict[str, Any] = {
        "state": "live",
        "version": 3,
        "position": 12,
        "rows": 12,
        "time": None,
        "every": None,
        "updated_at": 1.0,
    }
    found = Indexed("feed.f", 3, Summary(spec.model_dump_json(), 0, shown | {"steps": []}).encode(), 3)
    feed.there.take_news(News("first", 2, {"feed.f": View(spec, "live", None, False, found, FIRST, moment=2)}))
    feed.found_again(found)
    feed.learn()
    assert (feed.shown, feed.glimpse, feed.reported) == (None, Glimpse(**shown), None)
    with pytest.raises(Restoring):
        _ = feed.view
    hear(feed, awake, clock)  # late: it was reported since that it rests
    assert feed.reported is None


def test_a_model_at_rest_is_as_the_index_says_and_as_it_was_reported_last_once_it_was_awake(clock: Clock) -> None:
    live = model(newest(1))
    assert (live.state, live.stale) == ("restoring", True)
    live.found_again(Indexed("m", 4, Summary(SPEC.model_dump_json(), 0, told_of(4)).encode(), 4))
    live.there.take_news(News("first", 1, {}))
    assert (live.state, live.stale, live.describe().version, live.reported) == ("live", False, 4, None)
    hear(live, view(5), clock)
    assert live.describe().version == 5
    live.there.take_news(News("second", 1, {}))
    assert live.describe().version == 5  # until the index is read again
    assert live.there.forget_dead() == ["m"]
    live.found_again(Indexed("m", 5, Summary(SPEC.model_dump_json(), 0, told_of(4)).encode(), 4))
    assert (live.state, live.stale) == ("restoring", True)
    assert not live.there._take("m", view(9))  # of an incarnation that is no more


def told_of(version: int) -> dict[str, Any]:
    """Return what a summary tells of a model at a version."""
    now = Description("live", version=version, n_features=1, C=2.0, can_predict=True)
    return now.document()
