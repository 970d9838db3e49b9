"""Erasures, from request to receipt, in all data that a service keeps: models, feeds, jobs, files and the store.

The writer of a model or feed first erases in its own state (method ``erase`` of the handle). The later steps can be
repeated without harm, and are repeated until the receipt is stored.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Container, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Any

from livesvm.service import crash
from livesvm.service.datasets.catalogue import Datasets, FrontEnds
from livesvm.service.errors import (
    ModelUnavailable,
    NothingToErase,
    NotSolved,
    ServiceError,
    UnknownDataset,
    UnknownFeed,
    UnknownJob,
    UnknownModel,
)
from livesvm.service.feeds.wanted import WantedReadings
from livesvm.service.history.erasure import EVERYWHERE, ErasurePart, Intent, Seen, begun, directories_in
from livesvm.service.history.journal import Source
from livesvm.service.history.names import FEEDS, FLEET, is_feed, stored_feed
from livesvm.service.history.rescue import remove_all
from livesvm.service.hosting.collection import Feeds, Hosting, Models
from livesvm.service.hosting.handle import Erased
from livesvm.service.jobs.queue import Jobs
from livesvm.service.jobs.retraining import RetrainRequest
from livesvm.service.lifecycle.deletions import DELETED_AT_ONCE, Deletions, delete_feeds
from livesvm.service.lifecycle.finding import Finder
from livesvm.service.lifecycle.name_index import NameIndex
from livesvm.service.lifecycle.places import around, in_words, on_ray
from livesvm.service.lifecycle.receipts import RECEIPT, Done, Receipts, conflict, places_of
from livesvm.service.lifecycle.remote_erasure import ErasureOutcome, RemoteErasures
from livesvm.service.lifecycle.search import Sought
from livesvm.service.settings import Settings
from livesvm.service.store.base import DocumentName, StoreDamaged, StoreError, StoreUnavailable
from livesvm.service.store.batches import batches
from livesvm.solvers.errors import InvalidInput, SolverError

OTHERS_SECONDS = 30.0
"""Seconds, besides the time to solve, for which an erasure is left to the front end that has begun it."""

RETRAINING = "retraining"
"""The kind of documents about models that an erasure has left untrained, with the request for their retraining."""

Document = dict[str, Any]
Around = tuple[Jobs, Datasets]
"""Jobs and datasets, which may hold data of a model too."""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ErasureRequest:
    """A request for an erasure: the label of its API key, its idempotency key or None, its content as text."""

    by: str | None
    request: str | None
    body: str

    def asks(self, intent: Intent) -> Intent:
        """Return the erasure with this request's label and with hashes of its idempotency key and its content."""
        request = None if self.request is None else intent.hash(self.request)
        return replace(intent, asked_by=self.by, request=request, body=intent.hash(self.body))


@dataclass(frozen=True)
class AnsweredErasure:
    """The receipt of an erasure; ``replayed`` says that the request had been answered before."""

    receipt: Document
    replayed: bool = False


