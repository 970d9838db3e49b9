"""Requests drawn from the OpenAPI document of a service of its own, with the promises of `malformed`.

    python -m tests.faults.schema_driven [--requests 20000] [--seed 0]
    python -m tests.faults.schema_driven --replay attack-failures.jsonl

Half of them are what the document allows, half what it does not. They are drawn as Hypothesis draws, and sent through
sockets as any client would send them.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httpx
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.core.result import Ok

from tests.faults.attack import Attack, numbered, options, replay, report, started
from tests.faults.scene import Scene
from tests.faults.wire import Sent

ROUND = 40
"""Requests of one operation that are drawn at a time."""


def operations(document: dict[str, Any]) -> list[Any]:
    """Return the operations of an OpenAPI document."""
    found = list(schemathesis.openapi.from_dict(document).get_all_operations())
    good = [one.ok() for one in found if isinstance(one, Ok)]
    assert len(good) == len(found)
    return good


def drawn(operation: Any, mode: GenerationMode, scene: Scene, number: int, most: int) -> list[Sent]:
    """Return requests for one operation.

    The same in every run for that number. None where nothing about it can be wrong.
    """
    found: list[Sent] = []

    @seeded(number)
    @settings(
        max_examples=most,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def draw(case: Any) -> None:
        found.append(Sent(f"{mode.value} {case.method}", as_sent(case, scene, number + len(found))))

    try:
        draw()
    except Unsatisfiable:
        return []
    return found


def as_sent(case: Any, scene: Scene, number: int) -> bytes:
    """Return the bytes of a drawn request, seven in eight for existing objects; a deletion is for a drawn one."""
    models = list(scene.models.values())
    known = {"id": models[number % len(models)], "job": scene.job}
    if case.method.upper() != "DELETE" and number % 8:
        case.path_parameters |= {name: known[name] for name in case.path_parameters if name in known}
    request = requests.Request(**case.as_transport_kwargs(base_url=f"http://{scene.host}")).prepare()
    body: Any = request.body or b""
    head = [f"{request.method} {request.path_url} HTTP/1.1", f"host: {scene.host}"]
    head += [f"{name}: {value}" for name, value in _text(request.headers) if name.lower() != "connection"]
    return (
        "\r\n".join(head).encode("latin-1", "replace")
        + b"\r\n\r\n"
        + (body.encode() if isinstance(body, str) else bytes(body))
    )


def _text(headers: Any) -> Iterator[tuple[str, str]]:
    for pair in headers.items():
        name, value = (part.decode("latin-1") if isinstance(part, bytes) else part for part in pair)
        yield name, value


def endless(document: dict[str, Any], scene: Scene, start: int, most: int) -> Iterator[Sent]:
    """Yield requests for every operation in turn, in both modes, at most so many of one at a time."""
    every = [(operation, mode) for operation in operations(document) for mode in GenerationMode]
    for number in itertools.count(start):
        for position, (operation, mode) in enumerate(every):
            yield from drawn(operation, mode, scene, 1000 * number + position, most)


def by(document: dict[str, Any], count: int, seed: int) -> Callable[[Scene], Iterator[Sent]]:
    """Return what draws requests from a document."""

    def draw(scene: Scene) -> Iterator[Sent]:
        """So many of them, of every operation if there is space."""
        share = -(-count // (2 * len(operations(document))))
        source = endless(document, scene, seed, min(ROUND, share))
        return numbered(lambda _: next(source), count, "schema-driven")

    return draw


def main(arguments: Sequence[str] | None = None) -> int:
    """Attack once and print what held."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    chosen = options(parser, requests=20_000).parse_args(arguments)
    if chosen.replay:
        return replay(chosen.replay, chosen.seconds)
    with started() as service:
        document = httpx.get(f"{service.url}/openapi.json", trust_env=False).raise_for_status().json()
        seen, scene, verdicts = Attack(
            by(document, chosen.requests, chosen.seed), chosen.seconds, chosen.megabytes
        ).run(service)
        return report(seen, scene, verdicts, chosen.failures)


if __name__ == "__main__":
    sys.exit(main())
