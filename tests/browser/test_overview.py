"""The overview: it follows the service by its events, and says when the service is not well."""

from __future__ import annotations

import re

import httpx
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open, Picture, Serve, learnt
from tests.service.process import ServiceProcess
from tests.service.test_fleets import FLEET
from tests.service.test_webhooks import FEED
from tests.support.receiver import Receiver

pytestmark = pytest.mark.browser


def test_the_table_follows_events_and_is_searched_and_sorted(
    service: ServiceProcess, http: httpx.Client, open_page: Open, picture: Picture
) -> None:
    for name, n in (("alpha", 40), ("beta", 80), ("gamma", 20)):
        learnt(http, name, n)
    page = open_page(service.url)
    rows = page.locator("tbody tr")
    expect(rows).to_have_count(3)
    page.wait_for_timeout(500)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    learnt(http, "delta", 10)
    expect(rows).to_have_count(4)
    http.post("/models/alpha/update", json={"remove": {"oldest": 3}}).raise_for_status()
    expect(page.get_by_role("row", name="alpha").get_by_role("cell").nth(2)).to_have_text("37")
    http.delete("/models/delta").raise_for_status()
    expect(rows).to_have_count(3)
    assert asked == []  # one stream told it all
    picture(page, "overview")
    page.get_by_role("button", name="Examples").click()
    expect(page.get_by_role("columnheader", name="Examples")).to_have_attribute("aria-sort", "descending")
    assert page.locator("tbody th").all_inner_texts() == ["beta", "alpha", "gamma"]
    page.get_by_label("Search").fill("gam")
    expect(rows).to_have_count(1)
    expect(page.get_by_text("1 of 3 models")).to_be_visible()
    page.get_by_role("link", name="gamma").click()
    expect(page.get_by_role("heading", name="gamma")).to_be_visible()
    page.go_back()
    expect(rows).to_have_count(1)


def test_rates_are_reported_after_some_seconds(service: ServiceProcess, http: httpx.Client, open_page: Open) -> None:
    learnt(http, "rated")
    page = open_page(service.url)
    cells = page.get_by_role("row", name="rated").get_by_role("cell")
    expect(cells.nth(7)).to_have_text("\u2013")
    page.wait_for_timeout(1000)
    http.post("/models/rated/predict", json={"X": [[0.0, 0.0, 0.0]] * 30}).raise_for_status()
    http.post("/models/rated/update", json={"remove": {"oldest": 1}}).raise_for_status()
    expect(cells.nth(7)).not_to_have_text("\u2013", timeout=20_000)
    updates, rows = (float(cells.nth(i).inner_text()) for i in (7, 8))
    assert updates > 0
    assert rows == pytest.approx(30 * updates, rel=1e-3)


def test_a_service_that_stops_is_said_and_one_that_comes_back_is_followed(
    serve: Serve, open_page: Open, picture: Picture, expected: list[str]
) -> None:
    expected += ["ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING"]  # as the browser itself says of it
    service = serve()
    with service.http() as http:
        learnt(http, "steady")
    page = open_page(service.url)
    expect(page.locator("tbody tr")).to_have_count(1)
    service.kill()
    expect(page.get_by_role("alert")).to_contain_text("not heard")
    expect(page.get_by_role("alert")).to_contain_text("see that it runs")
    expect(page.locator("#connection")).to_have_text("not connected")
    picture(page, "stopped")
    again = serve(port=httpx.URL(service.url).port)
    with again.http() as http:
        learnt(http, "fresh")
    expect(page.locator("tbody tr")).to_have_count(2, timeout=20_000)
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.locator("#connection")).to_have_text("live")


def test_a_store_that_cannot_be_written_is_said_with_what_to_do(
    serve: Serve, open_page: Open, picture: Picture
) -> None:
    service = serve()
    with service.http() as http:
        learnt(http, "m")
    page = open_page(service.url)
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.get_by_role("alert")).to_have_count(0)
    for path in service.data_dir.glob("*.sqlite3*"):
        path.rename(path.with_name("away-" + path.name))
    expect(page.get_by_role("alert")).to_contain_text("LIVESVM_DATA_DIR", timeout=20_000)
    picture(page, "store-away")


def test_a_thousand_models_are_searched_and_sorted(serve: Serve, open_page: Open, picture: Picture) -> None:
    service = serve(max_models=1000)
    with service.http() as http:
        for i in range(1000):
            http.post("/models", json={"id": f"model-{i:04d}", "C": 1.0}).raise_for_status()
    page = open_page(service.url)
    expect(page.locator("tbody tr")).to_have_count(1000, timeout=20_000)
    picture(page, "thousand")
    page.get_by_label("Search").fill("model-05")
    expect(page.locator("tbody tr")).to_have_count(100)
    page.get_by_role("button", name="Model").click()
    assert page.locator("tbody th").first.inner_text() == "model-0599"


