"""The entry point of ``python -m livesvm.service``, which starts the service."""

import sys

from livesvm.service.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["serve", *sys.argv[1:]]))