class Erasures:
    """The erasures of one service, which run one at a time; its methods block, so the event loop must not call them."""

    def __init__(
        self,
        settings: Settings,
        source: Source,
        hosting: Hosting,
        around: Around,
        fronts: FrontEnds | None = None,
        holder: str = "",
    ) -> None:
        self._holder = holder
        self._settings, self._store, self._health, self._metrics = settings, source.store, source.health, source.metrics
        self._models, self._feeds = hosting.models, hosting.feeds
        self._jobs, self._datasets = around
        self._errands = RemoteErasures(source.store, fronts, *around)
        self._names = NameIndex(source.store, settings.data_dir)
        self._finder = Finder(self._names, source, hosting, around)
        self._deletions = Deletions(source, self._names, self._remove, self._drop)
        self.receipts = Receipts(settings, source)
        self._lock = threading.Lock()
        self._owed: set[str] = set()
        self._retraining: dict[str, tuple[str | None, Document]] = {}
        """Models that an erasure has left untrained, with the id of the job that retrains them and its request."""
        self._followed: set[DocumentName] = set()
        self._metrics.erasures_unfinished.set_function(lambda: len(self._owed))

    @property
    def is_owed(self) -> bool:
        """Whether an erasure was begun and could not be finished yet."""
        return bool(self._owed)

    def erase(self, model: str, sought: Sought, asked: ErasureRequest) -> AnsweredErasure:
        """Erase examples of a model, and rows of datasets with the same keys; return the receipt.

        Raises UnknownModel, ModelUnavailable, NothingToErase, SolverError or NotSolved if nothing was changed. Raises
        StoreError or ModelUnavailable if the erasure has begun; it is then finished as soon as possible. A repeated
        request gets its receipt again; a different request with the same key raises IdempotencyConflict.
        """
        self._models.get(model)
        return self._once(model, asked, lambda: self._of_keys(model, sought))

    def erase_everywhere(self, sought: Sought, asked: ErasureRequest) -> AnsweredErasure:
        """Erase the examples with given keys or tags in all models, feeds and datasets; return one receipt.

        The receipt names models that cannot be reached now, or that cannot be solved without the erased examples.
        """
        return self._once(EVERYWHERE, asked, lambda: self._of_keys(EVERYWHERE, sought))

    def erase_readings(self, feed: str, wanted: WantedReadings, asked: ErasureRequest) -> AnsweredErasure:
        """Erase readings of a feed; return the receipt.

        Raises UnknownFeed, InvalidInput, and the errors of :meth:`erase`.
        """
        live = self._feeds.get(feed)
        return self._once(stored_feed(feed), asked, lambda: _of_times(stored_feed(feed), live.seen(wanted).result()))

    def erase_series(
        self, fleet: str, feeds: Sequence[str], wanted: WantedReadings, asked: ErasureRequest
    ) -> AnsweredErasure:
        """Erase readings in series of a fleet, and return one receipt; series without such readings stay unchanged.

        Raises InvalidInput if no series has such a reading, and the errors of :meth:`erase`.
        """
        for feed in feeds:
            self._feeds.get(feed)
        return self._once(FLEET + fleet, asked, lambda: self._of_series(FLEET + fleet, feeds, wanted))

    def _of_series(self, target: str, feeds: Sequence[str], wanted: WantedReadings) -> Intent:
        """Return the erasure document for readings in many feeds."""
        intent, parts, fault = Intent(target, (), by_time=True), list[ErasurePart](), InvalidInput("there is no series")
        missing: set[str] | None = None
        for feed in feeds:
            try:
                seen = self._feeds.get(feed).seen(wanted).result()
            except InvalidInput as error:
                fault = error
                continue
            keys = tuple(map(intent.hash, seen.times))
            parts.append(ErasurePart(stored_feed(feed), seen.version, seen.sequence, seen.found, keys=keys))
            missing = set(seen.missing) if missing is None else missing & set(seen.missing)
        if not parts:
            raise fault
        return replace(intent, parts=tuple(parts), not_found=tuple(map(intent.hash, sorted(missing or ()))))

    def _once(self, target: str, asked: ErasureRequest, begin: Callable[[], Intent]) -> AnsweredErasure:
        """Return the receipt of an earlier identical request, or run the erasure and return its receipt."""
        with self._metrics.erasure(), self._lock:
            asked = replace(asked, body=f"{target} {asked.body}")
            earlier = None if asked.request is None else self._earlier(asked.request, asked.body)
            if earlier is not None:
                return AnsweredErasure(earlier, replayed=True)
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
                raise NothingToErase("what named these was deleted while they were erased")
            if self._owed:
                self._finish_all()
            return AnsweredErasure(receipt)

    def _earlier(self, request: str, body: str) -> Document | None:
        """Return an earlier identical request's receipt, after its erasure is finished; raises IdempotencyConflict."""
        with self._health.store_call("load"):
            under_way = [one for one in begun(self._store) if one.request == one.hash(request)]
        for one in under_way:
            if one.body != one.hash(body):
                raise conflict(request)
            return self._end(one)
        return self.receipts.of_request(request, body)

    def _of_keys(self, target: str, sought: Sought) -> Intent:
        """Return the erasure document for keys and tags; raises NothingToErase, which names any earlier receipt."""
        try:
            return self._finder.find(target, sought)
        except NothingToErase as error:
            earlier = self.receipts.naming(sought)
            before = "" if earlier is None else f"; some were erased before, as receipt {earlier} says"
            raise NothingToErase(f"{error}; nothing was changed{before}") from None

    def look(self) -> None:
        """Run erasures that other front ends request; unless an erasure runs here, also call :meth:`finish`."""
        try:
            self._errands.do()  # without the lock: this may wait for others, which wait for it
        except StoreError as error:
            log.warning("what other front ends ask for is not done yet: %s", error)
        if self._lock.acquire(blocking=False):
            try:
                self._finish_all()
            finally:
                self._lock.release()

    def finish(self) -> None:
        """Finish interrupted erasures and deletions; a later call tries again those that cannot be finished yet."""
        with self._lock:
            self._finish_all()

    def _finish_all(self) -> None:
        try:
            with self._health.store_call("load"):
                found = begun(self._store)
                self._follow()
                self._deletions.end_all()
                self._go_on_retraining()
            mine = [one for one in found if one.id in self._owed or not self._is_anothers(one)]
            self._owed = {one.id for one in mine}
            for one in mine:
                self._finish(one)
        except StoreError as error:
            log.warning("erasures that were begun are not ended yet: %s", error)

    def _is_anothers(self, intent: Intent) -> bool:
        """Return whether another front end of a Ray cluster may be running this erasure, because it began recently."""
        return bool(self._settings.ray) and time.time() - intent.at < self._settings.solve_seconds + OTHERS_SECONDS

    def _follow(self) -> None:
        """Remove local jobs and files of models in which other front ends have erased examples; raises StoreError."""
        if not self._settings.ray:
            return
        now = set(self._store.documents(RECEIPT))
        rewritten = self._rewritten() if now - self._followed else set()
        for at in sorted(now - self._followed):
            if (data := self._store.document(at)) is not None:
                receipt = json.loads(data)
                until = datetime.fromisoformat(receipt["erased_at"]).timestamp()
                for stored in places_of(receipt) or [""]:
                    self._jobs.erase(stored, rewritten, until)
                    self._remove_files(stored)
        self._followed = now

    def _rewritten(self) -> set[str]:
        """Return the directories of datasets that local jobs used, and that an erasure or upload has replaced since."""
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
        """Remove the rescue files of a model; return the number of files. Raises StoreUnavailable."""
        try:
            return remove_all(self._settings.data_dir, stored)
        except OSError as error:
            raise StoreUnavailable(f"files of {stored} cannot be removed: {error}") from error

    def _finish(self, intent: Intent) -> None:
        where = in_words(intent.target)
        try:
            with self._metrics.erasure():
                self._end(intent)
        except (ServiceError, SolverError) as error:
            log.warning("an erasure in %s is not ended yet: %s", where, error)
        else:
            log.warning("an erasure in %s that was cut off has been ended", where)

    def begin_deletion(self, stored: str) -> Future[None]:
        """Begin to delete a model or a feed, and record in the store that its jobs and files must be removed too.

        Raises UnknownModel, UnknownFeed, ModelUnavailable or StoreError; the caller then calls :meth:`end_deletion`.
        """
        home, id_ = self._home(stored)
        home.find(id_)  # raises before the note is written if there is nothing to delete
        self._deletions.begin(stored)
        return home.delete(id_)

    def end_deletion(self, stored: str) -> None:
        """Remove the remaining data of a deleted model or feed; log a failure, after which a restart tries again.

        The id can be used again only after this call, because the call would also remove data of a new model or feed
        with this id.
        """
        crash.point("deleted")
        home, id_ = self._home(stored)
        try:
            with self._lock:
                self._deletions.end([stored], stored)
        except StoreError as error:
            log.warning("what %s has left could not be wiped: %s", stored, error)
        finally:
            home.forget(id_)

    def delete_fleet(self, fleet: str, feeds: Sequence[str]) -> None:
        """Delete the feeds of a fleet, a few at a time, then the jobs and files of all these feeds together.

        Raises ModelUnavailable or StoreError. After such an error or a crash, the next call continues the deletion.
        """
        stored = self._deletions.begin_fleet(fleet, [stored_feed(id_) for id_ in feeds])
        for some in batches(feeds, DELETED_AT_ONCE):
            if self._health.is_stopping:
                raise ModelUnavailable("the service is being stopped")
            delete_feeds(self._feeds, some)
        with self._lock:
            self._deletions.end(stored, FLEET + fleet)

    def _home(self, stored: str) -> tuple[Models | Feeds, str]:
        """Return the collection that a model or feed belongs to, and its id in this collection."""
        return (self._feeds, stored.removeprefix(FEEDS)) if is_feed(stored) else (self._models, stored)

    def _remove(self, stored: str) -> None:
        """Remove the jobs and files of a model or feed; raises StoreError."""
        self._jobs.erase(stored)
        self._is_trained(stored)
        self._remove_files(stored)

    def _drop(self, intent: Intent) -> None:
        """Drop an erasure without a receipt, because all its models and feeds were deleted."""
        self._errands.run(intent.id, intent.rows, seconds=0.0)
        self._store.delete_document(intent.at_store)
        self._owed.discard(intent.id)

    def _end(self, intent: Intent, *, first: bool = False) -> Document | None:
        """Erase in models, feeds, jobs, datasets and files, and store the receipt; None if all parts were deleted.

        Raises StoreError or ModelUnavailable if the erasure must be tried again. At the ``first`` try, raises
        SolverError or NotSolved if no model can be solved without the examples: the erasure is then dropped and no
        model has changed, but the jobs of these models are deleted.
        """
        stored = [part.stored for part in intent.parts if part.in_jobs]
        n_jobs = self._erase_jobs(stored, directories_in(intent.rows))
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
            self._drop(intent)
            return None
        outcome = self._errands.run(intent.id, intent.rows)
        n_jobs += self._erase_jobs(stored, {found.directory for found in outcome.rows})
        if not (any(part.in_jobs for part, _ in done) or outcome.rows or outcome.open):
            self._store.delete_document(intent.at_store)
            raise NothingToErase("no row of a dataset is named by any of these; nothing was changed")
        done = [(part, self._retrained(part.stored, erased, outcome)) for part, erased in done]
        n_files = sum(map(self._remove_files, stored))
        with self._health.store_call("wipe"):
            if intent.by_time or self._store.shared:  # the index has marks of what went, or another service may
                for part in intent.parts:
                    self._names.drop(part.stored)
            wiped = self._store.wipe(wholly=True, models=[part.stored for part in intent.parts])
        crash.point("erase-wiped")
        others = on_ray(outcome) if self._settings.ray else {}
        searched = around(intent, outcome.rows, n_jobs, n_files) | wiped | others
        receipt = self.receipts.keep(replace(intent, refused=refused), done, searched, outcome.rows)
        crash.point("erase-signed")
        with self._health.store_call("document"):
            self._store.delete_document(intent.at_store)
            self._errands.end(intent.id)
        self._owed.discard(intent.id)
        self.receipts.drop_old()
        self._retrain_again()
        return receipt

    def _retrained(self, stored: str, erased: Erased, outcome: ErasureOutcome) -> Erased:
        """Return an erasure's result in a model; start a job if the model must be retrained on the rows that stay."""
        asked = erased.owed
        if asked is None:
            return erased
        self._note(stored, asked)
        how = self._asked_for(stored, asked, {name for names in outcome.open.values() for name in names})
        return replace(erased, training=f"{erased.training}; {how}")

    def _asked_for(self, stored: str, asked: Document, away: Container[str] = ()) -> str:
        """Start a job that retrains a model and applies the result; return its id, or why there is none, as text."""
        self._retraining[stored] = None, asked
        if asked.get("dataset") in away:
            return "retrain it when the front end that has the dataset is back"
        try:
            request = RetrainRequest.model_validate(asked)
            record = self._jobs.ask("retrain", self._models.get(stored), request)
        except (ServiceError, SolverError) as error:
            return f"no job retrains it: {error}"
        self._retraining[stored] = record.id, asked
        self._jobs.when_ended(record.id, partial(self._apply, stored, record.id))
        return f"job {record.id} retrains it"

    def _apply(self, stored: str, job: str) -> None:
        """Replace a model by the result of the retraining that an erasure has started; a failure is logged."""
        try:
            model, found = self._jobs.update_of(job, {})
            self._models.get(model).swap(found, f"retraining-{job}").result()
            self._is_trained(stored)
        except (ServiceError, SolverError, StoreError) as error:
            log.warning("model %s stays untrained after an erasure, as job %s came to nothing: %s", stored, job, error)

    def _note(self, stored: str, asked: Document) -> None:
        """Record in the store that this service has started a model's retraining; raises StoreError."""
        data = json.dumps({"by": self._holder, "asked": asked}).encode()
        with self._health.store_call("document"):
            self._store.put_document(DocumentName(RETRAINING, stored), data)

    def _is_trained(self, stored: str) -> None:
        """Remove the record of an untrained model, because the model is now trained or deleted; raises StoreError."""
        self._retraining.pop(stored, None)
        with self._health.store_call("document"):
            self._store.delete_document(DocumentName(RETRAINING, stored))

    def _go_on_retraining(self) -> None:
        """Read which models earlier erasures left untrained, and restart the retraining jobs that a stop has ended."""
        for at in self._store.documents(RETRAINING):
            try:
                data = None if at.name in self._retraining else self._store.document(at)
            except StoreDamaged as error:
                log.error("model %s may be untrained since an erasure: %s", at.name, error)
                self._store.delete_document(at)
                continue
            if data is None:
                continue
            noted = json.loads(data)
            if noted["by"] != self._holder and not self._store.is_silent(noted["by"]):
                continue  # that service has it trained
            try:
                is_untrained = self._is_untrained(at.name)
            except UnknownModel:
                is_untrained = False
            except ServiceError:
                continue  # it is not served here now
            if is_untrained:
                self._note(at.name, noted["asked"])
                log.info("model %s: %s", at.name, self._asked_for(at.name, noted["asked"]))
            else:
                self._store.delete_document(at)

    def _retrain_again(self) -> None:
        """Restart the retraining jobs that earlier erasures had started, if this erasure removed them."""
        for stored, (job, asked) in list(self._retraining.items()):
            if job is None:
                continue
            try:
                self._jobs.get(job)
            except UnknownJob:
                log.info("model %s: %s", stored, self._asked_for(stored, asked))

    def untrained(self) -> list[str]:
        """Return the models that an erasure by this service has left untrained, and that are still untrained."""
        found = []
        for stored in list(self._retraining):
            with suppress(ServiceError):
                if self._is_untrained(stored):
                    found.append(stored)
                    continue
            self._retraining.pop(stored, None)
        return found

    def _is_untrained(self, stored: str) -> bool:
        """Return whether a model has no training; raises UnknownModel or ModelUnavailable."""
        return any(one["name"] == "untrained" for one in self._models.get(stored).describe().warnings)

    def _forgotten(self, part: ErasurePart, intent: Intent) -> Erased:
        """Let the writer of a model or feed erase its part; do nothing if the history has none of the keys to erase."""
        if not part.is_named:
            return Erased(part.version, 0, None)
        home, id_ = self._home(part.stored)
        return home.get(id_).erase(intent).result()

    def _erase_jobs(self, stored: Sequence[str], directories: set[str]) -> int:
        return sum(self._jobs.erase(one, directories) for one in stored or [""])


def _of_times(stored: str, seen: Seen) -> Intent:
    """Return the erasure document for readings of a feed."""
    part = ErasurePart(stored, seen.version, seen.sequence, seen.found)
    intent = Intent(stored, (part,), by_time=True)
    keys, missing = (tuple(map(intent.hash, times)) for times in (seen.times, seen.missing))
    return replace(intent, keys=keys, not_found=missing)
