"""Erasures from their request to their receipt, over all that a service keeps: models, feeds, jobs, files, the store.

The writer of the model or feed does its part first (``live.erasing``); what is left here can be done again and again,
and is, until the receipt is kept.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from livesvm.service import crash
from livesvm.service.datasets.catalogue import Datasets
from livesvm.service.errors import ModelUnavailable, ServiceError, UnknownDataset, UnknownFeed, UnknownModel
from livesvm.service.feeds.handle import AllFeeds, FeedHandle
from livesvm.service.feeds.wanted import Wanted
from livesvm.service.history.erasure import Asked, Intent, begun, forget_model
from livesvm.service.history.journal import Source
from livesvm.service.history.names import FEEDS, is_feed, stored_feed
from livesvm.service.history.rescue import remove_all
from livesvm.service.jobs.fronts import Fronts
from livesvm.service.jobs.queue import Jobs
from livesvm.service.lifecycle.errands import Errands
from livesvm.service.lifecycle.places import Places, on_ray, places
from livesvm.service.live.handle import Erased, ModelHandle, Models
from livesvm.service.models.arrays import Key
from livesvm.service.receipts.receipt import HASH, BadReceipt, signed, verified
from livesvm.service.receipts.signing import FILE, Signer
from livesvm.service.settings import Settings
from livesvm.service.store.base import DocumentName, StoreDamaged, StoreError, StoreUnavailable
from livesvm.solvers.errors import SolverError

OTHERS_SECONDS = 30.0
"""Beside its solve, for which an erasure is left to the front end that has begun it."""
RECEIPT, DELETING = "receipt", "deleting"
"""Kinds of documents: of erasures, and of models and feeds whose deletion has begun, by what they are stored under."""
_ID = re.compile(r"^e-[0-9a-f]{12}$")

Document = dict[str, Any]
Around = tuple[Jobs, Datasets]
"""What may hold parts of a model beside it."""
log = logging.getLogger(__name__)


class Erasures:
    """One at a time; its calls wait for solves and disks, so none belongs on the event loop."""

    def __init__(
        self,
        settings: Settings,
        source: Source,
        subjects: tuple[Models, AllFeeds],
        around: Around,
        fronts: Fronts | None = None,
    ) -> None:
        self._settings, self._store, self._health, self._metrics = settings, source.store, source.health, source.metrics
        self._registry, self._feeds = subjects
        self._jobs, self._datasets = around
        self._errands = Errands(source.store, fronts, *around)
        self._signer = Signer(settings.data_dir / FILE)
        self._lock = threading.Lock()
        self._owed: set[str] = set()
        self._followed: set[DocumentName] = set()
        self._metrics.erasures_unfinished.set_function(lambda: len(self._owed))

    @property
    def is_owed(self) -> bool:
        """Whether one was begun and could not be ended yet."""
        return bool(self._owed)

    def erase(self, model: str, keys: list[Key], asked_by: str | None) -> Document:
        """Forget examples of a model for good, and rows of datasets with these keys; the receipt.

        Raises UnknownModel, ModelUnavailable, SolverError or NotSolved where nothing was changed; StoreError where it
        was begun, and is ended as soon as that can be done.
        """
        with self._metrics.erasure(), self._lock:
            live = self._registry.get(model)
            rows, unsearched = self._datasets.find(keys)
            return self._erase(live, model, Asked(keys, asked_by, tuple(map(asdict, rows)), tuple(unsearched)))

    def erase_readings(self, feed: str, wanted: Wanted, asked_by: str | None) -> Document:
        """Forget readings of a feed for good; the receipt. Raises UnknownFeed, InvalidInput, and as :meth:`erase`."""
        with self._metrics.erasure(), self._lock:
            live = self._feeds.get(feed)
            return self._erase(live, stored_feed(feed), Asked(live.named(wanted).result(), asked_by))

    def _erase(self, live: ModelHandle | FeedHandle, stored: str, asked: Asked) -> Document:
        self._jobs.erase(stored, _directories(asked.rows))
        try:
            erased = live.erase(asked).result()
            earlier = live.finish_erasing(but=erased.intent.id).result()
            return self._ended(stored, [*earlier, erased])[-1]
        except StoreError:
            self._owed.add(stored)
            raise

    def look(self) -> None:
        """Do what other front ends ask for, and what :meth:`finish` does unless an erasure is under way here."""
        try:
            self._errands.do()  # without the lock, as that one may wait for others, who wait for this one
        except StoreError as error:
            log.warning("what other front ends ask for is not done yet: %s", error)
        if self._lock.acquire(blocking=False):
            try:
                self._finish_all()
            finally:
                self._lock.release()

    def finish(self) -> None:
        """End what was begun before a crash, or while the store was away; what cannot be ended yet is tried again."""
        with self._lock:
            self._finish_all()

    def _finish_all(self) -> None:
        try:
            with self._health.store_call("load"):
                found = begun(self._store)
                self._follow()
                self._end_deletions()
            stored = {i.model for i in found if i.model in self._owed or not self._is_anothers(i)}
            self._owed = set(stored)
            for one in sorted(stored):
                self._finish(one)
        except StoreError as error:
            log.warning("erasures that were begun are not ended yet: %s", error)

    def _is_anothers(self, intent: Intent) -> bool:
        """Whether another front end may be at work on it: each of them can reach every model on Ray."""
        return bool(self._settings.ray) and time.time() - intent.at < self._settings.solve_seconds + OTHERS_SECONDS

    def _follow(self) -> None:
        """Remove what is kept here of models that other front ends have erased from; raises StoreError."""
        if not self._settings.ray:
            return
        now = set(self._store.documents(RECEIPT))
        rewritten = self._rewritten() if now - self._followed else set()
        for at in sorted(now - self._followed):
            if (data := self._store.document(at)) is not None:
                receipt = json.loads(data)
                until = datetime.fromisoformat(receipt["erased_at"]).timestamp()
                self._jobs.erase(receipt["model"], rewritten, until)
                self._remove_files(receipt["model"])
        self._followed = now

    def _rewritten(self) -> set[str]:
        """Directories of datasets that jobs here have used and that are others now, as after an erasure."""
        found = set()
        for record in self._jobs.all():
            dataset = record.asked.get("dataset")
            if isinstance(dataset, dict):
                try:
                    self._datasets.check(dataset)
                except UnknownDataset:
                    found.add(str(dataset["directory"]))
        return found

    def _remove_files(self, stored: str) -> int:
        """Remove files of a model that its store had lost; how many there were. Raises StoreUnavailable."""
        try:
            return remove_all(self._settings.data_dir, stored)
        except OSError as error:
            raise StoreUnavailable(f"files of {stored} cannot be removed: {error}") from error

    def _finish(self, stored: str) -> None:
        try:
            home, id_ = self._home(stored)
            live = home.get(id_)
            with self._metrics.erasure():
                self._ended(stored, live.finish_erasing().result())
        except (UnknownModel, UnknownFeed):
            self._forget_model(stored)
        except (ModelUnavailable, ServiceError, SolverError) as error:
            log.warning("an erasure in %s is not ended yet: %s", stored, error)
        else:
            log.warning("an erasure in %s that was cut off has been ended", stored)

    def begin_deletion(self, stored: str) -> Future[None]:
        """Have a model or a feed deleted, and the store know that what lies around it has to go, too.

        Raises UnknownModel, UnknownFeed, ModelUnavailable or StoreError; :meth:`end_deletion` comes after it.
        """
        home, id_ = self._home(stored)
        with self._health.store_call("document"):
            self._store.put_document(DocumentName(DELETING, stored), b"")
        return home.delete(id_)

    def end_deletion(self, stored: str) -> None:
        """Have nothing remain of what was deleted; what cannot be done is said in the log, and done at a restart."""
        crash.point("deleted")
        home, id_ = self._home(stored)
        home.forget(id_)
        with self._lock:
            try:
                self._tidy(stored)
            except StoreError as error:
                log.warning("what %s has left could not be wiped: %s", stored, error)

    def _home(self, stored: str) -> tuple[Models | AllFeeds, str]:
        """Where it lives, and what it is called there."""
        return (self._feeds, stored.removeprefix(FEEDS)) if is_feed(stored) else (self._registry, stored)

    def _tidy(self, stored: str) -> None:
        """Remove what is left of a model or feed that was deleted; raises StoreError."""
        self._jobs.erase(stored)
        self._remove_files(stored)
        with self._health.store_call("delete"):
            self._forget_model(stored)
            self._store.wipe(wholly=False)
            self._store.delete_document(DocumentName(DELETING, stored))

    def _end_deletions(self) -> None:
        """The same of all whose deletion a crash has cut off; raises StoreError."""
        if deleting := {at.name for at in self._store.documents(DELETING)}:
            for stored in deleting - {found.id for found in self._store.models()}:
                self._tidy(stored)

    def _forget_model(self, stored: str) -> None:
        """Forget what is known of erasures in a model that is gone, once datasets have forgotten too."""
        for intent in begun(self._store, stored):
            self._errands.run(intent.id, intent.rows, seconds=0.0)
        forget_model(self._store, stored)
        self._owed.discard(stored)

    def verify(self, data: bytes) -> Document:
        """Whether a receipt, in the bytes in which it was kept, verifies, and by whose key."""
        try:
            receipt = verified(data)
        except BadReceipt as error:
            return {"verified": False, "is_own": False, "reason": str(error), "receipt": None}
        is_own = False
        with suppress(OSError, ValueError):
            is_own = receipt["public_key"] in self._signer.public_keys
        return {"verified": True, "is_own": is_own, "reason": None, "receipt": receipt}

    def public_keys(self) -> list[str]:
        """By which receipts are verified, oldest first; the last is of those to come. Raises StoreUnavailable."""
        try:
            return self._signer.public_keys
        except (OSError, ValueError) as error:
            raise StoreUnavailable(f"there is no key for receipts: {error}") from error

    def receipts(self) -> list[Document]:
        """Every receipt that is kept, oldest first; raises StoreError."""
        found = []
        with self._health.store_call("load"):
            for at in self._store.documents(RECEIPT):
                with suppress(StoreDamaged):
                    data = self._store.document(at)
                    found += [] if data is None else [json.loads(data)]
        return sorted(found, key=lambda receipt: str(receipt["erased_at"]))

    def _ended(self, stored: str, erased: Sequence[Erased]) -> list[Document]:
        """Purge what lies around a model or feed, and keep a receipt of each erasure; raises StoreError."""
        n_jobs = self._jobs.erase(stored, _directories([found for each in erased for found in each.intent.rows]))
        outcomes = [self._errands.run(each.intent.id, each.intent.rows) for each in erased]
        n_jobs += self._jobs.erase(stored, {found.directory for outcome in outcomes for found in outcome.rows})
        n_files = self._remove_files(stored)
        with self._health.store_call("wipe"):
            wiped = self._store.wipe(wholly=True)
        crash.point("erase-wiped")
        receipts = []
        for each, outcome in zip(erased, outcomes, strict=True):
            others = on_ray(outcome) if self._settings.ray else {}
            searched = places(each.intent, outcome.rows, each.requests, n_jobs, n_files)
            receipt = self._receipt(each, searched | wiped | others)
            with self._health.store_call("document"):
                at = DocumentName(RECEIPT, each.intent.id)
                self._store.put_document(at, json.dumps(receipt, ensure_ascii=False).encode())
                crash.point("erase-signed")
                self._store.delete_document(each.intent.at_store)
                self._errands.end(each.intent.id)
            receipts.append(receipt)
        self._owed.discard(stored)
        self._let_go_of_old()
        return receipts

    def _receipt(self, erased: Erased, searched: Places) -> Document:
        intent, now = erased.intent, datetime.now(UTC)
        content = {
            "receipt": intent.id,
            "model": intent.model.removeprefix(FEEDS),
            "kind": "feed" if is_feed(intent.model) else "model",
            "asked_at": datetime.fromtimestamp(intent.at, UTC).isoformat(),
            "asked_by": intent.asked_by,
            "erased_at": now.isoformat(),
            "kept_until": (now + timedelta(days=self._settings.receipt_days)).isoformat(),
            "version_before": intent.version,
            "version_after": erased.version,
            "keys": {
                "count": len(intent.keys),
                "in_window": intent.found,
                "hash": HASH,
                "salt": intent.salt,
                "hashes": list(intent.keys),
            },
            "certificate": erased.certificate,
            "places": searched,
        }
        try:
            return signed(content, self._signer)
        except (OSError, ValueError) as error:
            raise StoreUnavailable(f"the receipt cannot be signed: {error}") from error

    def _let_go_of_old(self) -> None:
        now = datetime.now(UTC)
        try:
            for receipt in self.receipts():
                if datetime.fromisoformat(receipt["kept_until"]) <= now and _ID.match(receipt["receipt"]):
                    self._store.delete_document(DocumentName(RECEIPT, receipt["receipt"]))
        except StoreError as error:
            log.warning("receipts whose time is over are kept on: %s", error)


def _directories(rows: Iterable[Document]) -> set[str]:
    """Where datasets are that are known to hold such rows."""
    return {str(found["directory"]) for found in rows if found["rows"] is not None}
