"""A Redis that comes back empty, or older, while memory holds more: written back, deleted, or kept as a file."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from livesvm.service.cli.main import main
from livesvm.service.client import Client
from tests.contract.redis_server import RedisServer
from tests.service.process import ServiceProcess
from tests.support.redis_services import is_ready, service_on, start_model
from tests.support.updates_under_faults import MODEL, check_whole, send
from tests.support.waiting import until

pytestmark = pytest.mark.alone(reason="of Redis without Ray")

LOST = "1 of 1 models know more than the store, which has lost it"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RedisServer]:
    with RedisServer(tmp_path / "redis") as started:
        yield started


def state(http: httpx.Client) -> str:
    return str(http.get("/models/m").json()["state"])


def restart_empty(server: RedisServer) -> None:
    server.kill()
    for path in server.directory.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    server.start()


def write_back(http: httpx.Client) -> httpx.Response:
    return http.post("/models/m/writeback")


def test_a_model_is_written_back_to_a_redis_that_came_back_empty(server: RedisServer, tmp_path: Path) -> None:
    with service_on(server, tmp_path) as service, service.http() as http:
        start_model(http, 3)
        assert write_back(http).json() | {"seconds": 0} == {"version": 3, "written": False, "seconds": 0}
        restart_empty(server)
        until(lambda: state(http) == "behind")
        until(lambda: http.get("/health/ready").json().get("reasons") == [LOST])
        assert send(http, 3).json()["type"] == "urn:livesvm:problem:store-behind"
        with Client(service.url) as client:
            assert client.write_back("m")["written"] is True
            assert client.write_back("m")["written"] is False
        until(lambda: is_ready(http))
        assert send(http, 3).json()["version"] == 4
        service.kill()
    with service_on(server, tmp_path) as service, service.http() as http:
        check_whole(http, [0, 1, 2, 3])
        assert send(http, 3).headers["idempotent-replayed"] == "true"


def test_a_model_is_written_back_over_an_older_backup_of_another_process(server: RedisServer, tmp_path: Path) -> None:
    """The backup names a writer that is no more, with an epoch of then; nothing but the call replaces memory by it."""
    with service_on(server, tmp_path) as service, service.http() as http:
        start_model(http, 2)
        service.kill()
    server.kill()
    shutil.copytree(server.directory, tmp_path / "backup")
    server.start()
    with service_on(server, tmp_path) as service, service.http() as http:
        for number in (2, 3):
            send(http, number).raise_for_status()
        server.kill()
        shutil.rmtree(server.directory)
        shutil.copytree(tmp_path / "backup", server.directory)
        server.start()
        until(lambda: state(http) == "behind")
        assert send(http, 4).json()["type"] == "urn:livesvm:problem:store-behind"
        check_whole(http, [0, 1, 2, 3])
        assert write_back(http).json()["written"] is True
        assert send(http, 1).headers["idempotent-replayed"] == "true"
        assert send(http, 4).json()["version"] == 5
        service.kill()
    with service_on(server, tmp_path) as service, service.http() as http:
        check_whole(http, list(range(5)))


def test_a_model_that_redis_has_lost_can_be_deleted_and_made_again(server: RedisServer, tmp_path: Path) -> None:
    with service_on(server, tmp_path) as service, service.http() as http:
        start_model(http, 1)
        restart_empty(server)
        until(lambda: state(http) == "behind")
        assert http.delete("/models/m").status_code == 204
        assert http.get("/models").json()["models"] == []
        start_model(http, 1)
        server.client().hset("{livesvm}:m:m:meta", "sequence", 0)
        until(lambda: state(http) == "behind")
        assert http.delete("/models/m").status_code == 204
        assert server.client().hkeys("{livesvm}:models") == [b""]


def test_what_another_service_has_or_what_is_more_is_not_replaced(server: RedisServer, tmp_path: Path) -> None:
    first, second = service_on(server, tmp_path / "1"), service_on(server, tmp_path / "2")
    with first, first.http() as one:
        start_model(one, 2)
        first.signal(signal.SIGSTOP)
        with second, second.http() as two:
            until(lambda: is_ready(two))
            first.signal(signal.SIGCONT)
            until(lambda: state(one) == "fenced")
            refused = write_back(one)
            assert (refused.status_code, refused.json()["type"]) == (409, "urn:livesvm:problem:writeback-refused")
            assert not is_ready(one)
            assert send(two, 2).json()["version"] == 3
            server.client().hset("{livesvm}:m:m:meta", "sequence", 1)
            until(lambda: state(two) == "behind")
            assert write_back(one).status_code == 409
            assert write_back(two).json()["version"] == 3
            assert second.stop() == 0


def test_a_service_that_stops_keeps_what_its_store_has_lost(
    server: RedisServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with service_on(server, tmp_path) as service, service.http() as http:
        start_model(http, 3)
        server.client().flushall()
        assert service.stop() == 0  # at once, before it may have been noticed
        kept = tmp_path / "unstored" / "m-3.model"
        assert f"is kept in {kept}: livesvm store put brings it back" in service.errors
    with service_on(server, tmp_path) as service, service.http() as http:
        assert http.get("/models").json()["models"] == []
        assert f"{kept} holds a model that its store had lost" in service.errors
        service.kill()
    assert main(["store", "put", str(kept), server.url]) == 0
    assert capsys.readouterr().out == "m: version 3, up to record 3\n"
    with service_on(server, tmp_path) as service, service.http() as http:
        check_whole(http, [0, 1, 2])
        assert send(http, 3).json()["version"] == 4
        service.stop()
    assert main(["store", "put", str(kept), server.url]) == 1
    assert "the store has more than what is to be written" in capsys.readouterr().err


def test_the_file_comes_back_into_the_embedded_store_too(server: RedisServer, tmp_path: Path) -> None:
    with service_on(server, tmp_path) as service, service.http() as http:
        start_model(http, 2)
        server.client().flushall()
        service.stop()
    assert main(["store", "put", str(tmp_path / "unstored" / "m-2.model"), str(tmp_path / "new")]) == 0
    with ServiceProcess(tmp_path / "new") as service, service.http() as http:
        check_whole(http, [0, 1])
        assert http.get("/models/m").json()["kernel"]["gamma"] == MODEL["kernel"]["gamma"]  # type: ignore[index]
