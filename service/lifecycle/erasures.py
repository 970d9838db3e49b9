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
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from livesvm.service import crash
from livesvm.service.datasets.catalogue import Datasets
from livesvm.service.errors import (
    IdempotencyConflict,
    ModelUnavailable,
    NothingToErase,
    NotSolved,
    ServiceError,
    UnknownDataset,
    UnknownFeed,
    UnknownModel,
)
from livesvm.service.feeds.handle import AllFeeds
from livesvm.service.feeds.wanted import Wanted
from livesvm.service.history.erasure import EVERYWHERE, LEFT, Intent, Part, Seen, begun
from livesvm.service.history.journal import Source
from livesvm.service.history.names import FEEDS, is_feed, stored_feed
from livesvm.service.history.rescue import remove_all
from livesvm.service.jobs.fronts import Fronts
from livesvm.service.jobs.queue import Jobs
from livesvm.service.lifecycle.errands import Errands
from livesvm.service.lifecycle.places import Places, around, in_words, of_part, on_ray
from livesvm.service.lifecycle.search import Held, Sought, held, requests_of
from livesvm.service.live.handle import Erased, Models
from livesvm.service.models.arrays import Key
from livesvm.service.receipts.receipt import HASH, BadReceipt, hashed, names, names_tag, signed, verified
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
Done = tuple[Part, Erased]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Asked:
    """Who asks for an erasure, by the label of the API key; the name of the request, and its content as text."""

    by: str | None
    request: str | None
    body: str

    def asks(self, intent: Intent) -> Intent:
        """An erasure that is asked for so."""
        request = None if self.request is None else intent.hash(self.request)
        return replace(intent, asked_by=self.by, request=request, body=intent.hash(self.body))


