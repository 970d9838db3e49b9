"""Feeds on the page, from a file to live forecasts."""

from __future__ import annotations

import json
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Open, Picture
from tests.service.process import ServiceProcess
from tests.service.test_fleets import FLEET, rows

pytestmark = pytest.mark.browser


def readings(path: Path, first: int, n: int) -> Path:
    """Hourly readings of a daily wave, as a CSV file."""
    rng = np.random.default_rng(first)
    start = datetime(2024, 1, 1)
    rows = [
        f"{(start + timedelta(hours=i)).isoformat()},{10 + 3 * np.sin(i * np.pi / 12) + 0.3 * rng.normal():.4f}"
        for i in range(first, first + n)
    ]
    path.write_text("time,load\n" + "\n".join(rows) + "\n")
    return path


def test_a_file_becomes_a_feed_that_forecasts(
    service: ServiceProcess, http: httpx.Client, open_page: Open, picture: Picture, tmp_path: Path
) -> None:
    page = open_page(f"{service.url}/#/data")
    page.get_by_label("Drop a file here").set_input_files(readings(tmp_path / "load.csv", 0, 400))
    expect(page.get_by_role("button", name="Make a model")).to_be_visible()
    make = page.get_by_role("button", name="Forecast it")
    page.get_by_label("Window").fill("300")
    page.get_by_label("Steps").fill("1")
    make.dblclick()
    expect(page.get_by_role("heading", name="load", exact=True)).to_be_visible(timeout=120_000)
    is_watched(page, http, tmp_path, picture)


def is_watched(page: Page, http: httpx.Client, tmp_path: Path, picture: Picture) -> None:
    """Compare what is shown of a feed with what the API tells, before and after more readings."""
    expect(page.get_by_role("img", name="Readings of load")).to_be_visible()
    assert http.get("/feeds/load").json()["position"] == 400
    page.get_by_label("Readings", exact=True).set_input_files(readings(tmp_path / "more.csv", 400, 24))
    page.get_by_role("button", name="Add").dblclick()
    expect(page.get_by_text("24 readings accepted.")).to_be_visible(timeout=60_000)
    expect(page.locator("dt", has_text="Readings").locator("xpath=following-sibling::dd")).to_have_text("424")
    forecasts = http.get("/feeds/load/forecast").json()["forecasts"]
    rows = page.get_by_role("region", name="Forecasts").locator("tbody tr")
    expect(rows).to_have_count(len(forecasts))
    assert float(rows.first.get_by_role("cell").nth(1).inner_text()) == pytest.approx(forecasts[0]["value"], rel=1e-3)
    page.get_by_label("Representation of A").select_option("change")
    page.get_by_label("Representation of B").select_option("level")
    page.get_by_role("button", name="Compare them").dblclick()
    errors = page.get_by_role("region", name="Mean errors").locator("tbody tr")
    expect(errors).to_have_count(1, timeout=120_000)
    jobs = [job for job in http.get("/jobs").json()["jobs"] if job["kind"] == "backtest"]
    assert [job["asked"]["settings"] for job in jobs] == [{"represent": "change"}, {"represent": "level"}]
    for cell, job in zip(errors.first.get_by_role("cell").all(), jobs, strict=False):
        score = http.get(f"/jobs/{job['id']}").json()["result"]["scores"][0]
        assert float(cell.inner_text()) == pytest.approx(score["mae"], rel=1e-3)
    expect(page.get_by_role("img", name="Mean error so far")).to_be_visible()
    picture(page, "feed")
    page.get_by_role("link", name="Feeds").click()
    expect(page.get_by_role("region", name="Feeds").get_by_role("row", name="load")).to_contain_text("424")
    picture(page, "feeds")
    more = readings(tmp_path / "again.csv", 424, 6).read_bytes()
    http.post("/feeds/load/observations", content=more, headers={"content-type": "text/csv"}).raise_for_status()
    expect(page.get_by_role("region", name="Feeds").get_by_role("row", name="load")).to_contain_text("430")


