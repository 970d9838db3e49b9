"""The calls of the service, from its OpenAPI document."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from fastapi.routing import APIRoute

from docs.generate.markdown import table
from livesvm.service.api.app import create_app
from livesvm.service.settings import Settings

_JSON = "application/json"


def document() -> dict[str, Any]:
    """Return the OpenAPI document of a service with its default settings; ``x-scope`` is what a call's key needs."""
    with tempfile.TemporaryDirectory() as place:
        app = create_app(Settings.model_construct(data_dir=Path(place)))
        try:
            found = app.openapi()
        finally:
            app.state.service.close()
    for route in app.routes:
        if isinstance(route, APIRoute) and route.path in found["paths"]:
            needed = [scope for one in route.dependencies if (scope := getattr(one.dependency, "needed", None))]
            for method in set(route.methods or ()) & {name.upper() for name in found["paths"][route.path]}:
                found["paths"][route.path][method.lower()]["x-scope"] = needed[0] if needed else ""
    return found


def type_of(schema: dict[str, Any]) -> str:
    """Return a JSON schema's type in a few words."""
    if "$ref" in schema:
        return f"`{schema['$ref'].rsplit('/', 1)[1]}`"
    if "anyOf" in schema or "allOf" in schema:
        kinds = [type_of(one) for one in schema.get("anyOf", schema.get("allOf", ()))]
        return " or ".join(dict.fromkeys(kinds))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"list of {type_of(schema['items'])}" if schema.get("items") else "list"
    return str(schema.get("type", "any"))


def calls() -> str:
    """Return a section for every call, grouped by what it is about; an overview comes first."""
    found = document()
    groups: dict[str, list[tuple[str, str, dict[str, Any]]]] = {}
    for path, methods in found["paths"].items():
        for method, call in methods.items():
            groups.setdefault(call["tags"][0], []).append((method.upper(), path, call))
    schemas = found["components"]["schemas"]
    parts = [
        f"- **{group.capitalize()}**: " + ", ".join(f"[{call['summary']}](#{_anchor(call)})" for _, _, call in members)
        for group, members in groups.items()
    ]
    for group, members in groups.items():
        parts.append(f"\n## {group.capitalize()}")
        parts.extend(_call(method, path, call, schemas) for method, path, call in members)
    return "\n".join(parts)


def _anchor(call: dict[str, Any]) -> str:
    return str(call["operationId"]).replace("_", "-")


def _call(method: str, path: str, call: dict[str, Any], schemas: dict[str, Any]) -> str:
    text = call.get("description", "")
    scope = call.get("x-scope")
    head = f"`{method} {path}`" + (f" with a key of scope `{scope}`" if scope else "")
    parts = [f"\n### {call['summary']} {{ #{_anchor(call)} }}", head, text]
    if given := call.get("parameters"):
        rows = [
            (f"`{one['name']}`", one["in"], type_of(one["schema"]), one.get("description", ""))
            for one in given
            if one["in"] != "path"
        ]
        parts += [table(["parameter", "in", "type", "meaning"], rows)] if rows else []
    body = call.get("requestBody", {}).get("content", {})
    if _JSON in body and "$ref" in body[_JSON].get("schema", {}):
        parts += ["The body:", _fields(body[_JSON]["schema"], schemas)]
    if others := [f"`{media}`" for media in body if media != _JSON]:
        parts.append(f"Read too: {', '.join(others)}." if _JSON in body else f"The body is {' or '.join(others)}.")
    good = [one for status, one in call["responses"].items() if status.startswith("2")]
    answer: dict[str, Any] = good[0] if good else {}
    schema = answer.get("content", {}).get(_JSON, {}).get("schema", {})
    parts.append(f"The answer: {answer.get('description', '').rstrip('.')}.")
    if "$ref" in schema and schemas.get(schema["$ref"].rsplit("/", 1)[1], {}).get("properties"):
        parts.append(_fields(schema, schemas))
    return "\n\n".join(part for part in parts if part)


def _fields(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    model = schemas[schema["$ref"].rsplit("/", 1)[1]]
    needed = model.get("required", ())
    rows = [
        (f"`{name}`", type_of(field) + (", needed" if name in needed else ""), field.get("description", ""))
        for name, field in model.get("properties", {}).items()
    ]
    return table(["field", "type", "meaning"], rows)
