"""The Python client."""

from __future__ import annotations

import asyncio
import inspect
import json
import re
import time
from datetime import UTC, datetime
from typing import Any

import httpx
import numpy as np
import pytest
from scipy.sparse import csr_array

from livesvm.service.client import AsyncClient, Client, ServiceProblem, requests
from livesvm.service.client.surface import ClientCalls
from tests.service.conftest import Make
from tests.service.process import ServiceProcess, blobs
from tests.service.test_client_retries import CALLS

SPELLED = {
    "from": "begin",
    "to": "end",
    "step": "steps",
    "add": "X",
    "rows": "X",
    "robust": "convex",
    "method": "folds",
}
"""Parameters of the service that the client calls otherwise."""
LEFT = {
    **{name: {"after", "limit"} for name in ("models", "feeds", "fleets", "series")},  # these ask for every page
    "fleet_forecast": {"after", "limit", "format"},
    "update": {"target"},
    "examples": {"format"},
    "fleet_forecast_file": {"series"},
    "create_series": {"series"},
}
"""Parameters of the service that methods of the client do not have."""
WITHOUT_A_METHOD = r"GET /(access|events|metrics|health/.*|(feeds|jobs|models)/{\w+}/events)|\w+ /v2.*"


class Unsent(ClientCalls):
    """The calls of the clients; each returns its request."""

    def __init__(self) -> None:
        """Open no connection."""

    def send(self, request: Any) -> Any:
        return request


