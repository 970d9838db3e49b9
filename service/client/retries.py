"""Rules that determine which requests are sent again, and after which delay."""

from __future__ import annotations

import random
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, TypedDict

import httpx
from tenacity import RetryCallState, retry_if_exception, retry_if_result
from tenacity.retry import retry_base

from livesvm.service.client.tls import fault_of

CUT_OFF_SECONDS = 0.2
"""Delay before a request that got no answer is sent again."""
MOST_SECONDS = 1.0
"""Longest delay before a refused request is sent again, whatever the service asks for."""
AWAY = frozenset({502, 503, 504})
"""Answers of the service, or of a proxy that does not reach it, after which a request may have had its effect."""
UNSENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
"""Errors after which a request has had no effect."""
FAULTY = (httpx.UnsupportedProtocol, httpx.LocalProtocolError)
"""Errors of requests that cannot be sent at all."""
JITTER = 0.5
"""Delays are longer by up to this share at random, so that requests refused together do not come back together."""


class Policy(TypedDict):
    """The arguments that configure tenacity's retries."""

    retry: retry_base
    stop: Callable[[RetryCallState], bool]
    wait: Any
    retry_error_callback: Any


def policy(is_repeatable: bool, patience: float) -> Policy:
    """Return the rules for repeating a request; after ``patience`` seconds, the last answer or error is final.

    After each answer that says that the service is still compiling its solvers, the ``patience`` seconds begin again.
    """
    busy = {429, *AWAY} if is_repeatable else {429}
    passing = httpx.TransportError if is_repeatable else UNSENT

    def passes(error: BaseException) -> bool:
        """Return whether the next attempt may succeed after this error."""
        return isinstance(error, passing) and not isinstance(error, FAULTY) and fault_of(error) is None

    end = patience

    def is_over(state: RetryCallState) -> bool:
        """Return whether the request must not be repeated any more, as ``patience`` seconds are over."""
        nonlocal end
        spent = state.seconds_since_start or 0.0
        if patience > 0.0 and _is_compiling(state):
            end = spent + patience
        return spent >= end

    again = retry_if_result(lambda answer: answer.status_code in busy) | retry_if_exception(passes)
    return {"retry": again, "stop": is_over, "wait": _wait, "retry_error_callback": _last}


def _wait(state: RetryCallState) -> float:
    assert state.outcome is not None
    least = CUT_OFF_SECONDS if state.outcome.failed else _asked_for(state.outcome.result())
    return least * random.uniform(1.0, 1.0 + JITTER)


def _is_compiling(state: RetryCallState) -> bool:
    """Return whether the last answer says that the service is compiling its solvers, and how long to wait."""
    assert state.outcome is not None
    if state.outcome.failed or state.outcome.result().status_code != HTTPStatus.SERVICE_UNAVAILABLE:
        return False
    answer = state.outcome.result()
    return _said(answer) > MOST_SECONDS and b":not-ready" in answer.content


def _last(state: RetryCallState) -> Any:
    assert state.outcome is not None
    return state.outcome.result()


def _asked_for(response: httpx.Response) -> float:
    """Return for how many seconds an answer asks the client to wait, but at most one second."""
    said = _said(response)
    return said if 0 <= said <= MOST_SECONDS else MOST_SECONDS


def _said(response: httpx.Response) -> float:
    """Return for how many seconds an answer asks the client to wait; one second if it names a date or nothing."""
    try:
        return float(response.headers.get("retry-after", MOST_SECONDS))
    except ValueError:
        return MOST_SECONDS
