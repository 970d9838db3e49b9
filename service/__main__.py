"""``python -m livesvm.service`` starts the service."""

import sys

from livesvm.service.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["serve", *sys.argv[1:]]))
