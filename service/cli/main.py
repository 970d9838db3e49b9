"""The entry point of the ``livesvm`` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, and return its exit status: 0 after success, 1 after a failure, 2 for an invalid command."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given == ["serve"]:  # a start does not wait for what reads the others
        from livesvm.service.cli.serve import serve

        return serve()
    from livesvm.service.cli.app import app

    try:
        app(args=given, prog_name="livesvm")
    except SystemExit as end:
        return int(end.code or 0)
    return 0


if __name__ == "__main__":
    sys.exit(main())
