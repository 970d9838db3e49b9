"""The shares that a worker has, as the service reads them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from livesvm.service.remote.messages import Answer, packed, unpacked
from livesvm.service.remote.transport import Place, Transport, ask_all
from livesvm.service.store.base import Store, StoreUnavailable
from livesvm.service.workers.messages import AskStore

AGAIN_SECONDS = 0.1
"""After which a call is made again of a worker that was lost on the way."""


def _asked(method: Callable[..., Any]) -> Any:
    """Return a call of the worker's store; one that yields is answered with a list."""

    def call(self: RemoteStore, *arguments: Any, **named: Any) -> Any:
        """Ask it; raises StoreError."""
        return self.ask(AskStore(method, arguments, named))

    return call


class RemoteStore:
    """What the service itself asks of a worker's shares; only the worker writes models. Its calls wait for the worker.

    Parameters
    ----------
    workers, place : by which it is asked, and which worker it is
    seconds : for which a call waits for a worker that was lost; the first ones wait until it has started
    """

    def __init__(self, workers: Transport, place: Place, seconds: float) -> None:
        self._workers, self._place, self._seconds = workers, place, seconds
        self._has_answered = False
        self.is_over = False  #: as the service stops

    index = _asked(Store.index)
    models = _asked(Store.models)
    model = _asked(Store.model)
    heads = _asked(Store.heads)
    requests = _asked(Store.requests)
    snapshots = _asked(Store.snapshots)
    load_snapshot = _asked(Store.load_snapshot)
    solution = _asked(Store.solution)
    log = _asked(Store.log)
    document = _asked(Store.document)
    documents = _asked(Store.documents)
    put_document = _asked(Store.put_document)
    delete_document = _asked(Store.delete_document)
    wipe = _asked(Store.wipe)

    def close(self) -> None:
        """Do nothing: the worker closes it."""

    def ping(self) -> None:
        """Ask whether it could take an update; a worker that is lost says nothing of its store. Raises StoreError."""
        self._tried(AskStore(Store.ping, (), {}))

    def ask(self, message: AskStore) -> Any:
        """Return the answer; raises what the store there does, StoreUnavailable where there is none in time."""
        end = time.monotonic() + self._seconds
        while (answer := self._tried(message)) is None:
            if self.is_over or (self._has_answered and time.monotonic() > end):
                raise StoreUnavailable(f"the worker that has these models does not answer ({message.method.__name__})")
            time.sleep(AGAIN_SECONDS)
        return answer.value

    def _tried(self, message: AskStore) -> Answer | None:
        """Return the answer, None if the worker was lost; raises what the store does."""
        for found in ask_all(self._workers, [self._place], packed(message)):
            self._has_answered = True
            answer: Answer = unpacked(found)
            answer.result()
            return answer
        return None
