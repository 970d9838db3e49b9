"""Every screen, light and dark, wide and as narrow as a telephone: what axe finds wrong, and the keyboard."""

from __future__ import annotations

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from tests.browser.conftest import Open, Picture, learnt
from tests.service.process import ServiceProcess

pytestmark = pytest.mark.browser

PHONE = {"width": 360, "height": 740}
WIDE = {"width": 1280, "height": 800}
SCREENS = {
    "overview": ("", "Models"),
    "model": ("#/models/seen", "Versions"),
    "path": ("#/models/seen/path", "The path"),
    "labels": ("#/models/seen/labels", "in doubt"),
    "erase": ("#/models/seen/erase", "Verify a receipt"),
    "data": ("#/data", "Data in"),
    "webhooks": ("#/webhooks", "Webhooks"),
    "feeds": ("#/feeds", "Feeds"),
    "feed": ("#/feeds/fed", "Record"),
}


@pytest.fixture(scope="module")
def seen(service: ServiceProcess) -> str:
    """A model with everything there is to see of one."""
    with service.http() as http:
        learnt(http, "seen", 80)
        http.post("/models/seen/update", json={"remove": {"oldest": 1}}).raise_for_status()
        http.post("/feeds", json={"id": "fed", "target": "load", "window": 60}).raise_for_status()
        rows = [{"time": f"2024-01-{1 + i // 24:02}T{i % 24:02}:00", "load": float(i % 24 + i % 7)} for i in range(120)]
        http.post("/feeds/fed/observations", json={"rows": rows}).raise_for_status()
        jobs = [
            http.post("/models/seen/regularization-path", json={}).json(),
            http.post("/models/seen/suspected-labels", json={}).json(),
        ]
        for job in jobs:
            with http.stream("GET", f"/jobs/{job['id']}/events", timeout=120) as events:
                assert '"state":"done"' in events.read().decode()
    return service.url


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["wide", "phone"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", SCREENS)
def test_nothing_is_wrong_with_a_screen(
    screen: str, scheme: str, size: dict[str, int], seen: str, open_page: Open, picture: Picture
) -> None:
    address, heading = SCREENS[screen]
    page = open_page(f"{seen}/{address}", color_scheme=scheme, viewport=size)
    expect(page.get_by_role("heading", name=heading).first).to_be_visible()
    page.wait_for_timeout(300)
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    picture(page, f"{screen}-{scheme}-{size['width']}")


def test_everything_is_reached_by_the_keyboard(seen: str, http: httpx.Client, open_page: Open) -> None:
    page = open_page(seen)
    expect(page.get_by_role("link", name="seen")).to_be_visible()
    reached = []
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.textContent || document.activeElement.id"))
        if reached[-1] == "seen":
            break
    assert {"Skip to the content", "Data in", "search", "Examples", "seen"} <= set(reached)
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Restore")).to_be_visible()
    page.get_by_role("button", name="Restore").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Restore version 1")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("button", name="Restore")).to_be_focused()
    assert http.get("/models/seen").json()["version"] == 2
