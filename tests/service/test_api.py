"""The resources, as a client sees them."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime

import httpx
import numpy as np
import pytest

from tests.service.conftest import Make
from tests.service.process import blobs

ROWS = {"X": [[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]], "y": [1, -1, 1]}


def update(http: httpx.Client, model: str, headers: dict[str, str] | None = None, **body: object) -> httpx.Response:
    return http.post(f"/models/{model}/update", json=body, headers=headers)


def keys_of(http: httpx.Client, model: str) -> list[object]:
    """Return the window's keys, read from an update that removes them all."""
    n = http.get(f"/models/{model}").json()["n_examples"]
    removed: list[object] = update(http, model, remove={"oldest": n}).json()["removed"]
    return removed


def test_a_model_is_created_listed_described_and_deleted(http: httpx.Client, make: Make) -> None:
    model = make(C=2.5, kernel={"name": "poly", "degree": 2, "coef0": 1.0}, window={"max_examples": 7})
    described = http.get(f"/models/{model}").json()
    assert (described["id"], described["task"], described["version"], described["C"]) == (model, "svc", 0, 2.5)
    assert described["window"]["max_examples"] == 7
    assert described in http.get("/models").json()["models"]
    assert http.delete(f"/models/{model}").status_code == 204
    assert http.get(f"/models/{model}").status_code == 404
    assert http.delete(f"/models/{model}").status_code == 404


def test_an_id_is_made_up_when_none_is_given(http: httpx.Client) -> None:
    answer = http.post("/models", json={})
    model = answer.json()["id"]
    assert answer.status_code == 201
    assert answer.headers["location"] == f"/models/{model}"
    assert re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", model)
    http.delete(f"/models/{model}")


def test_a_second_model_of_the_same_id_is_refused(http: httpx.Client, make: Make) -> None:
    model = make()
    answer = http.post("/models", json={"id": model, "C": 1.0})
    assert answer.status_code == 409
    assert answer.json()["type"] == "urn:livesvm:problem:model-exists"


def test_an_update_answers_all_it_did(http: httpx.Client, make: Make) -> None:
    model = make()
    answer = update(http, model, add=ROWS).json()
    assert (answer["version"], answer["added"], answer["removed"]) == (1, [0, 1, 2], [])
    assert answer["n_examples"] == 3
    assert answer["durability"] == "fsynced"
    assert answer["seconds"] > 0
    assert answer["max_violation"] < 1e-9
    assert 0.0 <= answer["relative_gap"] < 1e-9
    described = http.get(f"/models/{model}").json()
    for name in ("version", "n_examples", "n_free", "n_bound", "max_violation", "relative_gap"):
        assert described[name] == answer[name]


def test_keys_keep_their_json_types_and_order(http: httpx.Client, make: Make) -> None:
    model = make()
    given = ["b", 5, "5", 2**53 - 1]
    X, y = blobs(np.random.default_rng(0), 4)
    assert update(http, model, add={"X": X, "y": y, "keys": given}).json()["added"] == given
    assert update(http, model, remove={"keys": [5]}).json()["removed"] == [5]
    assert keys_of(http, model) == ["b", "5", 2**53 - 1]


def test_made_up_keys_avoid_those_in_use(http: httpx.Client, make: Make) -> None:
    model = make()
    update(http, model, add={**ROWS, "keys": [1, 0, 7]})
    assert update(http, model, add=ROWS).json()["added"] == [2, 3, 4]
    assert update(http, model, add=ROWS).json()["added"] == [5, 6, 8]


def test_a_full_window_makes_space_within_the_update(http: httpx.Client, make: Make) -> None:
    model = make(window={"max_examples": 4})
    update(http, model, add=ROWS)
    answer = update(http, model, add=ROWS).json()
    assert (answer["added"], answer["removed"], answer["n_examples"]) == ([3, 4, 5], [0, 1], 4)
    answer = update(http, model, add=ROWS, remove={"keys": [4]}).json()
    assert (answer["removed"], answer["n_examples"], answer["version"]) == ([4, 2, 3], 4, 3)


def test_age_removes_with_the_next_update(http: httpx.Client, make: Make) -> None:
    model = make(window={"max_age_seconds": 0.05})
    update(http, model, add=ROWS)
    time.sleep(0.1)
    assert update(http, model, add=ROWS).json()["removed"] == [0, 1, 2]


def test_older_than_removes_what_arrived_before(http: httpx.Client, make: Make) -> None:
    model = make()
    update(http, model, add=ROWS)
    between = datetime.now(UTC)
    time.sleep(0.02)
    update(http, model, add=ROWS)
    assert update(http, model, remove={"older_than": between.isoformat()}).json()["removed"] == [0, 1, 2]
    nothing = update(http, model, remove={"older_than": between.timestamp()}).json()
    assert (nothing["removed"], nothing["events"], nothing["version"]) == ([], 0, 3)


