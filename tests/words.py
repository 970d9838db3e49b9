"""Count words and sentences that the project's language avoids, and list the files that have most.

    python -m tests.words [--worst 10] [--show service/errors.py] [--lower]

It reads docstrings, comments and messages of the code, the page, and the documents, and counts four things:

- people: words for people, such as "who" or "nobody", which data are not;
- avoided: words and phrases of a list for which there is a plainer one;
- first_lines: first lines of docstrings of functions that are not in the imperative;
- long_sentences: sentences of more than 30 words in what users read, in a thousand.

``tests/words.json`` has a limit for each. The command exits 1 where a count is above its limit. ``--lower`` brings the
limits down to the counts; nothing brings them up.
"""

from __future__ import annotations

import argparse
import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.documents import DOCUMENTS, ROOT

LIMITS = ROOT / "tests/words.json"
CODE = ("livesvm", "service", "solvers", "tests", "docs/generate", "docker", "examples")
PAGE = "service/api/page/files"
SHORTEST, LONGEST = 5, 30
"""Words of a sentence; what is shorter stands in cells of tables."""
PEOPLE = re.compile(
    r"\b(who|whom|nobody|everyone|everybody|anyone|anybody|someone|somebody|he|him|his|himself|she)\b", re.I
)
AVOIDED = re.compile(
    r"\b(anew|beside|told|whose|those who|by turns|as it were|room|in the place of|no more than that|lets? go"
    r"|go(?:es)? by|(?:be|is|are) of|which [^.]{1,40} of which)\b",
    re.I,
)
NOT_IMPERATIVE = re.compile(
    r"what|whether|who|whom|whose|of|how|where|when|which|why|the|an?|all|every|everything|each|those|this|these|that|one"
    r"|two|some|any|no|nothing|only|as|in|on|at|by|for|from|with|without|true|false|is|are|its?|same|both|part|bytes|many"
    r"|few|more|most|numbers?|names?"
)
ENDING_IN_S = re.compile(r"pass|process|discuss|express|address|guess|press|cross|miss|compress|assess|canvass")
"""Imperatives that a plural, or a verb in the third person, is not taken for."""
HELP = frozenset({"help", "description", "summary", "title"})
"""Arguments that hold what users read."""
_QUOTED = re.compile(r"(\"[^\"\n]*\"|'[^'\n]*'|`[^`\n]*`)|//([^\n]*)|/\*(.*?)\*/", re.DOTALL)


@dataclass
class Text:
    """What is said in one file, each with its line: all of it, and what users read."""

    said: list[tuple[int, str]] = field(default_factory=list)
    read: list[tuple[int, str]] = field(default_factory=list)
    first_lines: list[tuple[int, str]] = field(default_factory=list)


def of_python(path: Path) -> Text:
    """Return docstrings, comments and, but for tests, messages of a module."""
    text = Text()
    source = path.read_text(encoding="utf-8")
    tree = ast.parse(source)
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            doc = ast.get_docstring(node)
            if doc is not None:
                docstrings.add(id(node.body[0].value))  # type: ignore[attr-defined]
                text.said.append((node.body[0].lineno, doc))
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not _is_exempt(node):
                    text.first_lines.append((node.lineno, doc.partition("\n")[0]))
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            text.said.append((token.start[0], token.string))
    if path.relative_to(ROOT).parts[0] != "tests":
        messages = [node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docstrings]
        text.said += [(one.lineno, one.value) for one in messages if isinstance(one.value, str) and " " in one.value]
        text.read += list(_help(tree))
    return text


def of_page(path: Path) -> Text:
    """Return comments and texts of a script or of the page itself."""
    source = re.sub(r"\$\{[^{}]*\}", "", path.read_text(encoding="utf-8"))
    found = [
        (source.count("\n", 0, one.start()) + 1, next(filter(None, one.groups()), ""))
        for one in _QUOTED.finditer(source)
    ]
    return Text(said=[(line, text) for line, text in found if " " in text])


