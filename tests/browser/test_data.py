"""A file becomes a model."""

from __future__ import annotations

from pathlib import Path

import httpx
import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open, Picture
from tests.service.process import ServiceProcess

pytestmark = pytest.mark.browser


def test_a_file_that_is_dropped_becomes_a_model(
    service: ServiceProcess, http: httpx.Client, open_page: Open, picture: Picture
) -> None:
    rng = np.random.default_rng(0)
    rows = [
        f'"day {i}";{a!r};{b!r};{"yes" if a + b > 0 else "no"}'
        for i, (a, b) in enumerate(rng.normal(size=(80, 2)).tolist())
    ]
    rows[7] = '"day 7";;1.0;no'  # a gap
    text = "day;height;width;label\r\n" + "\r\n".join(rows) + "\r\n"
    page = open_page(f"{service.url}/#/data")
    drop = """(text) => {
        const transfer = new DataTransfer();
        transfer.items.add(new File([text], "My Data.csv", { type: "text/csv" }));
        const drop = new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true });
        document.querySelector(".drop").dispatchEvent(drop);
    }"""
    expect(page.get_by_label("Drop a file here")).to_be_visible()
    page.evaluate(drop, text)
    expect(page.get_by_role("heading", name="My Data.csv: 80 rows, 4 columns")).to_be_visible()
    expect(page.get_by_text("classes: “no”, “yes”, from 3 columns of 80 rows")).to_be_visible()
    page.get_by_label("Key", exact=True).select_option(label="day (words)")
    expect(page.get_by_text("classes: “no”, “yes”, from 2 columns of 80 rows")).to_be_visible()
    assert page.get_by_label("Name").input_value() == "my-data"
    picture(page, "data")
    page.get_by_role("button", name="Make a model").dblclick()
    expect(page.get_by_role("heading", name="my-data", exact=True)).to_be_visible()
    reported = http.get("/models/my-data").json()
    assert (reported["task"], reported["n_examples"], reported["n_features"]) == ("svc", 80, 2)
    probe = [{"height": 1.5, "width": 1.5}, {"height": -1.5, "width": -1.5}]
    assert http.post("/models/my-data/predict", json={"rows": probe}).json()["prediction"] == ["yes", "no"]
    assert [one["kind"] for one in reported["columns"]] == ["number", "number"]
    http.post("/models/my-data/update", json={"remove": {"keys": ["day 79"]}}).raise_for_status()


def test_numbers_become_a_regression_in_several_updates(
    service: ServiceProcess, http: httpx.Client, open_page: Open, tmp_path: Path
) -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, size=(300, 120))
    table = np.column_stack([X, X[:, 0]])
    path = tmp_path / "wide.csv"
    np.savetxt(path, table, delimiter=",", fmt="%.17g")
    page = open_page(f"{service.url}/#/data")
    page.get_by_label("Drop a file here").set_input_files(path)
    expect(page.get_by_text("values of column121, from 120 columns of 300 rows")).to_be_visible()
    page.get_by_label("Window").fill("250")
    page.get_by_role("button", name="Make a model").click()
    expect(page.get_by_role("heading", name="wide", exact=True)).to_be_visible(timeout=120_000)
    reported = http.get("/models/wide").json()
    assert (reported["task"], reported["n_examples"], reported["n_features"]) == ("svr", 250, 120)
    assert reported["version"] > 1


def test_what_is_no_table_is_said(
    service: ServiceProcess, open_page: Open, expected: list[str], tmp_path: Path
) -> None:
    expected.append("422")
    page = open_page(f"{service.url}/#/data")
    for text, said in (("", "is empty"), ("a,b\n1,2\n3\n" + "4,5\n" * 9, "has 1 columns, the first line has 2")):
        path = tmp_path / "bad.csv"
        path.write_text(text)
        page.get_by_label("Drop a file here").set_input_files(path)
        expect(page.get_by_role("alert")).to_contain_text(said)


def test_customers_become_a_model(service: ServiceProcess, http: httpx.Client, open_page: Open) -> None:
    rng = np.random.default_rng(2)
    plans = rng.choice(["free", "gold"], 540)
    calls = ["" if at % 9 == 0 else str(at % 7) for at in range(540)]
    days = [f"{1 + at % 28:02d}.03.2024" for at in range(540)]
    left = ["ja" if at % 7 > 3 else "nein" for at in range(540)]
    lines = map(";".join, zip(plans, calls, days, left, strict=True))
    page = open_page(f"{service.url}/#/data")
    text = "\n".join(["Tarif;Anrufe;seit;geht", *lines]).encode("utf-16")
    page.get_by_label("Drop a file here").set_input_files(
        files={"name": "Kunden.csv", "mimeType": "text/csv", "buffer": text}
    )
    page.get_by_label("Target").select_option(label="geht (words)")
    page.get_by_role("button", name="Make a model").click()
    expect(page.get_by_role("heading", name="kunden", exact=True)).to_be_visible(timeout=120_000)
    reported = http.get("/models/kunden").json()
    assert (reported["task"], reported["n_examples"]) == ("svc", 540)
    assert [one["kind"] for one in reported["columns"]] == ["category", "number", "time"]
    assert (reported["tuning"]["chosen"]["reason"], reported["tuning"]["chosen"]["n_examples"]) == ("asked", 540)
    page.get_by_label("Features").fill("gold,3,2024-03-05\nfree,,")
    page.get_by_role("button", name="Predict").click()
    row = page.get_by_role("region", name="Predictions").locator("tbody tr")
    asked = [{"Tarif": "gold", "Anrufe": 3, "seit": "2024-03-05"}, {"Tarif": "free"}]
    said = http.post("/models/kunden/predict", json={"rows": asked}).json()["prediction"]
    expect(row.locator("td").nth(0)).to_have_text(said[0])
    page.get_by_role("button", name="Say why").click()
    expect(page.get_by_text("Because of")).to_be_visible()
    page.goto(f"{service.url}/#/models/kunden/path")
    page.get_by_label("Validation examples").set_input_files(
        files={"name": "Neue.csv", "mimeType": "text/csv", "buffer": text}
    )
    page.get_by_role("button", name="Walk the path").click()
    expect(page.get_by_role("slider")).to_be_visible(timeout=120_000)
    result = http.get(f"/jobs/{http.get('/jobs').json()['jobs'][-1]['id']}").json()["result"]
    assert result["validation"]["best"]["error"] < 0.2
