"""A limit on the share of the disk that datasets may take, which leaves enough space for updates."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from livesvm.service.errors import TooManyDatasets


@dataclass(frozen=True)
class DiskShare:
    """The limits on the use of the disk that datasets are stored on.

    Parameters
    ----------
    root : directory of all datasets, and of uploads under way; it may be absent
    share : largest part of the disk that they may take together
    free : bytes of the disk that they leave free
    """

    root: Path
    share: float
    free: int

    def check(self) -> None:
        """Raise TooManyDatasets if datasets take too much of the disk; raises OSError."""
        disk = os.statvfs(self.root.parent)
        most, left, taken = self.share * disk.f_blocks * disk.f_frsize, disk.f_bavail * disk.f_frsize, self._taken()
        if disk.f_blocks and taken > most:
            raise TooManyDatasets(
                f"datasets take {taken} bytes, and {most:.0f} is their share of the disk (LIVESVM_DATASETS_SHARE); "
                "delete others first"
            )
        if disk.f_blocks and left < self.free:
            raise TooManyDatasets(
                f"{left} bytes are left on the disk of {self.root.parent}, and {self.free} are kept for updates "
                "(LIVESVM_DISK_ROOM_MB); delete others first"
            )

    def _taken(self) -> int:
        taken = 0
        for directory, _, files in os.walk(self.root):
            for file in files:
                with suppress(FileNotFoundError):  # it was removed meanwhile
                    taken += os.stat(os.path.join(directory, file)).st_size
        return taken
