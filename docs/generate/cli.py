"""The commands of ``livesvm``, from the program itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from typer.main import get_command

from docs.generate.markdown import table
from livesvm.service.cli.app import app


def commands() -> str:
    """Return a section for every command: what it does, its arguments and its options."""
    return "\n\n".join(_section(name, command) for name, command in walk(get_command(app), "livesvm"))


def walk(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield every command below one, with its full name; groups themselves do nothing."""
    if not getattr(command, "commands", None):
        yield name, command
        return
    for word, inner in command.commands.items():
        yield from walk(inner, f"{name} {word}")


def _section(name: str, command: Any) -> str:
    rows = [
        (f"`{_written(one)}`", _default(one), _meaning(one))
        for one in command.params
        if not getattr(one, "hidden", False)
    ]
    parts = [f"## {name}", (command.help or "").strip()]
    return "\n\n".join([*parts, table(["argument", "default", "meaning"], rows)] if rows else parts)


def _written(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    return ", ".join([*parameter.opts, *parameter.secondary_opts])


def _meaning(parameter: Any) -> str:
    meaning = getattr(parameter, "help", None) or ""
    return f"{meaning} Without it, `{parameter.envvar}` counts." if parameter.envvar else meaning


def _default(parameter: Any) -> str:
    if parameter.required:
        return "needed"
    value = parameter.default
    return "" if value is None or value is False or value == [] or callable(value) else f"`{value}`"
