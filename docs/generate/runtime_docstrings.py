"""An extension of Griffe: take the docstrings that code has when it is loaded, where the source has others or none."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import griffe


class RuntimeDocstrings(griffe.Extension):
    """Give public estimators, and methods that inherit one, the docstrings that they have when they are loaded."""

    def on_class_instance(self, *, cls: griffe.Class, **_: Any) -> None:
        """Read the docstring of a public estimator, in which what is the same as elsewhere is written out."""
        is_public = cls.name in import_module("livesvm.solvers").__all__
        if is_public and cls.module.path.startswith("livesvm.solvers.estimators."):
            loaded = getattr(import_module(cls.module.path), cls.name)
            cls.docstring = _docstring(inspect.cleandoc(loaded.__doc__ or ""), cls)

    def on_function_instance(self, *, func: griffe.Function, **_: Any) -> None:
        """Read the docstring that a method without one inherits, or that was completed when it was loaded."""
        parent = func.parent
        is_ours = func.module.path.startswith("livesvm.solvers.") and func.name[0] != "_"
        if is_ours and isinstance(parent, griffe.Class):
            kind = getattr(import_module(func.module.path), parent.name, None)
            loaded = inspect.getdoc(getattr(kind, func.name, None)) or ""
            if func.docstring is None or len(loaded) > len(func.docstring.value):
                func.docstring = _docstring(loaded, func)


def _docstring(text: str, of: griffe.Object) -> griffe.Docstring | None:
    return griffe.Docstring(text, parent=of, parser=griffe.Parser.numpy) if text else None
