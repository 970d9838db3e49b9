"""Hostile requests sent to a real service from several connections at once, and what must hold all along and after."""

from __future__ import annotations

import argparse
import json
import re
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from tests.benchmarks.printing import machine, table
from tests.faults.models import CLOSE, distance, set_scene, versions
from tests.faults.promises import Verdict, forget_peak, megabytes, peak_megabytes
from tests.faults.scene import Scene
from tests.faults.wire import Address, Answer, Sent, Unreadable, exchange
from tests.service.process import ServiceProcess

LANES = 8
"""Connections at once."""
LONGEST_REFUSAL = 2**16
"""Bytes of a problem document."""

JOBS_SECONDS = 60.0
"""In which every job has to end after the last request; each is about a few dozen examples."""
BESIDE_MB = 200.0
"""By which the service may be larger than what its budget says is held."""

_CHANGES = re.compile(
    rb"POST (?:/models/([a-z0-9_-]+)/(?:update|restore)|/jobs/(j-[0-9a-f]{12}(?:-[0-9a-f]{8})?)/apply)[ ?#]"
)


@dataclass(frozen=True)
class Failure:
    """A request that was not answered as it should be."""

    sent: Sent
    why: str


@dataclass
class Seen:
    """What came back; ``made`` is how many models more there are."""

    kinds: Counter[tuple[str, str]] = field(default_factory=Counter)
    versions: dict[str, set[int]] = field(default_factory=lambda: defaultdict(set))
    made: int = 0
    failures: list[Failure] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, sent: Sent, answer: Answer, why: str) -> None:
        """Count one answer, and what it says was changed."""
        with self.lock:
            self.kinds[sent.kind, _family(answer.status)] += 1
            made = answer.status == 201 and sent.data.startswith((b"POST /models ", b"POST /models?", b"POST /models#"))
            self.made += made - (answer.status == 204 and sent.data.startswith(b"DELETE /models/"))
            changes = _CHANGES.match(sent.data)
            if changes and answer.status == 200 and not answer.header("idempotent-replayed"):
                self.versions[(changes[1] or changes[2]).decode()].add(answer.document()["version"])
            if why:
                self.failures.append(Failure(sent, why))


def _family(status: int) -> str:
    return "closed" if status == 0 else str(status) if status >= 500 else f"{status // 100}xx"


def fault(answer: Answer) -> str:
    """Return what is wrong with an answer to a request that may be anything; empty where nothing is."""
    document = answer.document() if "json" in answer.header("content-type") else None
    has_reason = isinstance(document, dict) and bool(document.get("detail"))
    if answer.status >= 500 and not (answer.status == 503 and has_reason):
        return f"{answer.status}: {answer.body[:200]!r}"
    if answer.status >= 400 and isinstance(document, dict) and document.get("status") != answer.status:
        return f"{answer.status}, and the document says {document.get('status')}"
    if answer.status >= 400 and len(answer.body) > LONGEST_REFUSAL:
        return f"{answer.status} with {len(answer.body)} bytes"
    return ""


def judged(address: Address, sent: Sent, seconds: float) -> tuple[Answer, str]:
    """Return the answer to a request, and what is wrong with it."""
    try:
        answer = exchange(address, sent, seconds)
    except (Unreadable, OSError, ValueError) as error:
        return Answer(), f"{type(error).__name__}: {error}"
    return answer, fault(answer)


def attack(address: Address, requests: Iterable[Sent], seconds: float) -> Seen:
    """Send all of them, several at a time; each is answered, or its connection closed, within ``seconds``."""
    seen, lock, rest = Seen(), threading.Lock(), iter(requests)

    def lane() -> None:
        """Send one request after the other."""
        while True:
            with lock:
                sent = next(rest, None)
            if sent is None:
                return
            seen.note(sent, *judged(address, sent, seconds))

    with ThreadPoolExecutor(LANES) as pool:
        for done in [pool.submit(lane) for _ in range(LANES)]:
            done.result()
    return seen


@dataclass(frozen=True)
class Attack:
    """What is sent, in how many seconds each is to be answered, and how much memory the service may take for it."""

    requests: Callable[[Scene], Iterable[Sent]]
    seconds: float
    megabytes: float

    def run(self, service: ServiceProcess, prefix: str = "") -> tuple[Seen, Scene, list[Verdict]]:
        """Send it all; what came back, and what held."""
        with service.http() as http:
            scene, before = set_scene(http, prefix), versions(http)
            forget_peak(service.pid)  # that of compiling would hide what requests take
            base = peak_megabytes(service.pid)
            host, port = scene.host.rsplit(":", 1)
            seen = attack((host, int(port)), self.requests(scene), self.seconds)
            grown, after = peak_megabytes(service.pid) - base, versions(http)
            verdicts = self._verdicts(seen, scene, before, after, grown)
            return seen, scene, [*verdicts, _within_budget(http, service.pid), _jobs_end(http), _served(http, scene)]

    def _verdicts(
        self, seen: Seen, scene: Scene, before: dict[str, int], after: dict[str, int], grown: float
    ) -> list[Verdict]:
        changed = {model: after.get(model, -1) - before[model] for model in scene.models.values()}
        seen.versions[scene.models["svc"]] |= seen.versions[scene.job]
        reported = {model: len(seen.versions[model] - {before[model]}) for model in changed}
        made = len(after) - len(before)
        return [
            Verdict("each answered or closed in time, no 5xx but 503 with a reason", _first(seen), not seen.failures),
            Verdict(
                "models changed by what was answered 200, and by nothing else",
                f"{changed}, told {reported}",
                changed == reported,
            ),
            Verdict("models made by what was answered 201", f"{made}, told {seen.made}", made == seen.made),
            Verdict(f"memory grew by less than {self.megabytes:g} MB", f"{grown:.0f} MB", grown < self.megabytes),
        ]


