"""``python -m service`` starts the service."""

import sys

from service.cli import main

if __name__ == "__main__":
    sys.exit(main(["serve", *sys.argv[1:]]))
