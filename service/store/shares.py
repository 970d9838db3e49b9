"""The embedded store in several files: each model in one of 64, by its id, and documents in one more.

Several processes can then have a part each. What is read and written is as in one file; documents that belong to a
model are where it is.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path
from typing import Any
from zlib import crc32

from livesvm.service.store.base import (
    ERASED,
    WEBHOOK_DEAD,
    WEBHOOK_WAITING,
    Appending,
    DocumentName,
    Durability,
    Head,
    Indexed,
    Lease,
    Store,
    StoreDamaged,
    StoredModel,
    StoreError,
)
from livesvm.service.store.sqlite import DATABASE, SqliteStore
from livesvm.service.store.sqlite_database import PROBE_SECONDS
from livesvm.service.store.sqlite_divide import divide

SHARES = "shares"
"""The directory of their files, below the data directory."""
COUNT = 64
"""How many there are, whatever the number of processes: what is stored need not move when that changes."""
OF_MODELS = (ERASED, WEBHOOK_WAITING, WEBHOOK_DEAD)
"""Kinds of documents that lie with the model that their name is, or begins with."""
OPENED_AT_ONCE = 8
WRITTEN_AT_ONCE = 8
"""Shares that wait for the disk together."""
CACHE_KB = 256
"""Pages that SQLite keeps of each share."""
_NAMES = [f"{number:02}.sqlite3" for number in range(COUNT)]


def share_of(model: str) -> int:
    """Return the number of the share of a model, or of a document that is named by it and a space."""
    return crc32(model.partition(" ")[0].encode()) % COUNT


def _routed(method: Callable[..., Any]) -> Any:
    """Return a call of the share of the model, lease or document that is its first argument."""

    def call(self: Shares, at: Any, *arguments: Any, **named: Any) -> Any:
        """Ask the share."""
        return getattr(self.of(at), method.__name__)(at, *arguments, **named)

    return call


class Shares(Store):
    """Implements :class:`livesvm.service.store.base.Store`; see there for what each call does.

    Parameters
    ----------
    parts : the shares that are here, by number
    main : has the documents that belong to no model; None where others look after those
    ping : looks whether the parts could take an update; raises StoreUnavailable
    """

    def __init__(self, parts: Mapping[int, Store], main: Store | None, ping: Callable[[], None]) -> None:
        self._parts, self._main, self._ping = parts, main, ping
        self._stores = list(dict.fromkeys(parts.values()))  # several shares may be behind one
        self._threads = ThreadPoolExecutor(WRITTEN_AT_ONCE, "share")

    def of(self, at: str | Lease | DocumentName) -> Store:
        """Return where a model or a document is."""
        if isinstance(at, DocumentName):
            if at.kind not in OF_MODELS:
                assert self._main is not None, f"{at.kind} is kept elsewhere"
                return self._main
            return self._parts[share_of(at.name)]
        return self._parts[share_of(at if isinstance(at, str) else at.model)]

    @property
    def _rest(self) -> list[Store]:
        """Where documents are that belong to no model."""
        return [] if self._main is None else [self._main]

    def _by_store(self, models: Iterable[str]) -> Iterable[tuple[Store, list[str]]]:
        found: dict[Store, list[str]] = {}
        for model in models:
            found.setdefault(self.of(model), []).append(model)
        return found.items()

    create = _routed(Store.create)
    describe = _routed(Store.describe)
    model = _routed(Store.model)
    acquire = _routed(Store.acquire)
    retake = _routed(Store.retake)
    release = _routed(Store.release)
    delete = _routed(Store.delete)
    append = _routed(Store.append)
    abort = _routed(Store.abort)
    last_sequence = _routed(Store.last_sequence)
    recall = _routed(Store.recall)
    remember = _routed(Store.remember)
    requests = _routed(Store.requests)
    put_requests = _routed(Store.put_requests)
    forget_requests = _routed(Store.forget_requests)
    save_snapshot = _routed(Store.save_snapshot)
    supersede = _routed(Store.supersede)
    snapshots = _routed(Store.snapshots)
    load_snapshot = _routed(Store.load_snapshot)
    save_solution = _routed(Store.save_solution)
    solution = _routed(Store.solution)
    log = _routed(Store.log)
    put_document = _routed(Store.put_document)
    document = _routed(Store.document)
    delete_document = _routed(Store.delete_document)

    def append_many(self, records: Sequence[Appending], *, keep: int) -> tuple[Durability, list[StoreError | None]]:
        """Append in the shares of the models side by side; a share that is away refuses its own records alone."""
        found: list[StoreError | None] = [None] * len(records)
        parts: dict[Store, list[int]] = {}
        for place, record in enumerate(records):
            parts.setdefault(self.of(record.lease), []).append(place)

        def append(part: Store, places: list[int]) -> None:
            """Append those of one share."""
            try:
                _, errors = part.append_many([records[place] for place in places], keep=keep)
            except StoreError as error:
                errors = [error] * len(places)
            for place, refused in zip(places, errors, strict=True):
                found[place] = refused

        list(self._threads.map(append, parts.keys(), parts.values()))
        return Durability.FSYNCED, found

    def remembering(self, models: Sequence[str], key: str) -> set[str]:
        """Ask one share after the other."""
        return {model for part, those in self._by_store(models) for model in part.remembering(those, key)}

    def remember_many(self, answers: Sequence[tuple[Lease, str, bytes]]) -> None:
        """Remember in one share after the other; raises what the last one does that cannot."""
        parts: dict[Store, list[tuple[Lease, str, bytes]]] = {}
        for one in answers:
            parts.setdefault(self.of(one[0]), []).append(one)
        away = None
        for part, those in parts.items():
            try:
                part.remember_many(those)
            except StoreError as error:
                away = error
        if away is not None:
            raise away

    def ping(self) -> None:
        """Ask the file of documents, and those that ``ping`` looks at."""
        if self._main is not None:
            self._main.ping()
        self._ping()

    def index(self, models: Iterable[str] | None = None) -> Iterator[Indexed]:
        """Read one share after the other."""
        if models is None:
            return chain.from_iterable(part.index() for part in self._stores)
        return chain.from_iterable(part.index(ids) for part, ids in self._by_store(models))

    def models(self) -> list[StoredModel]:
        """Read all shares."""
        found = chain.from_iterable(part.models() for part in self._stores)
        return sorted(found, key=lambda stored: stored.id)

    def release_all(self) -> None:
        """Do nothing: no other service may hold the files."""

    def heads(self, models: Iterable[str]) -> dict[str, Head]:
        """Ask the shares of these models."""
        found: dict[str, Head] = {}
        for part, ids in self._by_store(models):
            found |= part.heads(ids)
        return found

    def documents(self, kind: str | None = None) -> list[DocumentName]:
        """Read them where such documents may be."""
        stores = [*self._stores, *self._rest]
        if kind is not None:
            stores = self._stores if kind in OF_MODELS else self._rest
        return sorted(chain.from_iterable(store.documents(kind) for store in stores))

    def wipe(self, *, wholly: bool, models: Iterable[str] | None = None) -> dict[str, str]:
        """Wipe the shares of these models, or all, and the file of documents."""
        chosen = [(part, None) for part in self._stores] if models is None else self._by_store(models)
        reported: dict[str, set[str]] = {}
        for store, ids in [*chosen, *((store, None) for store in self._rest)]:
            for place, what in store.wipe(wholly=wholly, models=ids).items():
                reported.setdefault(place, set()).add(what)
        return {place: "; ".join(sorted(what)) for place, what in reported.items()}

    def close(self) -> None:
        """Close all."""
        self._threads.shutdown()
        for store in [*self._stores, *self._rest]:
            store.close()


class Rounds:
    """Looks at some databases on one disk as at a single one: all that were refused something, and one of the others.

    At rest that wears the disk as one database does.
    """

    def __init__(self, databases: Iterable[SqliteStore]) -> None:
        self._databases = list(databases)
        self._turn, self._since = 0, time.monotonic()

    def ping(self) -> None:
        """Ask those; have the marks of all on the disk now and then. Raises StoreUnavailable."""
        is_due = time.monotonic() - self._since >= PROBE_SECONDS
        if is_due:
            self._turn, self._since = (self._turn + 1) % len(self._databases), time.monotonic()
        for number, database in enumerate(self._databases):
            if number == self._turn or database.is_troubled:
                database.ping()
            elif is_due:
                database.sync_marks()


def share_file(data_dir: Path, number: int) -> Path:
    """Return the file of a share."""
    return data_dir / SHARES / _NAMES[number]


def _opened(file: Path) -> SqliteStore:
    """Return a share; what is wrong with it is said with its name."""
    try:
        return SqliteStore(file, cache_kb=CACHE_KB)
    except StoreDamaged as error:
        raise StoreDamaged(f"{file}: {error}") from error


def open_embedded(data_dir: Path) -> Store:
    """Open the embedded store of a data directory, divided or not; raises StoreError."""
    main = open_main(data_dir, is_to_be_divided=False)
    return open_shares(data_dir, range(COUNT), main) if main.is_divided else main


def open_main(data_dir: Path, *, is_to_be_divided: bool) -> SqliteStore:
    """Open the database of a data directory, without models where that is, or is to be, divided; raises StoreError."""
    path, shares = data_dir / DATABASE, data_dir / SHARES
    if shares.exists() and not path.exists():
        raise StoreDamaged(f"{data_dir} has {SHARES}, but no {DATABASE}: restore a backup")
    main = SqliteStore(path)
    if not main.is_divided and (shares.exists() or is_to_be_divided):
        main.close()
        divide(path, shares, _NAMES, share_of, OF_MODELS)
        main = SqliteStore(path)
    if main.is_divided and not shares.exists():
        main.close()
        raise StoreDamaged(f"{data_dir} has no {SHARES}, where its models are: restore a backup")
    return main


def open_shares(data_dir: Path, numbers: Iterable[int], main: Store | None = None) -> Shares:
    """Open some of the shares of a data directory that is divided; raises StoreError."""
    files = {number: share_file(data_dir, number) for number in numbers}
    if missing := [file.name for file in files.values() if not file.exists()]:
        raise StoreDamaged(f"{data_dir / SHARES} has lost {', '.join(missing)}: restore a backup")
    with ThreadPoolExecutor(OPENED_AT_ONCE, "open") as pool:
        opened = pool.map(_opened, files.values())
        parts = dict(zip(files, opened, strict=True))
    return Shares(parts, main, Rounds(parts.values()).ping)
