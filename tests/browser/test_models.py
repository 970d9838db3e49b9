"""One model: what it is, its proof, its versions, what it predicts; each action once."""

from __future__ import annotations

import math
import re

import httpx
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Open, Picture, learnt
from tests.service.process import ServiceProcess

pytestmark = pytest.mark.browser


def test_a_model_is_shown_proved_restored_and_asked(
    service: ServiceProcess, http: httpx.Client, open_page: Open, picture: Picture, expected: list[str]
) -> None:
    expected.append("422 (Unprocessable Entity)")
    learnt(http, "shown")
    for _ in range(4):
        http.post("/models/shown/update", json={"remove": {"oldest": 1}}).raise_for_status()
    page = open_page(f"{service.url}/#/models/shown")
    reported = http.get("/models/shown").json()
    sides = f"56 examples: {reported['n_free']} free, {reported['n_bound']} bound"
    expect(page.get_by_role("img", name=sides)).to_be_visible()
    expect(page.get_by_role("img", name="Examples by side over the newest versions")).to_be_visible()
    expect(page.get_by_role("region", name="Newest updates").get_by_role("row")).to_have_count(6)
    newest = page.get_by_role("region", name="Newest updates").locator("tbody tr").first
    expect(newest.get_by_role("cell").first).to_have_text(re.compile(r"^\d\d:\d\d:\d\d$"))

    page.get_by_role("button", name="Prove it now").click()
    expect(page.get_by_text("Version 5 is optimal for the 56 examples")).to_be_visible()

    page.get_by_label("Features").fill("0.5, 0.5, 0.5\n-1 -1 -1")
    page.get_by_role("button", name="Predict").click()
    found = http.post("/models/shown/predict", json={"X": [[0.5] * 3, [-1] * 3]}).json()
    rows = page.get_by_role("region", name="Predictions").locator("tbody tr")
    expect(rows).to_have_count(2)
    assert [int(row.get_by_role("cell").first.inner_text()) for row in rows.all()] == found["prediction"]
    page.get_by_role("button", name="Say why").click()
    expect(rows.first.get_by_role("cell")).to_have_count(3)
    why = http.post("/models/shown/explain", json={"X": [[0.5] * 3], "most": 5}).json()["rows"][0]["because"]
    for key in (str(one["key"]) for one in why):
        expect(rows.first.get_by_role("cell").last).to_contain_text(f"{key} (")
    page.get_by_label("Features").fill("0.5")
    page.get_by_role("button", name="Predict").click()
    refused = http.post("/models/shown/predict", json={"X": [[0.5]]}).json()
    expect(page.get_by_text(refused["detail"])).to_be_visible()

    page.get_by_label("Version", exact=True).fill("2")
    http.post("/models/shown/update", json={"remove": {"oldest": 1}}).raise_for_status()
    expect(page.get_by_role("log")).to_contain_text("version 6 · 55 examples")
    assert page.get_by_label("Version", exact=True).input_value() == "2"
    page.get_by_role("button", name="Restore").dblclick()
    picture(page, "asked")
    page.get_by_role("button", name="Restore version 2").click()
    expect(page.get_by_text("Version 7 holds what version 2 held.")).to_be_visible()
    assert http.get("/models/shown").json()["n_examples"] == 59
    expect(page.get_by_role("region", name="Newest updates")).to_contain_text("back to version 2")
    picture(page, "model")


def test_drift_is_shown_and_answered(service: ServiceProcess, http: httpx.Client, open_page: Open) -> None:
    X = [[math.cos(k), math.sin(k)] for k in range(200)]
    y = [1 if (row[0] > 0) == (k < 150) else -1 for k, row in enumerate(X)]
    http.post("/models", json={"id": "turned", "kernel": {"gamma": 1.0}, "drift_alarms": 0.01}).raise_for_status()
    http.post("/models/turned/update", json={"add": {"X": X, "y": y}}).raise_for_status()
    page = open_page(f"{service.url}/#/models/turned")
    page.get_by_role("button", name="Look for drift").click()
    found = http.get("/models/turned/drift").json()
    expect(page.get_by_text("The errors have grown since")).to_be_visible()
    rows = page.get_by_role("region", name="Remedies").locator("tbody tr")
    expect(rows).to_have_count(1 + len(found["remedies"]))
    page.get_by_role("button", name="Apply the best").click()
    page.get_by_role("button", name="Remove them").click()
    kept = int(found["remedy"]["value"])
    expect(page.get_by_text(f"Version 2 has {kept} examples.")).to_be_visible()
    assert http.get("/models/turned").json()["n_examples"] == kept