@dataclass(frozen=True)
class Answered:
    """A receipt; ``replayed`` if the request had been answered before."""

    receipt: Document
    replayed: bool = False


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

    def erase(self, model: str, sought: Sought, asked: Asked) -> Answered:
        """Forget examples of a model for good, and rows of datasets with these keys; the receipt.

        Raises UnknownModel, ModelUnavailable, NothingToErase, SolverError or NotSolved where nothing was changed;
        StoreError or ModelUnavailable where it was begun, and is ended as soon as that can be done. A request that was
        made before gets its receipt again; raises IdempotencyConflict if it was another one.
        """
        self._registry.get(model)
        return self._once(model, asked, lambda: self._of_keys(model, sought))

    def erase_everywhere(self, sought: Sought, asked: Asked) -> Answered:
        """The same in all models, feeds and datasets that know any of it, with one receipt.

        Those that cannot be asked now, or find no optimum without, are named in it.
        """
        return self._once(EVERYWHERE, asked, lambda: self._of_keys(EVERYWHERE, sought))

    def erase_readings(self, feed: str, wanted: Wanted, asked: Asked) -> Answered:
        """Forget readings of a feed for good; the receipt. Raises UnknownFeed, InvalidInput, and as :meth:`erase`."""
        live = self._feeds.get(feed)
        return self._once(stored_feed(feed), asked, lambda: _of_times(stored_feed(feed), live.seen(wanted).result()))

    def _once(self, target: str, asked: Asked, begin: Callable[[], Intent]) -> Answered:
        """What was answered to this request before, or the receipt of what it begins."""
        with self._metrics.erasure(), self._lock:
            earlier = None if asked.request is None else self._earlier(target, asked.request, asked.body)
            if earlier is not None:
                return Answered(earlier, replayed=True)
            intent = asked.asks(begin())
            try:
                with self._health.store_call("document"):
                    self._store.put_document(intent.at_store, intent.encode())
                crash.point("erase-begun")
                receipt = self._end(intent, first=True)
            except (StoreError, ModelUnavailable):
                self._owed.add(intent.id)
                raise
            if receipt is None:
                raise UnknownModel(f"{in_words(target)} was deleted while examples were erased from it")
            self._end_earlier(intent)
            return Answered(receipt)

    def _end_earlier(self, intent: Intent) -> None:
        """End what was begun before in the same places, and could not be ended then; raises StoreError."""
        places = {part.stored for part in intent.parts}
        for one in begun(self._store):
            if one.id in self._owed and not places.isdisjoint(part.stored for part in one.parts):
                self._end(one)

    def _earlier(self, target: str, request: str, body: str) -> Document | None:
        """The receipt of a request that was made before, ended now if it was cut off; raises IdempotencyConflict."""
        with self._health.store_call("load"):
            under_way = [one for one in begun(self._store) if one.request == one.hash(request)]
        for one in under_way:
            if one.target == target and one.body == one.hash(body):
                return self._end(one)
        for receipt in self.receipts():
            salt = bytes.fromhex(receipt["keys"]["salt"])
            told = receipt.get("request") or {}
            if told.get("name") == hashed(salt, request):
                if told["body"] != hashed(salt, body):
                    break
                return receipt
        else:
            if not under_way:
                return None
        raise IdempotencyConflict(f"the key {request!r} came with another erasure before")

    def _of_keys(self, target: str, sought: Sought) -> Intent:
        """What is to be forgotten of keys and tags, and where; raises NothingToErase or as :meth:`erase`."""
        with self._health.store_call("load"):
            stored = [found.id for found in self._store.models()]
            holds = {one: self._held(one, sought) for one in stored}
            asked = stored if target == EVERYWHERE else [target]
            texts = {key for one in asked for key in holds[one].tagged if isinstance(key, str)}
            keys = tuple(dict.fromkeys([*sought.keys, *sorted(texts)]))  # an integer may be somebody else elsewhere
            if texts.difference(sought.keys):
                holds = {one: self._held(one, replace(sought, keys=keys)) for one in stored}
        rows, unsearched, in_rows = self._datasets.find(keys)
        in_jobs = {one: self._jobs.naming(one, {*keys, *holds[one].tagged}) for one in asked}
        known = in_rows.union(*(holds[one].names for one in asked), *in_jobs.values())
        intent = Intent(target, (), rows=tuple(map(asdict, rows)), unsearched=tuple(unsearched))
        is_open = any(one.rows is None for one in rows)  # to be searched by the front ends that have them
        if not known and not is_open:
            raise NothingToErase(self._nothing(target, sought))
        parts, refused, going = list[Part](), dict[str, str](), set[str]()
        for one in asked:
            own = [key for key in holds[one].tagged if key not in keys]
            if target != EVERYWHERE or holds[one] or in_jobs[one]:
                try:
                    seen = self._seen(one, [*keys, *own])
                except (UnknownModel, UnknownFeed, ModelUnavailable) as error:
                    if target != EVERYWHERE:
                        raise
                    refused[in_words(one)] = str(error)
                    continue
                named = bool(holds[one])
                jobs, marks = named or bool(in_jobs[one]), tuple(map(intent.hash, own))
                parts.append(Part(one, seen.version, seen.sequence, seen.found, named, jobs, marks))
                with self._health.store_call("load"):
                    requests = self._store.requests(one)
                going |= set(requests_of(requests, [*keys, *own], sought.texts))
        missing = [name for name in (*sought.keys, *sought.tags) if name not in known]
        return replace(
            intent,
            parts=tuple(parts),
            keys=tuple(intent.hash(key) for key in keys if key not in missing),
            tags=tuple(intent.hash(tag) for tag in sought.tags if tag not in missing),
            not_found=tuple(map(intent.hash, missing)),
            requests=tuple(map(intent.hash, going)),
            elsewhere=tuple(in_words(one) for one in stored if one not in asked and holds[one]),
            refused=refused,
        )

    def _held(self, stored: str, sought: Sought) -> Held:
        return held(self._store, self._settings.data_dir, stored, sought)

    def _seen(self, stored: str, keys: Sequence[Key]) -> Seen:
        if is_feed(stored):
            return self._feeds.get(stored.removeprefix(FEEDS)).seen(None).result()
        return self._registry.get(stored).seen(keys).result()

    def _nothing(self, target: str, sought: Sought) -> str:
        """Why nothing is to be erased."""
        where = "nothing that is stored" if target == EVERYWHERE else f"nothing that is stored of {in_words(target)}"
        reason = f"{where}, nor a row of a dataset, is named by any of these; nothing was changed"
        earlier = [
            receipt["receipt"]
            for receipt in self.receipts()
            if any(names(receipt, key) for key in sought.keys) or any(names_tag(receipt, tag) for tag in sought.tags)
        ]
        return f"{reason}; some were erased before, as receipt {earlier[-1]} says" if earlier else reason

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
            mine = [one for one in found if one.id in self._owed or not self._is_anothers(one)]
            self._owed = {one.id for one in mine}
            for one in mine:
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
                for stored in _places(receipt) or [""]:
                    self._jobs.erase(stored, rewritten, until)
                    self._remove_files(stored)
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

    def _finish(self, intent: Intent) -> None:
        where = in_words(intent.target)
        try:
            with self._metrics.erasure():
                self._end(intent)
        except (ModelUnavailable, ServiceError, SolverError) as error:
            log.warning("an erasure in %s is not ended yet: %s", where, error)
        else:
            log.warning("an erasure in %s that was cut off has been ended", where)

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
            if intent.target == stored:
                self._let_go(intent)
        self._store.delete_document(DocumentName(LEFT, stored))

    def _let_go(self, intent: Intent) -> None:
        """End an erasure whose models are gone, without a receipt."""
        self._errands.run(intent.id, intent.rows, seconds=0.0)
        self._store.delete_document(intent.at_store)
        self._owed.discard(intent.id)

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

    def _end(self, intent: Intent, *, first: bool = False) -> Document | None:
        """Forget in every place, purge what lies around, and keep the receipt; None where all places are gone.

        Where it is ``first`` tried and no model finds an optimum without them, nothing is changed, and nothing is to
        be later: raises SolverError or NotSolved. Raises StoreError or ModelUnavailable where it is to be tried again.
        """
        stored = [part.stored for part in intent.parts if part.in_jobs]
        n_jobs = self._erase_jobs(stored, _directories(intent.rows))
        done, refused, failures = list[Done](), dict(intent.refused), list[Exception]()
        for part in intent.parts:
            try:
                done.append((part, self._forgotten(part, intent)))
            except (UnknownModel, UnknownFeed):
                continue  # it was deleted meanwhile
            except (SolverError, NotSolved) as error:
                if not first:
                    raise
                failures.append(error)
                refused[in_words(part.stored)] = f"not erased: {error}"
        if failures and len(failures) == len(intent.parts):
            self._store.delete_document(intent.at_store)
            raise failures[0]
        if intent.parts and not done and not failures:
            self._let_go(intent)
            return None
        outcome = self._errands.run(intent.id, intent.rows)
        n_jobs += self._erase_jobs(stored, {found.directory for found in outcome.rows})
        if not (any(part.in_jobs for part, _ in done) or outcome.rows or outcome.open):
            self._store.delete_document(intent.at_store)
            raise NothingToErase("no row of a dataset is named by any of these; nothing was changed")
        n_files = sum(map(self._remove_files, stored))
        with self._health.store_call("wipe"):
            wiped = self._store.wipe(wholly=True)
        crash.point("erase-wiped")
        others = on_ray(outcome) if self._settings.ray else {}
        searched = around(intent, outcome.rows, n_jobs, n_files) | wiped | others
        receipt = self._receipt(replace(intent, refused=refused), done, searched)
        with self._health.store_call("document"):
            at = DocumentName(RECEIPT, intent.id)
            self._store.put_document(at, json.dumps(receipt, ensure_ascii=False).encode())
            crash.point("erase-signed")
            self._store.delete_document(intent.at_store)
            self._errands.end(intent.id)
        self._owed.discard(intent.id)
        self._let_go_of_old()
        return receipt

    def _forgotten(self, part: Part, intent: Intent) -> Erased:
        """What the writer of a model or feed has done; one whose history names none of them stays as it is."""
        if not part.is_named:
            return Erased(part.version, 0, None)
        home, id_ = self._home(part.stored)
        return home.get(id_).erase(intent).result()

    def _erase_jobs(self, stored: Sequence[str], directories: set[str]) -> int:
        return sum(self._jobs.erase(one, directories) for one in stored or [""])

    def _receipt(self, intent: Intent, done: Sequence[Done], searched: Places) -> Document:
        now = datetime.now(UTC)
        keys = {"count": len(intent.all_keys), "in_window": intent.found, "hash": HASH, "salt": intent.salt}
        marks = {"hashes": intent.all_keys, "tags": list(intent.tags), "not_found": list(intent.not_found)}
        parts = [_told(part, intent, erased) for part, erased in done]
        if intent.target == EVERYWHERE:
            own: Document = {"model": EVERYWHERE, "kind": "everywhere", "parts": parts}
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
            "kept_until": (now + timedelta(days=self._settings.receipt_days)).isoformat(),
            "keys": keys | marks,
            "elsewhere": list(intent.elsewhere),
            "refused": intent.refused,
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


