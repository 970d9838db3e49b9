"""Parsing of a request body with updates of many models: JSON, or NDJSON with one update in each line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pydantic_core import from_json, to_json

from livesvm.service.api.bodies.reading import JSON, Body, few_names, parse_json, parsed_bytes, refuse_repeated
from livesvm.service.api.requests import MOST_UPDATES, UpdateRequest
from livesvm.service.errors import InvalidRequest, MalformedBody
from livesvm.service.models.commands import memory_of
from livesvm.solvers.errors import InvalidInput, SolverError
from livesvm.solvers.models.change import Change

NDJSON = "application/x-ndjson"


@dataclass(frozen=True)
class Updates:
    """The updates in a body by model id, the errors of invalid updates by model id, and all ids in the body's order."""

    updates: dict[str, Change]
    errors: dict[str, Exception]
    order: list[str]

    def memory(self) -> int:
        """Return the number of bytes that the updates occupy in memory until the call is answered."""
        return sum(memory_of(update) for update in self.updates.values())


def parse_updates(body: Body) -> Updates:
    """Parse the updates in a body; raises InvalidInput or MalformedBody if the body is not a list of updates."""
    found = Updates({}, {}, [])
    with body.memory(parsed_bytes(body.data)):
        names = few_names(body.data, MOST_UPDATES)
        entries = _entries(body)
        refuse_repeated(body.data, names)
        if len(entries) > MOST_UPDATES:
            raise InvalidInput(f"has {len(entries)} updates, a call has at most {MOST_UPDATES}", field="updates")
        for row, entry in enumerate(entries):
            model = entry.pop("model", None) if isinstance(entry, dict) else None
            if not isinstance(model, str):
                raise InvalidInput('must be an object that names its model, as {"model": ..}', field="updates", row=row)
            if model in found.order:
                reason = f"is a second update of model {model[:64]!r}; a call has one of each"
                raise InvalidInput(reason, field="updates", row=row)
            found.order.append(model)
            try:
                asked = parse_json(replace(body, data=to_json(entry), media=JSON), UpdateRequest)
                found.updates[model] = asked.command()
            except (SolverError, InvalidRequest, MalformedBody) as error:
                found.errors[model] = error
    return found


def _entries(body: Body) -> list[Any]:
    """Parse a body, and return each of its updates as a JSON object."""
    if body.media == NDJSON:
        return [
            _read(line, f"line {number}: ") for number, line in enumerate(body.data.splitlines(), 1) if line.strip()
        ]
    document = _read(body.data)
    if not isinstance(document, dict) or document.keys() != {"updates"} or not isinstance(document["updates"], list):
        raise InvalidInput('must be {"updates": [..]}', field="body")
    return document["updates"]


def _read(data: bytes, where: str = "") -> Any:
    try:
        return from_json(data)
    except ValueError as error:
        raise MalformedBody(f"{where}{error}") from None
