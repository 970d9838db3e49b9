"""The error for a file that does not have the expected format."""

from livesvm.solvers.errors import InvalidInput


class Malformed(InvalidInput):
    """A file does not have the expected format; ``field`` is "body", or names the malformed part."""
