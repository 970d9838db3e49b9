"""A real nginx of the tests' own: a free port, its own directory, gone at the end."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import trustme

from tests.contract.redis_server import free_port

START_SECONDS = 20.0
_KINDS = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
_CONFIGURATION = """{user}daemon off; pid {place}/pid; error_log {place}/error.log; worker_processes 1;
events {{ worker_connections 512; }}
http {{
    access_log {place}/access.log; {temporary}
    {before}
    server {{
        listen 127.0.0.1:{port} ssl; server_name localhost;
        ssl_certificate {place}/chain.pem; ssl_certificate_key {place}/key.pem;
        proxy_http_version 1.1; proxy_set_header Host $host; proxy_set_header Connection "";
        {within}
    }}
}}
"""


class Nginx:
    """One nginx that speaks TLS as ``localhost``, with a certificate of an authority of its own.

    Parameters
    ----------
    before : of its configuration, what is outside of the server, as ``upstream``
    within : what is in the server, as ``location``
    """

    def __init__(self, place: Path, within: str, before: str = "") -> None:
        place.mkdir()
        found = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")
        assert found is not None, "nginx is not installed; `make operations` installs it"
        self._found, self._place, self.port = found, place, free_port()
        authority = trustme.CA()
        certificate = authority.issue_cert("localhost")
        self.ca = place / "ca.pem"
        authority.cert_pem.write_to_path(str(self.ca))
        certificate.private_key_pem.write_to_path(str(place / "key.pem"))
        for part in certificate.cert_chain_pems:
            part.write_to_path(str(place / "chain.pem"), append=True)
        temporary = " ".join(f"{kind}_temp_path {place}/{kind};" for kind in _KINDS)
        user = "user root; " if os.geteuid() == 0 else ""
        (place / "nginx.conf").write_text(
            _CONFIGURATION.format(
                user=user, place=place, temporary=temporary, before=before, port=self.port, within=within
            )
        )

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    def __enter__(self) -> Self:
        command = [self._found, "-p", str(self._place), "-c", str(self._place / "nginx.conf")]
        self._process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        end = time.monotonic() + START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                assert self._process.poll() is None, (self._place / "error.log").read_text()
                assert time.monotonic() < end
                time.sleep(0.02)
            else:
                return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.terminate()
        self._process.wait(START_SECONDS)
