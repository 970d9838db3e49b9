"""The service without what Linux alone has, as macOS has it not: for ``tests.service.test_platforms``."""

from __future__ import annotations

import os
import sys

LINUX = ("sched_getaffinity", "sched_setaffinity", "fdatasync", "posix_fadvise", "memfd_create", "copy_file_range")

if __name__ == "__main__":
    for name in LINUX:
        delattr(os, name)
    from livesvm.service.cli.main import main

    sys.exit(main(["serve"]))
