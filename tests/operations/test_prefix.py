"""A service under a path of nginx, which takes it off requests or passes it on: the page, both clients, commands."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, Response, expect

from livesvm.service.cli.main import main
from livesvm.service.client import AsyncClient, Client
from tests.browser.conftest import chromium
from tests.service.process import ServiceProcess
from tests.support.nginx import Nginx
from tests.support.updates_under_faults import batch

pytestmark = pytest.mark.operations

ROOT = "/ml/livesvm"
SLOW = 60_000
"""Milliseconds that a browser may take."""
SCREENS = ("/", "/feeds", "/data", "/models/m", "/models/m/path", "/models/m/labels", "/models/m/erase", "/feeds/f")


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ServiceProcess]:
    with ServiceProcess(tmp_path / "data", root_path=ROOT) as process:
        yield process


@pytest.fixture(params=["", "/"], ids=["passes it on", "takes it off"])
def nginx(service: ServiceProcess, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Nginx]:
    location = f"location {ROOT}/ {{ proxy_pass {service.url}{request.param}; }} location / {{ return 404; }}"
    with Nginx(tmp_path / "nginx", location) as made:
        yield made


def check_below(answers: list[tuple[str, int]]) -> None:
    """Check that all was asked for below the path, and found."""
    assert [(url, status) for url, status in answers if f"{ROOT}/" not in f"{url}/" or status >= 400] == []


def look_at(page: Page, url: str) -> None:
    """Open every screen, and use what streams and what asks."""
    page.goto(f"{url}{ROOT}")
    expect(page.get_by_role("link", name="m", exact=True)).to_be_visible(timeout=SLOW)
    for screen in SCREENS:
        page.goto(f"{url}{ROOT}/#{screen}")
        expect(page.get_by_role("heading", level=1)).to_be_visible(timeout=SLOW)
    page.goto(f"{url}{ROOT}/#/models/m")
    page.get_by_role("button", name="Prove it now").click()
    expect(page.get_by_text("is optimal for the")).to_be_visible(timeout=SLOW)
    with Client(f"{url}{ROOT}", verify=False) as client:
        client.update("m", remove={"oldest": 1})
    expect(page.get_by_role("log")).to_contain_text("19 examples", timeout=SLOW)
    page.get_by_role("link", name="API").click()
    expect(page.locator(".servers select")).to_have_value(ROOT, timeout=SLOW)
    assert page.url == f"{url}{ROOT}/docs"
    page.goto(f"{url}{ROOT}/redoc")
    expect(page.get_by_role("heading", name="LiveSVM")).to_be_visible(timeout=SLOW)


def test_the_page_the_clients_and_commands_stay_below_the_path(
    nginx: Nginx, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"{nginx.url}{ROOT}"
    with Client(url, verify=nginx.ca) as client:
        assert client.is_ready()
        client.create_model("m", C=10.0)
        client.update("m", **batch(0)["add"])
        client.update("m", **batch(1)["add"])
        client.create_feed("f", target="y")
        assert client.wait(client.assess("m", folds=2)["id"])["state"] == "done"
        client.put_dataset("d", b"a,b\n1,2\n", "csv", target="b")
        client.observe("f", [{"time": "2026-01-01", "y": 1.0}])

    async def awaited() -> list[str]:
        async with AsyncClient(f"{url}/", verify=nginx.ca) as client:
            return [model["id"] for model in await client.models()]

    assert asyncio.run(awaited()) == ["m"]
    monkeypatch.setenv("LIVESVM_URL", f"{url}/")
    monkeypatch.setenv("SSL_CERT_FILE", str(nginx.ca))
    assert main(["models", "list", "--json"]) == 0
    assert [model["id"] for model in json.loads(capsys.readouterr().out)] == ["m"]

    with httpx.Client(verify=False, base_url=url) as plain:
        made = plain.post("/models/m/assessment", json={"method": "k-fold", "folds": 2})
        assert made.headers["location"].startswith(f"{ROOT}/jobs/")
        assert httpx.get(f"{nginx.url}{made.headers['location']}", verify=False).is_success
        found = plain.get("/help/", follow_redirects=True)
        assert f"{ROOT}/help" in str(found.url)

    answers: list[tuple[str, int]] = []
    faults: list[str] = []

    def note(answer: Response) -> None:
        answers.append((answer.url, answer.status))

    with chromium() as browser, browser.new_context(ignore_https_errors=True) as context:
        page = context.new_page()
        page.on("response", note)
        page.on("console", lambda said: faults.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: faults.append(str(error)))
        look_at(page, nginx.url)
    check_below([answer for answer in answers if not answer[0].startswith(("data:", "blob:"))])
    assert [fault for fault in faults if "cdn.redoc.ly" not in fault] == []  # its maker's logo, which stays away
