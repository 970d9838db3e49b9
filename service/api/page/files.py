"""The service's web page: static files and their security policy; all data on the page come from the API."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

FILES = Path(__file__).parent / "files"
PREFIX = "/page"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
"""A policy that allows only files of this service: no inline code, and no text that becomes markup or code."""


class Files(StaticFiles):
    """Static files that a browser must revalidate at each use, so that it never shows files of an older service.

    Parameters
    ----------
    policy : returns a file's content security policy from its path and modification time; None: the file has none
    """

    def __init__(self, directory: Path, policy: Callable[[Path, int], str | None]) -> None:
        super().__init__(directory=directory)
        self._policy = policy

    def file_response(
        self, full_path: str | os.PathLike[str], stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """Return the response that contains a file, or has status 304 if the browser's copy of the file is current."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["cache-control"] = "no-cache"
        if (policy := self._policy(Path(full_path), stat_result.st_mtime_ns)) is not None:
            response.headers["content-security-policy"] = policy
        return response


def install(app: FastAPI) -> None:
    """Serve the page at ``/``; each request reads its file from the disk."""
    files = Files(FILES, lambda path, changed: POLICY)

    @app.get("/", include_in_schema=False)
    async def page(request: Request) -> Response:
        """Return the page; its calls of the API are checked like the calls of all other callers."""
        path = FILES / "index.html"
        return files.file_response(path, path.stat(), request.scope)

    app.mount(PREFIX, files, name="page")
