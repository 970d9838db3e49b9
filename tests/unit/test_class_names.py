"""A name of a class stands for one thing."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("service", "solvers")

SCHEMAS = {"Certificate", "Checkpoint", "DeadLetter", "Health", "Problem", "Remedy", "WhatIfAnswer"}
"""Names of answers in the OpenAPI document, which clients may have generated code from."""
OF_TWO_PACKAGES = {
    *("Batch", "Columns", "Command", "Course", "Examples", "Form", "Found"),
    *("Progress", "Settings", "Sizes", "Solve", "Split", "Trained", "View", "Walk", "Window", "Work"),
    *("_Line", "_Part"),
}
"""What the solvers know a thing by, and the service another."""
TO_RENAME = {"Answer", "Call", "Connection", "Kind", "Outcome", "Reader", "Reading", "Request", "Source", "Subject"}
"""Within one package; none is to be added."""


def class_names() -> Counter[str]:
    """Count the classes at the top of all modules by name."""
    modules = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    bodies = (ast.parse(path.read_text()).body for path in modules)
    return Counter(one.name for body in bodies for one in body if isinstance(one, ast.ClassDef))


def test_no_name_of_a_class_stands_for_two_things() -> None:
    found = class_names()
    assert len(found) > 500
    twice = {name for name, count in found.items() if count > 1}
    assert sorted(twice) == sorted(SCHEMAS | OF_TWO_PACKAGES | TO_RENAME)
