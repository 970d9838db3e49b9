"""Small disks of the tests' own, to be filled, made read-only and taken away; needs the right to mount."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

MEGABYTES = 32


class Disk:
    """A file system in memory, mounted at ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def mount(self, options: str) -> None:
        """Mount, or mount again with other options; raises CalledProcessError where that is not allowed."""
        words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.path)]
        subprocess.run(words, check=True, capture_output=True)

    def fill(self, leave: int = 0) -> None:
        """Take every byte that is free, but for so many."""
        file = os.open(self.path / "filler", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        with suppress(OSError):
            while shutil.disk_usage(self.path).free > leave or not leave:
                os.write(file, bytes(4096))
        os.close(file)

    def empty(self) -> None:
        """Give them back."""
        (self.path / "filler").unlink(missing_ok=True)

    def take_away(self) -> None:
        """Unmount, whoever has files open."""
        subprocess.run(["umount", "--lazy", str(self.path)], check=True, capture_output=True)


@contextmanager
def disk(path: Path) -> Iterator[Disk]:
    """Yield a disk of some megabytes, gone at the end."""
    path.mkdir()
    made = Disk(path)
    made.mount(f"size={MEGABYTES}m")
    try:
        yield made
    finally:
        with suppress(subprocess.CalledProcessError):
            made.take_away()
