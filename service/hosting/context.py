"""The parts of a service that all its models and feeds share."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from livesvm.service.history.journal import Source
from livesvm.service.resources.memory import Budget
from livesvm.service.resources.solve_scheduler import SolveScheduler
from livesvm.service.settings import Settings
from livesvm.service.webhooks.outbox import Outbox

MOST_THREADS = 64
"""Threads of all mailboxes; a call that waits for a disk or for its turn to solve holds one."""


@dataclass(frozen=True)
class Context:
    """The settings, the store with its health and metrics, the solve scheduler, memory budget, threads and webhook
    outbox.

    ``holder`` is the name of this service. ``claim`` makes this service the active one, or returns the name of the
    active service.
    """

    settings: Settings
    source: Source
    turns: SolveScheduler
    budget: Budget = field(default_factory=Budget)
    holder: str = "livesvm"
    threads: Executor = field(default_factory=partial(ThreadPoolExecutor, MOST_THREADS, "mailbox"))
    tuners: Executor = field(default_factory=partial(ThreadPoolExecutor, 1, "tune"))
    outbox: Outbox = field(default_factory=Outbox)
    claim: Callable[[], str] = str
