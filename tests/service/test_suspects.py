"""Suspected labels over REST: the ranking of the library, in pages, as a plot, from the command line, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pandas as pd
import pytest

from livesvm.service.cli.main import main
from livesvm.service.client import Client, ServiceProblem
from livesvm.solvers import IncrementalSVC, suspected_labels
from tests.service.conftest import Make, Told
from tests.service.process import ServiceProcess

WORDS = np.array(["ape $x$", "bee", "cat"])
CENTRES = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]])


def spoilt(classes: int, n: int = 60) -> tuple[Any, Any, dict[str, str]]:
    """Return rows, labels, and the right labels of the examples that have a wrong one, by key."""
    places = np.arange(n) % classes
    X = CENTRES[places] + 0.4 * np.random.default_rng(4).normal(size=(n, 2))
    y = WORDS[places].copy()
    y[:5] = WORDS[(places[:5] + 1) % classes]
    return X, y, {f"k{i}": str(WORDS[places[i]]) for i in range(5)}


@pytest.mark.parametrize("classes", [2, 3])
def test_a_ranking_is_that_of_the_library_and_is_read_in_pages(
    classes: int, make: Make, service: ServiceProcess, http: httpx.Client
) -> None:
    X, y, right = spoilt(classes)
    model = make(C=1.0, kernel={"gamma": 0.1})
    with Client(service.url) as client:
        keys = [f"k{i}" for i in range(len(y))]
        client.update(model, X, y, keys=keys)
        with pytest.raises(ServiceProblem, match="has no ranking of its labels yet"):
            client.suspects(model)
        job = client.wait(client.suspected_labels(model)["id"])
        found = suspected_labels(IncrementalSVC(C=1.0, gamma=0.1).fit(X, y, keys=keys))
        reported = job["result"]["suspects"]
        assert [one["key"] for one in reported] == list(found.keys)
        for name, exact in (("margin", found.margin), ("doubt", found.doubt)):
            np.testing.assert_allclose([one[name] for one in reported], exact, atol=1e-9)
        assert [tuple(one["why"]) for one in reported] == list(found.why)
        assert {one["key"]: one["better"] for one in reported[:5]} == right
        assert job["result"]["n_doubted"] == np.count_nonzero(found.margin < 0)

        changed = client.update(model, relabel={one["key"]: one["better"] for one in reported[:5]})
        first = client.suspects(model, limit=40)
        assert (first["job"], first["version"], first["current"]) == (job["id"], 1, changed["version"])
        assert (first["n_examples"], first["next"]) == (60, 40)
        rest = client.suspects(model, offset=40)
        assert rest["next"] is None
        assert first["suspects"] + rest["suspects"] == reported
        again = client.wait(client.suspected_labels(model)["id"])
        assert again["result"]["n_doubted"] == 0
        assert client.suspects(model)["job"] == again["id"]
        for extension, start in (("svg", b"<?xml"), ("png", b"\x89PNG")):
            assert client.plot(job["id"], extension).startswith(start)  # type: ignore[arg-type]
        with pytest.raises(ServiceProblem, match="cannot be applied"):
            client.apply(job["id"])


def test_a_ranking_begins_from_the_last_one_and_says_of_which_version_it_is(
    make: Make, service: ServiceProcess, http: httpx.Client
) -> None:
    rng = np.random.default_rng(0)
    places = np.arange(90) % 3
    X, y = CENTRES[places] + 1.5 * rng.normal(size=(90, 2)), WORDS[places]
    model, keys = make(C=1.0, kernel={"gamma": 0.1}), [f"k{i}" for i in range(90)]
    with Client(service.url) as client:
        client.update(model, X[:80], y[:80], keys=keys[:80])
        first = client.wait(client.suspected_labels(model)["id"])["result"]
        assert {one["as_of"] for one in first["suspects"]} == {1}
        assert "carried" not in first
        client.update(model, X[80:], y[80:], keys=keys[80:], remove={"keys": keys[:10]})
        job = client.wait(client.suspected_labels(model)["id"])
        page = client.suspects(model, limit=80)["suspects"]
        assert page == job["result"]["suspects"]
        of_versions = {one["as_of"] for one in page}
        assert {1, 2} <= of_versions <= {1, 2, None}
        anew = suspected_labels(IncrementalSVC(C=1.0, gamma=0.1).fit(X[10:], y[10:], keys=keys[10:]))
        exact = dict(zip(anew.keys, anew.margin.tolist(), strict=True))
        for one in page:
            if one["as_of"] == 2:
                assert one["margin"] == pytest.approx(exact[one["key"]], abs=1e-8)
            elif one["as_of"] is None:
                assert one["margin"] >= exact[one["key"]] - 1e-8
        assert {one["as_of"] for one in page if one["key"] in keys[80:]} <= {2, None}
        client.erase(model, [keys[20]])
        after = client.wait(client.suspected_labels(model)["id"])
        assert {one["as_of"] for one in after["result"]["suspects"]} == {after["version"]}


def test_labels_of_a_table_are_ranked(make: Make, service: ServiceProcess) -> None:
    X, y, right = spoilt(3)
    model = make(C=1.0, columns=[{"name": "a"}, {"name": "b"}, {"name": "kind", "kind": "category"}])
    rows = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "kind": ["one", "two"] * 30})
    with Client(service.url) as client:
        client.update(model, rows, y, keys=[f"k{i}" for i in range(60)])
        client.wait(client.suspected_labels(model)["id"])
        assert {one["key"] for one in client.suspects(model, limit=5)["suspects"]} == right.keys()


def test_no_ranking_names_an_erased_example(make: Make, service: ServiceProcess, http: httpx.Client) -> None:
    X, y, _ = spoilt(2)
    model = make()
    with Client(service.url) as client:
        client.update(model, X, y, keys=[f"person-{i}" for i in range(60)])
        job = client.wait(client.suspected_labels(model)["id"])["id"]
        client.erase(model, ["person-3"])
        with pytest.raises(ServiceProblem, match="no ranking"):
            client.suspects(model)
        assert http.get(f"/jobs/{job}").status_code == 404
        client.wait(client.suspected_labels(model)["id"])
        found = client.suspects(model)
        assert found["n_examples"] == 59
        assert "person-3" not in [key for one in found["suspects"] for key in (one["key"], *one["why"])]


def test_confirmed_labels_do_not_come_back_and_are_erased(make: Make, service: ServiceProcess) -> None:
    X, y, _ = spoilt(2)
    model = make(C=1.0, kernel={"gamma": 0.1})
    with Client(service.url) as client:
        client.update(model, X, y, keys=[f"k{i}" for i in range(60)])
        first = client.wait(client.suspected_labels(model)["id"])["result"]
        worst = [one["key"] for one in first["suspects"][:2]]
        again = client.wait(client.suspected_labels(model, confirmed=[*worst, "gone"])["id"])["result"]
        assert again["confirmed"]["keys"] == worst
        assert again["n_doubted"] == first["n_doubted"] - 2
        assert [one["key"] for one in again["suspects"]] == [one["key"] for one in first["suspects"][2:]]
        assert client.suspects(model)["confirmed"]["keys"] == worst
        asked = client.wait(client.suspected_labels(model, confirmed=[*worst, "k59"])["id"])["id"]
        client.update(model, remove={"keys": ["k59"]})
        client.erase(model, ["k59"])  # it has left the window, and is named where a ranking was asked for
        with pytest.raises(ServiceProblem) as refused:
            client.job(asked)
        assert refused.value.status == 404


def test_what_has_no_labels_to_suspect_is_refused(make: Make, http: httpx.Client) -> None:
    def refused(model: str) -> tuple[int, str]:
        answer = http.post(f"/models/{model}/suspected-labels", json={})
        return answer.status_code, answer.json()["detail"]

    status, detail = refused(make(task="svr", epsilon=0.1))
    assert (status, "task svr" in detail, "outlier path" in detail) == (409, True, True)
    model = make()
    assert refused(model)[0] == 409
    add = {"X": [[0.0], [1.0]], "y": ["a", "a"]}
    http.post(f"/models/{model}/update", json={"add": add}).raise_for_status()
    status, detail = refused(model)
    assert status == 422
    assert "one class only" in detail
    assert http.post(f"/models/{model}/suspected-labels", json={"folds": 3}).status_code == 422
    assert http.get(f"/models/{model}/suspected-labels", params={"limit": 0}).status_code == 422
    assert http.get("/models/none/suspected-labels").status_code == 404


def test_the_command_prints_the_worst_labels(
    reported: Told, make: Make, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    X, y, right = spoilt(3)
    model = make(C=1.0, kernel={"gamma": 0.1})
    file = tmp_path / "rows.csv"
    pd.DataFrame({"key": [f"k{i}" for i in range(60)], "a": X[:, 0], "b": X[:, 1], "y": y}).to_csv(file, index=False)
    reported("update", model, file)
    job = reported("suspects", model, "--plot", tmp_path / "suspects.svg")
    assert "<svg" in (tmp_path / "suspects.svg").read_text()
    assert {one["key"] for one in job["result"]["suspects"][:5]} == right.keys()
    assert main(["suspects", model, "--most", "5"]) == 0
    printed = capsys.readouterr().out
    summary, heads, *rows = printed.splitlines()
    assert summary == "5 of 60 in doubt"
    assert heads.split("\t") == ["key", "label", "better", "margin", "doubt", "why", "as_of"]
    assert {row.split("\t")[0]: row.split("\t")[2] for row in rows} == right

    first, second, *others = right
    assert main(["suspects", model, "--relabel", first, "--right", second]) == 0
    assert capsys.readouterr().out.startswith("3 of 58 in doubt")
    assert main(["suspects", model, "--relabel", others[0], "--relabel", others[1]]) == 0
    assert capsys.readouterr().out.startswith("1 of 56 in doubt")
    assert main(["suspects", model, "--relabel", "unheard"]) != 0
    assert "'unheard' is not among the worst" in capsys.readouterr().err
