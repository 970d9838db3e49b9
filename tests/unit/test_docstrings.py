"""Docstrings of what the packages export are complete, in the sections of numpydoc."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import livesvm
from livesvm import solvers

_SECTION = re.compile(r"^(\w+)\n-{3,}\n", re.MULTILINE)
_ENTRY = re.compile(r"^(\*{0,2}\w+(?:, \*{0,2}\w+)*) : (\S.*)\n {4,}\S", re.MULTILINE)


def sections(doc: str) -> dict[str, str]:
    """Return the sections of a docstring by their title."""
    _, *parts = _SECTION.split(inspect.cleandoc(doc))
    return dict(zip(parts[::2], parts[1::2], strict=True))


def documented(doc: str, *titles: str) -> list[str]:
    """Return the names that have a type and a description in some sections, in their order."""
    there = sections(doc)
    entries = [names for title in titles for names, _ in _ENTRY.findall(there.get(title, ""))]
    return [name.strip("* ") for names in entries for name in names.split(",")]


def parameters_of(function: Any) -> list[str]:
    """Return the names that a caller may give."""
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def methods() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield the public methods of what is exported, each once, but for those of scikit-learn and of Python."""
    seen = set()
    for exported in map(solvers.__dict__.get, solvers.__all__):
        for base in exported.__mro__ if inspect.isclass(exported) else ():
            for name, found in vars(base).items():
                function = getattr(found, "__func__", getattr(found, "fn", found))
                is_ours = inspect.isfunction(function) and base.__module__.startswith("livesvm")
                is_there = inspect.getattr_static(exported, name) is found
                if is_ours and is_there and not name.startswith("_") and function not in seen:
                    seen.add(function)
                    yield f"{base.__name__}.{name}", function


EXPORTED = {name: getattr(solvers, name) for name in solvers.__all__}
CLASSES = {name: one for name, one in EXPORTED.items() if inspect.isclass(one)}
FUNCTIONS = {name: one for name, one in EXPORTED.items() if not inspect.isclass(one)} | dict(methods())
MADE_BY_PATHS = ("PairwiseRegularizationPath", "RegularizationPath")  #: and by no caller: attributes are what counts


def test_both_packages_export_the_same() -> None:
    assert livesvm.__all__ == solvers.__all__


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_a_class_documents_its_parameters(name: str) -> None:
    doc = CLASSES[name].__doc__ or ""
    found = documented(doc, "Parameters", "Attributes")
    assert found
    assert len(found) == len(set(found))
    assert "as in ``" not in "".join(sections(doc).get(title, "") for title in ("Parameters", "Attributes"))
    if name not in MADE_BY_PATHS:
        assert set(parameters_of(CLASSES[name])) <= set(found)


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_function_documents_its_parameters_and_what_it_returns(name: str) -> None:
    function = FUNCTIONS[name]
    doc = inspect.getdoc(function) or ""
    assert documented(doc, "Parameters") == parameters_of(function)
    returned = inspect.signature(function).return_annotation
    returns = {"Returns", "Yields"} & set(sections(doc))
    assert bool(returns) == (returned != "None")
    assert all(re.match(r"\S.*\n {4,}\S|None\n?", sections(doc)[title]) for title in returns)
