"""Search for examples to erase by keys and tags: in the store, in datasets and in results of jobs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace

from livesvm.service.datasets.catalogue import Datasets
from livesvm.service.errors import ModelUnavailable, NothingToErase, UnknownFeed, UnknownModel
from livesvm.service.history.erasure import EVERYWHERE, ErasurePart, Intent, Seen
from livesvm.service.history.journal import Source
from livesvm.service.history.names import FEEDS, is_feed
from livesvm.service.hosting.collection import Hosting
from livesvm.service.jobs.queue import Jobs
from livesvm.service.lifecycle.name_index import NameIndex
from livesvm.service.lifecycle.places import in_words
from livesvm.service.lifecycle.search import Naming, Sought, requests_of
from livesvm.service.models.arrays import Key
from livesvm.service.store.base import Fenced, StoreBehind


class Finder:
    """A search for keys and tags; its methods wait for the store, and for the writers of models with these keys."""

    def __init__(self, index: NameIndex, source: Source, hosting: Hosting, around: tuple[Jobs, Datasets]) -> None:
        self._index, self._store, self._health = index, source.store, source.health
        self._hosting = hosting
        self._jobs, self._datasets = around

    def find(self, target: str, sought: Sought) -> Intent:
        """Return the erasure document for keys and tags in one model, or everywhere; this changes nothing yet.

        Raises NothingToErase if none of the keys and tags is found, UnknownModel, ModelUnavailable or StoreError.
        """
        if target != EVERYWHERE:
            self._check_stored(target)
        with self._health.store_call("load"):
            seen = self._index.holding(sought)
            holds = {one: found for one, found in seen.items() if found}
            mine = [one for one in holds if target in (EVERYWHERE, one)]
            texts = {key for one in mine for key in holds[one].tagged if isinstance(key, str)}
            keys = tuple(dict.fromkeys([*sought.keys, *sorted(texts)]))  # an integer may be another example elsewhere
        rows, unsearched, in_rows = self._datasets.find([*dict.fromkeys([*keys, *sought.tags])])
        directories = frozenset(one.directory for one in rows if one.rows is not None)
        if directories or texts.difference(sought.keys):
            with self._health.store_call("load"):
                seen = self._index.holding(replace(sought, keys=keys, directories=directories))
            holds = {one: found for one, found in seen.items() if found}
        asked = self._concerned(holds) if target == EVERYWHERE else [target]
        elsewhere = tuple(in_words(one) for one in sorted(holds.keys() - asked))
        holds = {one: holds.get(one, Naming()) for one in asked}
        in_jobs = {one: self._jobs.naming(one, {*keys, *holds[one].tagged}, sought.tags) for one in asked}
        known = in_rows.union(*(holds[one].names for one in asked), *in_jobs.values())
        is_open = any(one.rows is None for one in rows)  # to be searched by the front ends that have them
        if not known and not is_open:
            where = "" if target == EVERYWHERE else f" of {in_words(target)}"
            reason = f"nothing that is stored{where}, nor a row of a dataset, is named by any of these"
            raise NothingToErase("; ".join([reason, *_hints(seen, unsearched)]))
        missing = [] if is_open else [name for name in (*sought.keys, *sought.tags) if name not in known]
        intent = Intent(target, (), rows=tuple(map(asdict, rows)), unsearched=tuple(unsearched))
        intent = replace(
            intent,
            trainings=_trainings(seen),
            respelled=tuple(sorted({intent.hash(key) for found in seen.values() for key in found.respelled})),
            keys=tuple(intent.hash(key) for key in keys if key not in missing),
            tags=tuple(intent.hash(tag) for tag in sought.tags if tag not in missing),
            not_found=tuple(map(intent.hash, missing)),
            elsewhere=elsewhere,
        )
        concerned = [one for one in asked if target != EVERYWHERE or holds[one] or in_jobs[one]]
        for one in concerned:
            try:
                intent = self._with_part(intent, one, replace(sought, keys=keys), holds[one], bool(in_jobs[one]))
            except (UnknownModel, UnknownFeed, ModelUnavailable, Fenced, StoreBehind) as error:
                if target != EVERYWHERE:
                    raise
                intent = replace(intent, refused=intent.refused | {in_words(one): str(error)})
        if intent.refused and not (intent.parts or rows):
            raise ModelUnavailable("; ".join(f"{name}: {why}" for name, why in intent.refused.items()))
        return intent

    def _check_stored(self, target: str) -> None:
        """Raise StoreBehind if the store has lost a model, UnknownModel if the model was deleted meanwhile."""
        with self._health.store_call("load"):
            if self._store.model(target) is not None:
                return
        try:
            self._seen(target, (), ())
        except StoreBehind:
            raise StoreBehind(f"the store has lost {in_words(target)}; write it back first") from None

    def _with_part(self, intent: Intent, stored: str, sought: Sought, holds: Naming, in_jobs: bool) -> Intent:
        """Return the erasure with an added part for a model or feed, and the part's requests that name keys or tags."""
        own = [key for key in holds.tagged if key not in sought.keys]
        keys = [*sought.keys, *own]
        seen = self._seen(stored, keys, sought.tags)
        marks = tuple(map(intent.hash, own))
        part = ErasurePart(stored, seen.version, seen.sequence, seen.found, bool(holds), bool(holds) or in_jobs, marks)
        part = replace(part, rows=seen.rows)
        with self._health.store_call("load"):
            going = requests_of(self._store.requests(stored), keys, sought.texts)
            requests = dict.fromkeys([*intent.requests, *map(intent.hash, going)])
        return replace(intent, parts=(*intent.parts, part), requests=tuple(requests))

    def _concerned(self, holds: Iterable[str]) -> list[str]:
        """Return these models and feeds, and also all stored models and feeds that have jobs."""
        with_jobs = {record.model for record in self._jobs.all()}.difference(holds)
        with self._health.store_call("load"):
            return sorted({*holds, *(one for one in with_jobs if self._store.model(one) is not None)})

    def _seen(self, stored: str, keys: Sequence[Key], tags: Sequence[str]) -> Seen:
        if is_feed(stored):
            return self._hosting.feeds.get(stored.removeprefix(FEEDS)).seen(None).result()
        return self._hosting.models.get(stored).seen(keys, tags).result()


def _trainings(seen: Mapping[str, Naming]) -> tuple[str, ...]:
    """Return, in words, which trainings could not be searched."""
    return tuple(f"{in_words(one)} ({what})" for one in sorted(seen) for what in sorted(seen[one].unsearched))


def _hints(seen: Mapping[str, Naming], unsearched: Sequence[str]) -> list[str]:
    """Return hints for an error that nothing was found: keys stored in another spelling, and unsearched data."""
    other = [f"{key!r} in {in_words(one)}" for one in sorted(seen) for key in sorted(seen[one].respelled, key=str)]
    hints = [f"otherwise spelled are {', '.join(other)}: a number and a text are two keys"] if other else []
    away = [*(f"dataset {name}" for name in unsearched), *(f"the training of {one}" for one in _trainings(seen))]
    return hints + ([f"not searched, having no keys or not to be read here: {', '.join(away)}"] if away else [])
