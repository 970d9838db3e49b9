"""The regularization path and suspected labels, from the first click to the moved model."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import httpx
import numpy as np
import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import Open, Picture, learnt
from tests.oracle import Matrix, Vector
from tests.service.process import ServiceProcess, blobs

pytestmark = pytest.mark.browser
FLIPPED = 15


def written(path: Path, X: list[list[float]], y: Sequence[float]) -> Path:
    """Return examples as a CSV file: features, then the target."""
    path.write_text("\n".join(",".join(map(repr, [*x, label])) for x, label in zip(X, y, strict=True)) + "\n")
    return path


def at(page: Page, name: str) -> str:
    """Return what is written next to a name."""
    return page.locator("dt", has_text=name).locator("xpath=following-sibling::dd").inner_text()


def test_a_path_is_walked_looked_along_and_applied(
    service: ServiceProcess, http: httpx.Client, open_page: Open, picture: Picture, tmp_path: Path
) -> None:
    learnt(http, "walked", 120)
    X, y = blobs(np.random.default_rng(7), 40)
    page = open_page(f"{service.url}/#/models/walked/path")
    page.get_by_label("Validation examples").set_input_files(written(tmp_path / "validation.csv", X, y))
    page.get_by_role("button", name="Walk the path").click()
    slider = page.get_by_role("slider")
    expect(slider).to_be_visible(timeout=120_000)
    job = http.get("/jobs").json()["jobs"][-1]
    result = http.get(f"/jobs/{job['id']}").json()["result"]
    best = result["validation"]["best"]
    assert float(at(page, "Validation")) == pytest.approx(best["error"], rel=1e-3)

    slider.focus()
    page.keyboard.press("End")
    assert int(at(page, "Support vectors")) == result["breakpoints"]["n_support"][-1]
    page.keyboard.press("Home")
    assert int(at(page, "Support vectors")) == result["at_minimum"]["n_support"]
    for _ in range(5):
        page.keyboard.press("PageUp")
    place = int(slider.input_value())
    reported = page.get_by_role("region", name="Largest coefficients").locator("tbody tr")
    assert reported.locator("th").all_inner_texts() == [str(key) for key in result["coefficients"]["key"][place]]
    middle = slider.get_attribute("aria-valuetext")
    assert middle is not None
    C = float(middle.removeprefix("C "))
    after = [
        n
        for value, n in zip(result["breakpoints"]["value"], result["breakpoints"]["n_support"], strict=True)
        if value < C
    ]
    assert int(at(page, "Support vectors")) == (after[-1] if after else result["at_minimum"]["n_support"])
    picture(page, "path")

    page.get_by_role("button", name="Go to the best").click()
    page.get_by_role("button", name="Apply this C").dblclick()
    expect(page.get_by_text("Version 2 has C")).to_be_visible()
    page.wait_for_timeout(1000)
    now = http.get("/models/walked").json()
    assert (now["version"], now["C"]) == (2, pytest.approx(best["value"]))

    page.reload()  # what was found is there
    expect(page.get_by_role("slider")).to_be_visible()


def test_suspected_labels_are_corrected_one_by_one(
    service: ServiceProcess, http: httpx.Client, open_page: Open, picture: Picture, tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    X, y = two_classes(rng, 100)
    wrong = y.copy()
    wrong[:FLIPPED] *= -1
    http.post("/models", json={"id": "suspect", "C": 10.0, "kernel": {"name": "rbf", "gamma": 1.0}}).raise_for_status()
    keys = [f"k{i}" for i in range(100)]
    learnt_rows = X.tolist()
    add = {"X": learnt_rows, "y": words(wrong), "keys": keys}
    http.post("/models/suspect/update", json={"add": add}).raise_for_status()
    X, y = two_classes(rng, 200)
    held = tmp_path / "held.csv"
    held.write_text("".join(f"{a},{b},{label}\n" for (a, b), label in zip(X.tolist(), words(y), strict=True)))

    page = open_page(f"{service.url}/#/models/suspect/labels")
    page.get_by_role("button", name="Find them").click()
    rows = page.get_by_role("region", name="Suspected labels").locator("tbody tr")
    expect(rows.first).to_be_visible(timeout=120_000)
    assert rows.count() == 25
    labels, features = dict(zip(keys, words(wrong), strict=True)), dict(zip(keys, learnt_rows, strict=True))

    def written_of(key: str) -> str:
        return ", ".join(f"{value:.4g}" for value in features[key])

    job = http.get("/jobs").json()["jobs"][-1]
    expected = http.get(f"/jobs/{job['id']}").json()["result"]["suspects"]
    for row, one in zip(rows.all(), expected, strict=False):
        assert row.get_by_role("rowheader").inner_text() == one["key"]
        cells = row.get_by_role("cell")
        assert cells.nth(3).inner_text() == one["label"] == labels[one["key"]]
        expect(cells.nth(0)).to_have_text(written_of(one["key"]))
        expect(cells.nth(4)).to_have_text("".join(f"{key}: {written_of(key)}" for key in one["why"]))
        assert {labels[key] for key in one["why"]} == {one["better"]}
    assert len({one["key"] for one in expected[:10]} & set(keys[:FLIPPED])) >= 7  # most labels that were turned
    picture(page, "labels")

    before = error(http, held)
    page.get_by_label("Held-back examples").set_input_files(held)
    first, removed, left = rows.nth(0), rows.nth(1), rows.nth(2)
    first.get_by_role("button", name=f"Relabel {expected[0]['better']}").dblclick()
    effect = page.locator("#effect")
    expect(effect).to_contain_text("Share of wrong labels on the 200 examples of held.csv")
    expect(first).to_contain_text(f"{expected[0]['better']}, version 2")
    expect(effect).to_contain_text(f": {before:.4g} before, {error(http, held):.4g} after.")
    removed.get_by_role("button", name="Remove").click()
    expect(removed).to_contain_text("removed, version 3")
    left.get_by_role("button", name="Right").click()
    expect(left).to_contain_text("right, not ranked again")
    now = http.get("/models/suspect").json()
    assert (now["version"], now["n_examples"]) == (3, 99)
    page.get_by_role("button", name="Find them").click()
    expect(effect).to_contain_text(f"Labels in doubt: {job_doubted(http, 0)} before, ")
    assert job_doubted(http, 1) < job_doubted(http, 0)
    confirmed = {expected[0]["key"], expected[2]["key"]}
    expect(page.get_by_text("2 are confirmed and not shown.")).to_be_visible()
    assert confirmed.isdisjoint(rows.get_by_role("rowheader").all_inner_texts())
    picture(page, "labels-done")


def test_ticked_suspects_are_corrected_in_one_update(
    service: ServiceProcess, http: httpx.Client, open_page: Open, picture: Picture
) -> None:
    places = np.arange(90) % 3
    X = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])[places] + 0.5 * np.random.default_rng(1).normal(size=(90, 2))
    right = np.array(["ape", "bee", "cat"])[places]
    y, keys = np.where(np.arange(90) < 6, np.roll(right, 1), right), [f"k{i}" for i in range(90)]
    http.post("/models", json={"id": "ticked", "C": 5.0, "kernel": {"name": "rbf", "gamma": 0.5}}).raise_for_status()
    add = {"X": X.tolist(), "y": y.tolist(), "keys": keys}
    http.post("/models/ticked/update", json={"add": add}).raise_for_status()
    page = open_page(f"{service.url}/#/models/ticked/labels")
    page.get_by_role("button", name="Find them").click()
    rows = page.get_by_role("region", name="Suspected labels").locator("tbody tr")
    expect(rows.first).to_be_visible(timeout=120_000)
    assert {row.get_by_role("rowheader").inner_text() for row in rows.all()[:6]} == set(keys[:6])
    together = page.get_by_role("group", name="What to do with all that are ticked")
    together.get_by_role("button", name="Relabel ticked").click()
    expect(together).to_contain_text("Tick the box of some first.")
    for key in keys[:4]:
        page.get_by_role("checkbox", name=key, exact=True).check()
    picture(page, "labels-ticked")
    together.get_by_role("button", name="Relabel ticked").click()
    expect(together).to_contain_text("4 relabelled, version 2")
    for row, key in zip(
        rows.all()[:6], [row.get_by_role("rowheader").inner_text() for row in rows.all()], strict=False
    ):
        if key in keys[:4]:
            expect(row).to_contain_text(f"{right[keys.index(key)]}, version 2")
            expect(row.get_by_role("checkbox")).to_be_disabled()
    reported = {one["key"]: one["y"] for one in http.get("/models/ticked/examples?limit=100").json()["examples"]}
    assert [reported[key] for key in keys] == [*right[:4], *y[4:]]
    for key in keys[4:6]:
        page.get_by_role("checkbox", name=key, exact=True).check()
    together.get_by_role("button", name="Ticked are right").click()
    expect(together).to_contain_text("2 not ranked again")
    assert http.get("/models/ticked").json()["version"] == 2
    page.get_by_role("button", name="Find them").click()
    expect(page.get_by_text("6 are confirmed and not shown.")).to_be_visible()
    expect(page.get_by_text("margins use what earlier rankings found")).to_be_visible()


def job_doubted(http: httpx.Client, number: int) -> int:
    """Return the number of labels in doubt that a ranking of the model found."""
    jobs = [one["id"] for one in http.get("/jobs").json()["jobs"] if one["kind"] == "suspected-labels"]
    return int(http.get(f"/jobs/{jobs[number]}").json()["result"]["n_doubted"])


def test_paths_of_several_classes_are_looked_along_and_applied(
    service: ServiceProcess, http: httpx.Client, open_page: Open, picture: Picture
) -> None:
    rng = np.random.default_rng(1)
    places = np.arange(90) % 3
    X = np.array([[0.0, 0.0], [2.5, 0.0], [0.0, 2.5]])[places] + 0.5 * rng.normal(size=(90, 2))
    right = np.array(["ape", "bee", "cat"])[places]
    y = np.where(np.arange(90) < 6, np.array(["bee", "cat", "ape"])[places], right)
    keys = [f"k{i}" for i in range(90)]
    http.post("/models", json={"id": "zoo", "C": 5.0, "kernel": {"name": "rbf", "gamma": 0.5}}).raise_for_status()
    add = {"X": X.tolist(), "y": y.tolist(), "keys": keys}
    http.post("/models/zoo/update", json={"add": add}).raise_for_status()

    page = open_page(f"{service.url}/#/models/zoo")
    counts = http.get("/models/zoo").json()
    outside = 2 * 90 - counts["n_free"] - counts["n_bound"]  # each example is in two pairs
    expect(page.get_by_text(f"{outside} outside: beyond the margin, in all pairs of classes")).to_be_visible()
    page = open_page(f"{service.url}/#/models/zoo/labels")
    page.get_by_role("button", name="Find them").click()
    region = page.get_by_role("region", name="Suspected labels")
    rows = region.locator("tbody tr")
    expect(rows.first).to_be_visible(timeout=120_000)
    suspects = {row.get_by_role("rowheader").inner_text(): row for row in rows.all()}
    assert set(keys[:6]) <= suspects.keys()
    for version, key in enumerate(keys[:6], 2):
        i, row = keys.index(key), suspects[key]
        assert row.get_by_role("cell").nth(3).inner_text() == y[i]
        chosen = row.get_by_label(f"New label of {key}")
        assert chosen.locator("option").all_inner_texts()[0] == right[i]
        if key == "k5":
            (another,) = {"ape", "bee", "cat"} - {str(y[5]), str(right[5])}
            chosen.select_option(another)
            picture(page, "labels-several")
        row.get_by_role("button", name="Relabel").click()
        expect(row).to_contain_text(f"version {version}")
    reported = {one["key"]: one["y"] for one in http.get("/models/zoo/examples?limit=100").json()["examples"]}
    assert [reported[key] for key in keys[:6]] == [*right[:5].tolist(), another]

    page.get_by_role("link", name="Regularization path").click()
    page.get_by_role("button", name="Walk the path").click()
    slider = page.get_by_role("slider")
    expect(slider).to_be_visible(timeout=120_000)
    job = http.get("/jobs").json()["jobs"][-1]
    known = http.get(f"/jobs/{job['id']}").json()["result"]["coefficients"]
    place = int(slider.input_value())
    intercept, favoured = at(page, "Intercept, ape or cat").split(" for ")
    assert favoured == ("ape" if known["intercept"][place][1] > 0 else "cat")
    assert float(intercept) == pytest.approx(abs(known["intercept"][place][1]), rel=1e-3)
    lines = page.get_by_role("region", name="Largest coefficients").locator("tbody tr")
    assert lines.locator("th").all_inner_texts() == known["key"][place]
    others = sorted({"ape", "bee", "cat"} - {known["label"][place][0]})
    against = dict(zip(others, known["coefficient"][place][0], strict=True))
    told_first = lines.first.get_by_role("cell").inner_text()
    assert told_first.startswith(f"{known['label'][place][0]}: ")
    assert all(f"against {word}" in told_first for word, value in against.items() if value)
    picture(page, "path-several")
    page.get_by_role("button", name="Apply this C").click()
    expect(page.get_by_text("Version 8 has C")).to_be_visible()
    assert http.get("/models/zoo").json()["C"] == pytest.approx(known["value"][place])


def two_classes(rng: np.random.Generator, n: int) -> tuple[Matrix, Vector]:
    """Return examples of two classes that overlap little."""
    y = rng.choice([-1, 1], n).astype(float)
    return rng.normal(size=(n, 2)) + 1.8 * y[:, None], y


def error(http: httpx.Client, held: Path) -> float:
    """Return the share of wrong labels."""
    rows = [line.split(",") for line in held.read_text().splitlines()]
    asked = {"X": [[float(a), float(b)] for a, b, _ in rows]}
    found = http.post("/models/suspect/predict", json=asked).json()["prediction"]
    return float(np.mean([label != row[-1] for label, row in zip(found, rows, strict=True)]))


def words(y: Vector) -> list[str]:
    """Return labels as people write them."""
    return ["good" if sign > 0 else "bad" for sign in y.tolist()]
