"""Errors of the demonstration."""


class DemoError(Exception):
    """A step of the demonstration did not do what it should."""