def columns(path: Path, first: int, n: int, *, announced: bool = False) -> Path:
    """Hourly rows of a target, of what drives it, and of noise; or announcements of one of them."""
    rng = np.random.default_rng(first)
    start = datetime(2024, 1, 1)
    lines = ["time,warmth" if announced else "time,load,wind,warmth,noise"]
    for i in range(first, first + n):
        time, warmth = (start + timedelta(hours=i)).isoformat(), 5 * np.sin(i / 9)
        load = 10 + 3 * np.sin(i * np.pi / 12) + warmth
        lines.append(f"{time},{warmth}" if announced else f"{time},{load},{load - 1},{warmth},{rng.normal()}")
    path.write_text("\n".join(lines) + "\n")
    return path


FUTURE = """(canvas) => {
    const of = (name) => {
        const hex = getComputedStyle(document.documentElement).getPropertyValue(name).trim().slice(1);
        return [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16));
    };
    const { width, height } = canvas, { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
    const rightmost = (colour) => {
        let found = 0;
        for (let y = 0; y < 0.7 * height; y++) for (let x = found + 1; x < width; x++)
            if (colour.every((part, k) => data[4 * (y * width + x) + k] === part)) found = x;
        return found / width;
    };
    return [rightmost(of("--text")), rightmost(of("--bound"))];
}"""
"""How far to the right, as shares of a chart, readings are drawn, and what is to come."""


def test_a_feed_is_made_of_the_columns_that_are_ticked(
    service: ServiceProcess, http: httpx.Client, open_page: Open, picture: Picture, tmp_path: Path
) -> None:
    page = open_page(f"{service.url}/#/data")
    page.get_by_label("Drop a file here").set_input_files(columns(tmp_path / "plant.csv", 0, 320))
    page.get_by_label("Target").select_option(label="load (numbers)")
    expect(page.get_by_text("A feed forecasts load, 24 steps ahead, from its own past.")).to_be_visible()
    page.get_by_role("group", name="Features").get_by_label("wind").check()
    page.get_by_role("group", name="Known ahead").get_by_label("warmth").check()
    page.get_by_label("Steps").fill("x")
    page.get_by_label("Window").fill("300")
    page.get_by_role("button", name="Forecast it").click()
    assert page.evaluate("document.activeElement.validity.patternMismatch")
    page.get_by_label("Steps").fill("48")
    expect(page.get_by_text("from its own past, from wind, and from warmth as known ahead")).to_be_visible()
    picture(page, "data-feed")
    page.wait_for_timeout(1000)
    page.get_by_role("button", name="Forecast it").click()
    expect(page.get_by_role("heading", name="plant", exact=True)).to_be_visible(timeout=120_000)
    settings = http.get("/feeds/plant").json()["settings"]
    assert {name: settings[name] for name in ("features", "known", "steps")} == {
        "features": ["wind"], "known": ["warmth"], "steps": 48,
    }  # fmt: skip

    rows = page.get_by_role("region", name="Forecasts").locator("tbody tr")
    expect(rows).to_have_count(8)
    assert [int(row.get_by_role("rowheader").inner_text()) for row in rows.all()] == [1, 8, 14, 21, 28, 35, 41, 48]
    expect(rows.first.get_by_role("cell").first).to_have_text("2024-01-14 08:00")
    read, to_come = page.locator(".chart canvas").first.evaluate(FUTURE)
    assert to_come > read + 0.1  # 48 ahead of 300; the band hides the last 20
    assert to_come > 0.9
    expect(page.get_by_role("region", name="Record").get_by_role("row", name="48")).not_to_contain_text("forecast")
    expect(page.locator("dt", has_text="lags").locator("xpath=following-sibling::dd")).to_have_text("1 to 24")
    picture(page, "feed-steps")
    page.get_by_role("button", name="Show all 48 steps").first.click()
    expect(rows).to_have_count(48)

    later = columns(tmp_path / "later.csv", 320, 12, announced=True)
    page.get_by_label("Readings", exact=True).set_input_files(later)
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_text("0 readings accepted, 12 times to come announced.")).to_be_visible()
    reported = http.get("/feeds/plant").json()
    assert (reported["position"], reported["rows"]) == (320, 332)
    expect(rows).to_have_count(48)  # still, though the table was made again
    page.get_by_role("link", name="Feeds").click()
    row = page.get_by_role("region", name="Feeds").get_by_role("row", name="plant")
    expect(row).to_contain_text("1 to 48")
    expect(row.get_by_role("cell").nth(5)).to_have_text(re.compile(r"^[\d.]+ to [\d.]+$|^\u2013$"))


