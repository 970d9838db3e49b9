"""The documentation site at ``/help``; without the site, a note there says where the documents are."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from livesvm.service.api.edge.headers import policy_of
from livesvm.service.api.page.files import POLICY, Files
from livesvm.service.errors import NoDocumentation

SITE = Path(__file__).parent / "site"
"""The directory in which ``make docs`` builds the site; a package built after that contains it."""
PREFIX = "/help"
ABSENT = (
    "This package was built without its documentation site. The documents are text files in docs/ of the source tree "
    "and of the source distribution (livesvm-*.tar.gz); start with docs/index.md. The command make docs builds the "
    "site there, and a package that is installed from there after that has it."
)
_ABSENCE = f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Help · LiveSVM</title><link rel="stylesheet" href="page/style.css"></head>
<body><main><h1>Help</h1><p>{ABSENT}</p>
<p><a href="docs">docs</a> describes every call of this service.</p></main></body>
</html>
"""


def install(app: FastAPI, site: Path = SITE) -> None:
    """Serve the documentation site at ``/help``; if the site was not built, serve a note that says how to build it."""
    if not (site / "index.html").is_file():
        _install_absence(app)
        return

    @app.get(PREFIX, include_in_schema=False)
    @app.get(f"{PREFIX}/", include_in_schema=False)
    async def entrance() -> Response:
        """Redirect the browser to the site's first page, by a path without a host."""
        return RedirectResponse(f"{PREFIX}/index.html")

    app.mount(PREFIX, Files(site, _policy), name="help")


def _install_absence(app: FastAPI) -> None:
    @app.get(PREFIX, include_in_schema=False)
    @app.get(PREFIX + "/{path:path}", include_in_schema=False)
    async def absent(request: Request) -> Response:
        """Answer that the documentation site is absent: with a page for browsers, otherwise with a problem document."""
        if "text/html" not in request.headers.get("accept", ""):
            raise NoDocumentation(ABSENT)
        up = "../" * request.url.path.removeprefix(PREFIX).count("/")  # a proxy may have the service under a path
        page = _ABSENCE.replace('href="', f'href="{up}')
        return HTMLResponse(page, 404, {"content-security-policy": POLICY})


@lru_cache(maxsize=1024)
def _policy(page: Path, changed: int) -> str | None:
    """Return the security policy of a page: the page may load the service's files, and run its own inline scripts.

    The argument ``changed`` is the page's modification time, and only serves as a part of the cache key.
    """
    if page.suffix != ".html":
        return None
    return policy_of(page.read_bytes(), "'self'")
