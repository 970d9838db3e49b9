"""Front ends of one cluster: each tells, by a document, where it is reached and which node can read its files."""

from __future__ import annotations

import json
from contextlib import suppress
from ipaddress import ip_address
from typing import Any

import ray
import ray.util

from livesvm.service.access.vouching import Vouching
from livesvm.service.errors import JobElsewhere
from livesvm.service.jobs.other_front_ends import FrontEnd, short
from livesvm.service.monitoring.health import Health
from livesvm.service.ray.membership import MEMBERSHIP, NotJoined
from livesvm.service.store.base import DocumentName, Store, StoreError
from livesvm.service.store.redis import RedisStore

KIND = "front"
"""Of the documents."""

Document = dict[str, Any]


class RayFrontEnds:
    """One front end among those of a cluster.

    Parameters
    ----------
    root : of its datasets' files
    holder : its name, which it keeps
    """

    def __init__(self, root: str, store: Store, health: Health, holder: str) -> None:
        assert isinstance(store, RedisStore)
        self._root, self._store, self._health, self.holder = root, store, health, holder
        self._listens = ("", 0)
        self._reported_node: str | None = None
        self.vouching = Vouching()

    @property
    def mark(self) -> str:
        """What ids of jobs that this one is asked for end with."""
        return f"-{short(self.holder)}"

    def listens(self, host: str, port: int) -> None:
        """Note where it listens; for all addresses others take that of its node."""
        self._listens = (host, port)

    def announce(self) -> None:
        """Tell the others where this one is; raises StoreUnavailable."""
        host, port = self._listens
        there = ray.util.get_node_ip_address() if ip_address(host).is_unspecified else host
        self._put(f"http://[{there}]:{port}" if ":" in there else f"http://{there}:{port}")

    def keep(self) -> None:
        """Tell them again where this front end belongs to another node by now; raises StoreUnavailable."""
        if self._reported_node not in (None, self._node()):
            self.announce()

    def leave(self) -> None:
        """Tell the others that it cannot be reached any more, if they knew; its node may read its files on."""
        if self._reported_node is not None:
            with suppress(StoreError):  # it will show no life
                self._put(None)

    def _put(self, address: str | None) -> None:
        self._reported_node = self._node()
        here = {"node": self._reported_node, "root": self._root, "address": address}
        if address is not None:
            here["secret"] = self.vouching.secret.hex()
        self._store.put_document(DocumentName(KIND, self.holder), json.dumps(here).encode())

    def _node(self) -> str | None:
        """Return the node that this front end belongs to; the last known one while it joins again."""
        with suppress(NotJoined), MEMBERSHIP.inside():
            return str(ray.get_runtime_context().get_node_id())
        return self._reported_node

    def reported(self, holder: str) -> Document:
        """Return what a front end has reported of itself, empty where nothing is known; raises StoreError."""
        with self._health.store_call("load"):
            data = self._store.document(DocumentName(KIND, holder))
        found: Document = {} if data is None else json.loads(data)
        return found

    def holding(self, job: str) -> FrontEnd | None:
        """Return the front end that was asked for a job; None: this one, or none. Raises JobElsewhere, StoreError."""
        name = job.rpartition("-")[2]
        if not job.endswith(f"-{name}") or job.count("-") != 2 or self.mark == f"-{name}":
            return None
        for holder in self._named():
            if short(holder) == name:
                return self._reached(holder, job)
        return None

    def _reached(self, holder: str, job: str) -> FrontEnd:
        found = self._found(holder)
        if found is None:
            raise JobElsewhere.of(job, short(holder))
        return found

    def _found(self, holder: str) -> FrontEnd | None:
        """Return a front end that shows life, and is there for others."""
        reported = {} if self._is_silent(holder) else self.reported(holder)
        address, secret = reported.get("address"), reported.get("secret")
        return None if address is None or secret is None else FrontEnd(holder, address, bytes.fromhex(secret))

    def others(self) -> list[FrontEnd]:
        """Return all others that show life; raises StoreError."""
        found = [self._found(holder) for holder in self._named() if holder != self.holder]
        return [front for front in found if front is not None]

    def is_away(self, holder: str) -> bool:
        """Return whether one has left, or shows no life; raises StoreError."""
        return self._is_silent(holder) or self.reported(holder).get("address") is None

    def _named(self) -> list[str]:
        with self._health.store_call("load"):
            return [at.name for at in self._store.documents(KIND)]

    def _is_silent(self, holder: str) -> bool:
        with self._health.store_call("load"):
            return self._store.is_silent(holder)