def of_document(path: Path) -> Text:
    """Return the prose of a document, paragraph by paragraph, without its code."""
    text = Text()
    source = re.sub(r"^```.*?^```$", _blank, path.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    source = re.sub(r"(?<=\n\n)((?: {4,}[^\n|-][^\n]*\n)+)", _blank, source)
    line = 1
    for part in re.split(r"(\n[ \t]*\n|\n(?= *[-*|#>]|\s*\d+\. ))", source):
        for cell in part.split("|"):
            if cell.strip(" \n-:#*"):
                text.said.append((line, cell))
        line += part.count("\n")
    text.read = text.said
    return text


def sentences(text: str) -> Iterator[str]:
    """Yield the sentences of a paragraph; code is one word, a link its text, and a few words are no sentence."""
    plain = re.sub(r"`[^`]*`", "code", re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", text)).replace("et al.", "et al")
    yield from (one for one in re.split(r"(?<=[.!?])[\s)*\"]+", plain) if len(one.split()) >= SHORTEST)


def is_imperative(line: str) -> bool:
    """Return whether a docstring's first line may begin with a verb in the imperative; a guess from its first word."""
    word = re.split(r"[^\w'-]", line.strip(), maxsplit=1)[0].lower()
    is_noun = NOT_IMPERATIVE.fullmatch(word) or (word.endswith("s") and not ENDING_IN_S.fullmatch(word))
    return bool(word) and not is_noun


def faults(text: Text) -> Iterator[tuple[str, int, str]]:
    """Yield what is counted: its kind, its line, and the words."""
    for line, said in ((line, re.sub(r"`[^`]*`", "code", said)) for line, said in text.said):
        for kind, pattern in (("people", PEOPLE), ("avoided", AVOIDED)):
            yield from ((kind, line, found[0]) for found in pattern.finditer(said))
    yield from (("first_lines", line, said) for line, said in text.first_lines if not is_imperative(said))
    for line, said in text.read:
        yield from (("long_sentences", line, one) for one in sentences(said) if len(one.split()) > LONGEST)


def texts() -> Iterator[tuple[str, Text]]:
    """Yield every file that is read, by its name."""
    for top in CODE:
        for path in sorted((ROOT / top).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix(), of_python(path)
    for path in sorted((ROOT / PAGE).glob("*.*")):
        if path.suffix in (".js", ".html"):
            yield path.relative_to(ROOT).as_posix(), of_page(path)
    for name in (*DOCUMENTS, "CHANGELOG.md"):
        yield name, of_document(ROOT / name)


def _is_exempt(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function is named like a value, as properties are, or is a test or a fixture."""
    names = {ast.unparse(one).split("(")[0].rpartition(".")[2] for one in node.decorator_list}
    return bool(names & {"property", "cached_property", "setter", "fixture"}) or node.name.startswith("test_")


def _help(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in HELP:
            value = node.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.lineno, value.value


def _blank(found: re.Match[str]) -> str:
    return "\n" * found[0].count("\n")


def main() -> int:
    """Count, compare with the limits, list the worst."""
    parser = argparse.ArgumentParser(prog="python -m tests.words", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--worst", type=int, default=5, help="files that are listed of each kind")
    parser.add_argument("--show", help="print every place in this file")
    parser.add_argument("--lower", action="store_true", help="bring the limits down to the counts")
    asked = parser.parse_args()
    counts: dict[str, Counter[str]] = {kind: Counter() for kind in json.loads(LIMITS.read_text())}
    n_sentences = 0
    for name, text in texts():
        n_sentences += sum(1 for _, said in text.read for _ in sentences(said))
        for kind, line, words in faults(text):
            counts[kind][name] += 1
            if name == asked.show:
                print(f"{name}:{line}: {kind}: {' '.join(words.split())}")
    totals = {kind: count.total() for kind, count in counts.items()}
    totals["long_sentences"] = round(1000 * totals["long_sentences"] / max(1, n_sentences))
    limits: dict[str, int] = json.loads(LIMITS.read_text())
    for kind, total in totals.items():
        worst = ", ".join(f"{name} {count}" for name, count in counts[kind].most_common(asked.worst))
        print(f"{kind}: {total}, at most {limits[kind]}; most in {worst}")
    if asked.lower:
        lowered = {kind: min(limits[kind], total) for kind, total in totals.items()}
        LIMITS.write_text(json.dumps(lowered, indent=2) + "\n")
    above = [kind for kind, total in totals.items() if total > limits[kind]]
    if above:
        print(
            f"more than allowed: {', '.join(above)}; `python -m tests.words --show FILE` lists the places",
            file=sys.stderr,
        )
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
