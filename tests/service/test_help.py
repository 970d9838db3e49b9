"""The documentation at ``/help``: the built site as it is, or how to build it."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from pathlib import Path
from urllib.parse import urljoin

import httpx
import pytest
from fastapi import FastAPI

from livesvm.service.api import problems
from livesvm.service.api.page import help as documentation

SCRIPT = "let shown = 1;"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A built site of one page."""
    (tmp_path / "index.html").write_text(f"<title>LiveSVM</title><script>{SCRIPT}</script>")
    (tmp_path / "style.css").write_text("p {}")
    return tmp_path


def get(site: Path, path: str, **headers: str) -> httpx.Response:
    """Return the answer of an application that serves this site."""
    app = FastAPI()
    problems.install(app)
    documentation.install(app, site)

    async def ask() -> httpx.Response:
        """Ask the application itself; no port is bound."""
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
            return await client.get(path, headers=headers)

    return asyncio.run(ask())


def test_the_built_site_is_served_and_may_run_its_own_scripts_alone(site: Path) -> None:
    page = get(site, "/help/index.html")
    assert page.status_code == 200
    assert page.text.startswith("<title>LiveSVM")
    policy = page.headers["content-security-policy"]
    own = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    assert f"script-src 'self' 'sha256-{own}';" in policy
    assert "default-src 'none'" in policy
    assert get(site, "/help/style.css").text == "p {}"
    assert get(site, "/help/").headers["location"] == "/help/index.html"
    assert get(site, "/help/nothing.html").headers["content-type"] == "application/problem+json"
    assert get(site, "/help/%2e%2e/secret").status_code == 404


def test_its_entrance_names_no_host(site: Path) -> None:
    answer = get(site, "/help", host="elsewhere.example")
    assert (answer.status_code, answer.headers["location"]) == (307, "/help/index.html")


@pytest.mark.parametrize("path", ["/help", "/help/", "/help/start.html"])
def test_without_a_built_site_it_says_how_to_build_one(tmp_path: Path, path: str) -> None:
    answer = get(tmp_path, path)
    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == "urn:livesvm:problem:no-documentation"
    assert "make docs" in answer.json()["detail"]
    page = get(tmp_path, path, accept="text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")
    assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert answer.json()["detail"] in page.text
    assert "style-src 'self'" in page.headers["content-security-policy"]
    links = [urljoin(f"http://proxy.example/ml{path}", link) for link in re.findall(r'href="([^"]*)"', page.text)]
    assert links == ["http://proxy.example/ml/page/style.css", "http://proxy.example/ml/docs"]
