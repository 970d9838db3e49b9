"""API keys: hashed, scoped, asked for everywhere but at the health checks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from livesvm.service.access.keys import SCOPES, Keys, allows, digest, key_of, new_key, parse_keys
from livesvm.service.cli.main import main
from livesvm.service.client import Client, ServiceProblem
from tests.service.process import ServiceProcess
from tests.support.waiting import until

MALFORMED = (
    "",
    "Bearer",
    "Bearer ",
    "Bearer   ",
    "KEY",
    "Basic KEY",
    "BearerKEY",
    "Bearer KEY KEY",
    "Bearer KEY,",
    'Bearer "KEY"',
    "Bearer KEY\tx",
    "Bearer \xff\xfe",
    "Bearer " + "k" * 10_000,
)
CSV = {"content-type": "text/csv"}
PAGES = ("/docs", "/redoc", "/openapi.json")
ROWS = ([[0.0, 1.0], [1.0, 0.0]], [1, -1])


def test_a_new_key_is_admitted_by_its_entry_alone() -> None:
    secret, entry = new_key("me", "learn")
    other, other_entry = new_key("you", "read")
    assert secret not in entry
    keys = parse_keys(f" {entry} , {other_entry}")
    assert (key_of(secret, keys), key_of(other, keys), key_of("guess", keys)) == (*keys, None)
    assert [key.scope for key in keys] == ["learn", "read"]
    assert keys[0].digest == digest(secret)


@pytest.mark.parametrize("held", SCOPES)
def test_each_scope_includes_those_before_it(held: str) -> None:
    assert [allows(held, needed) for needed in SCOPES] == [
        SCOPES.index(needed) <= SCOPES.index(held) for needed in SCOPES
    ]


@pytest.mark.parametrize("entry", ["x", "", " ", "a:read:12", "a:write:" + "0" * 64, "a b:read:" + "0" * 64])
def test_an_unreadable_entry_is_named(entry: str) -> None:
    good = "a:read:" + "0" * 64
    with pytest.raises(ValueError, match="entry 2"):
        parse_keys(f"{good},{entry}")


def test_the_command_makes_a_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["key", "--scope", "read", "--label", "prometheus"]) == 0
    lines = capsys.readouterr().out.splitlines()
    secret, entry = (line.split()[-1] for line in lines)
    (key,) = parse_keys(entry)
    assert (key_of(secret, (key,)), key.scope) == (key, "read")


def test_a_service_with_keys_lets_each_do_what_it_may(tmp_path: Path) -> None:
    secrets = {scope: new_key(scope, scope) for scope in SCOPES}
    entries = ",".join(entry for _, entry in secrets.values())
    with (
        ServiceProcess(tmp_path, api_keys=entries, docs_need_key=True, allowed_hosts="svm.example") as service,
        service.http() as http,
    ):
        assert http.get("/health/ready").status_code == 200
        for path in ("/models", "/metrics"):
            asked = http.get(path)
            assert (asked.status_code, asked.headers["www-authenticate"]) == (401, "Bearer")
            assert http.get(path, headers={"authorization": "Bearer guess"}).status_code == 401
        with Client(service.url, secrets["admin"][0]) as client:
            client.create_model("m")
        with Client(service.url, secrets["learn"][0]) as client:
            client.update("m", *ROWS)
            for refused in (lambda: client.create_model("n"), lambda: client.delete_model("m")):
                with pytest.raises(ServiceProblem) as caught:
                    refused()
                assert (caught.value.status, caught.value.type) == (403, "urn:livesvm:problem:forbidden")
        with Client(service.url, secrets["read"][0]) as client:
            assert client.predict("m", ROWS[0])["version"] == 1
            with pytest.raises(ServiceProblem):
                client.update("m", *ROWS)
        bearer = {"authorization": f"Bearer {secrets['read'][0]}"}
        assert "livesvm_ready" in http.get("/metrics", headers=bearer).text
        for malformed in MALFORMED:
            token = malformed.replace("KEY", secrets["admin"][0])
            answer = service.raw(f"GET /models HTTP/1.1\nhost: localhost\nauthorization: {token}\nconnection: close")
            assert answer.startswith(b"HTTP/1.1 401"), malformed
            assert b"urn:livesvm:problem:unauthorized" in answer
        admin = {"authorization": f"bearer {secrets['admin'][0]}"}
        for page in PAGES:
            assert (http.get(page).status_code, http.get(page, headers=bearer).status_code) == (401, 200)
            assert (http.options(page).status_code, http.head(page).status_code) == (401, 401)
        assert http.get("/models", headers=bearer | {"host": "svm.example"}).status_code == 200
        assert http.get("/models", headers=bearer | {"host": "evil.example"}).status_code == 421
        elsewhere = admin | {"origin": "http://page.example", "sec-fetch-site": "cross-site"}
        assert http.post("/models/m/checkpoint", headers=elsewhere).status_code == 200  # a page that was given a key


def put(place: Path, version: str, text: str) -> None:
    """Write a file of keys as Kubernetes does: in a new directory, to which a link leads from then on."""
    (place / version).mkdir()
    (place / version / "api-keys").write_text(text)
    (place / "fresh").symlink_to(version)
    (place / "fresh").replace(place / "..data")


def test_keys_are_changed_without_a_restart(tmp_path: Path) -> None:
    (admin, admin_entry), (old, old_entry), (new, new_entry), (sender, sender_entry) = (
        new_key(label, scope)
        for label, scope in (("boss", "admin"), ("gauge-1", "read"), ("gauge-2", "read"), ("files", "learn"))
    )
    given = (("boss", admin), ("1", old), ("2", new), ("3", sender))
    by = {name: {"authorization": f"Bearer {secret}"} for name, secret in given}
    place = tmp_path / "keys"
    place.mkdir()
    put(place, "a", f"# callers\n{admin_entry}\n\n{old_entry}\n{sender_entry}\n")
    (place / "api-keys").symlink_to("..data/api-keys")
    ended: list[str] = []
    with (
        ServiceProcess(tmp_path / "data", api_keys_file=place / "api-keys", streams=2) as service,
        service.http() as http,
    ):

        def watch() -> None:
            with service.http() as other, other.stream("GET", "/events", headers=by["1"]) as stream:
                for _ in stream.iter_lines():
                    ended[:1] = ["it began"]
            ended.append("it ended")

        watching = threading.Thread(target=watch, daemon=True)
        watching.start()
        until(lambda: ended, 20)
        with service.http() as other:
            refused = other.get("/events", headers=by["1"])
            assert (refused.status_code, "LIVESVM_STREAMS" in refused.json()["detail"]) == (429, True)
            with other.stream("GET", "/events", headers=by["boss"]) as stream:  # the place that one key leaves
                assert stream.status_code == 200
        assert http.get("/models", headers=by["2"]).status_code == 401
        uploads: list[int] = []
        removed = threading.Event()

        def upload() -> None:
            def body() -> Iterator[bytes]:
                yield b"1,2,3\n"
                removed.wait(20)
                yield b"4,5,6\n"

            with service.http() as other:
                uploads.append(other.put("/datasets/d", content=body(), headers=by["3"] | CSV).status_code)

        uploading = threading.Thread(target=upload, daemon=True)
        uploading.start()
        put(place, "b", f"{admin_entry}\n{old_entry}\n{new_entry}\n")
        until(lambda: http.get("/models", headers=by["2"]).status_code == 200, 20)
        shown = http.get("/metrics", headers=by["boss"]).text
        last = {label: float(last_used(shown, label)) for label in ("gauge-1", "gauge-2")}
        assert 0 < last["gauge-1"] <= last["gauge-2"]
        removed.set()
        uploading.join(20)
        assert uploads == [401]
        put(place, "c", f"{admin_entry},{new_entry}\n")
        until(lambda: http.get("/models", headers=by["1"]).status_code == 401, 20)  # on a connection that is kept
        watching.join(20)
        assert ended == ["it began", "it ended"]
        assert "gauge-1" not in http.get("/metrics", headers=by["boss"]).text
        for number, text in enumerate((f"{admin_entry}\n{new_entry[:-1]}\n", "", "\n# none\n", "\x00" * 2**21)):
            put(place, f"broken-{number}", text)
            trouble = f"API keys are those of before: {'line 2 of ' if number == 0 else ''}{place / 'api-keys'}"
            until(lambda trouble=trouble: trouble in degraded(http), 20)  # type: ignore[misc]
            assert http.get("/models", headers=by["2"]).status_code == 200
        put(place, "d", admin_entry)
        until(lambda: not degraded(http), 20)
        assert http.get("/models", headers=by["2"]).status_code == 401
    assert "added none; removed gauge-1 (read)" in service.errors
    assert not any(part in service.errors for part in (new_entry[-60:-1], admin_entry[-60:], old, new))


def degraded(http: httpx.Client) -> str:
    return " ".join(http.get("/health/ready").json().get("degraded") or ())


def last_used(metrics: str, label: str) -> str:
    (line,) = (line for line in metrics.splitlines() if "api_key_last_used" in line and f'"{label}"' in line)
    return line.split()[-1]


def test_a_key_that_changes_its_scope_is_another_one(tmp_path: Path) -> None:
    file, (secret, entry) = tmp_path / "keys", new_key("me", "admin")
    file.write_text(entry)
    keys = Keys("", str(file))
    before = keys.find(secret)
    file.write_text(entry.replace("admin", "read"))
    keys.look()
    assert before not in keys.known
    assert [key.scope for key in keys.known] == ["read"]
    file.unlink()
    keys.look()
    assert "No such file" in str(keys.trouble)
    assert keys.find(secret) == keys.known[0]
    with pytest.raises(FileNotFoundError):
        Keys("", str(file))