def test_weights_multiply_C(http: httpx.Client, make: Make) -> None:
    X, y = blobs(np.random.default_rng(1), 12)
    weighted, repeated = make(kernel={"gamma": 0.5}), make(kernel={"gamma": 0.5})
    update(http, weighted, add={"X": X, "y": y, "weights": [2.0] * 12})
    update(http, repeated, add={"X": X + X, "y": y + y})
    decide = {model: http.post(f"/models/{model}/predict", json={"X": X}).json() for model in (weighted, repeated)}
    assert decide[weighted]["decision"] == pytest.approx(decide[repeated]["decision"], abs=1e-9)


def test_predictions_name_the_version_and_the_labels(http: httpx.Client, make: Make) -> None:
    model = make(C=100.0)
    update(http, model, add=ROWS)
    answer = http.post(f"/models/{model}/predict", json={"X": ROWS["X"]}).json()
    assert (answer["version"], answer["prediction"], answer["stale"]) == (1, ROWS["y"], False)
    assert np.sign(answer["decision"]).tolist() == ROWS["y"]


def test_the_certificate_proves_the_version(http: httpx.Client, make: Make) -> None:
    model = make(C=10.0)
    X, y = blobs(np.random.default_rng(2), 60)
    update(http, model, add={"X": X, "y": y})
    found = http.get(f"/models/{model}/certificate").json()
    assert (found["version"], found["n_examples"]) == (1, 60)
    assert 0 <= found["relative_gap"] <= 1e-8
    assert found["primal"] == pytest.approx(found["dual"], rel=1e-8)


def test_an_empty_model_says_so(http: httpx.Client, make: Make) -> None:
    model = make()
    for answer in (
        http.post(f"/models/{model}/predict", json={"X": [[1.0]]}),
        http.get(f"/models/{model}/certificate"),
    ):
        assert answer.status_code == 409
        assert answer.json()["type"] == "urn:livesvm:problem:empty-model"


def test_the_last_example_can_leave_and_others_come(http: httpx.Client, make: Make) -> None:
    model = make()
    update(http, model, add=ROWS)
    assert update(http, model, remove={"oldest": 3}).json()["n_examples"] == 0
    assert http.post(f"/models/{model}/checkpoint").json()["version"] == 2
    assert update(http, model, add=ROWS).json()["added"] == [3, 4, 5]


def test_one_request_twice_has_one_effect_and_one_answer(http: httpx.Client, make: Make) -> None:
    model = make()
    first = update(http, model, {"Idempotency-Key": "one"}, add=ROWS)
    again = update(http, model, {"Idempotency-Key": "one"}, add=ROWS)
    assert again.content == first.content
    assert again.headers["idempotent-replayed"] == "true"
    assert http.get(f"/models/{model}").json()["version"] == 1
    other = update(http, model, {"Idempotency-Key": "one"}, remove={"oldest": 1})
    assert other.status_code == 409
    assert other.json()["type"] == "urn:livesvm:problem:idempotency-conflict"


def test_a_refused_request_does_not_use_its_key_up(http: httpx.Client, make: Make) -> None:
    model = make()
    assert update(http, model, {"Idempotency-Key": "one"}, remove={"oldest": 1}).status_code == 422
    assert update(http, model, {"Idempotency-Key": "one"}, add=ROWS).status_code == 200


def test_health_documents_and_unknown_paths(http: httpx.Client) -> None:
    assert http.get("/health/live").json() == {"status": "alive"}
    assert http.get("/health/ready").json() == {"status": "ready"}
    assert "swagger" in http.get("/docs").text.lower()
    paths = http.get("/openapi.json").json()["paths"]
    assert "requestBody" in paths["/models/{id}/update"]["post"]
    document = http.get("/openapi.json").json()
    named = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert named == named & document["components"]["schemas"].keys()
    missing = http.get("/nowhere")
    assert (missing.status_code, missing.headers["content-type"]) == (404, "application/problem+json")
    assert http.put("/models").status_code == 405


def test_metrics_count_what_happened(http: httpx.Client, make: Make) -> None:
    model = make()
    update(http, model, add=ROWS)
    http.post(f"/models/{model}/predict", json={"X": ROWS["X"]})
    text = http.get("/metrics").text
    assert f'livesvm_model_examples{{model="{model}"}} 3.0' in text
    assert f'livesvm_model_version{{model="{model}"}} 1.0' in text
    assert 'livesvm_updates_total{outcome="applied",task="svc"}' in text
    assert 'livesvm_durability_info{level="fsynced"} 1.0' in text
    assert "livesvm_ready 1.0" in text
    assert 'route="/models/{id}/update",status="200"' in text
    http.delete(f"/models/{model}")
    assert f'model="{model}"' not in http.get("/metrics").text


@pytest.mark.parametrize("page", ["/docs", "/redoc"])
def test_the_documents_of_the_api_ask_nothing_of_other_hosts(page: str, http: httpx.Client) -> None:
    text = http.get(page).raise_for_status().text
    assert "//" not in "".join(re.findall(r"""(?:src|href)=["']([^"']*)["']""", text))
    asked = re.findall(r"""(?:src|href|spec-url)=["']([^"']*)["']""", text)
    assert len(asked) >= 3
    for path in asked:
        http.get(path).raise_for_status()
