"""Where requests go to and come from, which methods there are, and what every answer tells browsers."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from livesvm.service.access.hosts import Hosts, host_of
from tests.service.conftest import Make
from tests.service.process import ServiceProcess

OTHER_SITE = ({"origin": "http://evil.example"}, {"origin": "null"}, {"sec-fetch-site": "cross-site"})
SAME_SITE = {"sec-fetch-site": "same-site"}  # another port of this machine


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "localhost.evil.example", "127.0.0.1.nip.io"])
def test_requests_for_other_hosts_are_refused(host: str, http: httpx.Client) -> None:
    for method, path in (("GET", "/models"), ("POST", "/models"), ("GET", "/health/live"), ("GET", "/docs")):
        answer = http.request(method, path, headers={"host": host})
        assert (answer.status_code, answer.json()["type"]) == (421, "urn:livesvm:problem:wrong-host")
    assert "LIVESVM_ALLOWED_HOSTS" in answer.json()["detail"]


@pytest.mark.parametrize("host", ["localhost", "LocalHost:1", "localhost.", "127.0.0.1", "127.8.8.8:99", "[::1]:8000"])
def test_loopback_has_many_names(host: str, http: httpx.Client) -> None:
    assert http.get("/models", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("fields", ["", "\nhost: a\nhost: localhost", "\nhost: ", "\nhost: a b", "\nhost: [zz]"])
def test_a_host_is_given_once_and_well(fields: str, service: ServiceProcess) -> None:
    answer = service.raw(f"GET /models HTTP/1.1{fields}\nconnection: close")
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"malformed-request" in answer


def test_a_host_in_the_target_stands_in_place_of_the_field(service: ServiceProcess) -> None:
    for target in ("http://evil.example/", "HTTP://evil.example:8000/?a=localhost", "http://localhost.evil.example/x"):
        answer = service.raw(f"GET {target} HTTP/1.1\nhost: localhost\nconnection: close")
        assert answer.startswith(b"HTTP/1.1 421"), target
        assert b"wrong-host" in answer
    for target in ("http://localhost@evil.example/", "http://a b/"):
        assert service.raw(f"GET {target} HTTP/1.1\nhost: localhost\nconnection: close").startswith(b"HTTP/1.1 400")
    for fields in ("\nhost: localhost", "\nhost: evil.example"):  # which is then not looked at
        plain = service.raw(f"GET http://LocalHost:1/health/live HTTP/1.1{fields}\nconnection: close")
        assert plain.startswith(b"HTTP/1.1 200")
    assert service.raw("GET http://localhost/health/live HTTP/1.1\nconnection: close").startswith(b"HTTP/1.1 400")


def test_http_1_0_need_not_name_a_host(service: ServiceProcess) -> None:
    assert service.raw("GET /health/live HTTP/1.0").startswith(b"HTTP/1.1 200")
    assert service.raw("GET /health/live HTTP/1.0\nhost: evil.example").startswith(b"HTTP/1.1 421")


def test_no_answer_leads_to_another_host(http: httpx.Client) -> None:
    for path in ("/models/", "/docs/", "//evil.example", "/models/x/", "/static-offline-docs", "/static-offline-docs/"):
        answer = http.get(str(http.base_url).rstrip("/") + path, headers={"host": "localhost"})
        assert (answer.status_code, answer.headers.get("location")) == (404, None), path


@pytest.mark.parametrize("headers", [*OTHER_SITE, SAME_SITE])
def test_other_sites_change_nothing(headers: dict[str, str], http: httpx.Client, make: Make) -> None:
    model = make()
    calls: list[tuple[str, str, Any]] = [
        ("POST", f"/models/{model}/checkpoint", None),
        ("DELETE", f"/models/{model}", None),
        ("POST", "/models", {"id": "theirs"}),
        ("POST", f"/models/{model}/update", {"add": {"X": [[1.0]], "y": [1]}}),
    ]
    for method, path, body in calls:
        answer = http.request(method, path, json=body, headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (403, "urn:livesvm:problem:cross-site")
    assert http.get(f"/models/{model}", headers=headers).json()["version"] == 0
    assert http.get("/models/theirs").status_code == 404


def test_the_pages_of_this_service_may_change_what_they_like(service: ServiceProcess, http: httpx.Client) -> None:
    for headers in ({"origin": service.url, "sec-fetch-site": "same-origin"}, {"sec-fetch-site": "none"}):
        answer = http.post("/models", json={}, headers=headers)
        assert answer.status_code == 201
        http.delete(answer.headers["location"], headers=headers).raise_for_status()


@pytest.mark.parametrize(
    ("authority", "host"),
    [
        ("a.example:80", "a.example"),
        ("A.Example.", "a.example"),
        ("[::1]:80", "::1"),
        ("[0:0::1]", "::1"),
        ("127.0.0.1:", "127.0.0.1"),
        ("::1", None),
        ("", None),
        (".", None),
        ("a@b", None),
        ("a:80:80", None),
        ("a/b", None),
        ("[1.2.3]", None),
    ],
)
def test_hosts_are_read_as_written(authority: str, host: str | None) -> None:
    assert host_of(authority) == host


@pytest.mark.parametrize(
    ("listed", "bound", "ours", "not_ours"),
    [
        ("", "127.0.0.1", ("localhost", "127.0.0.2", "::1"), ("a.example", "10.0.0.1", "::2")),
        ("", "10.0.0.1", ("localhost", "10.0.0.1"), ("10.0.0.2", "a.example")),
        ("", "svm.example", ("svm.example", "127.0.0.1"), ("www.svm.example", "10.0.0.1")),
        ("a.example, B.example", "127.0.0.1", ("a.example", "b.example"), ("c.example",)),
        ("2001:db8::1", "127.0.0.1", ("2001:db8::1",), ("2001:db8::2",)),
        ("", "0.0.0.0", ("10.0.0.2", "::2", "localhost"), ("a.example",)),
        ("", "::", ("10.0.0.2", "::2", "localhost"), ("a.example",)),
        ("*", "0.0.0.0", ("a.example", "10.0.0.2"), ()),
    ],
)
def test_whose_hosts_are_ours(listed: str, bound: str, ours: tuple[str, ...], not_ours: tuple[str, ...]) -> None:
    hosts = Hosts(listed, bound)
    assert all(hosts.admit(host) for host in ours)
    assert not any(hosts.admit(host) for host in not_ours)


def allow(answer: httpx.Response) -> set[str]:
    return set(answer.headers["allow"].split(", "))


def test_methods_of_a_path_are_reported_whole(http: httpx.Client, make: Make) -> None:
    """As the OpenAPI document has them, and those that every path has."""
    make()
    for path, operations in http.get("/openapi.json").json()["paths"].items():
        filled = path.replace("{id}", "x").replace("{job}", "j-0").replace("{extension}", "svg")
        known = {method.upper() for method in operations} | {"OPTIONS"}
        known |= {"HEAD"} if "GET" in known else set()
        answer = http.options(filled)
        assert (answer.status_code, allow(answer), answer.content) == (204, known, b""), path
        for method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "TRACE"} - known:
            refused = http.request(method, filled)
            assert (refused.status_code, allow(refused)) == (405, known), (method, path)
    assert allow(http.post("/static-offline-docs/swagger-ui.css")) == {"GET", "HEAD", "OPTIONS"}
    assert http.options("/nowhere").status_code == 404


def test_heads_are_what_gets_begin_with(http: httpx.Client, make: Make) -> None:
    model = make()
    for path in (
        "/models",
        f"/models/{model}",
        "/health/ready",
        "/docs",
        "/openapi.json",
        "/nowhere",
        "/models/unknown",
    ):
        got, head = http.get(path), http.head(path)
        for answer in (got, head):
            for own in ("date", "x-request-id"):
                answer.headers.pop(own)
        assert (head.status_code, head.headers, head.content) == (got.status_code, got.headers, b"")
    endless = http.head(f"/models/{model}/events")
    assert (endless.status_code, endless.headers["content-type"].split(";")[0]) == (200, "text/event-stream")


def test_every_answer_tells_browsers_to_make_nothing_of_it(http: httpx.Client, service: ServiceProcess) -> None:
    answers = [
        http.get("/models"),
        http.get("/nowhere"),
        http.put("/models"),
        http.get("/docs"),
        http.get("/models", headers={"host": "evil.example"}),
        http.get("/models", headers={"x": "y" * 40_000}),
        http.post("/models", content=b"{", headers={"content-type": "application/json"}),
    ]
    for headers in [answer.headers for answer in answers]:
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cache-control"] == "no-store"
        assert headers["content-security-policy"].startswith("default-src 'none';")
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
    malformed = service.raw("GET  HTTP/9\nhost: localhost").lower()
    assert b"x-content-type-options: nosniff" in malformed
    assert b"content-type: application/problem+json" in malformed


@pytest.mark.parametrize("page", ["/docs", "/redoc", "/docs/oauth2-redirect"])
def test_pages_may_run_their_own_scripts_alone(page: str, http: httpx.Client) -> None:
    answer = http.get(page)
    policy = dict(part.split(" ", 1) for part in answer.headers["content-security-policy"].split("; "))
    hashes = re.findall(r"'sha256-[^']+'", policy["script-src"])
    assert len(hashes) == len(re.findall("<script>", answer.text))
    assert "unsafe" not in policy["script-src"]
    assert "'self'" in policy["script-src"]


def test_what_is_absent_may_be_null_as_the_schema_says(http: httpx.Client, make: Make) -> None:
    fields = http.get("/openapi.json").json()["components"]["schemas"]["ModelSpec"]["properties"]
    for name in ("window", "kernel"):
        assert {"type": "null"} in fields[name]["anyOf"]
    model, plain = make(window=None, kernel=None), make()
    reported = [http.get(f"/models/{id}").json() for id in (model, plain)]
    assert [each["window"] for each in reported] == [reported[1]["window"]] * 2
    assert [each["kernel"] for each in reported] == [reported[1]["kernel"]] * 2


def test_the_limit_of_features_is_the_same_in_the_schema(http: httpx.Client, make: Make) -> None:
    field = http.get("/openapi.json").json()["components"]["schemas"]["ModelSpec"]["properties"]["n_features"]
    most = next(choice["maximum"] for choice in field["anyOf"] if choice["type"] == "integer")
    make(n_features=most)
    answer = http.post("/models", json={"n_features": most + 1})
    assert (answer.status_code, answer.json()["field"]) == (422, "n_features")
    assert "LIVESVM_MAX_FEATURES" in answer.json()["reason"]
