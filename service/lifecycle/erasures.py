"""Erasures from their request to their receipt, over all that a service keeps: models, jobs, files, the whole store.

The model's writer does its part first (``live.erasing``); what is left here can be done again and again, and is, until
the receipt is kept.
"""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from livesvm.service import crash
from livesvm.service.errors import ModelUnavailable, ServiceError, UnknownModel
from livesvm.service.history.erasure import begun, forget_model
from livesvm.service.history.rescue import remove_all
from livesvm.service.jobs.queue import Jobs
from livesvm.service.live.handle import Erased, Models
from livesvm.service.models.arrays import Key
from livesvm.service.monitoring.health import Health
from livesvm.service.receipts.receipt import HASH, signed
from livesvm.service.receipts.signing import FILE, Signer
from livesvm.service.settings import Settings
from livesvm.service.store.base import DocumentName, Store, StoreDamaged, StoreError, StoreUnavailable
from livesvm.solvers.errors import SolverError

RECEIPT = "receipt"
"""Kind of the documents."""
_ID = re.compile(r"^e-[0-9a-f]{12}$")

Document = dict[str, Any]
log = logging.getLogger(__name__)


class Erasures:
    """One at a time; its calls wait for solves and disks, so none belongs on the event loop."""

    def __init__(self, settings: Settings, store: Store, health: Health, registry: Models, jobs: Jobs) -> None:
        self._settings, self._store, self._health = settings, store, health
        self._registry, self._jobs = registry, jobs
        self._signer = Signer(settings.data_dir / FILE)
        self._lock = threading.Lock()
        self.is_owed = False
        """Whether one was begun and could not be ended yet."""

    def erase(self, model: str, keys: list[Key], asked_by: str | None) -> Document:
        """Forget examples of a model for good; the receipt.

        Raises UnknownModel, ModelUnavailable, SolverError or NotSolved where nothing was changed; StoreError where it
        was begun, and is ended as soon as that can be done.
        """
        with self._lock:
            live = self._registry.get(model)
            self._jobs.erase(model)
            try:
                erased = live.erase(keys, asked_by).result()
                earlier = live.finish_erasing(but=erased.intent.id).result()
                return self._ended(model, [*earlier, erased])[-1]
            except StoreError:
                self.is_owed = True
                raise

    def finish(self) -> None:
        """End what was begun before a crash, or while the store was away; what cannot be ended yet is tried again."""
        with self._lock:
            self.is_owed = False
            try:
                with self._health.store_call("load"):
                    models = {intent.model for intent in begun(self._store)}
                for model in sorted(models):
                    self._finish(model)
            except StoreError as error:
                self.is_owed = True
                log.warning("erasures that were begun are not ended yet: %s", error)

    def _finish(self, model: str) -> None:
        try:
            self._ended(model, self._registry.get(model).finish_erasing().result())
        except UnknownModel:
            forget_model(self._store, model)
        except (ModelUnavailable, ServiceError, SolverError) as error:
            self.is_owed = True
            log.warning("an erasure in model %s is not ended yet: %s", model, error)
        else:
            log.warning("an erasure in model %s that was cut off has been ended", model)

    def model_deleted(self, model: str) -> None:
        """Have nothing remain of a model that was deleted; what cannot be done is said in the log."""
        with self._lock:
            self._jobs.erase(model)
            remove_all(self._settings.data_dir, model)
            try:
                with self._health.store_call("delete"):
                    forget_model(self._store, model)
                    self._store.wipe(wholly=False)
            except StoreError as error:
                log.warning("what model %s has left in the store could not be wiped: %s", model, error)

    def receipts(self) -> list[Document]:
        """Every receipt that is kept, oldest first; raises StoreError."""
        found = []
        with self._health.store_call("load"):
            for at in self._store.documents(RECEIPT):
                with suppress(StoreDamaged):
                    data = self._store.document(at)
                    found += [] if data is None else [json.loads(data)]
        return sorted(found, key=lambda receipt: str(receipt["erased_at"]))

    def _ended(self, model: str, erased: Sequence[Erased]) -> list[Document]:
        """Purge what lies around the model, and keep a receipt of each erasure; raises StoreError."""
        n_jobs = self._jobs.erase(model)
        n_files = remove_all(self._settings.data_dir, model)
        with self._health.store_call("wipe"):
            wiped = self._store.wipe(wholly=True)
        crash.point("erase-wiped")
        places = {
            "window": "solved without them",
            "log, snapshots, solutions": "replaced by one snapshot without them",
            "jobs and their results": f"all of the model's removed, {n_jobs} at the end",
            "files of lost models": f"{n_files} removed",
            "datasets": "not searched: their rows have no keys",
            "feeds": "not searched: their readings have times, and no keys",
            "backups, other copies, disks below the files": "not in this service's hands",
        }
        receipts = []
        for each in erased:
            requests = {"requests and answers": f"{each.requests} forgotten, the others name none of them"}
            receipt = self._receipt(each, places | requests | wiped)
            with self._health.store_call("document"):
                at = DocumentName(RECEIPT, each.intent.id)
                self._store.put_document(at, json.dumps(receipt, ensure_ascii=False).encode())
                crash.point("erase-signed")
                self._store.delete_document(each.intent.at_store)
            receipts.append(receipt)
        self._let_go_of_old()
        return receipts

    def _receipt(self, erased: Erased, places: dict[str, str]) -> Document:
        intent, now = erased.intent, datetime.now(UTC)
        content = {
            "receipt": intent.id,
            "model": intent.model,
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
            "places": places,
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
