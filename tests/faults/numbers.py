"""A grid of requests: each field and parameter of the OpenAPI document by each of the values that numbers go wrong at.

    python -m tests.faults.numbers
    python -m tests.faults.numbers --replay attack-failures.jsonl

The promises are those of `malformed`. Python makes no text of a whole number of more than 4,300 digits, and no float of
one above 1e308; both are errors that are no answer. Some come from what is reckoned with a number that was good by
itself.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, count
from typing import Any
from urllib.parse import quote

import httpx

from tests.faults.attack import Attack, options, replay, report, started
from tests.faults.scene import FEATURES, JSON, Scene, request
from tests.faults.wire import Sent

VALUES = (
    "7" * 4000, "7" * 5000, "1e400", "9" * 400, "-" + "7" * 4000, "NaN", "Infinity", "9223372036854775808",
    "18446744073709551616", "-1", "1.5", "-0.0", "true", "null", '""', '"' + "7" * 4000 + '"', '"' + "x" * 20_000 + '"',
    "0." + "7" * 5000, "1e-400", "[" + "7" * 4000 + "]", "4300000000",
)  # fmt: skip
"""As JSON has them; the first is good by itself, and what is reckoned with two of them is none."""
DEEPEST = 5
"""Fields within each other."""
ROW = [0.5] * FEATURES
TENSOR = {"name": "X", "shape": [1, FEATURES], "datatype": "FP64"}
BODIES: dict[str, Any] = {
    "/receipts/verify": {"receipt": {"id": "x", "at": 1.0}, "signature": "x", "key": "x", "version": 1},
    "/feeds/{id}/observations": {"rows": [{"time": "2024-03-01T00:00", "y": 1.0}]},
    "/feeds/{id}/announce": {"rows": [{"time": "2024-03-01T00:00", "t": 1.0}]},
    "/feeds/{id}/forecast": {"rows": [{"time": "2024-03-01T00:00", "t": 1.0}]},
    "/feeds/{id}/backtest": {"rows": [{"time": "2024-03-01T00:00", "y": 1.0}], "settings": {"C": [1.0], "window": 10}},
    "/fleets/{id}/observations": {"rows": [{"meter": 7, "time": "2024-03-01T00:00", "y": 1.0}]},
    "/fleets/{id}/announce": {"rows": [{"meter": 7, "time": "2024-03-01T00:00"}]},
    "/models/{id}/update": {
        "add": {"X": [ROW], "y": [1], "keys": [7], "weights": [1.0], "times": [1.0], "tags": ["a"]},
        "remove": {"oldest": 1}, "relabel": {"keys": [1], "y": [1]}, "reweight": {"keys": [2], "weights": [0.5]},
        "decay": 0.9, "C": 9.0,
    },
    "/models/{id}/predict": {"X": [ROW], "coverage": 0.9, "half_life": 1.0},
    "/v2/models/{id}/infer": {
        "inputs": [
            TENSOR | {"data": ROW, "parameters": {"binary_data_size": 8}}
        ]
    },
    "/models/{id}/erase": {"keys": ["none"], "tags": ["none"]},
    "/erase": {"keys": ["none"], "tags": ["none"]},
    "/models/{id}/retrain": {"dataset": "none", "C": 1.0, "gamma": 1.0, "epsilon": 1e-3, "seconds": 1.0},
}  # fmt: skip
"""Bodies of which the document says less than may be in them, or has an example of a part."""
MORE: dict[str, list[Any]] = {
    "/models/{id}/predict": [{"X": {"indices": [[0, 2]], "values": [[1.0, 2.0]], "n_features": FEATURES}}],
    "/v2/models/{id}/infer": [
        {"inputs": [TENSOR | {"data": [ROW]}]},
        {"inputs": [TENSOR | {"shape": ["@", "@"], "parameters": {"binary_data_size": 8}}]},
        {"inputs": [TENSOR | {"shape": ["@", "@"], "data": ROW}]},
    ],
    "/models/{id}/what-if": [{"change": {"kernel": {"name": "poly", "gamma": 1.0, "degree": 2, "coef0": 1.0}}}],
    "/fleets/{id}/erase": [{"series": [7], "times": [1.0]}],
}
"""Others. What stands in place of ``"@"`` is one value in all these places."""
HEADERS = (
    "content-length", "idempotency-key", "last-event-id", "inference-header-content-length", "x-content-sha256",
    "range", "if-none-match", "x-forwarded-for", "accept",
)  # fmt: skip
_MARK = '"@"'


def grid(document: dict[str, Any], scene: Scene, values: int = len(VALUES)) -> Iterator[Sent]:
    """Yield a request for each place with the first value, and with so many of all, which are others in each place."""
    numbers = count()
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            for place in _places(document, scene, path, method.upper(), operation):
                chosen = {0} | {next(numbers) % len(VALUES) for _ in range(values)}
                yield from (Sent("numbers", place(VALUES[number])) for number in sorted(chosen))


def _places(
    document: dict[str, Any], scene: Scene, path: str, method: str, operation: dict[str, Any]
) -> Iterator[Callable[[str], bytes]]:
    """Yield what makes a request with a value in one place."""
    target, bodies = _target(scene, path), _bodies(document, path, operation)
    first = json.dumps(bodies[0]).replace(_MARK, "1").encode() if bodies else None

    def of_path(name: str) -> Callable[[str], bytes]:
        """Return what has it in the path."""
        return lambda value: request(scene, method, _target(scene, path, {name: _plain(value)}), first)

    def of_query(name: str) -> Callable[[str], bytes]:
        """Return what has it in the query."""
        return lambda value: request(scene, method, f"{target}?{name}={_plain(value)}", first)

    def of_body(text: str) -> Callable[[str], bytes]:
        """Return what has it in the body."""
        return lambda value: request(scene, method, target, text.replace(_MARK, value).encode())

    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "path":
            yield of_path(parameter["name"])
        elif parameter["in"] == "query" and method != "DELETE":
            yield of_query(parameter["name"])
    for body in bodies:
        for text in sorted(set(_marked(body))):
            yield of_body(text)


def of_headers(scene: Scene) -> Iterator[Sent]:
    """Yield requests with each value in each header that is read."""
    model = f"/models/{scene.models['svc']}"
    body = json.dumps(BODIES["/v2/models/{id}/infer"]).encode()
    calls = (("GET", f"/feeds/{scene.feed}/events", None), ("POST", f"/v2{model}/infer", body), ("GET", model, None))
    for method, path, data in calls:
        for name in HEADERS:
            for value in VALUES:
                line = f"{name}: ".encode() + value.strip('"').encode()
                if name != "content-length" or data is None:
                    yield Sent("numbers", request(scene, method, path, data, more=(line,)), ends=True)


def _plain(value: str) -> str:
    """Return a value as a path or a query has it; no head has space for long ones, and what reads them is the same."""
    return quote(value.strip('"')[:8000], safe="")


def _target(scene: Scene, path: str, given: dict[str, str] | None = None) -> str:
    """Return a path with what there is, and what is given, in its parts."""
    of_kind = {"feeds": scene.feed, "fleets": scene.fleet}
    known = {
        "id": of_kind.get(path.split("/")[1], scene.models["svc"]),
        "job": scene.job,
        "version": "1",
        "name": "none",
    }
    known |= {"extension": "svg"} | (given or {})
    return re.sub(r"{(\w+)}", lambda found: known[found[1]], path)


def _bodies(document: dict[str, Any], path: str, operation: dict[str, Any]) -> list[Any]:
    content = operation.get("requestBody", {}).get("content", {})
    if JSON not in content:
        return []
    own = path.replace("/versions/{version}", "")
    known = BODIES.get(own) or _instance(content[JSON]["schema"], document, 0)
    return [known, *MORE.get(own, ())]


def _instance(schema: dict[str, Any], document: dict[str, Any], depth: int) -> Any:
    """Return what a schema describes, with all that it may have."""
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    for name in ("anyOf", "oneOf", "allOf"):
        if name in schema:
            kinds = [one for one in schema[name] if one.get("type") != "null"]
            return _instance(kinds[-1] if kinds else {}, document, depth)
    if "const" in schema or "enum" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    if schema.get("type") == "array":
        return [_instance(schema.get("items", {}), document, depth + 1)]
    if schema.get("type") == "object" and depth < DEEPEST:
        return {name: _instance(one, document, depth + 1) for name, one in schema.get("properties", {}).items()}
    return {"string": "a", "boolean": True, "number": 1.0, "object": {}}.get(schema.get("type", ""), 1)


def _marked(value: Any) -> Iterator[str]:
    """Yield the text of a document with a mark in place of each of its values, one at a time."""
    if "@" in json.dumps(value):
        yield json.dumps(value)
        return
    whole = json.dumps(value)
    for way in _ways(value):
        copy = json.loads(whole)
        inner = copy
        for step in way[:-1]:
            inner = inner[step]
        inner[way[-1]] = "@"
        yield json.dumps(copy)
        if len(way) == 1 and isinstance(copy, dict):
            yield json.dumps({way[0]: "@"})  # alone, where others would be refused first


def _ways(value: Any) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, one in inner:
        yield (name,)
        yield from ((name, *way) for way in _ways(one))


def by(document: dict[str, Any], values: int = len(VALUES)) -> Callable[[Scene], Iterator[Sent]]:
    """Return what draws requests from a document."""
    return lambda scene: chain(grid(document, scene, values), of_headers(scene))


def main(arguments: Sequence[str] | None = None) -> int:
    """Attack once and print what held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    chosen = options(parser, requests=0).parse_args(arguments)
    if chosen.replay:
        return replay(chosen.replay, chosen.seconds)
    with started() as service:
        document = httpx.get(f"{service.url}/openapi.json", trust_env=False).raise_for_status().json()
        seen, scene, verdicts = Attack(by(document), chosen.seconds, chosen.megabytes).run(service)
        return report(seen, scene, verdicts, chosen.failures)


if __name__ == "__main__":
    sys.exit(main())
