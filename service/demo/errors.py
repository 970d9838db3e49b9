"""Errors of the demonstration."""


class DemoError(Exception):
    """A step of the demonstration had an unexpected result."""
