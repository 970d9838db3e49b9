"""Front ends of one cluster: each publishes the node that has its files, so that others can read the files there."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import ray
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from livesvm.service.errors import DatasetElsewhere
from livesvm.service.jobs.other_front_ends import short
from livesvm.service.monitoring.health import Health
from livesvm.service.ray.file_transfer import PIECE
from livesvm.service.ray.membership import MEMBERSHIP, NotJoined
from livesvm.service.store.base import DocumentName, Store, StoreError, StoreUnavailable
from livesvm.service.store.redis import RedisStore

KIND = "front"
"""Kind of the documents."""

Document = dict[str, Any]


class RayFrontEnds:
    """One front end among those of a cluster.

    Parameters
    ----------
    here : the directories of its datasets, ``root``, and of its ``jobs``
    holder : its name, which stays the same after a restart
    """

    def __init__(self, here: Mapping[str, str], store: Store, health: Health, holder: str) -> None:
        assert isinstance(store, RedisStore)
        self._here, self._store, self._health, self.holder = here, store, health, holder
        self._reported_node: str | None = None

    def announce(self) -> None:
        """Publish where the files of this front end are; raises StoreUnavailable."""
        self._put(is_there=True)

    def keep(self) -> None:
        """Publish the place of the files again if this front end has changed its node; raises StoreUnavailable."""
        if self._reported_node not in (None, self._node()):
            self.announce()

    def leave(self) -> None:
        """Publish that this front end has left, if it was ever announced; its node can still read its files."""
        if self._reported_node is not None:
            with suppress(StoreError):  # others will notice its silence
                self._put(is_there=False)

    def _put(self, *, is_there: bool) -> None:
        told = {"node": (node := self._node()), **self._here, "is_there": is_there}
        self._store.put_document(DocumentName(KIND, self.holder), json.dumps(told).encode())
        self._reported_node = node

    def _node(self) -> str | None:
        """Return the node that this front end belongs to; while it joins again, return the last known node."""
        with suppress(NotJoined), MEMBERSHIP.inside():
            return str(ray.get_runtime_context().get_node_id())
        return self._reported_node

    def _reported(self, holder: str) -> Document:
        """Return the document of a front end, empty if there is none; raises StoreError."""
        with self._health.store_call("load"):
            data = self._store.document(DocumentName(KIND, holder))
        found: Document = {} if data is None else json.loads(data)
        return found

    def is_away(self, holder: str) -> bool:
        """Return whether a front end has left, or has fallen silent; raises StoreError."""
        with self._health.store_call("load"):
            is_silent = self._store.is_silent(holder)
        return is_silent or not self._reported(holder).get("is_there", False)

    # Their files.

    def where(self, described: Mapping[str, Any]) -> Document:
        """Return the node and the directory of a dataset's files; raises DatasetElsewhere, StoreUnavailable."""
        name, holder = described["name"], str(described["held_by"])
        found = self._reported(holder)
        if not _is_there(found.get("node")):
            at = f" on node {found['node'][:12]}" if found else ""
            reason = f"was uploaded to front end {holder[:12]}{at}, which is not in the cluster; upload it here too"
            raise DatasetElsewhere(f"dataset {name} cannot be read: it {reason}")
        return {"node": found["node"], "directory": str(Path(found["root"]) / str(described["directory"]))}

    def bring(self, described: Mapping[str, Any], to: Path, check: Callable[[], None]) -> None:
        """Copy the files of a dataset to a directory; raises DatasetElsewhere, StoreError, OSError."""
        where = self.where(described)
        for name, file in described["files"].items():
            size = int(file["size"]) * np.dtype(file["dtype"]).itemsize
            with (to / name).open("wb") as stream:
                for start in range(0, size, PIECE):
                    check()
                    stream.write(_read(where["node"], Path(where["directory"]) / name, start, PIECE))

    def job_file(self, holder: str, name: str) -> bytes:
        """Return a file of the jobs of another front end, which may be away; raises StoreUnavailable."""
        found = self._reported(holder)
        if not _is_there(found.get("node")):
            raise StoreUnavailable(
                f"file {name} cannot be read: front end {short(holder)} is on no node of the cluster"
            )
        return _read(found["node"], Path(found["jobs"]) / name)


def _is_there(node: str | None) -> bool:
    """Return whether a node is in the cluster; raises StoreUnavailable."""
    try:
        with MEMBERSHIP.inside():
            return any(each["Alive"] and each["NodeID"] == node for each in ray.nodes())
    except RayError as error:
        raise StoreUnavailable(f"the cluster does not say which nodes there are ({type(error).__name__})") from error


def _read(node: str, path: Path, start: int = 0, size: int = -1) -> bytes:
    """Read bytes of a file by a Ray task on the node that has the file; raises StoreUnavailable."""
    there = NodeAffinitySchedulingStrategy(node, soft=False)
    task: Any = _READ.options(scheduling_strategy=there)
    try:
        found: bytes = MEMBERSHIP.answer(lambda: task.remote(str(path), start, size))
    except (RayError, OSError) as error:
        raise StoreUnavailable(f"{path} cannot be read on node {node[:12]} ({type(error).__name__})") from error
    return found


def _bytes_of(path: str, start: int, size: int) -> bytes:
    with Path(path).open("rb") as stream:
        stream.seek(start)
        return stream.read(size)


_READ = ray.remote(num_cpus=0)(_bytes_of)  # made once, as the cluster keeps every function that it is given
