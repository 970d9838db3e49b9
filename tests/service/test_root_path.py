"""A service under a path of a proxy that takes the path off requests, or passes it on: where its answers lead."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from starlette.routing import Mount, Route

from livesvm.service.api.app import create_app
from livesvm.service.api.edge.root_path import RootPath
from livesvm.service.process.rehearsal import REQUESTS
from livesvm.service.settings import TAKEN, Settings

ROOT = "/ml/livesvm"
HOOK = {"url": "https://hooks.example/x", "events": ["drift"]}
FLEET = {"id": "fleet", "target": "y", "series": "meter", "time": "time"}
MORE: tuple[tuple[str, str, Any], ...] = (
    ("POST", "/models/m/assessment", {"method": "k-fold", "folds": 2}),
    ("POST", "/fleets", FLEET),
    ("POST", "/webhooks", HOOK),
    ("GET", "/", None),
    ("GET", "/page/main.js", None),
    ("GET", "/help", None),
    ("GET", "/help/", None),
    ("GET", "/docs", None),
    ("GET", "/redoc", None),
    ("GET", "/static-offline-docs/swagger-ui.css", None),
    ("GET", "/openapi.json", None),
    ("GET", "/nothing", None),
    ("GET", "/models/nothing", None),
    ("POST", "/models/m/predict", {"X": "none"}),
)
NAMES = {"id": "m", "id:feed": "f", "version": "3", "name": "d", "job": "none", "extension": "svg"}
LINK = re.compile(r"""(?:href|src)=["']?(/[^"'> ]*)|["'](/[a-z][^"'\s]*)["']""")
NO_LINKS = {"/docs/oauth2-redirect"}
"""In the page of the API as its maker wrote it; nothing asks for OAuth here."""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FastAPI]:
    made = create_app(
        Settings.model_construct(
            data_dir=tmp_path_factory.mktemp("below"), root_path=ROOT, webhook_hosts="*", compile_ahead=False
        )
    )
    made.state.service.health.restored()
    yield made
    made.state.service.close()


def strings(found: Any) -> Iterator[str]:
    """Yield every text within JSON values."""
    if isinstance(found, str):
        yield found
    elif isinstance(found, dict | list):
        for one in found.values() if isinstance(found, dict) else found:
            yield from strings(one)


def links(answer: httpx.Response) -> set[str]:
    """Return all paths that an answer leads to."""
    said = [value for name, value in answer.headers.items() if name in ("location", "link", "content-location")]
    if answer.headers.get("content-type", "").startswith("text/html"):
        said += [one for found in LINK.findall(answer.text) for one in found]
    elif "json" in answer.headers.get("content-type", ""):
        said += [text for text in strings(json.loads(answer.text)) if " " not in text]
    return {one for one in said if one.startswith("/")} - NO_LINKS


def test_every_answer_leads_below_the_path(app: FastAPI) -> None:
    gets = [route.path for route in app.routes if isinstance(route, Route) and "GET" in (route.methods or ())]
    questions = [re.sub(r"\{([a-z:]+)\}", lambda part: NAMES.get(part[1], "m"), path) for path in gets]
    made = [one for one in REQUESTS if one[0] != "DELETE"]
    left = [("GET", path, None) for path in questions if not path.endswith("/events") and path != "/access"]

    async def scenario() -> set[str]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as http:
            for before in (ROOT, ""):  # as a proxy sends that passes the path on, and one that takes it off
                found: set[str] = set()
                for method, path, body in [*made, *MORE, *left]:
                    answer = await http.request(method, before + path, json=body)
                    assert answer.status_code < 500 or path == "/health/ready", (method, path, answer.text)
                    lost = {link for link in links(answer) if not f"{link}/".startswith(f"{ROOT}/")}
                    assert not lost, (method, before + path, lost)
                    found |= links(answer)
                for link in found:
                    assert (await http.get(link, follow_redirects=True)).is_success, link
                for path in ("/models/m", "/models/s", "/feeds/f", "/fleets/fleet"):
                    await http.delete(before + path)
            front = await http.get(ROOT)
            assert (front.status_code, front.headers["location"]) == (307, f"{ROOT}/")
            assert (await http.get(f"{ROOT}x/models")).status_code == 404
            document = (await http.get("/openapi.json")).json()
            assert document["servers"] == [{"url": ROOT}]
        passed_on = httpx.ASGITransport(RootPath(app, ROOT))  # as another front end, which answers what this one did
        async with httpx.AsyncClient(transport=passed_on, base_url="http://localhost") as http:
            again = await http.post(f"{ROOT}/models", json={"id": "again"})
            assert again.headers["location"] == f"{ROOT}/models/again"
        return found

    found = asyncio.run(scenario())
    kinds = {re.sub(r"^/ml/livesvm/([^/]*).*", r"\1", link) for link in found}
    assert {"jobs", "models", "feeds", "fleets", "webhooks", "static-offline-docs", "openapi.json"} <= kinds


def test_no_path_of_the_service_can_be_taken_for_the_proxys(app: FastAPI) -> None:
    paths = [route.path for route in app.routes if isinstance(route, Route | Mount)]
    assert {path.split("/")[1] for path in paths} - {""} == set(TAKEN.split("|"))


def test_the_page_asks_for_nothing_by_an_absolute_path() -> None:
    files = Path(__file__).parents[2] / "service/api/page/files"
    for file in (*files.glob("*.js"), files / "index.html"):
        text = file.read_text()
        assert not re.findall(r"""(?:href|src)(?:: |=)["'`]/(?!/)""", text), file
        assert not re.findall(r"""(?:fetch|import|EventSource)\(["'`]?/""", text), file
        assert not re.findall(r"fetch\((?!`\.\$\{path\}`)", text), file