def _of_times(stored: str, seen: Seen) -> Intent:
    """What is to be forgotten of a feed's readings."""
    part = Part(stored, seen.version, seen.sequence, seen.found)
    intent = Intent(stored, (part,), by_time=True)
    keys, missing = (tuple(map(intent.hash, times)) for times in (seen.times, seen.missing))
    return replace(intent, keys=keys, not_found=missing)


def _told(part: Part, intent: Intent, erased: Erased) -> Document:
    """What a receipt says of one model or feed."""
    return {
        "model": part.stored.removeprefix(FEEDS),
        "kind": "feed" if is_feed(part.stored) else "model",
        "version_before": part.version,
        "version_after": erased.version,
        "in_window": part.found,
        "certificate": erased.certificate,
        "places": of_part(part, intent, erased.requests),
    }


def _places(receipt: Document) -> list[str]:
    """What the models and feeds of a receipt are stored under."""
    parts = receipt.get("parts") or ([] if receipt["model"] == EVERYWHERE else [receipt])
    return [stored_feed(one["model"]) if one["kind"] == "feed" else one["model"] for one in parts]


def _directories(rows: Iterable[Document]) -> set[str]:
    """Where datasets are that are known to hold such rows."""
    return {str(found["directory"]) for found in rows if found["rows"] is not None}
