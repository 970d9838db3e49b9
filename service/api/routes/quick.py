"""Routes that are called hundreds of times a second: what they are called with is read without the framework's help.

FastAPI's own reading of a path, two headers and a scope takes as long as a small solve. It still describes these
routes, and reads whatever is out of the ordinary, so that there is one list of what may be asked, and one of faults.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from inspect import signature
from typing import Any

from fastapi.routing import APIRoute
from fastapi.security.utils import get_authorization_scheme_param
from starlette.requests import Request
from starlette.responses import Response

from livesvm.service.api.routes.access import let_in
from livesvm.service.lifecycle.parts import Service

LONGEST_KEY = 200
"""Characters of an ``Idempotency-Key``."""


def quick(needed: str) -> type[APIRoute]:
    """Return the class of routes with ``id`` in their path that need a key of this scope, if there are keys."""

    class QuickRoute(APIRoute):
        """Calls its endpoint at once where there is no query, and the ``Idempotency-Key`` is as it should be."""

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            """Return what answers a request."""
            thorough, endpoint = super().get_route_handler(), self.endpoint
            takes_key = "idempotency_key" in signature(endpoint).parameters

            async def handle(request: Request) -> Response:
                """Call the endpoint, or have the framework read what is out of the ordinary."""
                service: Service = request.app.state.service
                keys = request.headers.getlist("idempotency-key") if takes_key else []
                if request.scope["query_string"] or len(keys) > 1 or not all(_is_plain(key) for key in keys):
                    return await thorough(request)
                if service.keys.known:
                    let_in(service.keys.find(bearer_in(request)), needed)
                named = {"idempotency_key": keys[0]} if keys else {}
                answer: Response = await endpoint(request.path_params["id"], request, service, **named)
                return answer

            return handle

    return QuickRoute


def _is_plain(key: str) -> bool:
    return 1 <= len(key) <= LONGEST_KEY


def bearer_in(request: Request) -> str:
    """Return the secret that a request comes with; empty where there is none."""
    scheme, secret = get_authorization_scheme_param(request.headers.get("authorization"))
    return secret if scheme.lower() == "bearer" else ""