LABELS = """async () => {
    const texts = [], draw = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
        texts.push(text);
        draw.call(this, text, ...rest);
    };
    const { chart } = await import("/page/chart.js"), from = Date.UTC(2024, 5, 1, 20) / 1000;
    const x = Array.from({ length: 6 }, (_, i) => from + 3600 * i);
    const series = [{ label: "y", values: x.map((_, i) => i), colour: "--text" }];
    const { place, drawn } = chart("hours", x, series, { zone: "Europe/Berlin" });
    document.body.append(place);
    drawn.setSize({ width: 800, height: 240 });
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    return texts;
}"""


def test_charts_write_times_as_the_feed_does(service: ServiceProcess, open_page: Open) -> None:
    page = open_page(service.url, timezone_id="America/New_York", locale="en-US")
    expect(page.locator("#connection")).to_have_text("live")
    drawn = set(page.evaluate(LABELS))
    assert {"22:00", "00:00", "03:00", "06-02"} <= drawn
    assert not drawn & {"16:00", "10pm", "12am"}


COLUMNS_TO_COME = """canvas => {
    const { width, height } = canvas, { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
    const colour = getComputedStyle(document.documentElement).getPropertyValue("--bound").trim();
    const wanted = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
    const is = (x, y) => wanted.every((part, k) => data[4 * (y * width + x) + k] === part);
    const has = (x) => [...Array(height).keys()].some((y) => is(x, y));
    return [...Array(width).keys()].filter((x) => x > 0.8 * width && has(x)).length / width;
}"""
"""Share of a chart's columns of pixels, in its right fifth, in which there is something to come."""


def test_forecasts_of_single_steps_are_points(
    service: ServiceProcess, http: httpx.Client, open_page: Open, picture: Picture
) -> None:
    http.post("/feeds", json={"id": "apart", "target": "load", "window": 100, "steps": [1, 24]}).raise_for_status()
    rows = [{"time": f"2024-01-{1 + i // 24:02}T{i % 24:02}:00", "load": float(i % 24 + i % 7)} for i in range(160)]
    http.post("/feeds/apart/observations", json={"rows": rows}).raise_for_status()
    page = open_page(f"{service.url}/#/feeds/apart")
    page.get_by_label("Shown").select_option("100")
    expect(page.get_by_role("region", name="Forecasts").locator("tbody tr")).to_have_count(2)
    page.wait_for_timeout(500)
    picture(page, "steps-apart")
    assert 0 < page.locator(".chart canvas").first.evaluate(COLUMNS_TO_COME) < 0.05


def test_the_worst_series_of_a_fleet_is_one_click_away(
    service: ServiceProcess, http: httpx.Client, open_page: Open, picture: Picture
) -> None:
    http.post("/fleets", json={"id": "meters", **FLEET}).raise_for_status()
    http.post("/fleets/meters/observations", json={"rows": rows(("a", "Zähler 7"), 0, 75)}).raise_for_status()
    page = open_page(f"{service.url}/#/feeds")
    page.get_by_role("region", name="Fleets").get_by_role("link", name="meters").click()
    expect(page.get_by_role("region", name="All series").locator("tbody tr")).to_have_count(2)
    worst = page.get_by_role("region", name="The worst series").locator("tbody tr")
    expect(worst).to_have_count(2)
    reported = http.get("/fleets/meters").json()["worst"]
    expect(worst.first.get_by_role("rowheader")).to_have_text(reported[0]["series"])
    expect(page.get_by_role("button", name="Show more")).to_be_hidden()
    picture(page, "fleet")
    worst.filter(has_text="Zähler 7").get_by_role("link").click()
    expect(page.get_by_role("heading", name="Zähler 7")).to_be_visible()
    expect(page.get_by_role("img", name="Readings of Zähler 7")).to_be_visible()
    expect(page.get_by_role("main").get_by_role("link", name="meters")).to_be_visible()
    picture(page, "series")
    page.get_by_role("link", name="Models").click()
    http.delete("/fleets/meters").raise_for_status()


