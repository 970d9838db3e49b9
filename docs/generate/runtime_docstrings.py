"""An extension of Griffe: take the docstrings that code makes when it is loaded, which are in no source file."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import griffe


class RuntimeDocstrings(griffe.Extension):
    """Give public estimators the docstrings that they have when they are loaded."""

    def on_class_instance(self, *, cls: griffe.Class, **_: Any) -> None:
        """Read the docstring of a public estimator, in which what is the same as elsewhere is written out."""
        is_public = cls.name in import_module("livesvm.solvers").__all__
        if is_public and cls.module.path.startswith("livesvm.solvers.estimators."):
            loaded = getattr(import_module(cls.module.path), cls.name)
            text = inspect.cleandoc(loaded.__doc__ or "")
            cls.docstring = griffe.Docstring(text, parent=cls, parser=griffe.Parser.numpy)
