"""The web application: its routes, its middleware, its start and its stop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi_offline import FastAPIOffline

from livesvm.service.access.hosts import Hosts
from livesvm.service.api import problems
from livesvm.service.api.bodies.reading import BodyLimits
from livesvm.service.api.edge.root_path import RootPath
from livesvm.service.api.middleware import Docs, Gate, Heads, RequestLog
from livesvm.service.api.openapi import describe
from livesvm.service.api.page import files as page
from livesvm.service.api.page import help as documentation
from livesvm.service.api.routes import (
    access,
    datasets,
    erasures,
    examples,
    feed_jobs,
    feeds,
    files,
    fleets,
    jobs,
    learn,
    models,
    operations,
    predict,
    questions,
    readings,
    v2,
    versions,
    watch,
    webhooks,
)
from livesvm.service.api.streams import Streams
from livesvm.service.lifecycle.parts import Service
from livesvm.service.logs.traces import Tracing
from livesvm.service.settings import Settings

log = logging.getLogger(__name__)


def create_app(
    settings: Settings,
    on_ready: Callable[[], None] = lambda: None,
    on_failure: Callable[[Exception], None] = lambda error: None,
    rehearse: Callable[[], None] = lambda: None,
    service: Service | None = None,
) -> FastAPI:
    """Open the data directory, and return the web application for these settings; raises StoreError on failure.

    Parameters
    ----------
    on_ready : called once, when the models are restored
    on_failure : called instead, with the error, if the models cannot be restored
    rehearse : called before ``on_ready``, in a thread
    service : a service that has already opened the data directory
    """
    parts = service or Service(settings)

    def restore() -> None:
        """Restore the models, and call ``on_ready`` if this succeeds, or ``on_failure`` if it fails."""
        try:
            parts.restore(rehearse)
        except Exception as error:
            if not parts.health.is_stopping:
                log.exception("the models could not be restored")
                on_failure(error)
        else:
            if not parts.health.is_stopping:
                on_ready()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        """Start restoring and watching models as the application starts; close the service when it stops."""
        threading.Thread(target=restore, name="restore", daemon=True).start()  # a stop does not wait for it
        parts.watch()
        yield
        await asyncio.to_thread(parts.close)

    app = FastAPIOffline(
        title="LiveSVM",
        summary="Live support vector machines: exact online learning",
        version=operations.VERSION,
        lifespan=lifespan,
        redirect_slashes=False,  # a redirect would name the host that the request did
    )
    app.state.service = parts
    has_keys = bool(parts.keys.known)
    app.state.reception = BodyLimits(settings, parts.budget)
    app.state.streams = Streams(settings.streams, settings.heartbeat_seconds)
    of_models = (models, learn, predict, questions, versions, examples, v2)
    resources = (*of_models, erasures, jobs, datasets, files, feeds, readings, feed_jobs, fleets, webhooks)
    table = [learn.updates, *(resource.calls for resource in (*resources, watch, operations)), jobs.submissions]
    routes = [route for calls in table for route in calls.routes]
    app.router.routes.extend(routes)  # as they are: including a router makes its routes again, at the first request
    app.state.paths = access.scopes_of(routes)
    if settings.page:
        page.install(app)
        documentation.install(app)
    problems.install(app)
    describe(app, settings, [body for calls in table for body in calls.bodies], secured=has_keys)
    app.add_middleware(Docs, keys=parts.keys if has_keys and settings.docs_need_key else None, root=settings.root_path)
    app.add_middleware(Heads)
    app.add_middleware(Gate, hosts=Hosts(settings.allowed_hosts, settings.host), has_keys=has_keys)
    if settings.root_path:
        app.add_middleware(RootPath, root=settings.root_path)
    app.add_middleware(
        RequestLog,
        metrics=parts.metrics,
        budget=parts.budget,
        slow_seconds=settings.slow_seconds,
        is_stopping=lambda: parts.health.is_stopping,
        traced=Tracing(operations.VERSION) if settings.traces else None,
    )
    return app
