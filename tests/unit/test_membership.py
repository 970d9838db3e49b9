"""Calls of Ray and the leaving of its cluster do not meet; what readiness says of a head, and of standbys."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from livesvm.service.models.types import ServingState
from livesvm.service.monitoring.health import CLUSTERLESS, HEADLESS, STANDS_BY, Health
from livesvm.service.monitoring.metrics import Metrics
from livesvm.service.ray import cluster
from livesvm.service.ray.membership import Membership, NotJoined
from livesvm.service.store.base import StoreUnavailable
from tests.contract.redis_server import free_port

SECONDS = 10.0


def test_a_cluster_is_left_when_calls_have_ended_and_no_other_begins() -> None:
    membership, left = Membership(), threading.Event()

    def leave() -> None:
        membership.close()
        left.set()

    with membership.inside():
        leaving = threading.Thread(target=leave)
        leaving.start()
        while membership._is_open:
            pass
        with pytest.raises(NotJoined), membership.inside():
            raise AssertionError
        assert not left.is_set()
    assert left.wait(SECONDS)
    leaving.join()
    with pytest.raises(NotJoined), membership.inside():
        raise AssertionError
    membership.open()
    with membership.inside():
        pass


class Reference:
    """A reference to an object of Ray, which notes whether it was dropped as a call within the membership."""

    def __init__(self, membership: Membership, dropped: list[int]) -> None:
        self._membership, self._dropped = membership, dropped

    def __del__(self) -> None:
        self._dropped.append(self._membership._calls)


def test_references_are_dropped_by_members_only(monkeypatch: pytest.MonkeyPatch) -> None:
    membership, dropped = Membership(), list[int]()
    monkeypatch.setattr(cluster, "MEMBERSHIP", membership)
    ended, late = (SimpleNamespace(object_ref=Reference(membership, dropped)) for _ in range(2))
    cluster._let_go(ended)
    assert (ended.object_ref, dropped) == (None, [1])
    membership.close()
    cluster._let_go(late)
    assert (late.object_ref, dropped) == (None, [1])
    membership.open()
    assert dropped == [1]


def test_an_answer_is_not_waited_for_once_the_cluster_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    membership, dropped, looks = Membership(), list[int](), list[int]()

    def wait(held: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        looks.append(membership._calls)
        if len(looks) == 2:
            membership._is_open = False  # as a thread that leaves begins to
        return ([], held) if len(looks) < 4 else (held, [])

    monkeypatch.setattr("livesvm.service.ray.membership.ray.wait", wait)
    monkeypatch.setattr("livesvm.service.ray.membership.ray.get", lambda held: "answer")
    with pytest.raises(NotJoined):
        membership.answer(lambda: Reference(membership, dropped))
    assert (looks, dropped) == ([1, 1], [])
    membership.open()
    assert membership.answer(lambda: Reference(membership, dropped)) == "answer"
    assert (looks, dropped) == ([1, 1, 1, 1], [1])


def test_a_head_that_is_away_leaves_a_front_end_ready_and_is_reported() -> None:
    metrics, is_up = Metrics(), [True]
    health = Health(metrics)
    health.states = lambda: {"live": 1}
    health.head_is_up = lambda: is_up[0]
    metrics.show(ray_head_up=health.head_is_up)
    assert CLUSTERLESS not in health.reasons()
    is_up[0] = False
    assert CLUSTERLESS in health.reasons()  # before it has begun, it is waited for
    is_up[0] = True
    health.restored()
    assert (health.reasons(), health.degraded()) == ([], [])
    assert "livesvm_ray_head_up 1.0" in metrics.render().decode()
    is_up[0] = False
    assert (health.reasons(), health.degraded()) == ([], [HEADLESS])
    assert "livesvm_ray_head_up 0.0" in metrics.render().decode()


def test_a_cluster_that_is_not_there_is_waited_for_and_said_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    membership, joined = Membership(), list[str]()
    monkeypatch.setattr(cluster, "MEMBERSHIP", membership)
    settings: Any = SimpleNamespace(
        ray="nonsense", redis_prefix="p", ray_seconds=20.0, ray_predictions="snapshot", ray_stale_seconds=0.0
    )
    with pytest.raises(StoreUnavailable, match="LIVESVM_RAY is 'nonsense'"):
        cluster.Cluster(settings)
    settings.ray = f"127.0.0.1:{free_port()}"
    waiting = cluster.Cluster(settings)
    monkeypatch.setattr(cluster, "canonicalize_bootstrap_address_or_die", str)
    monkeypatch.setattr("livesvm.service.ray.cluster.ray.init", lambda **how: joined.append(how["address"]))
    assert [waiting.look(), waiting.look()] == [False, False]
    assert (waiting.head_is_up, joined, len(caplog.records)) == (False, [], 1)
    with pytest.raises(NotJoined), membership.inside():
        raise AssertionError
    with socket.create_server(("127.0.0.1", int(settings.ray.rpartition(":")[2]))):
        monkeypatch.setattr(cluster, "GcsClient", lambda address: None)
        context = SimpleNamespace(get_node_id=lambda: "00" * 28, gcs_address="")
        monkeypatch.setattr("livesvm.service.ray.cluster.ray.get_runtime_context", lambda: context)
        assert waiting.look()
    assert (waiting.head_is_up, joined) == (True, [settings.ray])
    with membership.inside():
        pass


def test_one_that_stands_by_serves_once_it_takes_the_calls() -> None:
    health, states = Health(Metrics()), dict[ServingState, int]()
    health.states = lambda: Counter(states)
    health.learnt_active("another")
    assert not health.stands_by  # it is still being restored
    health.restored()
    assert (health.reasons(), health.unserving(), health.stands_by) == ([STANDS_BY], [STANDS_BY], True)
    states["held"] = 1
    assert health.unserving() == ["1 of 1 models are held by another service"]
    health.learnt_active("")
    assert health.stands_by  # an older version that does not say so has it
    states["live"] = 1
    assert (health.reasons(), health.unserving(), health.stands_by) == ([], [], False)
    health.stopping()
    assert (health.unserving(), health.stands_by) == (["the service is stopping"], False)


@pytest.mark.parametrize(
    ("state", "serves", "learns"),
    [
        ("live", True, True),
        ("behind", True, False),
        ("held", False, False),
        ("fenced", False, False),
        ("failed", False, False),
        ("restoring", False, False),
    ],
)
@pytest.mark.parametrize("is_away", [False, True])
def test_a_service_serves_what_memory_predicts_and_learns_what_its_store_takes(
    state: ServingState, serves: bool, learns: bool, is_away: bool
) -> None:
    health = Health(Metrics())
    health.restored()
    health.states = lambda: Counter({state: 1})
    if is_away:
        with pytest.raises(StoreUnavailable), health.store_call("append"):
            raise StoreUnavailable("gone")
    assert (not health.unserving(), not health.reasons()) == (serves, learns and not is_away)