def fields(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    """Return the schemas of the fields of a body, of all the forms that it may have."""
    schema = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else schema
    found = dict(schema.get("properties", {}))
    for form in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        found |= fields(form, schemas)
    return found


def test_the_calls_of_the_client_are_the_calls_of_the_service(http: httpx.Client) -> None:
    document, called = http.get("/openapi.json").json(), set()
    served = {f"{verb.upper()} {path}": one for path, of in document["paths"].items() for verb, one in of.items()}
    forms = {call: re.compile(re.sub(r"\\{\w+\\}", "[^/]+", re.escape(call))) for call in served}
    for name, make in CALLS.items():
        sent: Any = make(Unsent())  # type: ignore[arg-type]
        call = min((call for call in served if forms[call].fullmatch(f"{sent.method} {sent.path}")), key=len)
        given = {one["name"]: one["schema"] for one in served[call].get("parameters", ()) if one["in"] != "path"}
        assert ("Idempotency-Key" in given) == ("idempotency-key" in sent.headers), name
        assert sent.params.keys() <= given.keys(), name
        media = served[call].get("requestBody", {"content": {None: {}}})["content"]
        assert sent.headers.get("content-type") in media, name
        body = fields(media.get("application/json", {}).get("schema", {}), document["components"]["schemas"])
        if sent.headers.get("content-type") == "application/json" and body:
            assert json.loads(sent.content).keys() <= body.keys(), name
        takes = inspect.signature(getattr(Client, name)).parameters
        options = {one: schema for one, schema in (given | body).items() if not re.match("[A-Z].*-|x-", one)}
        if not any(one.kind is one.VAR_KEYWORD for one in takes.values()):
            assert {one for one in options if not {one, SPELLED.get(one)} & takes.keys()} == LEFT.get(name, set()), name
        for one in options.keys() & takes.keys():
            stated = options[one].get("default")
            assert stated is None or takes[one].default in (None, stated), (name, one)
        called.add(call)
    assert [call for call in served if not re.fullmatch(WITHOUT_A_METHOD, call)] == [c for c in served if c in called]


def test_a_model_from_its_making_to_its_end(service: ServiceProcess) -> None:
    X, y = blobs(np.random.default_rng(0), 30)
    with Client(service.url) as client:
        assert client.is_ready()
        made = client.create_model("client-model", C=10.0, kernel={"name": "linear"})
        assert made in client.models()
        answer = client.update("client-model", X, y, keys=[f"k{n}" for n in range(30)], weights=np.ones(30))
        assert answer["n_examples"] == 30
        answer = client.update("client-model", remove={"keys": ["k3"]})
        assert (answer["removed"], client.model("client-model")["version"]) == (["k3"], 2)
        prediction = client.predict("client-model", X)["prediction"]
        assert np.mean(np.array(prediction) == y) > 0.8
        assert client.certificate("client-model")["relative_gap"] <= 1e-8
        assert client.checkpoint("client-model")["version"] == 2
        client.delete_model("client-model")
        with pytest.raises(ServiceProblem) as caught:
            client.model("client-model")
    assert (caught.value.status, caught.value.type) == (404, "urn:livesvm:problem:unknown-model")


def test_a_refusal_says_where(service: ServiceProcess, make: Make) -> None:
    model = make()
    with Client(service.url) as client:
        client.update(model, [[1.0], [2.0]], [1, -1])
        with pytest.raises(ServiceProblem, match="row 1") as caught:
            client.update(model, remove={"keys": [0, 7]})
        with pytest.raises(TypeError, match=r"remove must be a mapping .* not a list"):
            client.update(model, remove=[0])  # type: ignore[arg-type]
    assert (caught.value.document["field"], caught.value.document["row"]) == ("remove.keys", 1)


def test_a_name_makes_an_update_repeatable(service: ServiceProcess, make: Make) -> None:
    model = make()
    with Client(service.url) as client:
        first = client.update(model, [[1.0]], [1], idempotency_key="mine")
        assert client.update(model, [[1.0]], [1], idempotency_key="mine") == first


def test_numbers_and_times_as_programs_have_them(service: ServiceProcess, make: Make) -> None:
    model = make()
    with Client(service.url) as client:
        keys = np.arange(7, 9)
        assert client.update(model, [[1.0], [2.0]], np.array([1, -1], np.int8), keys=keys)["added"] == [7, 8]
        assert client.update(model, relabel={np.int64(7): -1})["changed"] == 1
        long_ago = datetime(2001, 1, 1, tzinfo=UTC)
        assert client.update(model, remove={"older_than": long_ago})["removed"] == []
        for entry, reason in ((np.nan, "NaN"), (np.inf, "infinite")):
            with pytest.raises(ServiceProblem, match=reason) as caught:
                client.update(model, [[1.0], [entry]], [1, 1])
            assert (caught.value.document["row"], caught.value.document["column"]) == (1, 0)
        with pytest.raises(TypeError, match="a set cannot be sent"):
            client.update(model, remove={"keys": {7}})


@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_large_update_is_sent_in_few_bytes(
    service: ServiceProcess, make: Make, is_sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "PACKED", 20)
    random = np.random.default_rng(0)
    X: Any = random.normal(size=(40, 3))
    if is_sparse:
        X[X < 0.3] = 0.0
        X = csr_array(X)
    y = np.where(random.random(40) < 0.5, "no", "yes")
    more: dict[str, Any] = {"keys": [f"k{i}" for i in range(40)], "weights": np.full(40, 2.0), "tags": ["t"] * 40}
    more["times"] = np.arange(1e9, 1e9 + 40)
    changes: dict[str, Any] = {"remove": {"keys": ["old"]}, "relabel": {"stays": "no"}, "reweight": {"stays": 3.0}}
    first = {"X": X[:2], "y": ["yes", "no"], "keys": ["old", "stays"], "times": [9e8, 9.1e8]}
    found = []
    for packed in (20, 10_000):
        monkeypatch.setattr(requests, "PACKED", packed)
        sent: Any = Unsent().update("m", X, y, **more, **changes, decay=0.9)
        assert sent.headers["content-type"] == ("application/x-npz" if packed == 20 else "application/json")
        with Client(service.url) as client:
            id_ = make(C=2.0, kernel={"name": "linear"})
            client.update(id_, **first)
            client.update(id_, X, y, **more, **changes, decay=0.9)
            found.append((client.predict(id_, X), client.examples(id_)))
    assert found[0] == found[1]
    monkeypatch.setattr(requests, "PACKED", 20)
    for unlike in ({"keys": [*range(39), "a"]}, {"remove": {"older_than": 3.0}}, {"tags": [None] * 40}):
        sent = Unsent().update("m", X, y, **unlike)
        assert sent.headers["content-type"] == "application/json"


def test_going_back(service: ServiceProcess, make: Make) -> None:
    model = make()
    with Client(service.url) as client:
        client.update(model, [[1.0], [2.0]], [1, -1])
        before = client.predict(model, [[1.5]])["decision"]
        client.update(model, relabel={0: -1})
        assert client.versions(model)["current"] == 2
        assert client.restore(model, 1)["restored"] == 1
        assert client.predict(model, [[1.5]])["decision"] == before


def test_an_empty_window() -> None:
    with Client("http://127.0.0.1:9", patience=0.3) as client:
        assert not client.is_ready()
        with pytest.raises(httpx.TransportError):
            client.models()


def test_a_job_tells_how_far_it_is_until_it_has_ended(service: ServiceProcess, make: Make) -> None:
    model = make()
    X, y = blobs(np.random.default_rng(0), 40)
    with Client(service.url) as client:
        client.update(model, X, y)
        states = [found["state"] for found in client.progress(client.assess(model)["id"])]
        assert states[-1] == "done"
        assert states.count("done") == 1
        seen: list[dict[str, Any]] = []
        done = client.wait(client.assess(model, 5)["id"], seen.append)
        assert (seen[-1]["state"], seen[-1]["progress"]) == ("done", 1.0)
        assert (len(done["result"]["decisions"]), "result" in seen[-1]) == (40, False)
        assert [found["state"] for found in client.progress(done["id"])] == ["done"]


def test_the_same_for_programs_that_await(service: ServiceProcess, make: Make) -> None:
    model = make()
    X, y = blobs(np.random.default_rng(0), 40)

    async def run() -> None:
        async with AsyncClient(service.url) as client:
            assert await client.is_ready()
            answer = await client.update(model, X, y)
            assert answer["n_examples"] == 40
            found = await asyncio.gather(*(client.predict(model, X) for _ in range(5)))
            assert len({str(prediction["decision"]) for prediction in found}) == 1
            job = (await client.assess(model))["id"]
            states = [reported["state"] async for reported in client.progress(job)]
            assert (states[-1], states.count("done")) == ("done", 1)
            assert len((await client.wait(job))["result"]["decisions"]) == 40
            with pytest.raises(ServiceProblem) as caught:
                await client.predict("nobody", X)
            assert caught.value.request

    asyncio.run(run())


def test_a_refusal_names_the_line_of_the_log(service: ServiceProcess) -> None:
    with Client(service.url) as client, pytest.raises(ServiceProblem) as caught:
        client.model("nobody")
    assert caught.value.request
    while f'"request": "{caught.value.request}"' not in service.errors:
        time.sleep(0.01)