def test_several_classes_are_named(service: ServiceProcess, http: httpx.Client, open_page: Open) -> None:
    X = [[float(k % 3) + 0.1 * (k // 3), -float(k % 3)] for k in range(12)]
    http.post(
        "/models", json={"id": "pets", "C": 1.0, "scale": "standard", "decision_function_shape": "ovo"}
    ).raise_for_status()
    y = [("cat", "dog", "eel")[k % 3] for k in range(12)]
    http.post("/models/pets/update", json={"add": {"X": X, "y": y}}).raise_for_status()
    page = open_page(f"{service.url}/#/models/pets")
    expect(page.get_by_text("cat: 4, dog: 4, eel: 4")).to_be_visible()
    page.get_by_label("Features").fill("0 0\n2 -2")
    page.get_by_role("button", name="Predict").click()
    rows = page.get_by_role("region", name="Predictions").locator("tbody tr")
    expect(rows).to_have_count(2)
    assert [row.get_by_role("cell").first.inner_text() for row in rows.all()] == ["cat", "eel"]
    expect(rows.first).to_contain_text("cat over dog")
    expect(rows.last).to_contain_text("eel over cat")
    page.get_by_role("button", name="Prove it now").click()
    expect(page.get_by_text("Version 1 is optimal for the 12 examples")).to_be_visible()


def test_an_impatient_double_click_counts_once(service: ServiceProcess, http: httpx.Client, open_page: Open) -> None:
    learnt(http, "patient")
    page = open_page(f"{service.url}/#/models/patient")
    page.get_by_role("button", name="Restore").click()
    sent: list[str | None] = []
    page.on(
        "request",
        lambda request: sent.append(request.headers.get("idempotency-key")) if request.method == "POST" else None,
    )
    page.get_by_role("button", name="Restore version 0").dblclick(force=True)
    expect(page.get_by_text("Version 2 holds what version 0 held.")).to_be_visible()
    page.wait_for_timeout(1000)
    assert len(sent) == 1
    assert sent[0]
    assert http.get("/models/patient").json()["version"] == 2


def test_a_change_whose_answer_is_lost_is_sent_again_under_its_name(
    service: ServiceProcess, http: httpx.Client, open_page: Open, expected: list[str]
) -> None:
    expected.append("ERR_FAILED")
    learnt(http, "lossy")
    page = open_page(f"{service.url}/#/models/lossy")
    keys: list[str] = []

    def lose_the_first(route: object) -> None:
        request = route.request  # type: ignore[attr-defined]
        keys.append(request.headers["idempotency-key"])
        if len(keys) == 1:
            route.fetch()  # type: ignore[attr-defined]
            route.abort()  # type: ignore[attr-defined]
        else:
            route.continue_()  # type: ignore[attr-defined]

    page.route("**/restore", lose_the_first)
    page.get_by_role("button", name="Restore").click()
    page.get_by_role("button", name="Restore version 0").click()
    expect(page.get_by_text("Version 2 holds what version 0 held.")).to_be_visible()
    assert len(keys) == 2
    assert keys[0] == keys[1]
    assert http.get("/models/lossy").json()["version"] == 2


def test_a_model_that_is_not_there_is_said(service: ServiceProcess, open_page: Open, expected: list[str]) -> None:
    expected.append("404 (Not Found)")
    page = open_page(f"{service.url}/#/models/nobody")
    expect(page.get_by_role("alert")).to_contain_text("there is no model")


def test_a_model_that_tunes_itself_says_what_it_has_chosen(
    service: ServiceProcess, http: httpx.Client, open_page: Open
) -> None:
    learnt(http, "own-choice", 60, C="auto")
    page = open_page(f"{service.url}/#/models/own-choice")
    expect(page.get_by_text(re.compile("^itself, at version [0-9]+ .*: C [0-9]"))).to_be_visible(timeout=60_000)
    chosen = http.get("/models/own-choice").json()["tuning"]["chosen"]
    expect(page.get_by_text(f"itself, at version {chosen['version']} ({chosen['reason']})")).to_be_visible()