def test_a_raw_file_is_forecast_in_two_clicks_and_corrected_where_it_asks(
    service: ServiceProcess, http: httpx.Client, open_page: Open, expected: list[str], picture: Picture, tmp_path: Path
) -> None:
    expected.append("422")
    page = open_page(f"{service.url}/#/data")
    place = page.get_by_label("Drop a file here")
    place.set_input_files(files={"name": "Last.csv", "mimeType": "text/csv", "buffer": german(range(21, 29))})
    said = page.get_by_role("region", name="First rows")
    expect(said).to_contain_text("2024-01-21T00:00:00")
    expect(page.locator("dt", has_text="decimal mark").locator("xpath=following-sibling::dd")).to_have_text("comma")
    picture(page, "data-raw")
    page.get_by_role("button", name="Forecast it").click()
    expect(page.get_by_role("heading", name="last", exact=True)).to_be_visible(timeout=120_000)
    assert http.get("/feeds/last").json()["position"] == 8 * 24

    page.goto(f"{service.url}/#/data")
    place.set_input_files(files={"name": "asks.csv", "mimeType": "text/csv", "buffer": german(range(1, 9), "/")})
    expect(page.get_by_role("alert")).to_contain_text("fill in “Format of times”")
    page.get_by_label("Format of times").fill("%d/%m/%Y %H:%M")
    page.get_by_role("button", name="Read it again").click()
    expect(said).to_contain_text("2024-01-01T00:00:00")
    page.get_by_role("button", name="Make each of the 2 columns a series").click()
    page.get_by_role("button", name="Forecast every series").click()
    expect(page.get_by_role("heading", name="asks", exact=True)).to_be_visible(timeout=120_000)
    assert http.get("/fleets/asks").json()["series"] == 2


def steps(count: int, minutes: float, write: Any, *before: str) -> bytes:
    """Return a file of lines that ``write`` makes of times and numbers, below the lines ``before``."""
    times = [datetime(2024, 3, 1) + timedelta(minutes=minutes * at) for at in range(count)]
    return "\n".join([*before, *(write(when, at) for at, when in enumerate(times))]).encode()


def test_files_of_five_kinds_are_understood_corrected_and_forecast(
    service: ServiceProcess, http: httpx.Client, open_page: Open, expected: list[str], picture: Picture, tmp_path: Path
) -> None:
    page = open_page(f"{service.url}/#/data")
    place, again = page.get_by_label("Drop a file here"), page.get_by_role("button", name="Read it again")
    told = page.locator("dl").first

    def drop(name: str, content: bytes) -> None:
        """Drop a file on the page."""
        page.goto(f"{service.url}/#/data")
        page.reload()
        place.set_input_files(files={"name": name, "mimeType": "text/plain", "buffer": content})

    def forecast(kind: str, name: str) -> Any:
        """Press the button, and return the feed or fleet that it made."""
        page.get_by_role("button", name="Forecast every series" if kind == "fleets" else "Forecast it").click()
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible(timeout=120_000)
        return http.get(f"/{kind}/{name}").json()

    drop("wide.csv", steps(60, 60, lambda t, at: f"{t.isoformat()},{at % 5},{at % 7}", "time,north,south"))
    page.get_by_text("Correct what was understood").click()
    page.get_by_label("Series", exact=True).select_option("every column is one")
    again.click()
    made = forecast("fleets", "wide")
    assert (made["series"], made["position"]) == (2, 120)
    later = steps(70, 60, lambda t, at: f"{t.isoformat()},{at % 5},{at % 7}", "time,north,south")
    page.get_by_label("Readings", exact=True).set_input_files(
        files={"name": "wide.csv", "mimeType": "text/csv", "buffer": later}
    )
    page.get_by_role("button", name="Add").click()
    expect(page.get_by_text("20 readings accepted, 120 were known.")).to_be_visible()

    rows = steps(90, 30, lambda t, at: f"{'ab'[at % 2]};{t:%d.%m.%Y %H}:00;{at % 5},5", "meter;when;kWh")
    drop("long.csv", rows.replace(b".03.2024", b".12.2023"))
    expect(told).to_contain_text("2, named by meter")
    picture(page, "data-long")
    assert forecast("fleets", "long")["series"] == 2

    titles = ("Cafe,,", "Sales by Day,,", ",,", "Date,Orders,Net Sales")
    drop("titles.csv", steps(60, 1440, lambda t, at: f'{t:%m/%d/%Y},{5 + at % 9},"$1,{at + 100}.50"', *titles))
    expect(page.get_by_role("region", name="First rows")).to_contain_text("1100.50")
    assert forecast("feeds", "titles")["settings"]["target"] == "Orders"

    expected.append("422")
    drop("dates.csv", steps(12, 1440, lambda t, at: f"{t:%d/%m/%Y};{at},5", "day;load"))
    expect(page.get_by_role("alert")).to_contain_text("fill in “Format of times”")
    expect(page.get_by_label("Format of times")).to_be_focused()
    page.get_by_role("button", name="day first").click()
    expect(page.get_by_role("region", name="First rows")).to_contain_text("2024-03-02T00:00:00")
    assert forecast("feeds", "dates")["time"] == "2024-03-12T00:00:00"

    jitter = [
        {"t": f"{datetime(2024, 3, 1) + timedelta(seconds=300 * at + 97 * (at % 3))}", "v": at % 9} for at in range(90)
    ]
    drop("jitter.json", json.dumps({"readings": jitter}).encode())
    expect(told).to_contain_text("mean, every 5min")
    page.get_by_text("Correct what was understood").click()
    page.get_by_label("Grid of times").fill("last:15min")
    again.click()
    expect(told).to_contain_text("last, every 15min")
    picture(page, "data-grid")
    assert forecast("feeds", "jitter")["every"] == "15min"


