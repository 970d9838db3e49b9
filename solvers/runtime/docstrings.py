"""Sections of docstrings that several methods share, written once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from textwrap import dedent
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class Taking:
    """A decorator that completes the docstrings of methods with the same parameters, given what each method returns.

    Entries have the form of numpydoc: a line with the name or type, and below it the meaning, indented.
    """

    def __init__(self, parameters: str, raises: str = "") -> None:
        self._parameters, self._raises = parameters, raises

    def __call__(self, returns: str, raises: str = "") -> Callable[[F], F]:
        """Return the decorator for a method with these ``returns``, and with errors that only this method raises."""
        sections = {"Parameters": self._parameters, "Returns": returns, "Raises": self._raises or raises}

        def complete(method: F) -> F:
            out = inspect.cleandoc(method.__doc__ or "")
            for title, text in sections.items():
                if text:
                    out += f"\n\n{title}\n{'-' * len(title)}\n{dedent(text).strip()}"
            method.__doc__ = out
            return method

        return complete


taking_rows = Taking(
    """
    X : array_like or sparse matrix, shape (m, d)
        Rows, in the units of the features. With the kernel "precomputed" kernel values (m, n) with the window's
        examples, oldest first; with a function for a kernel, what that takes.
    """
)
