"""Calls of actors, and what the directory makes of what actors tell: with an actor that is played, and without Ray."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pickle import UnpicklingError
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError

from livesvm.service.errors import ModelUnavailable, QueueFull, Restoring, UnknownFeed, UnknownModel
from livesvm.service.feeds.spec import FeedSpec
from livesvm.service.history.journal import Source
from livesvm.service.hosting.context import Context
from livesvm.service.hosting.handle import Description
from livesvm.service.hosting.logged import first_summary
from livesvm.service.hosting.summary import Summary
from livesvm.service.models.spec import ModelSpec
from livesvm.service.ray import calls, commands
from livesvm.service.ray.actors import RemoteActor
from livesvm.service.ray.calls import Call
from livesvm.service.ray.cluster import Cluster as RealCluster
from livesvm.service.ray.commands import Command
from livesvm.service.ray.handle import RemoteFeed, RemoteModel
from livesvm.service.ray.hosting import RemoteHosting
from livesvm.service.ray.messages import Answer, News, Question, View, packed
from livesvm.service.ray.places import Place, place_of
from livesvm.service.settings import Settings
from livesvm.service.store.base import Indexed
from livesvm.service.store.redis import RedisStore
from livesvm.solvers.models.change import Change

SPEC = ModelSpec(id="m")
PLACE = place_of("m", 1)
SECONDS = 10.0


class Lost(Exception):
    """What Ray says of an actor that is gone."""


def view(version: int, moment: int = 1, life: tuple[str, int] = ("one", 1)) -> View:
    return View(SPEC, "live", None, False, Description("live", version=version), life, moment)


class Cluster(RealCluster):
    """Answers the calls of one actor in turn: bytes, or an error that is raised; also all actors."""

    def __init__(self, answers: list[Any], *, stored: bool = True) -> None:
        self.answers, self.stored = answers, stored
        self.tries = 0
        self.lost_ones: list[str] = []
        self.is_over = False
        self.open: set[Any] = set()
        self.share, self.lost_count = 64, SimpleNamespace(inc=lambda count: None)
        self._settings = Settings(ray_actors=1)
        self.lines = cast(Any, SimpleNamespace(ask=lambda *call: None, find=lambda *call: None))

    @property
    def cluster(self) -> Any:
        return self

    def seen(self, stored: str, view: Any) -> None:
        """Something is known of one."""

    def is_known(self, place: Place) -> bool:
        return True

    def actor(self, place: Place) -> Any:
        return SimpleNamespace(call=SimpleNamespace(remote=self._answered))

    def lost(self, place: Place, error: BaseException) -> None:
        self.lost_ones.append(type(error).__name__)

    def _answered(self, message: bytes) -> Any:
        self.tries += 1
        answer = self.answers.pop(0)
        reported: Future[bytes] = Future()
        if isinstance(answer, Lost):
            reported.set_exception(answer)
        else:
            reported.set_result(packed(answer))
        return SimpleNamespace(future=lambda: reported)

    def is_stored(self, stored: str) -> bool:
        return self.stored


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call is sent again at once."""
    monkeypatch.setattr(calls, "AGAIN_SECONDS", 0.0)


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets seconds pass for calls."""
    now = [100.0]
    monkeypatch.setattr(calls, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def later(seconds: float) -> None:
        now[0] += seconds

    return later


@dataclass
class Subject:
    """A model, or a feed, of which something is asked."""

    there: RemoteActor
    stored: str = "m"
    spec: ModelSpec = field(default_factory=lambda: SPEC)
    heard: list[Any] = field(default_factory=list)

    @property
    def gone(self) -> Any:
        return UnknownFeed if self.stored.startswith("feed.") else UnknownModel

    def __str__(self) -> str:
        return f"model {self.stored}"

    def hear(self, at: float) -> None:
        self.heard.append(self.there.view(self.stored))

    def hold(self, copy: Any) -> None:
        self.heard.append(copy)


UPDATE: Command = RemoteModel.update(Change(), "r1")


def call(cluster: Cluster, command: Command = UPDATE, subject: Subject | None = None, until: float = 110.0) -> Call:
    subject = subject or subject_of(cluster)
    return Call(subject, Question("id", subject.stored, command), until, None).send()


def subject_of(cluster: Cluster, stored: str = "m") -> Subject:
    return Subject(RemoteActor(PLACE, cast(Any, cluster)), stored)


def test_a_call_is_sent_again_when_its_actor_is_lost_on_the_way(later: Callable[[float], None]) -> None:
    restoring = Answer(error=Restoring("the actor is being restored"))
    cluster = Cluster([Lost(), restoring, Answer("done", views={"m": view(3)}, copy=cast(Any, "copy"))])
    subject = subject_of(cluster)
    assert call(cluster, subject=subject).result(SECONDS) == "done"
    assert (cluster.tries, cluster.lost_ones, cluster.open) == (3, ["Lost"], set())
    assert subject.heard == [view(3), "copy"]


def test_a_model_that_its_actor_restores_is_not_asked_for_again(later: Callable[[float], None]) -> None:
    cluster = Cluster([Answer(error=Restoring("model m is being restored"), views={"m": view(0)})])
    with pytest.raises(Restoring):
        call(cluster).result(SECONDS)
    assert cluster.tries == 1


@pytest.mark.parametrize(
    ("command", "stored", "kind"),
    [
        (UPDATE, "m", UnknownModel),
        (RemoteFeed.observe, "feed.f", UnknownFeed),
        (commands.CREATE, "m", None),
    ],
)
def test_it_is_not_sent_again_for_what_is_gone_but_where_it_makes_that(
    command: Command, stored: str, kind: type[Exception] | None, later: Callable[[float], None]
) -> None:
    cluster = Cluster([Lost(), Answer("done")], stored=False)
    if kind is None:
        assert call(cluster, command, subject_of(cluster, stored)).result(SECONDS) == "done"
    else:
        with pytest.raises(kind):
            call(cluster, command, subject_of(cluster, stored)).result(SECONDS)
        assert cluster.tries == 1


@pytest.mark.parametrize("stored", [True, False])
def test_a_deletion_that_is_sent_again_may_find_that_it_was_done(stored: bool, later: Callable[[float], None]) -> None:
    cluster = Cluster([Lost(), Answer(error=UnknownModel("there is no model m"))], stored=stored)
    assert call(cluster, commands.DELETE).result(SECONDS) is None
    with pytest.raises(UnknownModel):
        call(Cluster([Answer(error=UnknownModel("there is no model m"))]), commands.DELETE).result(SECONDS)


def test_it_is_given_up_when_its_time_is_over(later: Callable[[float], None]) -> None:
    cluster = Cluster([Lost()])
    with pytest.raises(ModelUnavailable, match=r"model m is not to be had now: its actor was lost \(Lost\)"):
        call(cluster, until=100.0).result(SECONDS)
    assert cluster.tries == 1


@pytest.mark.parametrize(("seconds", "silent", "ends"), [(11.0, True, True), (11.0, False, False), (9.0, True, False)])
def test_one_that_gets_no_answer_ends_when_its_time_is_over_and_its_actor_is_silent(
    seconds: float, silent: bool, ends: bool, later: Callable[[float], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting: Future[bytes] = Future()
    cluster = Cluster([])
    monkeypatch.setattr(cluster, "_answered", lambda message: SimpleNamespace(future=lambda: waiting))
    subject = subject_of(cluster)
    subject.there.made_at = 100.0 if silent else 100.0 + seconds
    monkeypatch.setattr("livesvm.service.ray.actors.time", SimpleNamespace(monotonic=lambda: 100.0 + seconds))
    made = call(cluster, subject=subject)
    later(seconds)
    made.expire(5.0)
    assert made.done() is ends
    if ends:
        with pytest.raises(ModelUnavailable, match="its actor does not answer"):
            made.result()
    waiting.set_result(packed(Answer("late")))  # and does no harm
    assert made.exception() is not None if ends else made.result() == "late"
    assert cluster.open == set()


# -- the directory -----------------------------------------------------------------------------------------------------


class Watched(Cluster):
    """A cluster whose actor is watched: what it was asked, and a call that is answered when a test says."""

    def __init__(self) -> None:
        super().__init__([])
        self.asked: list[Any] = []
        self.waiting: list[Future[bytes]] = []

    def actor(self, place: Place) -> Any:
        answered = SimpleNamespace(remote=self._answered)
        return SimpleNamespace(call=answered, news=SimpleNamespace(remote=self._news))

    def _news(self, *since: Any) -> Any:
        self.asked.append(since)
        reported: Future[bytes] = Future()
        self.waiting.append(reported)
        return SimpleNamespace(future=lambda: reported)

    def tell(self, news: News) -> None:
        self.waiting.pop(0).set_result(packed(news))


@dataclass
class Hosted:
    """The models and feeds of a front end, which has joined no cluster; ``stored`` is what the store has."""

    stored: list[str]
    cluster: Watched = field(default_factory=Watched)
    dropped: list[str] = field(default_factory=list)
    reads: int = 0
    changes: int = 1
    is_there: bool = True

    def __post_init__(self) -> None:
        self.hosting = RemoteHosting(cast(Any, self._context()), self.cluster, self.dropped.append)

    @property
    def there(self) -> RemoteActor:
        return self.hosting._actors.at("m")

    def _context(self) -> Any:
        health = SimpleNamespace(store_call=lambda operation: threading.Lock(), store_up=True)
        metrics = SimpleNamespace(watch_others=lambda scrape: None, actors_lost=SimpleNamespace(inc=int))
        source = Source(cast(Any, Stored(self)), cast(Any, health), cast(Any, metrics))
        return Context(Settings(lease_seconds=5.0, ray_actors=1), source, cast(Any, None))

    def look(self) -> None:
        self.hosting._look()


class Stored(RedisStore):
    """What a store says of the models and feeds of a front end."""

    def __init__(self, hosted: Hosted) -> None:
        self._hosted = hosted

    def changes(self) -> int:
        return self._hosted.changes

    def index(self, models: Any = None) -> Any:
        self._hosted.reads += 1
        stored = self._hosted.stored if models is None else [one for one in models if one in self._hosted.stored]
        for name in stored:
            spec = FeedSpec(target="x") if name.startswith("feed.") else ModelSpec(id=name)
            yield Indexed(name, 1, first_summary(spec, wakes=False), 0)

    def model(self, model: str) -> Any:
        return model if model in self._hosted.stored else None


@pytest.fixture
def hosted() -> Hosted:
    made = Hosted(["m", "n", "feed.f"])
    made.look()
    return made


def versions(hosted: Hosted) -> list[int]:
    return [model.describe().version for model in hosted.hosting.models.page()]


def test_an_office_hears_of_those_that_an_actor_tells_of_and_asks_for_more(hosted: Hosted) -> None:
    cluster, models = hosted.cluster, hosted.hosting.models
    models.find("m").recent.note_predicted(7)
    hosted.there.ask_for_news()
    hosted.there.ask_for_news()  # which is asked already
    assert cluster.asked == [("", 0, {"m": 7})]
    cluster.tell(News("one", 4, {"m": view(2, 4), "late": view(1, 4)}))
    assert (versions(hosted), models.states()) == ([2, 0], {"live": 1, "restoring": 1})
    assert [model.id for model in models.awake()] == ["m"]
    assert cluster.asked[1:] == [("one", 4, {})]
    hosted.stored.append("late")
    hosted.changes += 1
    hosted.hosting._look_at = 0.0
    hosted.look()
    assert models.find("late").describe().version == 1  # it was reported before it was known
    cluster.tell(News("one", 5, {"m": None}))
    assert [model.id for model in models.awake()] == ["late"]


def test_the_reports_of_a_lost_actor_are_dropped_once_the_index_is_read_again(hosted: Hosted) -> None:
    cluster = hosted.cluster
    hosted.there.ask_for_news()
    cluster.tell(News("one", 4, {"m": view(7, 4), "n": view(3, 4)}))
    cluster.tell(News("two", 1, {"n": view(4, 1, ("two", 1))}))
    assert versions(hosted) == [7, 4]
    hosted.look()
    assert versions(hosted) == [0, 4]
    assert [model.id for model in hosted.hosting.models.awake()] == ["n"]


def test_news_keep_newer_answers_and_drop_what_went_to_rest_before_the_cluster_was_joined_again(
    hosted: Hosted,
) -> None:
    there, models = hosted.there, hosted.hosting.models
    hosted.there.ask_for_news()
    hosted.cluster.tell(News("one", 4, {"m": view(2, 4), "n": view(5, 3)}))
    there.hear({"m": view(3, 6)})
    hosted.cluster.tell(News("one", 5, {"m": resting(2, 5)}))
    assert (versions(hosted), len(models.awake())) == ([3, 5], 2)
    there.begin_again()
    hosted.there.ask_for_news()
    hosted.cluster.waiting.pop(0)
    hosted.cluster.tell(News("one", 9, {"m": view(3, 6)}))
    assert [model.id for model in models.awake()] == ["m"]


def test_one_of_which_the_index_does_not_tell_all_is_asked_for_until_its_actor_says_that_it_rests(
    hosted: Hosted,
) -> None:
    cluster, models = hosted.cluster, hosted.hosting.models
    hosted.stored[:] = ["m"]
    hosted.changes += 1
    hosted.hosting._look_at = 0.0
    hosted.look()
    hosted.there.ask_for_news()
    cluster.tell(News("one", 4, {"m": resting(3, 4)}))
    assert (models.states(), versions(hosted), models.awake()) == ({"live": 1}, [3], [])
    hosted.changes += 1
    hosted.look()  # which was read before it went to rest
    assert models.states() == {"restoring": 1}
    cluster.answers.append(Answer(views={"m": resting(3, 4)}))
    hosted.hosting._ask_of_stale()
    assert (cluster.tries, models.states(), versions(hosted)) == (1, {"live": 1}, [3])
    hosted.hosting._ask_of_stale()
    assert cluster.tries == 1


def resting(version: int, moment: int) -> View:
    """Return what is reported of a model that went to rest."""
    now = Description("live", version=version, can_predict=True)
    reported = Summary(SPEC.model_dump_json(), 0, now.document())
    return View(SPEC, "live", None, False, Indexed("m", version, reported.encode(), version), ("one", 1), moment)


def test_the_index_is_read_where_something_was_created_or_deleted_alone(hosted: Hosted) -> None:
    for _ in range(3):
        hosted.look()
    assert hosted.reads == 1
    hosted.changes += 1
    hosted.look()
    assert hosted.reads == 2


def test_an_actor_that_is_lost_is_said_to_be_and_asked_again(hosted: Hosted) -> None:
    hosted.there.ask_for_news()
    hosted.cluster.waiting.pop(0).set_exception(Lost())
    assert hosted.cluster.lost_ones == ["Lost"]
    assert hosted.hosting.models.states() == {"restoring": 2}
    assert {model.reason for model in hosted.hosting.models.page()} == {"its actor was lost, and is started again"}
    hosted.there.ask_for_news()
    assert len(hosted.cluster.asked) == 2


def test_what_was_asked_before_the_cluster_was_joined_again_is_not_waited_for(hosted: Hosted) -> None:
    hosted.there.ask_for_news()
    hosted.there.owner._begin_again()
    hosted.there.ask_for_news()
    assert hosted.cluster.asked == [("", 0, {}), ("", 0, {})]
    hosted.cluster.tell(News("one", 4, {"m": view(2, 4)}))  # late, and not taken in
    assert versions(hosted) == [0, 0]
    hosted.cluster.tell(News("one", 4, {"m": view(2, 4)}))
    assert versions(hosted) == [2, 0]


def test_what_the_store_has_is_known_and_what_it_has_no_more_is_dropped(hosted: Hosted) -> None:
    hosted.stored[:] = ["n", "k", "feed.f"]
    hosted.changes += 1
    hosted.look()
    assert [model.id for model in hosted.hosting.models.page()] == ["k", "n"]
    assert [feed.id for feed in hosted.hosting.feeds.page()] == ["f"]
    assert hosted.dropped == ["m"]


def test_one_that_is_being_made_is_not_dropped_and_one_that_another_deleted_can_be_made(hosted: Hosted) -> None:
    models, first = hosted.hosting.models, hosted.cluster
    hosted.stored.clear()
    hosted.changes += 1
    waiting: Future[bytes] = Future()
    first._answered = lambda message: SimpleNamespace(future=lambda: waiting)  # type: ignore[method-assign]
    with ThreadPoolExecutor(1) as pool:
        making = pool.submit(models.create, "m", ModelSpec(id="m"))
        while not hosted.there.owner.open:
            time.sleep(0.001)
        hosted.look()
        assert [model.id for model in models.page()] == ["m"]
        waiting.set_result(packed(Answer(views={"m": view(0)})))
        assert making.result(SECONDS).id == "m"


def test_an_actor_is_silent_that_said_nothing_for_a_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("livesvm.service.ray.actors.time", SimpleNamespace(monotonic=lambda: now[0]))
    there = RemoteActor(PLACE, cast(Any, Cluster([])))
    now[0] += 5.0
    assert not there.is_silent(5.0)
    now[0] += 0.1
    assert there.is_silent(5.0)
    there.take_news(News("one", 1, {}))
    assert not there.is_silent(5.0)


@pytest.mark.parametrize("error", [ActorDiedError(), ActorUnavailableError("away", None)])
def test_a_lost_actor_has_no_line_and_one_that_is_dead_is_looked_for_again(error: Exception) -> None:
    cluster, lines = object.__new__(RealCluster), list[str]()
    vars(cluster).update(_actors={PLACE.name: "actor"}, lines=SimpleNamespace(lose=lines.append))
    cluster.lost(PLACE, error)
    assert lines == [PLACE.name]
    assert cluster.is_known(PLACE) is not isinstance(error, ActorDiedError)


@pytest.mark.parametrize(
    ("answer", "is_up", "joins"),
    [
        ([True], True, False),
        ([False], True, True),
        (RuntimeError("RPC error: WrongClusterID: it has restarted"), True, True),
        (RuntimeError("Timed out while waiting for GCS to become available."), False, False),
    ],
)
def test_an_unknown_front_end_joins_the_cluster_again_and_waits_for_a_head_that_is_away(
    answer: Any, is_up: bool, joins: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check_alive(nodes: list[Any], timeout: float) -> list[bool]:
        if isinstance(answer, Exception):
            raise answer
        return list(answer)

    made, left = object.__new__(RealCluster), list[str]()
    lines, joined = SimpleNamespace(lose=left.append), list[bool]()
    asks = SimpleNamespace(check_alive=check_alive)
    vars(made).update(
        _asks=asks,
        _node="node",
        _is_joined=True,
        _is_own=False,
        head_is_up=True,
        _settings=SimpleNamespace(ray="auto"),
        _has_waited=False,
        lines=lines,
        _actors={"a": 1},
        _lock=threading.Lock(),
    )
    monkeypatch.setattr("livesvm.service.ray.cluster.ray", SimpleNamespace(shutdown=lambda: left.append("cluster")))
    monkeypatch.setattr(made, "_join", lambda: joined.append(True))
    assert made.look() is joins
    assert (made.head_is_up, len(joined), left) == (is_up, int(joins), ["a", "cluster"] if joins else [])


def test_calls_under_way_are_sent_again_where_the_cluster_was_joined_again(later: Callable[[float], None]) -> None:
    cluster = Cluster([Answer("done")])
    waiting: Future[bytes] = Future()
    first = cluster._answered
    cluster._answered = lambda message: SimpleNamespace(future=lambda: waiting)  # type: ignore[method-assign]
    made = call(cluster)
    cluster._answered = first  # type: ignore[method-assign]
    made.lost()
    assert made.result(SECONDS) == "done"


# -- an actor that is stopped ------------------------------------------------------------------------------------------


def test_calls_that_are_waited_for_have_a_share_of_all_and_others_of_the_same_actor_go_on() -> None:
    hosted = Hosted(["m", "n"])
    hosted.look()
    hosted.there.owner.share = 2
    waiting: Future[bytes] = Future()
    hosted.cluster._answered = lambda message: SimpleNamespace(future=lambda: waiting)  # type: ignore[method-assign]
    live = cast(RemoteModel, hosted.hosting.models.find("m"))
    asked = [live.ask(commands.PUBLISHED) for _ in range(3)]
    assert [one.done() for one in asked] == [False, False, True]
    with pytest.raises(QueueFull, match="too many calls wait for actor models-0-of-1, which has model m"):
        asked[2].result()
    assert not live.ask(RemoteModel.certificate).done()
    waiting.set_result(packed(Answer("done")))
    assert [one.result(SECONDS) for one in asked[:2]] == ["done", "done"]
    assert live.ask(commands.PUBLISHED).result(SECONDS) == "done"


@pytest.mark.parametrize("says", ["nothing", "news", "to the store"])
def test_an_actor_that_is_silent_for_a_lease_is_ended_and_time_without_looks_does_not_count(
    says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, ended = [100.0], list[str]()
    monkeypatch.setattr("livesvm.service.ray.actors.time", SimpleNamespace(monotonic=lambda: now[0]))
    hosted = Hosted(["m"])
    hosted.look()
    monkeypatch.setattr(hosted.cluster, "end", lambda place: ended.append(place.name), raising=False)
    monkeypatch.setattr(Stored, "is_silent", lambda store, holder: says == "nothing" and holder == f"ray-{PLACE.name}")
    there, actors = hosted.there, hosted.there.owner
    there.ask_for_news()
    hosted.cluster.tell(News("one", 1, {}))
    now[0] += 1000.0  # it was stopped itself
    for _ in range(5):
        actors.look(5.0)
        assert ended == []
        now[0] += 1.0
        if says == "news":
            hosted.cluster.tell(News("one", 1, {}))
    actors.look(5.0)
    actors.look(5.0)
    assert ended == ([PLACE.name] if says == "nothing" else [])


def test_an_answer_that_cannot_be_used_ends_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster([])
    monkeypatch.setattr(cluster, "_answered", lambda message: SimpleNamespace(future=lambda: done(b"no pickle")))
    with pytest.raises(UnpicklingError):
        call(cluster).result(SECONDS)
    assert cluster.open == set()


def done(value: bytes) -> Future[bytes]:
    future: Future[bytes] = Future()
    future.set_result(value)
    return future
