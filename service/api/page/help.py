"""The documentation at ``/help``: the built site, where the package carries one."""

from __future__ import annotations

import base64
import hashlib
import os
import re
from functools import lru_cache
from pathlib import Path

from fastapi import FastAPI
from starlette.responses import RedirectResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from livesvm.service.errors import NoDocumentation

SITE = Path(__file__).parent / "site"
"""Where ``make docs`` builds the site. It is part of a package that is built after that."""
PREFIX = "/help"
_INLINE_SCRIPT = re.compile(rb"<script[^>]*>(.+?)</script>", re.DOTALL)
_POLICY = (
    "default-src 'none'; script-src 'self' {scripts}; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "connect-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class _Site(StaticFiles):
    """The files of the site; a page may load the service's own files and run the scripts written in it."""

    def file_response(
        self, full_path: str | os.PathLike[str], stat_result: os.stat_result, scope: Scope, status_code: int = 200
    ) -> Response:
        """Return the file, or say that it has not changed."""
        response = super().file_response(full_path, stat_result, scope, status_code)
        response.headers["cache-control"] = "no-cache"
        if Path(full_path).suffix == ".html":
            response.headers["content-security-policy"] = _policy(Path(full_path), stat_result.st_mtime_ns)
        return response


def install(app: FastAPI, site: Path = SITE) -> None:
    """Serve the site at ``/help``; where it was not built, answer with a problem document that says how."""
    if not (site / "index.html").is_file():
        _install_absence(app)
        return

    @app.get(PREFIX, include_in_schema=False)
    @app.get(f"{PREFIX}/", include_in_schema=False)
    async def entrance() -> Response:
        """Send the browser to the first page, by a path that names no host."""
        return RedirectResponse(f"{PREFIX}/index.html")

    app.mount(PREFIX, _Site(directory=site), name="help")


def _install_absence(app: FastAPI) -> None:
    @app.get(PREFIX, include_in_schema=False)
    @app.get(PREFIX + "/{path:path}", include_in_schema=False)
    async def absent() -> Response:
        """Refuse."""
        raise NoDocumentation("this package was built without its documentation; `make docs` in the source builds it")


@lru_cache(maxsize=256)
def _policy(page: Path, changed: int) -> str:
    """Return the policy of a page; the time of its change is part of what is remembered."""
    scripts = {hashlib.sha256(script).digest() for script in _INLINE_SCRIPT.findall(page.read_bytes())}
    return _POLICY.format(scripts=" ".join(f"'sha256-{base64.b64encode(one).decode()}'" for one in sorted(scripts)))