def test_a_long_file_is_sent_in_pieces_and_what_is_refused_leaves_no_feed(
    service: ServiceProcess, http: httpx.Client, open_page: Open, expected: list[str], tmp_path: Path
) -> None:
    expected += ["422", "404"]
    page = open_page(f"{service.url}/#/data")
    place, forecast = page.get_by_label("Drop a file here"), page.get_by_role("button", name="Forecast it")

    def drop(name: str, content: bytes) -> None:
        """Drop a file on the page."""
        place.set_input_files(files={"name": name, "mimeType": "text/plain", "buffer": content})

    drop("minutes.csv", steps(10_400, 1, lambda t, at: f"{t:%Y-%m-%dT%H:%M},{at % 9}", "time,n"))
    expect(page.get_by_text("The newest 2,500 of the 10,400 rows are sent to it.")).to_be_visible()
    page.get_by_label("Steps").fill("1")
    page.get_by_label("Window").fill("40")
    page.get_by_label("Newest rows").fill("10200")
    forecast.click()
    expect(page.get_by_role("heading", name="minutes", exact=True)).to_be_visible(timeout=120_000)
    assert http.get("/feeds/minutes").json()["position"] == 10_200

    page.goto(f"{service.url}/#/data")
    days = [datetime.now().date() + timedelta(days=ahead) for ahead in (-2, -1, 400)]
    drop("late.csv", "\n".join(["time,n", *(f"{day},{at}" for at, day in enumerate(days))]).encode())
    page.get_by_text("Correct what was understood").click()
    page.get_by_label("Grid of times").fill("none")
    page.get_by_role("button", name="Read it again").click()
    forecast.click()
    expect(page.get_by_text("row 3 of those that are sent, time: ")).to_be_visible()
    assert http.get("/feeds/late").status_code == 404

    drop("order.csv", "\n".join(["n", *(f"{at % 7}.5" for at in range(60))]).encode())
    page.get_by_role("button", name="Forecast the rows in their order").click()
    expect(page.get_by_role("heading", name="order", exact=True)).to_be_visible(timeout=120_000)
    shown = http.get("/feeds/order").json()
    assert (shown["position"], shown["settings"]["time"], shown["settings"]["steps"]) == (60, None, 24)

    page.goto(f"{service.url}/#/data")
    drop("words.csv", b"time,n\n2024-01-01,high\n2024-01-02,low\n2024-01-03,high\n")
    expect(page.get_by_text("No forecast: no column has numbers that change.")).to_be_visible()
    drop("row.csv", steps(30, 60, lambda t, at: f"{t if at != 20 else '2024-13-45T00:00'},{at % 4}", "time,n"))
    expect(page.get_by_text("No forecast: row 21: time: is no time in ISO 8601")).to_be_visible()
    expect(forecast).to_be_hidden()


