"""Feeds on the page: offered where the service has them, and nowhere else."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import httpx
import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Open, Picture
from tests.service.process import ServiceProcess

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
    page.get_by_label("Drop a CSV file here").set_input_files(readings(tmp_path / "load.csv", 0, 400))
    expect(page.get_by_role("button", name="Make the model")).to_be_visible()
    make = page.get_by_role("button", name="Make a feed that forecasts it")
    if "/feeds" not in http.get("/access").json()["paths"]:
        assert make.count() == page.get_by_role("link", name="Feeds").count() == 0
        return
    page.get_by_label("Window").fill("300")
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
    picture(page, "feed")
    page.get_by_role("link", name="Feeds").click()
    expect(page.get_by_role("region", name="Feeds").get_by_role("row", name="load")).to_contain_text("424")
    picture(page, "feeds")
