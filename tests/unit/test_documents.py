"""The documents are true: their Python runs, the commands they name exist, their links lead somewhere."""

from __future__ import annotations

import argparse
import re
import runpy
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.main import get_command

from docs.generate.tables import TABLES
from livesvm.service import settings
from livesvm.service.cli.app import app
from tests.documents import DOCUMENTS, PAGES, ROOT, anchors, blocks, command_lines, has_calls, links, read


def named(program: str) -> list[tuple[str, ...]]:
    """Return all that the documents say after the name of a program."""
    return sorted({tuple(words) for document in DOCUMENTS for words in command_lines(document, program)})


WITHOUT_OPTIONS = ("livesvm.service", "tests.benchmarks.interrupts")


class Understood(Exception):
    """The arguments of a command have been read; its work would begin now."""


def readers_own() -> dict[str, Any]:
    """Return what the blocks take for granted: a reader's data."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(200, 3))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=200) > 0.5, 1, -1)
    return {
        "X": X[:100],
        "y": y[:100],
        "s": ((y[:100] > 0) & (np.arange(100) < 40)).astype(int),
        "key": 99,
        "X_new": X[100:130],
        "y_new": y[100:130],
        "X_validation": X[130:],
        "y_validation": y[130:],
        "X_next": X[10:110],
        "y_next": y[10:110],
        "places": np.r_[10:100, [-1] * 10],
    }


NEEDS = {f"docs/howto/{name}.md": name for name in ("river", "sktime", "mlflow")}
"""What pages show that the tests do without."""
WITH_PYTHON = [page for page in PAGES if blocks(page, "python") and not has_calls(page)]


def marked(page: str) -> Any:
    """Return a page as a parameter; warnings of libraries that it needs are theirs."""
    return pytest.param(page, marks=[pytest.mark.filterwarnings("ignore"), pytest.mark.slow] if page in NEEDS else [])


@pytest.mark.parametrize("document", ["README.md", "solvers/README.md", *map(marked, WITH_PYTHON)])
def test_python_runs(document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if document in NEEDS:
        pytest.importorskip(NEEDS[document], reason=f"livesvm[{NEEDS[document]}] is not installed")
    monkeypatch.chdir(tmp_path)
    names = readers_own()
    exec(blocks("docs/howto/tables.md", "python")[0], {})  # writes customers.csv
    for block in blocks(document, "python"):
        exec(compile(block, document, "exec"), names)


NEEDED_BY = {"tests.benchmarks.rivals": ("river", "lightgbm"), "tests.benchmarks.tables": ("lightgbm",)}


@pytest.mark.parametrize("words", named("python -m"), ids=" ".join)
@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
def test_a_module_that_is_named_takes_its_arguments(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    module, *arguments = words
    assert find_spec(module) is not None
    if module in WITHOUT_OPTIONS:
        assert not arguments
        return
    for library in NEEDED_BY.get(module, ()):
        pytest.importorskip(library)
    parse = argparse.ArgumentParser.parse_args

    def only_parse(parser: argparse.ArgumentParser, *given: Any) -> None:
        parse(parser, *given)
        raise Understood

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", only_parse)
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    with pytest.raises(Understood):
        runpy.run_module(module, run_name="__main__")


def test_every_benchmark_has_its_place() -> None:
    reported = {words[0] for words in command_lines("tests/benchmarks/README.md", "python -m")}
    assert reported >= {words[0] for words in named("python -m") if words[0].startswith("tests.benchmarks.")}
    shared = {"__init__", "apart", "components", "fleet_parts", "forecasters", "frank_wolfe_paper"}
    shared |= {"sets", "series", "printing"}
    found = {path.stem for path in (ROOT / "tests/benchmarks").glob("*.py")}
    assert {f"tests.benchmarks.{name}" for name in found - shared} <= reported


COMMANDS: Any = get_command(app)


@pytest.mark.parametrize("words", named("livesvm"), ids=" ".join)
def test_a_command_that_is_named_exists(words: tuple[str, ...]) -> None:
    command = COMMANDS
    rest = list(words)
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    assert not getattr(command, "commands", {}) or not rest or rest[0].startswith("-")
    options = {name for parameter in command.params for name in parameter.opts} | {"--help"}
    assert {word for word in rest if word.startswith("-")} <= options


@pytest.mark.parametrize("words", named("make"), ids=" ".join)
def test_a_target_that_is_named_exists(words: tuple[str, ...]) -> None:
    target, *variables = words
    makefile = read("Makefile")
    assert target in re.findall(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[0].split()
    assert all(f"$({name.partition('=')[0]})" in makefile for name in variables)


def figures() -> set[str]:
    """Return the names of all; what draws them takes long to load."""
    from docs.generate.figures import FIGURES

    return set(FIGURES)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    for path, heading in links(document):
        if path.parent.resolve() == ROOT / "docs/figures":
            assert path.stem in figures(), path
            continue
        assert path.exists(), path
        assert not heading or heading in anchors(path), heading


def test_pages_ask_for_what_the_build_makes() -> None:
    text = "".join(read(page) for page in PAGES)
    assert set(re.findall(r"^\{\{ (\w+) \}\}$", text, re.MULTILINE)) == set(TABLES)
    assert set(re.findall(r"figures/(\w+)\.svg", text)) == figures()
    assert all(page.removeprefix("docs/") in read("mkdocs.yml") for page in PAGES)


def test_settings_say_nothing_twice() -> None:
    for name, _, meaning in settings.table():
        sentences = re.split(r"(?<=\.) ", meaning)
        assert len(sentences) == len(set(sentences)), name


def test_every_how_to_page_has_its_picture() -> None:
    pages = [page for page in PAGES if page.startswith(("docs/howto", "docs/concepts"))]
    assert len(pages) >= 20
    assert [page for page in pages if "/figures/" not in read(page)] == ["docs/concepts/glossary.md"]
