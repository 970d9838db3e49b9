"""The receipts of erasures: functions that sign, store, find and verify receipts, and that drop expired receipts."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from livesvm.service.datasets.catalogue import Found
from livesvm.service.errors import IdempotencyConflict
from livesvm.service.history.erasure import EVERYWHERE, ErasurePart, Intent
from livesvm.service.history.journal import Source
from livesvm.service.history.names import FEEDS, FLEET, is_feed, stored_feed
from livesvm.service.hosting.handle import Erased
from livesvm.service.lifecycle.places import Places, of_part
from livesvm.service.lifecycle.search import Sought
from livesvm.service.receipts.receipt import HASH, BadReceipt, hashed, names, names_tag, signed, verified
from livesvm.service.receipts.signing import FILE, Signer
from livesvm.service.settings import Settings
from livesvm.service.store.base import DocumentName, StoreDamaged, StoreError, StoreUnavailable

RECEIPT = "receipt"
"""The kind of receipts' documents, each under the id of its erasure."""
_ID = re.compile(r"^e-[0-9a-f]{12}$")

Document = dict[str, Any]
Done = tuple[ErasurePart, Erased]
log = logging.getLogger(__name__)


class Receipts:
    """The receipts of one service; its methods wait for the store."""

    def __init__(self, settings: Settings, source: Source) -> None:
        self._store, self._health, self._days = source.store, source.health, settings.receipt_days
        self._signer = Signer(settings.data_dir / FILE)

    def keep(self, intent: Intent, done: Sequence[Done], searched: Places, rows: Sequence[Found] = ()) -> Document:
        """Sign the receipt of an erasure, store it and return it; raises StoreError."""
        receipt = self._made(intent, done, searched, rows)
        with self._health.store_call("document"):
            at = DocumentName(RECEIPT, intent.id)
            self._store.put_document(at, json.dumps(receipt, ensure_ascii=False).encode())
        return receipt

    def of_request(self, request: str, body: str) -> Document | None:
        """Return the receipt of a request, or None; raises IdempotencyConflict if its key came with another body."""
        for receipt in self.all():
            salt, mark = bytes.fromhex(receipt["keys"]["salt"]), receipt["request"] or {}
            if mark.get("name") == hashed(salt, request):
                if mark["body"] != hashed(salt, body):
                    raise conflict(request)
                return receipt
        return None

    def naming(self, sought: Sought) -> str | None:
        """Return the id of the newest receipt with one of these keys or tags; None if there is no such receipt."""
        found = [
            str(receipt["receipt"])
            for receipt in self.all()
            if any(names(receipt, key) for key in sought.keys) or any(names_tag(receipt, tag) for tag in sought.tags)
        ]
        return found[-1] if found else None

    def verify(self, data: bytes) -> Document:
        """Return whether the receipt in ``data`` is valid and from this service, and the receipt or the reason."""
        try:
            receipt = verified(data)
        except BadReceipt as error:
            return {"verified": False, "is_own": False, "reason": str(error), "receipt": None}
        is_own = False
        with suppress(OSError, ValueError):
            is_own = receipt["public_key"] in self._signer.public_keys
        return {"verified": True, "is_own": is_own, "reason": None, "receipt": receipt}

    def public_keys(self) -> list[str]:
        """Return the public keys that verify receipts, oldest first. Raises StoreUnavailable."""
        try:
            return self._signer.public_keys
        except (OSError, ValueError) as error:
            raise StoreUnavailable(f"there is no key for receipts: {error}") from error

    def all(self) -> list[Document]:
        """Return all stored receipts, oldest first; raises StoreError."""
        found = []
        with self._health.store_call("load"):
            for at in self._store.documents(RECEIPT):
                with suppress(StoreDamaged):
                    data = self._store.document(at)
                    found += [] if data is None else [json.loads(data)]
        return sorted(found, key=lambda receipt: str(receipt["erased_at"]))

    def drop_old(self) -> None:
        """Remove receipts that have expired; a failure is logged."""
        now = datetime.now(UTC)
        try:
            for receipt in self.all():
                if datetime.fromisoformat(receipt["kept_until"]) <= now and _ID.match(receipt["receipt"]):
                    self._store.delete_document(DocumentName(RECEIPT, receipt["receipt"]))
        except StoreError as error:
            log.warning("receipts whose time is over are kept on: %s", error)

    def _made(self, intent: Intent, done: Sequence[Done], searched: Places, rows: Sequence[Found]) -> Document:
        now = datetime.now(UTC)
        keys = {"count": len(intent.all_keys), "in_window": intent.found, "hash": HASH, "salt": intent.salt}
        marks = {"hashes": intent.all_keys, "tags": list(intent.tags), "not_found": list(intent.not_found)}
        parts = [_told(part, intent, erased) for part, erased in done]
        if intent.target == EVERYWHERE:
            own: Document = {"model": EVERYWHERE, "kind": "everywhere", "parts": parts}
        elif intent.target.startswith(FLEET):
            own = {"model": intent.target.removeprefix(FLEET), "kind": "fleet", "parts": parts}
        else:
            own = parts[0] | {"parts": []}
            searched = own.pop("places") | searched
        content = {
            "receipt": intent.id,
            **own,
            "asked_at": datetime.fromtimestamp(intent.at, UTC).isoformat(),
            "asked_by": intent.asked_by,
            "request": None if intent.request is None else {"name": intent.request, "body": intent.body},
            "erased_at": now.isoformat(),
            "kept_until": (now + timedelta(days=self._days)).isoformat(),
            "keys": keys | marks | ({"respelled": list(intent.respelled)} if intent.respelled else {}),
            "datasets": [{"name": found.name, "rows": found.rows} for found in rows],
            "elsewhere": list(intent.elsewhere),
            "refused": intent.refused,
            "places": searched,
        }
        try:
            return signed(content, self._signer)
        except (OSError, ValueError) as error:
            raise StoreUnavailable(f"the receipt cannot be signed: {error}") from error


def conflict(request: str) -> IdempotencyConflict:
    """Return the error for an idempotency key that was used for another erasure before."""
    return IdempotencyConflict(f"the key {request!r} came with another erasure before")


def _told(part: ErasurePart, intent: Intent, erased: Erased) -> Document:
    """Return the part of a receipt about one model or feed."""
    return {
        "model": part.stored.removeprefix(FEEDS),
        "kind": "feed" if is_feed(part.stored) else "model",
        "version_before": part.version,
        "version_after": erased.version,
        "in_window": part.found,
        "certificate": erased.certificate,
        "places": of_part(part, intent, erased),
    }


def places_of(receipt: Document) -> list[str]:
    """Return the stored names of the models and feeds in a receipt."""
    parts = receipt.get("parts") or ([] if receipt["kind"] in ("everywhere", "fleet") else [receipt])
    return [stored_feed(one["model"]) if one.get("kind") == "feed" else one["model"] for one in parts]
