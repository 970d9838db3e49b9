"""Calls of actors, and what the office makes of what actors tell: with an actor that is played, and without Ray."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from ray.exceptions import ActorDiedError, ActorUnavailableError

from livesvm.service.errors import ModelUnavailable, Restoring, UnknownFeed, UnknownModel
from livesvm.service.live.handle import Description
from livesvm.service.models.spec import ModelSpec
from livesvm.service.models.types import ServingState
from livesvm.service.ray import calls
from livesvm.service.ray.calls import Call
from livesvm.service.ray.cluster import Cluster as RealCluster
from livesvm.service.ray.messages import Answer, Asked, News, View, packed
from livesvm.service.ray.office import Office
from livesvm.service.ray.places import Place, place_of
from livesvm.service.store.base import StoredModel

SPEC = ModelSpec(id="m")
PLACE = place_of("m", 1)
SECONDS = 10.0


class Lost(Exception):
    """What Ray says of an actor that is gone."""


def view(version: int, moment: int = 1, life: tuple[str, int] = ("one", 1)) -> View:
    return View(SPEC, Description("live", version), stale=False, can_predict=True, node="n", life=life, moment=moment)


@dataclass
class Cluster:
    """Answers the calls of one actor in turn: bytes, or an error that is raised; also the office of those calls."""

    answers: list[Any]
    stored: bool = True
    tries: int = 0
    lost_ones: list[str] = field(default_factory=list)
    open: set[Call] = field(default_factory=set)
    seen: list[Any] = field(default_factory=list)

    @property
    def cluster(self) -> Any:
        return self

    @property
    def lines(self) -> Any:
        return SimpleNamespace(ask=lambda *call: False, find=lambda *call: None)

    def known(self, place: Place) -> Any:
        return self

    def actor(self, place: Place, spec: Any = None) -> Any:
        return self

    def lost(self, place: Place, error: BaseException) -> None:
        self.lost_ones.append(type(error).__name__)

    @property
    def ask(self) -> Any:
        return SimpleNamespace(remote=self._answered)

    def _answered(self, message: bytes) -> Any:
        self.tries += 1
        answer = self.answers.pop(0)
        told: Future[bytes] = Future()
        if isinstance(answer, Lost):
            told.set_exception(answer)
        else:
            told.set_result(packed(answer))
        return SimpleNamespace(future=lambda: told)

    def saw(self, stored: str, view: Any, copy: Any) -> None:
        self.seen.append((stored, view, copy))

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


def call(cluster: Cluster, verb: str = "update", stored: str = "m", until: float = 110.0) -> Call:
    return Call(cast(Any, cluster), PLACE, Asked("id", stored, verb), SPEC, until, None).send()


def test_a_call_is_sent_again_when_its_actor_is_lost_on_the_way(later: Callable[[float], None]) -> None:
    restoring = Answer(error=Restoring("the actor is being restored"))
    cluster = Cluster([Lost(), restoring, Answer("done", view=view(3))])
    assert call(cluster).result(SECONDS) == "done"
    assert (cluster.tries, cluster.lost_ones, cluster.open) == (3, ["Lost"], set())
    assert cluster.seen == [("m", view(3), None)]


def test_a_model_that_its_actor_restores_is_not_asked_for_again(later: Callable[[float], None]) -> None:
    cluster = Cluster([Answer(error=Restoring("model m is being restored"), view=view(0))])
    with pytest.raises(Restoring):
        call(cluster).result(SECONDS)
    assert cluster.tries == 1


@pytest.mark.parametrize(
    ("verb", "stored", "kind"),
    [("update", "m", UnknownModel), ("observe", "feed.f", UnknownFeed), ("create", "m", None)],
)
def test_it_is_not_sent_again_for_what_is_gone_but_where_it_makes_that(
    verb: str, stored: str, kind: type[Exception] | None, later: Callable[[float], None]
) -> None:
    cluster = Cluster([Lost(), Answer("done")], stored=False)
    if kind is None:
        assert call(cluster, verb, stored).result(SECONDS) == "done"
    else:
        with pytest.raises(kind):
            call(cluster, verb, stored).result(SECONDS)
        assert cluster.tries == 1


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
    made = call(cluster)
    later(seconds)
    made.expire(lambda place: silent)
    assert made.done() is ends
    if ends:
        with pytest.raises(ModelUnavailable, match="its actor does not answer"):
            made.result()
    waiting.set_result(packed(Answer("late")))  # and harms nobody
    assert made.exception() is not None if ends else made.result() == "late"
    assert cluster.open == set()


# -- the office --------------------------------------------------------------------------------------------------------


@dataclass
class Subject:
    """A model as an office knows it."""

    stored: str
    place: Place = PLACE
    spec: ModelSpec = field(default_factory=lambda: SPEC)
    heard: list[Any] = field(default_factory=list)
    rows: int = 0
    is_lost: bool = False
    state: ServingState = "live"

    def hear(self, view: Any, at: float) -> None:
        self.heard.append(view)
        self.is_lost = False

    def hold(self, copy: Any) -> None:
        self.heard.append(copy)

    def taken(self) -> int:
        rows, self.rows = self.rows, 0
        return rows


@dataclass
class Shelf:
    """The models of an office."""

    models: dict[str, Subject]

    def by_name(self) -> dict[str, Subject]:
        return dict(self.models)

    def holds(self, stored: str) -> bool:
        return not stored.startswith("feed.")

    def learn(self, found: StoredModel) -> Subject:
        return self.models.setdefault(found.id, Subject(found.id))

    def drop(self, stored: str) -> None:
        del self.models[stored]


class Watched(Cluster):
    """A cluster whose actor is watched: what it was asked, and a call that is answered when a test says."""

    def __init__(self) -> None:
        super().__init__([])
        self.asked: list[Any] = []
        self.waiting: list[Future[bytes]] = []

    @property
    def watch(self) -> Any:
        def remote(*arguments: Any) -> Any:
            self.asked.append(arguments)
            told: Future[bytes] = Future()
            self.waiting.append(told)
            return SimpleNamespace(future=lambda: told)

        return SimpleNamespace(remote=remote)

    def tell(self, news: News) -> None:
        self.waiting.pop(0).set_result(packed(news))


@pytest.fixture
def office() -> Office:
    """An office of one shelf, which has joined no cluster."""
    made = object.__new__(Office)
    stored = [StoredModel("m", b""), StoredModel("n", b""), StoredModel("feed.f", b"")]
    shelf = Shelf({name: Subject(name) for name in ("m", "n")})
    vars(made).update(
        settings=SimpleNamespace(lease_seconds=5.0),
        health=SimpleNamespace(store_call=lambda operation: threading.Lock()),
        store=SimpleNamespace(models=lambda: stored),
        cluster=Watched(),
        open=set(),
        _watches={},
        _shelves=[shelf],
        _stopped=threading.Event(),
    )
    return made


def subjects(office: Office) -> dict[str, Any]:
    return dict(office._shelves[0].by_name())


def test_an_office_hears_of_those_that_an_actor_names_and_asks_for_more(office: Office) -> None:
    cluster = cast(Watched, office.cluster)
    subjects(office)["m"].rows = 7
    office._ask_for_news()
    office._ask_for_news()  # which is asked already
    assert cluster.asked == [("", 0, {"m": 7})]
    cluster.tell(News("one", 4, {"m": view(2, 4)}, frozenset({"m"})))
    assert (subjects(office)["m"].heard, subjects(office)["n"].heard) == ([view(2, 4)], [])
    assert cluster.asked[1:] == [("one", 4, {})]
    cluster.tell(News("one", 5, {}, frozenset({"m"})))
    assert subjects(office)["m"].heard == [view(2, 4), view(2, 4)]  # the same as before, and that it is so now
    late = Subject("m")
    office.told_of(late)
    assert late.heard == [view(2, 4)]
    cluster.tell(News("two", 1, {}, frozenset()))
    late = Subject("m")
    office.told_of(late)
    assert late.heard == []  # nothing is known of what lives there no more


def test_an_actor_that_is_lost_is_said_to_be_and_asked_again(office: Office) -> None:
    cluster = cast(Watched, office.cluster)
    office._ask_for_news()
    cluster.waiting.pop(0).set_exception(Lost())
    assert cluster.lost_ones == ["Lost"]
    assert all(subject.is_lost for subject in subjects(office).values())
    office._ask_for_news()
    assert len(cluster.asked) == 2


def test_what_the_store_has_is_known_and_what_it_has_no_more_is_dropped(office: Office) -> None:
    office.store.models = lambda: [StoredModel("n", b""), StoredModel("k", b""), StoredModel("feed.f", b"")]  # type: ignore[method-assign]
    office._look()
    assert set(subjects(office)) == {"n", "k"}


def test_a_model_that_is_being_made_is_not_dropped(office: Office) -> None:
    office.store.models = list  # type: ignore[method-assign]
    office.open.add(Call(cast(Any, office), PLACE, Asked("id", "m", "create"), SPEC, 0.0, None))
    office._look()
    assert set(subjects(office)) == {"m"}


def test_an_actor_is_silent_that_said_nothing_for_a_lease(office: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    assert office._is_silent(PLACE)
    now = [100.0]
    monkeypatch.setattr("livesvm.service.ray.office.time", SimpleNamespace(monotonic=lambda: now[0]))
    office._ask_for_news()
    now[0] += 5.0
    assert not office._is_silent(PLACE)
    now[0] += 0.1
    assert office._is_silent(PLACE)
    cast(Watched, office.cluster).tell(News("one", 1, {}, frozenset()))
    assert not office._is_silent(PLACE)


def test_what_comes_with_an_answer_is_heard_with_its_copy(office: Office) -> None:
    office.saw("m", view(2), cast(Any, "copy"))
    office.saw("n", None, cast(Any, "copy"))  # it is gone
    office.saw("unknown", view(2), None)
    assert (subjects(office)["m"].heard, subjects(office)["n"].heard) == ([view(2), "copy"], [])


@pytest.mark.parametrize("error", [ActorDiedError(), ActorUnavailableError("away", None)])
def test_a_lost_actor_has_no_line_and_one_that_is_dead_is_looked_for_anew(error: Exception) -> None:
    cluster, lines = object.__new__(RealCluster), list[str]()
    vars(cluster).update(_actors={PLACE.name: "actor"}, lines=SimpleNamespace(lose=lines.append))
    cluster.lost(PLACE, error)
    assert lines == [PLACE.name]
    assert cluster.known(PLACE) == (None if isinstance(error, ActorDiedError) else "actor")


@pytest.mark.parametrize(
    ("answer", "is_up", "joins"),
    [
        ([True], True, False),
        ([False], True, True),
        (RuntimeError("RPC error: WrongClusterID: it has restarted"), True, True),
        (RuntimeError("Timed out while waiting for GCS to become available."), False, False),
    ],
)
def test_a_cluster_is_joined_anew_by_who_is_not_known_there_and_a_head_that_is_away_is_waited_for(
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


def test_calls_under_way_are_sent_again_where_the_cluster_was_joined_anew(later: Callable[[float], None]) -> None:
    cluster = Cluster([Answer("done")])
    waiting: Future[bytes] = Future()
    first = cluster._answered
    cluster._answered = lambda message: SimpleNamespace(future=lambda: waiting)  # type: ignore[method-assign]
    made = call(cluster)
    cluster._answered = first  # type: ignore[method-assign]
    made.lost()
    assert made.result(SECONDS) == "done"
