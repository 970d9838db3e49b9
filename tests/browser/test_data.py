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
    expect(page.get_by_label("Drop a CSV file here")).to_be_visible()
    page.evaluate(drop, text)
    expect(page.get_by_role("heading", name="My Data.csv: 80 rows, 4 columns")).to_be_visible()
    expect(page.get_by_text("classes: “no”, “yes”, from 2 features")).to_be_visible()
    page.get_by_label("Key", exact=True).select_option(label="day (words)")
    assert page.get_by_label("Name").input_value() == "my-data"
    picture(page, "data")
    page.get_by_role("button", name="Make the model").dblclick()
    expect(page.get_by_role("heading", name="my-data", exact=True)).to_be_visible()
    reported = http.get("/models/my-data").json()
    assert (reported["task"], reported["n_examples"], reported["n_features"]) == ("svc", 79, 2)
    right = http.post("/models/my-data/predict", json={"X": [[1.5, 1.5], [-1.5, -1.5]]}).json()["prediction"]
    assert right == ["yes", "no"]
    assert reported["scale"] == "standard"
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
    page.get_by_label("Drop a CSV file here").set_input_files(path)
    expect(page.get_by_text("values of column 121, from 120 features of 300 rows")).to_be_visible()
    page.get_by_label("Window").fill("250")
    page.get_by_role("button", name="Make the model").click()
    expect(page.get_by_role("heading", name="wide", exact=True)).to_be_visible()
    reported = http.get("/models/wide").json()
    assert (reported["task"], reported["n_examples"], reported["n_features"]) == ("svr", 250, 120)
    assert reported["version"] > 1


def test_what_is_no_table_is_said(service: ServiceProcess, open_page: Open, tmp_path: Path) -> None:
    page = open_page(f"{service.url}/#/data")
    for text, said in (("", "no rows"), ("a,b\n1,2\n3\n", "Row 2 has 1 columns, the first has 2")):
        path = tmp_path / "bad.csv"
        path.write_text(text)
        page.get_by_label("Drop a CSV file here").set_input_files(path)
        expect(page.get_by_role("alert")).to_contain_text(said)