def test_more_readings_are_read_as_the_feed_has_them(
    service: ServiceProcess, http: httpx.Client, open_page: Open, expected: list[str]
) -> None:
    expected.append("422")
    http.post("/feeds", json={"id": "added", "target": "n", "steps": 2}).raise_for_status()
    http.post("/feeds/added/observations", json={"rows": [{"time": "2024-02-29", "n": 1}]}).raise_for_status()
    page = open_page(f"{service.url}/#/feeds/added")
    later = steps(9, 1440, lambda t, at: f"{t:%d/%m/%Y},{at % 4}", "Datum,n")
    page.get_by_label("Readings", exact=True).set_input_files(
        files={"name": "later.csv", "mimeType": "text/csv", "buffer": later}
    )
    page.get_by_role("button", name="Add").click()
    page.get_by_role("button", name="day first").click()
    expect(page.get_by_text("9 readings accepted.")).to_be_visible()
    assert http.get("/feeds/added").json()["time"] == "2024-03-09T00:00:00"
    page.get_by_role("button", name="Add").click()
    page.get_by_role("button", name="day first").click()
    expect(page.get_by_text("0 readings accepted, 9 were known.")).to_be_visible()


def test_what_is_served_of_what_it_is_made_and_what_was_announced_is_shown(
    service: ServiceProcess, http: httpx.Client, open_page: Open, picture: Picture
) -> None:
    rng = np.random.default_rng(4)
    wave = 1e6 + 1e5 * np.sin(np.arange(200) * np.pi / 12) + 1e4 * rng.normal(size=200)
    wave[150] = 1e9
    http.post("/feeds", json={"id": "told", "target": "n", "steps": 2, "window": 80}).raise_for_status()
    times = [f"{datetime(2024, 3, 1) + timedelta(hours=at)}" for at in range(200)]
    rows = [{"time": time, "n": value} for time, value in zip(times, wave.tolist(), strict=True)]
    http.post("/feeds/told/observations", json={"rows": rows[:79]}).raise_for_status()
    page = open_page(f"{service.url}/#/feeds/told")
    expect(page.get_by_text("filling, 79 of 80 readings")).to_be_visible()
    expect(page.get_by_text("begins once the window of 80 readings is full")).to_be_visible()
    http.post("/feeds/told/observations", json={"rows": rows[79:]}).raise_for_status()
    shown, one = http.get("/feeds/told").json(), http.get("/feeds/told/forecast").json()["forecasts"][0]
    expect(page.get_by_role("log")).to_contain_text("03-07 06:00 · suspected reading, taken as missing, value 1000")
    score = shown["recent"][0]
    cells = page.get_by_role("region", name="Record over").locator("tbody tr").first.locator("td")
    for at, name in {1: "mae", 2: "model_mae", 3: "last_value_mae", 4: "seasonal_mae", 7: "drift_evidence"}.items():
        assert float(cells.nth(at).inner_text()) == pytest.approx(score[name], rel=1e-3)
    page.get_by_text("What each expert says of step 1").click()
    of = page.get_by_role("region", name="Experts").locator("tbody tr")
    expect(of).to_have_count(len(one["experts"]))
    said = {row.locator("th").inner_text(): [cell.inner_text() for cell in row.locator("td").all()] for row in of.all()}
    for expert in one["experts"]:
        value, weight = said[expert["expert"]]
        assert float(value.replace(",", "")) == pytest.approx(expert["value"], abs=(one["high"] - one["low"]) / 100)
        assert float(weight.removesuffix(" %")) == pytest.approx(100 * expert["weight"], rel=1e-3)
    picture(page, "feed-experts")
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as CSV").click()
    assert saved.value.suggested_filename == "told.csv"
    lines = Path(saved.value.path()).read_text().splitlines()
    assert lines[:2] == ["step,time,value,low,high", f"1,{one['time']},{one['value']!r},{one['low']!r},{one['high']!r}"]


def german(days: range, mark: str = ".") -> bytes:
    """Return hours of days of January as a German spreadsheet writes them; with another mark one of each day."""
    rows = [
        (day, hour, 100 + 10 * np.sin(hour / 4), day + hour / 8)
        for day in days
        for hour in range(24 if mark == "." else 1)
    ]
    numbers = [f"{load:.2f};{warmth:.3f}".replace(".", ",") for _, _, load, warmth in rows]
    stamps = [f"{day:02d}{mark}01{mark}2024 {hour:02d}:00" for day, hour, _, _ in rows]
    lines = [f"{stamp};{cells}" for stamp, cells in zip(stamps, numbers, strict=True)]
    return "\n".join(["Netz;;", "Zeit;Last;Wärme", *lines]).encode("latin-1")
