"""The places of data that a receipt of an erasure lists, each as searched, rewritten, or neither."""

from __future__ import annotations

from collections.abc import Sequence

from livesvm.service.datasets.catalogue import Found
from livesvm.service.history.erasure import EVERYWHERE, ErasurePart, Intent
from livesvm.service.history.names import FEEDS, FLEET, is_feed
from livesvm.service.hosting.handle import Erased
from livesvm.service.lifecycle.remote_erasure import ErasureOutcome

Places = dict[str, str]

ELSEWHERE: Places = {"backups, other copies, disks below the files": "not in this service's hands"}


def in_words(stored: str) -> str:
    """Return a readable text for the model or feed with a stored name, or for the target of an erasure."""
    if stored == EVERYWHERE:
        return "all models and feeds"
    if stored.startswith(FLEET):
        return stored
    return f"feed {stored.removeprefix(FEEDS)}" if is_feed(stored) else f"model {stored}"


def on_ray(outcome: ErasureOutcome) -> Places:
    """Return what an erasure over Ray searched besides the places of a service without Ray."""
    jobs = "their jobs of it, and on such datasets, are removed when they see this receipt"
    away = [f"{', '.join(names)} of {front}" for front, names in outcome.open.items()]
    datasets = "not searched yet, and done when their front end is back: " + "; ".join(away)
    return {
        "other front ends": f"{jobs}; {datasets if away else 'their datasets with keys were searched'}",
        "Ray's object store": "not searched: it holds what calls bring while they last, in memory or in files",
    }


def of_part(part: ErasurePart, intent: Intent, erased: Erased) -> Places:
    """Return the places of data of one model or feed."""
    requests = f"{erased.requests} forgotten, the others name none of them"
    if not part.is_named:
        return {"log, snapshots, solutions": "name none of these, and stay as they are"}
    if not is_feed(part.stored):
        return {
            "window": "solved without them" if erased.training is None else "without them; this solves nothing",
            **({} if erased.training is None else {"training": erased.training}),
            "classes, scale of features, gamma": "those of the examples that stay",
            "log, snapshots, solutions": "replaced by one snapshot without them",
            "requests and answers": requests,
        }
    history = {"log, snapshots": "replaced by one snapshot without them"}
    if not intent.by_time:
        return history | {"requests and answers": requests}
    return {
        "window": "missing ones in their place; every model learnt anew without them",
        "record of forecasts": "without those at them, of them, or beside them; sums over what is older stay",
        **history,
        "requests and answers": f"all {erased.requests} forgotten",
        "its source, and entries that it refused": "not searched: a stream is its owner's",
    }


def around(intent: Intent, rows: Sequence[Found], n_jobs: int, n_files: int) -> Places:
    """Return all other places except the store: datasets, jobs, files, other models and feeds, and outside copies."""
    if intent.by_time:
        own = {"models and datasets": "not searched: they have keys, and no times"}
    else:
        own = {
            "datasets": _datasets(intent, rows),
            "feeds": "their readings have times, and no keys: POST /feeds/{id}/erase forgets by times",
        }
        if intent.target != EVERYWHERE:
            named = f"{', '.join(intent.elsewhere)}: named there, and not forgotten; POST /erase does"
            own["other models and feeds"] = named if intent.elsewhere else "none names any of them"
    if intent.trainings:
        own["trainings"] = f"not searched, as it is not known which rows they used: {', '.join(intent.trainings)}"
    if intent.respelled:
        own["other spellings"] = f"{len(intent.respelled)} keys are there otherwise spelled, and stay"
    jobs = f"all of its own removed, and those that used such datasets, {n_jobs} at the end"
    files = f"{n_files} removed"
    return own | {"jobs and their results": jobs, "files of lost models": files} | ELSEWHERE


def _datasets(intent: Intent, found: Sequence[Found]) -> str:
    rows = [f"{one.rows} rows removed from {one.name}" for one in found]
    said = [", ".join(rows) or "no row of those with keys has one of these keys or tags as its key"]
    if intent.unsearched:
        said.append(f"not searched, having no keys or not to be read here: {', '.join(intent.unsearched)}")
    return "; ".join(said)
