"""The map of the source: every module with the first line of its docstring."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from docs.generate.markdown import table

_DOCSTRING = re.compile(r'\A(?:#.*\n)*\s*r?"""(.+?)(?:"""|\n)')
SHOWN = ("solvers", "service", "tests", "docs/generate", "docker", "examples")


def source_map(root: Path) -> str:
    """Return a section for each package below the top level, with what its modules say of themselves."""
    parts = []
    for top in SHOWN:
        for folder in sorted({path.parent for path in (root / top).rglob("*.py")}):
            name = folder.relative_to(root).as_posix()
            said = first_line(folder / "__init__.py") if (folder / "__init__.py").exists() else ""
            parts.append(f"## `{name}/`\n\n{said}\n\n{table(['module', 'contents'], _modules(folder))}")
    return "\n\n".join(parts)


def first_line(path: Path) -> str:
    """Return the first line of a module's docstring, or nothing."""
    found = _DOCSTRING.match(path.read_text(encoding="utf-8"))
    return found[1].strip() if found else ""


def _modules(folder: Path) -> Iterator[tuple[str, str]]:
    for path in sorted(folder.glob("*.py")):
        if path.name != "__init__.py":
            yield f"`{path.name}`", first_line(path).replace("[", "\\[")
