"""Erasing on the page: keys in, a warning, the receipt out as a file, and dropped on the page again."""

from __future__ import annotations

import json
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Page, expect

from livesvm.service.receipts.receipt import names, verified
from tests.browser.conftest import Open, Picture, learnt
from tests.service.process import ServiceProcess

pytestmark = pytest.mark.browser


def saved(page: Page, directory: Path) -> Path:
    """Return the receipt as the browser saves it."""
    with page.expect_download() as waiting:
        page.get_by_role("link", name="Save e-").click()
    path = directory / waiting.value.suggested_filename
    waiting.value.save_as(path)
    return path


def drop(page: Page, path: Path) -> None:
    """Drop a file on the page, as a mouse does."""
    carried = page.evaluate_handle(
        "([name, text]) => { const t = new DataTransfer(); t.items.add(new File([text], name)); return t; }",
        [path.name, path.read_text()],
    )
    page.locator(".drop").dispatch_event("drop", {"dataTransfer": carried})


def test_keys_are_erased_and_the_receipt_verifies(
    service: ServiceProcess, http: httpx.Client, open_page: Open, picture: Picture, tmp_path: Path
) -> None:
    learnt(http, "to-forget", 40)
    page = open_page(f"{service.url}/#/models/to-forget")
    page.get_by_role("link", name="Erase").click()
    expect(page.get_by_text("This cannot be undone.")).to_be_visible()
    page.get_by_role("button", name="Erase …").click()
    expect(page.get_by_text("Give at least one key.")).to_be_visible()
    page.get_by_label("Keys, one a line").fill("k3\n k7 \n\nk3\n17\n")
    page.wait_for_timeout(800)
    page.get_by_role("button", name="Erase …").click()
    expect(page.get_by_role("dialog")).to_contain_text("Erase 3 keys from to-forget for good?")
    picture(page, "erase-asked")
    page.get_by_role("button", name="Leave it as it is").click()
    expect(page.get_by_text("Nothing was erased.")).to_be_visible()
    assert http.get("/models/to-forget").json()["n_examples"] == 40

    page.wait_for_timeout(800)
    page.get_by_role("button", name="Erase …").dblclick()
    page.get_by_role("button", name="Erase for good").click()
    expect(page.get_by_text("2 of the window and all that was stored of them; version 2")).to_be_visible()
    expect(page.get_by_text("Not found: 17.")).to_be_visible()
    expect(page.get_by_role("heading", name="Receipt", exact=True)).to_be_visible()
    assert http.get("/models/to-forget").json()["n_examples"] == 38
    assert len(receipts(http, "to-forget")) == 1
    picture(page, "erase-receipt")

    file = saved(page, tmp_path)
    receipt = verified(file.read_bytes())
    assert (receipt["model"], receipt["version_after"], receipt["keys"]["count"]) == ("to-forget", 2, 2)
    assert names(receipt, "k3")
    assert not names(receipt, 17)
    drop(page, file)
    expect(page.get_by_text(f"{file.name} verifies: this service signed it.")).to_be_visible()
    picture(page, "erase-verified")

    of_model = open_page(f"{service.url}/#/models/to-forget")
    gone = "every one from 2 on can be had again. Older ones went when examples were erased, at"
    expect(of_model.get_by_text(gone)).to_be_visible()

    changed = tmp_path / "changed.json"
    changed.write_text(file.read_text().replace('"count":2', '"count":1'))
    page.get_by_label("Drop a receipt here, or choose one").set_input_files(changed)
    expect(page.get_by_text("changed.json does not verify: its signature is not of this content.")).to_be_visible()
    expect(page.get_by_text("verifies: this service")).to_have_count(0)


def receipts(http: httpx.Client, model: str) -> list[str]:
    """Return the receipts of a model."""
    return [one["receipt"] for one in http.get("/receipts").json()["receipts"] if one["model"] == model]


def test_what_is_no_receipt_and_what_another_service_signed(
    service: ServiceProcess, http: httpx.Client, open_page: Open, tmp_path: Path
) -> None:
    learnt(http, "verifying", 20)
    page = open_page(f"{service.url}/#/models/verifying/erase")
    place = page.get_by_label("Drop a receipt here, or choose one")
    other = tmp_path / "other"
    with ServiceProcess(other) as another, another.http() as there:
        learnt(there, "m", 20)
        receipt = there.post("/models/m/erase", json={"keys": ["k1"]}).json()["receipt"]
    (tmp_path / "other.json").write_text(json.dumps(receipt))
    place.set_input_files(tmp_path / "other.json")
    expect(page.get_by_text("other.json verifies, but another service signed it")).to_be_visible()
    expect(page.get_by_text(receipt["public_key"])).to_be_visible()
    (tmp_path / "picture.json").write_bytes(b"\x89PNG\r\n")
    place.set_input_files(tmp_path / "picture.json")
    expect(page.get_by_text("picture.json does not verify: it is no JSON")).to_be_visible()
    (tmp_path / "deep.json").write_text("[" * 50 + "]" * 50)
    place.set_input_files(tmp_path / "deep.json")
    expect(page.get_by_text("deep.json does not verify: it holds no signature")).to_be_visible()


def test_readings_are_erased_and_settings_chosen_again(
    service: ServiceProcess, http: httpx.Client, open_page: Open, picture: Picture
) -> None:
    settings = {"id": "forgetful", "target": "load", "window": 60, "every": "1h", "C": 1.0, "represent": "level"}
    http.post("/feeds", json=settings).raise_for_status()
    rows = [{"time": f"2024-01-{1 + i // 24:02}T{i % 24:02}:00", "load": float(i % 24 + i % 7)} for i in range(96)]
    http.post("/feeds/forgetful/observations", json={"rows": rows}).raise_for_status()
    page = open_page(f"{service.url}/#/feeds/forgetful")
    page.get_by_role("button", name="Choose again").click()
    found = page.get_by_role("region", name="Chosen again")
    expect(found).to_be_visible(timeout=120_000)
    expect(found.get_by_role("cell").nth(1)).to_contain_text("level, gamma")
    version = http.get("/feeds/forgetful").json()["version"]
    page.get_by_role("button", name="Take these").dblclick()
    expect(page.get_by_text("Every model has learnt the window again, at 96 readings.")).to_be_visible()
    picture(page, "feed-tuned")
    assert http.get("/feeds/forgetful").json()["version"] == version + 1

    page.get_by_label("Times, one a line").fill("2024-01-04T23:00")
    page.get_by_label("From").fill("2024-01-04T01:00")
    page.get_by_label("To", exact=True).fill("2024-01-04T03:00")
    page.get_by_role("button", name="Erase …").click()
    page.get_by_role("button", name="Erase for good").click()
    expect(page.get_by_text("4 readings, and all that was stored of them.")).to_be_visible()
    picture(page, "feed-erased")
    gone = [row["time"][5:13] for row in http.get("/feeds/forgetful/history").json()["rows"] if row["held"]]
    assert gone == ["01-04T01", "01-04T02", "01-04T03"]
    assert http.get("/feeds/forgetful").json()["version"] == version + 2
