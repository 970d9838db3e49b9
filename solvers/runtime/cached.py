"""Attributes that are computed at their first use, without a lock.

In Python 3.11 ``functools.cached_property`` has one lock for all instances of a class, held while a value is computed.
A solve that pauses for others while it computes a value would keep the lock, and the others would wait for it.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property as cached_property  # noqa: TID251
else:

    class cached_property(functools.cached_property):  # noqa: N801, TID251  # the name of what it replaces
        """A property that is computed once for an instance, as ``functools.cached_property`` of Python 3.12 does."""

        __module__ = "functools"  # pydantic takes its attributes for no fields

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            """Compute the value and store it as an attribute of the instance, where later accesses find it."""
            if instance is None:
                return self
            found = instance.__dict__[self.attrname] = self.func(instance)
            return found
