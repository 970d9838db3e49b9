"""An extension of Griffe: take the docstrings that code makes when it is loaded, which are in no source file."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import griffe


class RuntimeDocstrings(griffe.Extension):
    """Give a class that has no docstring in its source the one that it has when it is loaded."""

    def on_class_instance(self, *, cls: griffe.Class, **_: Any) -> None:
        """Read the docstring of a public estimator."""
        if cls.docstring is None and cls.module.path == "livesvm.solvers.estimators.scikit" and cls.name[0] != "_":
            loaded = getattr(import_module(cls.module.path), cls.name)
            text = inspect.cleandoc(loaded.__doc__ or "")
            cls.docstring = griffe.Docstring(text, parent=cls, parser=griffe.Parser.numpy)
