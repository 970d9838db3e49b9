"""The documents that users read, and what can be checked in them: code blocks, commands, links.

A page is a document below ``docs/``. Its code blocks are run in their order, as a reader would run them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Template
from textwrap import dedent

ROOT = Path(__file__).parents[1]
PAGES = tuple(sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")))
DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "deploy/README.md",
    "examples/README.md",
    "service/README.md",
    "service/store/README.md",
    "solvers/README.md",
    "tests/benchmarks/README.md",
    *PAGES,
)
LOCAL = "http://127.0.0.1:8000"
"""Where documents take the service to be."""

_FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?<=\n\n)((?: {4,}[^\n|-][^\n]*\n)+)(?=\n)")
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Command:
    """A command of a shell block: its words, the file that takes its output, and the answer the document shows."""

    words: list[str]
    output: str | None
    answer: str | None


def read(document: str) -> str:
    """Return the text of a file of the repository."""
    return (ROOT / document).read_text(encoding="utf-8")


def blocks(document: str, language: str) -> list[str]:
    """Return the code blocks of a language, in their order."""
    return [code for name, code in _FENCED.findall(read(document)) if name == language]


def command_lines(document: str, program: str) -> list[list[str]]:
    """Yield the words after ``program`` wherever the document has a command of it, in blocks or in text."""
    fenced = [line for block in blocks(document, "sh") for line in block.splitlines()]
    rest = _FENCED.sub("", read(document))
    indented = [line for block in _INDENTED.findall(rest) for line in dedent(block).splitlines()]
    begin = re.compile(rf"(?:\.venv/bin/)?{re.escape(program)} (?=[a-z-])(.*)")
    found = [begin.match(line.strip()) for line in [*fenced, *indented, *_SPAN.findall(rest)]]
    return [shlex.split(match[1].split("    ")[0], comments=True) for match in found if match]


def has_calls(document: str) -> bool:
    """Return whether the blocks of a document call the service."""
    return LOCAL in "".join(blocks(document, "python")) or bool(blocks(document, "sh"))


def steps(document: str) -> Iterator[str | Command]:
    """Yield what a reader runs, in the document's order: Python as text, and the commands of shell blocks."""
    variables: dict[str, str] = {}
    for language, code in _FENCED.findall(read(document)):
        if language == "python":
            yield code
        elif language == "sh":
            yield from _commands(code, variables)


def _commands(block: str, variables: dict[str, str]) -> Iterator[Command]:
    """Yield the commands of a shell block, with the variables put in that it and those before it set."""
    lines = block.splitlines()
    while lines:
        text = lines.pop(0)
        while not _is_whole(text):
            text += "\n" + lines.pop(0)
        words = [Template(word).safe_substitute(variables) for word in shlex.split(text, comments=True)]
        answer = _comment(text) or (_comment(lines[0]) if lines and lines[0].startswith("#") else None)
        if len(words) == 1 and re.match(r"[A-Z]+=", words[0]):
            name, variables[name] = words[0].split("=", 1)
        elif words:
            output = words[words.index(">") + 1] if ">" in words else None
            yield Command(words[: words.index(">")] if output else words, output, answer)


def links(document: str) -> list[tuple[Path, str]]:
    """Return links to other files of the repository, or within one: the file, and the heading or nothing."""
    found = [target.partition("#") for target in _LINK.findall(read(document)) if "://" not in target]
    here = ROOT / document
    return [(here.parent / path if path else here, heading) for path, _, heading in found]


def anchors(path: Path) -> set[str]:
    """Return the headings of a document as links name them."""
    titles = _HEADING.findall(path.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


def is_answer(shown: str, given: str) -> bool:
    """Return whether an answer holds what the document shows of it, in which ``...`` and ``..`` stand for anything."""
    parts = [re.escape(part) for part in re.split(r"\.{2,3}", shown)]
    return re.search(".*".join(parts), given, re.DOTALL) is not None


def _is_whole(text: str) -> bool:
    try:
        shlex.split(text, comments=True)
    except ValueError:
        return False
    return not text.endswith("\\")


def _comment(text: str) -> str | None:
    """Return what a document shows of an answer: a comment that begins as JSON does."""
    found = re.search(r"# ([{\"].*)$", text)
    return found[1] if found else None
