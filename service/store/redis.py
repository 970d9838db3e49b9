"""The Redis store: a model's log is a stream, its snapshots are split into chunks, and scripts check and write.

All keys begin with ``{prefix}``, here ``{p}``; the braces make a Redis cluster keep them in one hash slot:

    {p}:schema                    version of this layout
    {p}:models                    hash: id -> specification; behind no name, the version of this layout
    {p}:epochs                    counter that every lease takes its epoch from
    {p}:changes                   counter that rises with every model that is created or deleted
    {p}:alive:<holder>            text that a living service keeps changing, each time to a new one
    {p}:gone                      set of services whose models are free; one that takes or creates a model leaves it
    {p}:active                    the service that takes the calls; others stand by
    {p}:documents                 hash: kind:name -> document, sealed; behind no name, a random name of this store
    {p}:m:<id>:meta               hash: lease "epoch:writer", holder, attempt, sequence, how many
                                  keys are there; summary behind its checksum, described
    {p}:m:<id>:log                stream: entry <sequence>-0, field data
    {p}:m:<id>:aborted            set of marks of records without effect, as :mod:`.sealed` makes them
    {p}:m:<id>:requests, answers  hashes: idempotency key -> sealed request, sealed answer, of :mod:`.sealed` too
    {p}:m:<id>:order              sorted set: idempotency keys by sequence
    {p}:m:<id>:snapshots          hash: sequence -> JSON pointer to chunks, with their SHA-256
    {p}:m:<id>:writing            hash: nonce -> chunks, of snapshots that are not finished
    {p}:m:<id>:chunk:<nonce>:<i>  bytes
    {p}:m:<id>:solution           the newest solution, sealed

A service may take over the models of a holder that is in the set ``gone``, or has not changed its text under ``alive``
for ``lease_seconds`` on the monotonic clock of the service that takes over. No wall clock is used, neither here nor in
Redis.
"""

from __future__ import annotations

import logging
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import redis

from livesvm.service import crash
from livesvm.service.store import scripts
from livesvm.service.store.base import (
    DELETING,
    SERVICE,
    Appending,
    DocumentName,
    Durability,
    Fenced,
    Head,
    Idempotency,
    Indexed,
    Lease,
    LeaseHeld,
    LogRecord,
    ModelExists,
    ModelGone,
    OutOfSequence,
    Remembered,
    RequestKnown,
    SnapshotInfo,
    Solution,
    StoreDamaged,
    StoredModel,
    StoreError,
    StoreTooNew,
    StoreUnavailable,
)
from livesvm.service.store.batches import batches
from livesvm.service.store.chunks import Pointer, join, split
from livesvm.service.store.connect import check_server, connect, refused_commands, root_of
from livesvm.service.store.files import write_whole
from livesvm.service.store.redis_files import ELSEWHERE, rewrite_log
from livesvm.service.store.replies import ADVICE, checked, head, indexed, level, snapshot, torn, weakness_of, why
from livesvm.service.store.script_runner import ScriptRunner
from livesvm.service.store.sealed import (
    open_answer,
    open_document,
    open_marks,
    open_request,
    open_solution,
    sealed_answer,
    sealed_document,
    sealed_mark,
    sealed_request,
    sealed_solution,
)
from livesvm.service.store.seals import checked_summary

SCHEMA = 6
"""4: the schema of 0.2.0, the first release. 5: adds summaries, changes and services that are gone; older models have
none. 6: adds the marks that tell that keys are lost; an older model gets them with its next write."""
FIRST_SCHEMA = 4
"""The oldest schema that is read."""
KEPT_SNAPSHOTS = 2
SNAPSHOT_PATIENCE = 20
"""How many times longer than another call one chunk of a snapshot may take."""
_ALIVE_SECONDS = 86_400
"""Seconds after which the text of a service that is gone is removed; it means nothing long before."""
_FOLLOWS = "equal or smaller than the target stream"
"""Part of Redis's error at a record that does not follow the newest one."""
_PAGE = 128
_BATCH = 500
MODELS = 1000
"""Models that are asked for at once."""
_INDEX = ("sequence", "described", "summary", "holder")

