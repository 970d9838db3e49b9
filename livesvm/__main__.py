"""``python -m livesvm`` is the command ``livesvm``."""

import sys

from livesvm.service.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
