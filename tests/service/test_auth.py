"""API keys: hashed, scoped, asked for everywhere but at the health checks."""

from __future__ import annotations

from pathlib import Path

import pytest

from livesvm.service.access.keys import SCOPES, allows, digest, key_of, new_key, parse_keys
from livesvm.service.cli.main import main
from livesvm.service.client import Client, ServiceProblem
from tests.service.process import ServiceProcess

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