log = logging.getLogger(__name__)


def _literal(text: str) -> str:
    """Return a glob pattern of Redis that matches exactly this text."""
    return re.sub(r"([*?\[\]\\^-])", r"\\\1", text)


def _appending(record: Appending, keep: int) -> list[Any]:
    """Return the arguments of the script that appends a record."""
    lease, sequence, asked = record.lease, record.sequence, record.idempotency
    named: tuple[str, bytes] = ("", b"")
    if asked is not None:
        named = asked.key, sealed_request(lease.model, asked.key, sequence, asked.body)
    return [f"{lease.epoch}:{lease.writer}", sequence, record.data, keep, *named]


class RedisStore:
    """Store in Redis 6.2 or newer; see :class:`livesvm.service.store.base.Store` for what each call does.

    Parameters
    ----------
    url : as :mod:`livesvm.service.store.connect` reads it
    holder : name of this service, the same after a restart, so that it can take its own models at once
    prefix : of every key
    timeout : seconds after which a call gives up
    lease_seconds : seconds for which a holder has to show no life before its models may be taken over
    known : file that keeps which store this service used last, so that an empty one in its place is noticed
    """

    def __init__(
        self,
        url: str,
        holder: str,
        *,
        prefix: str = "livesvm",
        timeout: float = 1.0,
        lease_seconds: float = 5.0,
        known: Path | None = None,
    ) -> None:
        """Connect to the Redis server; raises StoreUnavailable or StoreTooNew."""
        self._p = root_of(prefix)
        self._holder = holder
        self._writer = uuid.uuid4().hex
        self._lease_seconds = lease_seconds
        self._seen: dict[bytes, tuple[bytes | None, float]] = {}
        self._weakness: str | None = None
        self._client = connect(url, timeout)
        self._patient = connect(url, timeout * SNAPSHOT_PATIENCE)
        self._scripts = ScriptRunner(self._client)
        self._patient_scripts = ScriptRunner(self._patient)
        with self._errors():
            check_server(self._client, scripts.COMMANDS, f"{self._p}:schema")
            refused = refused_commands(self._client, scripts.OPTIONAL, "")
            self._begin()
            self._missing = "" if known is None else self._compared(known)
        if refused:
            log.warning(
                "Redis refuses %s to this user: reports of erasures cannot say what became of its append-only file",
                ", ".join(refused),
            )

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise StoreUnavailable for an error of Redis; after a connection error, close all idle connections."""
        try:
            yield
        except redis.RedisError as error:
            if isinstance(error, redis.ConnectionError | redis.TimeoutError):
                self._client.connection_pool.disconnect(inuse_connections=False)
            raise StoreUnavailable(f"Redis cannot be used: {why(error)}") from error

    def _begin(self) -> None:
        """Make a store if none exists, or upgrade an older one; raises StoreTooNew, or StoreDamaged for lost keys."""
        pipe = self._client.pipeline(transaction=True)
        pipe.get(f"{self._p}:schema").hget(f"{self._p}:models", "")
        schema, noted = (int(part or 0) for part in pipe.execute())
        if max(schema, noted) > SCHEMA:
            raise StoreTooNew(f"Redis holds schema {max(schema, noted)} under {self._p}; this reads up to {SCHEMA}")
        if 0 < schema < FIRST_SCHEMA:
            found = f"Redis holds schema {schema} under {self._p}"
            raise StoreUnavailable(f"{found}, of a version before 0.2.0: start 0.2.0 on it first")
        is_read_alone = schema in range(1, SCHEMA) and self._client.exists(f"{self._p}:models")
        if lost := self._lost() if noted or schema == SCHEMA else "" if is_read_alone else self._remains(schema):
            raise StoreDamaged(f"Redis has lost {lost}, {ADVICE}")
        if schema < SCHEMA:
            self._scripts(*self._beginning())

    def _compared(self, known: Path) -> str:
        """Return a warning if the store is empty and this service last used another one; else note the store's name."""
        pipe = self._client.pipeline(transaction=True)
        name, n_models = pipe.hget(f"{self._p}:documents", "").hlen(f"{self._p}:models").execute()
        if n_models <= 1 and known.exists() and known.read_bytes() != name:
            return (
                "Redis is empty, and held a store when this service last started: restore a backup of Redis, or "
                f"remove {known} if that was meant"
            )
        try:
            write_whole(known, name)
        except OSError as error:
            log.warning("%s cannot be written: %s", known, error)
        return ""

    def _beginning(self) -> tuple[str, list[str], list[Any]]:
        return (
            scripts.BEGIN,
            self._names("schema", "models", "documents", "epochs", "changes"),
            [SCHEMA, uuid.uuid4().hex],
        )

    def _lost(self) -> str:
        """Return the names of the lost keys among the two keys that every store has; empty if none is lost."""
        return " and ".join(name for name in self._names("models", "documents") if not self._client.exists(name))

    def _remains(self, schema: int = 0) -> str:
        """Return a message that names a lost key and a key that remains; empty if no keys of the store remain.

        The lost key in the message is the index of models if the store's ``schema`` is known, otherwise the key of the
        schema.
        """
        known = ("alive:", "gone", "active", *(("documents", "epochs", "changes", "schema") if schema else ()))
        for key in self._patient.scan_iter(match=f"{_literal(self._p)}:*", count=10_000):
            if not (name := key.decode(errors="replace")).startswith(tuple(self._names(*known))):
                return f"{self._p}:{'models' if schema else 'schema'}, and holds {name}"
        return ""

    def _was_emptied(self) -> bool:
        """Return whether Redis has none of the store's keys any more, as after a flush; if so, make a new store."""
        if self._remains():
            return False
        self.begin_again()
        return True

    def begin_again(self) -> None:
        """Make a new index of models and an empty set of documents if Redis has lost either."""
        with self._errors():
            if lost := self._lost():
                self._scripts(*self._beginning())
                log.error("Redis had lost %s, with all that was there; the store begins again", lost)

    def _keys(self, model: str) -> list[str]:
        return [*(f"{self._p}:m:{model}:{name}" for name in scripts.MODEL_KEYS), f"{self._p}:models"]

    def _names(self, *names: str) -> list[str]:
        return [f"{self._p}:{name}" for name in names]

    def _key(self, model: str, name: str) -> str:
        return f"{self._p}:m:{model}:{name}"

    def _write(
        self, script: str, lease: Lease, *arguments: Any, patient: bool = False, also: Iterable[str] = ()
    ) -> Any:
        """Run a script that checks the lease and then reads or writes the model; return the script's answer."""
        run = self._patient_scripts if patient else self._scripts
        with self._errors():
            answer = run(script, [*self._keys(lease.model), *also], [f"{lease.epoch}:{lease.writer}", *arguments])
        return checked(answer, lease.model)

    # The service and its server.

    @property
    def shared(self) -> bool:
        """True, because a second service may use the same Redis server and stand by."""
        return True

    def durability(self) -> Durability:
        """Derive the durability from the server's settings; it is MEMORY if these are hidden or keys are lost."""
        with self._errors():
            _, settings = self._scripts.with_config("", ())
            lost = self._lost()
        self._weakness = f"Redis has lost {lost}, {ADVICE}" if lost else self._missing or weakness_of(settings)
        return level(settings) if self._weakness is None else Durability.MEMORY

    @property
    def weakness(self) -> str | None:
        """The message about weak settings or lost keys from the last call of :meth:`durability`, or None."""
        return self._weakness

    def memory(self) -> tuple[int, int] | None:
        """Read the server's memory statistics; return None if the server refuses the command to this user."""
        with self._errors():
            try:
                found = self._client.info("memory")
            except redis.ResponseError:
                return None
        return int(found["used_memory"]), int(found["maxmemory"])

    def ping(self) -> None:
        """Write a new random text under this service's key; the change shows other services that this one is alive."""
        with self._errors():
            self._client.set(f"{self._p}:alive:{self._holder}", uuid.uuid4().hex, ex=_ALIVE_SECONDS)

    def wipe(self, *, wholly: bool, models: Iterable[str] | None = None) -> dict[str, str]:
        """Make the server rewrite its append-only file, if it has one and permits this, and wait for the end."""
        if not wholly:
            return {}
        with self._errors():
            return {"keys": "removed", "append-only file": rewrite_log(self._patient), **ELSEWHERE}

    def close(self) -> None:
        """Close every connection."""
        for client in (self._client, self._patient):
            client.close()

    # Models and leases.

    def create(self, model: str, spec: bytes, sequence: int = 0, summary: bytes = b"") -> Lease:
        """Add the model to the index and take its lease, in one script."""
        keys = [*self._names("models", "documents", "epochs", "changes", "gone"), self._key(model, "meta")]
        keys += [self._key(model, name) for name in scripts.COUNTED]
        value = checked_summary(model, sequence, summary)
        arguments = [model, spec, self._writer, self._holder, sequence, value]
        with self._errors():
            answer = self._scripts(scripts.CREATE, keys, arguments)
            if answer[0] == b"unindexed" and self._was_emptied():
                answer = self._scripts(scripts.CREATE, keys, arguments)
        if answer[0] == b"exists":
            raise ModelExists(f"model {model} is stored already")
        return Lease(model, int(checked(answer, model)[1]), self._writer)

    def index(self, models: Iterable[str] | None = None) -> Iterator[Indexed]:
        """Read the ids of all models, then the index fields of a thousand models in each request."""
        with self._errors():
            gone = self._client.smembers(f"{self._p}:gone")
            if models is None:
                models = self._ids()
        for batch in batches(models, MODELS):
            looked = dict(zip(batch, self._metas(batch, *_INDEX), strict=True))
            lost = self._without_meta([id_ for id_, (found, _) in looked.items() if found[0] is None])
            for id_, (found, is_whole) in looked.items():
                if id_ in lost:
                    yield Indexed(id_, 0, b"", 0, damage=torn(id_))
                elif found[0] is not None:
                    yield indexed(id_, found, gone)._replace(damage="" if is_whole else torn(id_))

    def _without_meta(self, models: Iterable[str]) -> set[str]:
        """Return which of these models are in the index, but have lost their ``meta`` hash."""
        found = set()
        for id_ in models:
            with self._errors():
                pipe = self._client.pipeline(transaction=True)
                is_there, has_meta = pipe.hexists(f"{self._p}:models", id_).exists(self._key(id_, "meta")).execute()
            if is_there and not has_meta:
                found.add(id_)
        return found

    def _ids(self) -> list[str]:
        """Return the ids of all stored models; a subclass may leave out models that do not concern its service."""
        return [id_.decode() for id_ in sorted(self._patient.hkeys(f"{self._p}:models")) if id_]

    def changes(self) -> int:
        """Read the counter of created and deleted models."""
        with self._errors():
            return int(self._client.get(f"{self._p}:changes") or 0)

    def describe(self, lease: Lease, sequence: int, summary: bytes) -> None:
        """Replace the fields of the summary in the model's ``meta`` hash if the lease holds."""
        self._write(scripts.DESCRIBE, lease, sequence, checked_summary(lease.model, sequence, summary))

    def models(self) -> list[StoredModel]:
        """Read all specifications, and the damage of each model from the index."""
        with self._errors():
            found = self._client.hgetall(f"{self._p}:models")
        found.pop(b"", None)
        specs = {id_.decode(): spec for id_, spec in sorted(found.items())}
        damage = {one.id: one.damage for one in self.index(specs)}
        return [StoredModel(id_, spec, damage[id_]) for id_, spec in specs.items() if id_ in damage]

    def model(self, model: str) -> StoredModel | None:
        """Read the model's specification, and its damage from the index."""
        with self._errors():
            spec = self._client.hget(f"{self._p}:models", model)
        found = None if spec is None else next(self.index([model]), None)
        return None if found is None else StoredModel(model, spec, found.damage)

    def acquire(self, model: str) -> Lease:
        """Take the lease if no other service holds it, or if the service that holds it shows no sign of life."""
        with self._errors():
            lease, holder = self._client.hmget(self._key(model, "meta"), "lease", "holder")
            if lease is None and not self._without_meta([model]):
                raise ModelGone(f"model {model} is not stored")
            if holder and holder != self._holder.encode() and not self._has_lapsed(holder):
                raise LeaseHeld(f"model {model} is held by another service, {self.whereabouts(holder.decode())}")
            keys = [*self._names("epochs"), self._key(model, "meta"), *self._names("gone")]
            answer = self._scripts(scripts.ACQUIRE, keys, [lease or b"", self._writer, self._holder])
        return Lease(model, int(checked(answer, model)[1]), self._writer)

    def whereabouts(self, holder: str) -> str:
        """Read the address from the service's document."""
        with suppress(StoreDamaged):
            if (reported := self.document(DocumentName(SERVICE, holder))) is not None:
                return f"at {reported.decode()}"
        return holder

    def _has_lapsed(self, holder: bytes) -> bool:
        """Return whether a holder is in the set ``gone``, or its ``alive`` text is unchanged for ``lease_seconds``."""
        pipe = self._client.pipeline(transaction=False)
        pipe.sismember(f"{self._p}:gone", holder).get(f"{self._p}:alive:{holder.decode()}")
        is_gone, shown = pipe.execute()
        if is_gone:
            return True
        now = time.monotonic()
        before = self._seen.get(holder)
        if before is None or before[0] != shown:
            self._seen[holder] = (shown, now)
            return False
        return now - before[1] >= self._lease_seconds

    def is_silent(self, holder: str) -> bool:
        """Return whether a service is in the set ``gone``, or its text under ``alive`` expired or stays the same."""
        with self._errors():
            there = self._client.exists(f"{self._p}:alive:{holder}")
            return not there or self._has_lapsed(holder.encode())

    def retake(self, lease: Lease, attempt: int) -> tuple[Lease, int]:
        """Take a new epoch, unless another writer has the model or a later attempt of this writer arrived before."""
        keys = [f"{self._p}:epochs", self._key(lease.model, "meta")]
        with self._errors():
            answer = self._scripts(scripts.RETAKE, keys, [lease.writer, attempt])
        _, epoch, sequence = checked(answer, lease.model)
        return Lease(lease.model, int(epoch), lease.writer), int(sequence)

    def release(self, lease: Lease) -> None:
        """Clear the field that names the service with the lease."""
        self._write(scripts.RELEASE, lease)

    def release_all(self) -> None:
        """Add this service to the set ``gone``; its writers can write until another service takes their models."""
        with self._errors():
            self._scripts(scripts.RELEASE_ALL, self._names(f"alive:{self._holder}", "gone"), [self._holder])

    def claim(self) -> str:
        """Read which service is active; if it shows no life, become active unless a third service did so meanwhile."""
        key, gone = self._names("active", "gone")
        with self._errors():
            active = (self._client.get(key) or b"").decode()
        if active == self._holder:
            return ""  # written once, as a server without memory takes no writes
        if active and not self.is_silent(active):
            return active
        self.ping()  # or this one would show no life yet
        with self._errors():
            found = self._scripts(scripts.CLAIM, [key, gone], [self._holder, active])[1].decode()
        return "" if found == self._holder else str(found)

    def resign(self) -> None:
        """Remove this service from the key of the active service."""
        with self._errors():
            self._scripts(scripts.RESIGN, self._names("active"), [self._holder])

    def heads(self, models: Iterable[str]) -> dict[str, Head]:
        """Read the ``meta`` hashes of a thousand models in each request."""
        heads: dict[str, Head] = {}
        for batch in batches(models, MODELS):
            for model, ((lease, sequence), is_whole) in zip(
                batch, self._metas(batch, "lease", "sequence"), strict=True
            ):
                if lease and sequence and is_whole:
                    heads[model] = head(model, lease, sequence)
        return heads

    def _metas(self, models: Sequence[str], *fields: str) -> list[tuple[list[bytes | None], bool]]:
        """Return these fields of each model's ``meta`` hash, and whether all keys of model and store exist."""
        with self._errors():
            pipe = self._client.pipeline(transaction=True)
            pipe.exists(*self._names("models", "documents"))
            for model in models:
                pipe.hmget(self._key(model, "meta"), *fields, "there")
                pipe.exists(*(self._key(model, name) for name in scripts.COUNTED))
            n_known, *found = pipe.execute()
        pairs = zip(found[::2], found[1::2], strict=True)
        return [(values, n_known == 2 and there in (None, b"%d" % count)) for (*values, there), count in pairs]

    def delete(self, lease: Lease) -> None:
        """Remove every key of the model, also the chunks of unfinished snapshots, in one script."""
        self._write(scripts.DELETE, lease, lease.model, also=self._names("changes"))

    # The log.

    def append(
        self, lease: Lease, sequence: int, data: bytes, idempotency: Idempotency | None, *, keep: int
    ) -> Durability:
        """Check the lease, the record's number and the request, then write the record, all in one script."""
        reached, (refused,) = self.append_many([Appending(lease, sequence, data, idempotency)], keep=keep)
        if refused is not None:
            raise refused
        return reached

    def append_many(self, records: Sequence[Appending], *, keep: int) -> tuple[Durability, list[StoreError | None]]:
        """Run the script that appends a record once for each of the records, in pipelines of limited length."""
        found: list[StoreError | None] = []
        settings: Mapping[str, str] = {}
        for batch in batches(records, _BATCH):
            calls = [(self._keys(one.lease.model), _appending(one, keep)) for one in batch]
            with self._errors():
                answers, settings = self._scripts.with_config(scripts.APPEND, calls)
            found += [self._refusal(one, answer) for one, answer in zip(batch, answers, strict=True)]
        return level(settings), found

    def _refusal(self, record: Appending, answer: Any) -> StoreError | None:
        """Return the error that the script's answer means, None if the record was appended; raises StoreUnavailable."""
        model = record.lease.model
        if isinstance(answer, Exception):
            if isinstance(answer, redis.ResponseError) and _FOLLOWS in str(answer):
                return StoreDamaged(f"the log of model {model} ends with a record of another writer")
            with self._errors():
                raise answer
        if answer[0] == b"sequence":
            newest = int(answer[1])
            return OutOfSequence(f"record {record.sequence} of model {model} does not follow record {newest}")
        if answer[0] == b"request":
            return RequestKnown(f"a record of model {model} has that idempotency key already")
        try:
            checked(answer, model)
        except (Fenced, StoreDamaged) as error:
            return error
        return None

    def abort(self, lease: Lease, sequence: int) -> None:
        """Add a mark that the record is aborted, and forget the request of the record."""
        self._write(scripts.ABORT, lease, sequence, sealed_mark(lease.model, sequence))

    def last_sequence(self, lease: Lease) -> int:
        """Read the newest record's number in a script that checks the lease, so that a fenced writer gets Fenced."""
        return int(self._write(scripts.LAST_SEQUENCE, lease)[1])

    def log(self, model: str, after: int) -> Iterator[LogRecord]:
        """Read the stream page by page.

        Raises StoreDamaged at a mark that does not match its checksum, or a record that this program did not write.
        """
        key = self._key(model, "log")
        with self._errors():
            aborted = open_marks(model, self._patient.smembers(self._key(model, "aborted")))
        while True:
            with self._errors():
                page = self._patient.xrange(key, f"{after + 1}-0", "+", count=_PAGE)
            for entry, fields in page:
                sequence, _, rest = entry.partition(b"-")
                if rest != b"0" or set(fields) != {b"data"}:
                    raise StoreDamaged(f"the log of model {model} holds {entry.decode()}, a record of another writer")
                after = int(sequence)
                yield LogRecord(after, fields[b"data"], after in aborted)
            if len(page) < _PAGE:
                return

    # Requests.

    def recall(self, model: str, key: str) -> Remembered | None:
        """Read the request and its answer in one transaction; a damaged answer is left out."""
        with self._errors():
            pipe = self._client.pipeline(transaction=True)
            pipe.hget(self._key(model, "requests"), key).hget(self._key(model, "answers"), key)
            request, answer = pipe.execute()
        if request is None:
            return None
        sequence, body = open_request(model, key, request)
        try:
            return Remembered(body, sequence, None if answer is None else open_answer(model, key, answer))
        except StoreDamaged as error:
            log.warning("%s", error)
            return Remembered(body, sequence, None)

    def remembering(self, models: Sequence[str], key: str) -> set[str]:
        """Look up the idempotency key among each model's requests, in pipelines of limited length."""
        found: set[str] = set()
        for batch in batches(models, _BATCH):
            with self._errors():
                pipe = self._client.pipeline(transaction=False)
                for model in batch:
                    pipe.hexists(self._key(model, "requests"), key)
                found.update(model for model, known in zip(batch, pipe.execute(), strict=True) if known)
        return found

    def remember(self, lease: Lease, key: str, answer: bytes) -> None:
        """Store the answer, unless its request was forgotten meanwhile."""
        self._write(scripts.REMEMBER, lease, key, sealed_answer(lease.model, key, answer))

    def remember_many(self, answers: Sequence[tuple[Lease, str, bytes]]) -> None:
        """Run the script that stores an answer once for each of the answers, in pipelines of limited length."""
        for batch in batches(answers, _BATCH):
            calls = []
            for lease, key, answer in batch:
                sealed = sealed_answer(lease.model, key, answer)
                calls.append((self._keys(lease.model), [f"{lease.epoch}:{lease.writer}", key, sealed]))
            with self._errors():
                self._scripts.with_config(scripts.REMEMBER, calls)

    def requests(self, model: str) -> dict[str, Remembered]:
        """Read all requests and answers in one transaction; raises StoreDamaged if one is damaged."""
        requests, answers = self._all_requests(model)
        found = {}
        for name, request in requests.items():
            key, answer = name.decode(errors="backslashreplace"), answers.get(name)
            sequence, body = open_request(model, key, request)
            found[key] = Remembered(body, sequence, None if answer is None else open_answer(model, key, answer))
        return found

    def _all_requests(self, model: str) -> tuple[dict[bytes, bytes], dict[bytes, bytes]]:
        with self._errors():
            pipe = self._patient.pipeline(transaction=True)
            pipe.hgetall(self._key(model, "requests")).hgetall(self._key(model, "answers"))
            requests, answers = pipe.execute()
        return requests, answers

    def put_requests(self, lease: Lease, requests: Mapping[str, Remembered]) -> None:
        """Write the requests in batches; the lease is checked for each batch."""
        for batch in batches(requests.items(), _BATCH):
            arguments: list[Any] = []
            for key, known in batch:
                request = sealed_request(lease.model, key, known.sequence, known.body)
                answer = b"" if known.answer is None else sealed_answer(lease.model, key, known.answer)
                arguments += [key, known.sequence, request, answer]
            self._write(scripts.PUT_REQUESTS, lease, *arguments)

    def forget_requests(self, lease: Lease, keys: Iterable[str]) -> None:
        """Remove the requests and their answers in batches; the lease is checked for each batch."""
        for batch in batches(keys, _BATCH):
            self._write(scripts.FORGET_REQUESTS, lease, *batch)

    # Snapshots.

    def save_snapshot(self, lease: Lease, sequence: int, data: bytes, version: int, summary: bytes = b"") -> None:
        """Write the chunks; one last script then writes the pointer and trims the log."""
        pointer = self._write_chunks(lease, data, version)
        crash.point("in-snapshot")
        self._publish(scripts.PUBLISH_SNAPSHOT, lease, sequence, pointer, summary, KEPT_SNAPSHOTS)

    def supersede(self, lease: Lease, sequence: int, data: bytes, version: int, summary: bytes = b"") -> None:
        """Write the chunks; one last script then removes log, solution and older snapshots, and writes the pointer."""
        self._publish(scripts.SUPERSEDE, lease, sequence, self._write_chunks(lease, data, version), summary)

    def _write_chunks(self, lease: Lease, data: bytes, version: int) -> Pointer:
        pointer = Pointer.of(data, version)
        self._write(scripts.BEGIN_SNAPSHOT, lease, pointer.nonce, pointer.chunks)
        for number, chunk in enumerate(split(data)):
            self._write(scripts.WRITE_CHUNK, lease, pointer.nonce, number, chunk, patient=True)
        return pointer

    def _publish(self, script: str, lease: Lease, sequence: int, pointer: Pointer, summary: bytes, *more: int) -> None:
        value = checked_summary(lease.model, sequence, summary)
        arguments = (pointer.nonce, sequence, pointer.encode(sequence), value, *more)
        answer = self._write(script, lease, *arguments, patient=True)
        if answer[0] == b"sequence":
            raise OutOfSequence(f"the log of model {lease.model} goes on to record {int(answer[1])}")
        if answer[0] != b"ok":
            raise StoreUnavailable(f"snapshot {sequence} of model {lease.model} was lost while it was written")

    def snapshots(self, model: str) -> list[SnapshotInfo]:
        """Read the pointers; a pointer that does not match its checksum is listed as damaged."""
        with self._errors():
            found = self._client.hgetall(self._key(model, "snapshots"))
        pointers = {int(sequence): pointer for sequence, pointer in found.items()}
        return [snapshot(sequence, pointers[sequence]) for sequence in sorted(pointers, reverse=True)]

    def load_snapshot(self, model: str, sequence: int) -> bytes:
        """Join the chunks and check them against the pointer."""
        what = f"snapshot {sequence} of model {model}"
        with self._errors():
            found = self._client.hget(self._key(model, "snapshots"), str(sequence))
            pointer = Pointer.decode(found, sequence)
            names = [f"{self._key(model, 'chunk')}:{pointer.nonce}:{number}" for number in range(pointer.chunks)]
            chunks = [self._patient.get(name) for name in names]
        return join(chunks, pointer, what)

    def save_solution(self, lease: Lease, solution: Solution) -> None:
        """Replace the model's solution if the lease holds."""
        self._write(scripts.SAVE_SOLUTION, lease, sealed_solution(lease.model, solution))

    def solution(self, model: str) -> Solution | None:
        """Read the solution and check its seal."""
        with self._errors():
            found = self._patient.get(self._key(model, "solution"))
        return None if found is None else open_solution(model, found)

    # Documents.

    def _documents(self, call: Callable[[Any], Any], client: Any) -> Any:
        """Return the answer to a command on the documents' hash; raises StoreUnavailable if Redis has lost the hash."""
        with self._errors():
            pipe = client.pipeline(transaction=True)
            pipe.exists(f"{self._p}:documents")
            call(pipe)
            is_there, answer = pipe.execute()
            if not (is_there or self._was_emptied()):
                raise StoreUnavailable(f"Redis has lost {self._p}:documents, {ADVICE}")
        return answer

    def put_document(self, at: DocumentName, data: bytes) -> None:
        """Set the document's field, unless Redis has lost the hash of all documents."""
        keys = self._names("documents")
        arguments = [":".join(at), sealed_document(at, data), int(at.kind == DELETING)]
        with self._errors():
            answer = self._patient_scripts(scripts.PUT_DOCUMENT, keys, arguments)
            if answer[0] == b"unindexed" and self._was_emptied():
                answer = self._patient_scripts(scripts.PUT_DOCUMENT, keys, arguments)
        if answer[0] == b"unindexed":
            raise StoreUnavailable(f"Redis has lost {keys[0]}, {ADVICE}")

    def document(self, at: DocumentName) -> bytes | None:
        """Read the document's field and check its seal."""
        found = self._documents(lambda pipe: pipe.hget(f"{self._p}:documents", ":".join(at)), self._patient)
        return None if found is None else open_document(at, found)

    def documents(self, kind: str | None = None) -> list[DocumentName]:
        """Read the names of all documents, and return the names of this kind."""
        names = self._documents(lambda pipe: pipe.hkeys(f"{self._p}:documents"), self._client)
        parts = (name.decode(errors="backslashreplace").partition(":") for name in names if name)
        return sorted(DocumentName(stored, name) for stored, _, name in parts if kind is None or stored == kind)

    def delete_document(self, at: DocumentName) -> bool:
        """Remove the document's field."""
        return bool(self._documents(lambda pipe: pipe.hdel(f"{self._p}:documents", ":".join(at)), self._client))
