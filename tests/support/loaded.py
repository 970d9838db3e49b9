"""Prints the modules that a process has loaded: ``Forked`` from what services are forked from, or started afresh."""

from __future__ import annotations

import sys

print(*sys.modules)
