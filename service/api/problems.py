"""Exception handlers: if a request fails, its answer is a problem document."""

from __future__ import annotations

import logging
from http import HTTPStatus
from math import ceil
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from pydantic_core import to_json
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Match, Mount
from starlette.types import Receive, Scope, Send

from livesvm.service.api.problem_documents import INTERNAL, MEDIA_TYPE, Kind, kind_of, problem, reason_for_log
from livesvm.service.errors import InvalidRequest, NotReady, ServiceError
from livesvm.service.logs.calls import note
from livesvm.service.store.base import StoreError
from livesvm.solvers.errors import SolverError
from livesvm.solvers.runtime.at_work import at_work

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
log = logging.getLogger(__name__)


def install(app: FastAPI) -> None:
    """Make the application answer every error with a problem document."""
    for kind in (ServiceError, SolverError, StoreError, ValidationError, Exception):
        app.add_exception_handler(kind, _told)
    app.add_exception_handler(RequestValidationError, _fault_fields)
    app.add_exception_handler(HTTPException, _http_problem)


async def refuse(error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
    """Send the problem document of an error as the answer to a request, without calling the application."""
    answer = await _told(Request(scope), error)
    await answer(scope, receive, send)


async def _told(request: Request, error: Exception) -> Response:
    kind = kind_of(error)
    if kind is INTERNAL:
        log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    note(problem=kind.slug, **reason_for_log(error))
    headers = headers_of(kind)
    if isinstance(error, NotReady) and at_work.progress():
        headers["retry-after"] = str(2 + ceil(at_work.seconds_left()))  # longer than without compiling
    return Response(to_json(_for(request, problem(error))), kind.status, headers, MEDIA_TYPE)


def headers_of(kind: Kind) -> dict[str, str]:
    """Return the headers that answers with this kind of error have in addition to the usual headers."""
    ends = kind.status in (408, 413, 431) or kind is INTERNAL  # the request may not be read to its end
    headers = {"connection": "close"} if ends else {}
    if kind.retry_after is not None:
        headers["retry-after"] = str(kind.retry_after)
    if kind.status == HTTPStatus.UNAUTHORIZED:
        headers["www-authenticate"] = "Bearer"
    return headers


async def _fault_fields(request: Request, error: Exception) -> Response:
    """Answer with the faults that FastAPI has found in the request."""
    return await _told(request, InvalidRequest(error.errors()) if isinstance(error, RequestValidationError) else error)


async def _http_problem(request: Request, error: Exception) -> Response:
    """Answer requests that FastAPI itself refuses: with an unknown path, or a method that the path does not allow."""
    status, headers = 500, None
    detail = "The request failed."
    if isinstance(error, HTTPException):
        status, headers, detail = error.status_code, error.headers, str(error.detail)
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers = {"allow": ", ".join(allowed(request.app, request.scope))}
        if request.method == "OPTIONS":
            return Response(status_code=HTTPStatus.NO_CONTENT, headers=headers)
    note(problem=HTTPStatus(status).phrase)
    document = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return Response(to_json(_for(request, document)), status, dict(headers or {}), MEDIA_TYPE)


def _for(request: Request, document: dict[str, Any]) -> dict[str, Any]:
    """Return the problem document; below ``/v2``, add the field ``error`` that the Open Inference Protocol requires."""
    if request.url.path.startswith("/v2"):
        return document | {"error": document["detail"]}
    return document


def allowed(app: FastAPI, scope: Scope) -> list[str]:
    """Return the HTTP methods that the path of a request allows; an empty list for an unknown path."""
    methods = [method for method in _METHODS if _has(app, scope, method)]
    if not methods:
        return []
    return [*methods, *(["HEAD"] if "GET" in methods else []), "OPTIONS"]


def _has(app: FastAPI, scope: Scope, method: str) -> bool:
    root = scope.get("app_root_path", scope.get("root_path", ""))  # a mounted application has another one
    asked = {"type": "http", "method": method, "path": scope["path"], "root_path": root}
    for route in app.router.routes:
        if route.matches(dict(asked))[0] is Match.FULL:
            return method == "GET" or not isinstance(route, Mount)  # static files are only read
    return False