@pytest.mark.parametrize("address", ["nowhere", "/models/", "/models/a/b", "/feeds/a/b/c", "%"])
def test_an_address_of_nothing_is_said(address: str, service: ServiceProcess, open_page: Open) -> None:
    page = open_page(f"{service.url}/#{address}")
    expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()
    expect(page.locator("#connection")).to_have_text("live")
    page.get_by_role("link", name="See all models").click()
    expect(page.get_by_role("heading", name="Models")).to_be_visible()
    page.goto(f"{service.url}/#{address}")  # from a page that is there
    expect(page.get_by_role("heading", name="There is no such page")).to_be_visible()


def test_the_navigation_says_where_one_is(service: ServiceProcess, http: httpx.Client, open_page: Open) -> None:
    learnt(http, "placed")
    http.post("/feeds", json={"id": "placed", "target": "y"}).raise_for_status()
    page = open_page(service.url)
    for address, current in (
        ("/", ("Models", "page")),
        ("/models/placed", ("Models", "true")),
        ("/models/placed/labels", ("Models", "true")),
        ("/feeds", ("Feeds", "page")),
        ("/feeds/placed", ("Feeds", "true")),
        ("/data", ("Data in", "page")),
    ):
        page.goto(f"{service.url}/#{address}")
        here = page.locator("#nav [aria-current]")
        expect(here).to_have_text(current[0])
        expect(here).to_have_attribute("aria-current", current[1])


def test_names_are_sorted_as_a_person_counts(
    service: ServiceProcess, http: httpx.Client, open_page: Open, picture: Picture
) -> None:
    for name in ("l10", "l1", "l2"):
        learnt(http, name, 20)
    page = open_page(service.url)
    page.get_by_role("searchbox").fill("l")
    models = page.get_by_role("region", name="Models")
    names = models.get_by_role("rowheader", name=re.compile("^l[0-9]+$"))
    expect(names).to_have_text(["l1", "l2", "l10"])
    cell = models.locator("tbody tr").first.get_by_role("cell").last
    page.evaluate("Date.now = ((then) => () => then() + 1e9)(Date.now)")  # in 12 days
    expect(cell).to_have_text(re.compile("^20[0-9]{2}-[0-9]{2}-[0-9]{2}$"), timeout=20_000)
    assert cell.evaluate("cell => cell.scrollWidth <= cell.clientWidth")
    picture(page, "names")
    for name in ("l10", "l1", "l2"):
        http.post("/fleets", json={"id": name, **FLEET}).raise_for_status()
        http.post("/feeds", json={"id": f"f{name}", **FEED}).raise_for_status()
    page.goto(f"{service.url}/#/feeds")
    for table, prefix in (("Fleets", ""), ("Feeds", "f")):
        names = page.get_by_role("table", name=table).get_by_role("rowheader", name=re.compile(f"^{prefix}l[0-9]+$"))
        expect(names).to_have_text([f"{prefix}{name}" for name in ("l1", "l2", "l10")])
    for name in ("l10", "l1", "l2"):
        http.delete(f"/fleets/{name}").raise_for_status()
        http.delete(f"/feeds/f{name}").raise_for_status()


def test_webhooks_are_shown(serve: Serve, open_page: Open, picture: Picture) -> None:
    service = serve(webhook_hosts="127.0.0.1,localhost", webhook_private="true")
    page = open_page(f"{service.url}/#/webhooks")
    expect(page.get_by_text("There is no webhook yet.")).to_be_visible()
    with Receiver() as receiver, service.http() as http:
        learnt(http, "watched", 10)
        asked = {"url": receiver.url, "events": ["drift", "job.finished"], "models": ["watched"]}
        hook = http.post("/webhooks", json=asked).raise_for_status().json()
        receiver.secret = hook["secret"]
        page.reload()
        row = page.get_by_role("region", name="Webhooks").locator("tbody tr")
        expect(row).to_contain_text(hook["id"])
        cells = [receiver.url, "drift, job.finished", "watched", "0", "0"]
        expect(row.get_by_role("cell")).to_have_text([*cells, "none yet"])
        http.post(f"/webhooks/{hook['id']}/ping").raise_for_status()
        expect(row.get_by_role("cell")).to_have_text([*cells, re.compile("ago: 20[0-9]$")], timeout=20_000)
    picture(page, "webhooks")