def _first(seen: Seen) -> str:
    if not seen.failures:
        return f"{seen.kinds.total()} requests"
    return f"{len(seen.failures)} failed, first: {seen.failures[0].why[:60]}"


def _within_budget(http: httpx.Client, pid: int) -> Verdict:
    """Return whether the service takes no more than its budget knows of."""
    lines = http.get("/metrics").text.splitlines()
    held = sum(float(line.split()[-1]) for line in lines if line.startswith("livesvm_memory_held_bytes{")) / 2**20
    seen = megabytes(pid)
    promise = f"memory in use is at most what the budget holds, and {BESIDE_MB:g} MB"
    return Verdict(promise, f"{seen:.0f} MB, {held:.0f} MB held", seen <= held + BESIDE_MB)


def _jobs_end(http: httpx.Client) -> Verdict:
    """Return whether every job ends."""
    end, rest = time.monotonic() + JOBS_SECONDS, ["?"]
    while rest and time.monotonic() < end:
        jobs = http.get("/jobs").raise_for_status().json()["jobs"]
        rest = [f"{job['kind']} at {job['progress']:.1%}" for job in jobs if job["state"] in ("queued", "running")]
        time.sleep(0.1)
    return Verdict("every job ends", "all have" if not rest else f"{len(rest)} have not, first: {rest[0]}", not rest)


def _served(http: httpx.Client, scene: Scene) -> Verdict:
    worst = max(distance(http, task, model) for task, model in scene.models.items())
    return Verdict("an update and a prediction after it are right", f"off by {worst:.1e}", worst < CLOSE)


# The commands.


def options(parser: argparse.ArgumentParser, requests: int) -> argparse.ArgumentParser:
    """Return the options that attacks share."""
    parser.add_argument("--requests", type=int, default=requests)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=20.0, help="that one answer may take")
    parser.add_argument("--megabytes", type=float, default=500.0, help="by which the service may grow")
    parser.add_argument(
        "--failures", type=Path, default=Path("attack-failures.jsonl"), help="where failing requests go"
    )
    parser.add_argument("--replay", type=Path, help="send the requests of such a file, one after the other")
    return parser


@contextmanager
def started(**settings: object) -> Iterator[ServiceProcess]:
    """Yield a service of its own, that does not wait long for bodies."""
    with (
        TemporaryDirectory() as directory,
        ServiceProcess(Path(directory), None, body_seconds=5, **settings) as service,
    ):
        yield service


def report(seen: Seen, scene: Scene, verdicts: Sequence[Verdict], kept: Path) -> int:
    """Print what came back and what held; write failing requests down; the exit status."""
    families = sorted({family for _, family in seen.kinds})
    kinds = sorted({kind for kind, _ in seen.kinds})
    print(machine())
    print(table(["request", *families], [[k, *(str(seen.kinds[k, f]) for f in families)] for k in kinds]))
    print("\n" + table(["promise", "seen", "holds"], [verdict.line() for verdict in verdicts]))
    if seen.failures:
        lines = (failure.sent.line(why=failure.why, host=scene.host, job=scene.job) for failure in seen.failures)
        kept.write_text("".join(f"{line}\n" for line in lines))
        print(f"\nfailing requests are in {kept}; send them again with --replay {kept}")
    return int(not all(verdict.holds for verdict in verdicts))


def replay(kept: Path, seconds: float) -> int:
    """Send the requests of a file to a new service, one after the other, and say how each was answered."""
    failed = 0
    with started() as service, service.http() as http:
        scene = set_scene(http)
        host, port = scene.host.rsplit(":", 1)
        for line in kept.read_text().splitlines():
            sent = addressed(line, scene)
            answer, why = judged((host, int(port)), sent, seconds)
            failed += bool(why)
            print(f"{sent.kind:8} {answer.status or 'closed':6} {why or 'as it should be'}   {sent.start}")
    return int(failed > 0)


def addressed(line: str, scene: Scene) -> Sent:
    """Return a request that was kept, addressed to this service and its job."""
    sent, reported = Sent.of(line), json.loads(line)
    here = {reported["host"]: scene.host, reported["job"]: scene.job}
    data = sent.data
    for before, now in here.items():
        data = data.replace(before.encode(), now.encode())
    return replace(sent, data=data)


def numbered(draw_one: Callable[[int], Sent], count: int, label: str) -> Iterator[Sent]:
    """So many requests, with a line a minute that says how far it is."""
    said = time.monotonic()
    for number in range(count):
        if time.monotonic() - said > 60:
            said = time.monotonic()
            print(f"{label}: {number} of {count}", flush=True)
        yield draw_one(number)
