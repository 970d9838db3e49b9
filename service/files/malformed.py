"""The error of a file that is not of the format that it is read as."""

from livesvm.solvers.errors import InvalidInput


class Malformed(InvalidInput):
    """A file is not of its format; ``field`` is "body", or the part of it that is not."""
