"""Two services on one Redis behind nginx, as the documents configure it: each is restarted, and no call fails."""

from __future__ import annotations

import re
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from itertools import count
from pathlib import Path

import httpx
import pytest
import trustme

from tests.contract.redis_server import RedisServer, free_port
from tests.documents import blocks, read
from tests.service.process import ServiceStartedAfresh
from tests.support.updates_under_faults import MODEL, PROBE, batch
from tests.support.waiting import until

pytestmark = pytest.mark.operations

PAGE = "docs/howto/secure.md"
CLIENTS, MODELS = 6, 3
REPEATED = {429, 502, 503, 504}


def configuration(place: Path, port: int, services: list[int], authority: trustme.CA) -> str:
    """Return the documented text, with the addresses and the certificate of this test."""
    (text,) = [block for block in blocks(PAGE, "nginx") if "backup" in block]
    certificate = authority.issue_cert("svm.example.org")
    certificate.private_key_and_cert_chain_pem.write_to_path(str(place / "server.pem"))
    pem = place / "server.pem"
    listening = f"listen 127.0.0.1:{port} ssl; ssl_certificate {pem}; ssl_certificate_key {pem};"
    for old, new in [
        ("listen 443 ssl;", listening),
        *zip(("10.0.0.8:8000", "10.0.0.9:8000"), (f"127.0.0.1:{one}" for one in services), strict=True),
    ]:
        assert text.count(old) == 1
        text = text.replace(old, new)
    names = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    places = "".join(f"{name}_temp_path {place / name};\n" for name in names)
    head = f"daemon off; master_process off; pid {place / 'pid'}; error_log {place / 'error.log'};\nevents {{}}\n"
    return f"{head}http {{\naccess_log off;\n{places}{text}}}\n"


@contextmanager
def nginx(place: Path, services: list[int]) -> Iterator[tuple[str, ssl.SSLContext]]:
    """Run it; yields its address and what trusts it."""
    authority, port = trustme.CA(), free_port()
    (place / "nginx.conf").write_text(configuration(place, port, services, authority))
    command = ["nginx", "-c", str(place / "nginx.conf"), "-e", str(place / "error.log"), "-p", str(place)]
    trusted = ssl.create_default_context()
    authority.configure_trust(trusted)
    process = subprocess.Popen(command)
    try:
        yield f"https://127.0.0.1:{port}", trusted
    finally:
        process.terminate()
        process.wait(10)


class Caller(threading.Thread):
    """Updates a model and predicts by it; repeats what may be repeated, and notes what else is wrong."""

    def __init__(self, number: int, url: str, trusted: ssl.SSLContext, done: threading.Event) -> None:
        super().__init__()
        self.number, self.url, self.trusted, self.done = number, url, trusted, done
        self.model = f"m{number % MODELS}"
        self.updates = 0
        self.wrong: list[str] = []

    def run(self) -> None:
        extensions = {"sni_hostname": "svm.example.org"}
        with httpx.Client(base_url=self.url, verify=self.trusted, trust_env=False, timeout=30) as http:
            http.headers["host"] = "svm.example.org"
            for number in count():
                if self.done.is_set():
                    return
                key = {"idempotency-key": f"{self.number}-{number}"}
                added = batch(1000 * self.number + number)
                for path, body, headers in (("update", added, key), ("predict", {"X": PROBE}, {})):
                    while True:
                        try:
                            answer = http.post(
                                f"/models/{self.model}/{path}", json=body, headers=headers, extensions=extensions
                            )
                        except httpx.HTTPError as error:
                            self.wrong.append(f"{path}: {error!r}")
                            return
                        if answer.status_code not in REPEATED:
                            break
                        time.sleep(0.1)
                    if not answer.is_success:
                        self.wrong.append(f"{path}: {answer.status_code} {answer.text}")
                        return
                self.updates += 1


def serves(url: str) -> bool:
    return httpx.get(f"{url}/health/serving").is_success


def test_no_call_fails_at_a_rolling_restart(tmp_path: Path) -> None:
    (seconds,) = re.findall(r"LIVESVM_DRAIN_SECONDS=(\d+)", read(PAGE))
    ports, done = [free_port(), free_port()], threading.Event()
    with RedisServer(tmp_path / "redis") as server:
        services = [
            ServiceStartedAfresh(
                tmp_path / str(port),
                port=port,
                redis_url=server.url,
                lease_seconds=2,
                drain_seconds=seconds,
                allowed_hosts="svm.example.org",
            )
            for port in ports
        ]
        with services[0] as one, services[1] as two, nginx(tmp_path, ports) as (url, trusted):
            with one.http() as http:
                for number in range(MODELS):
                    http.post("/models", json=MODEL | {"id": f"m{number}"}).raise_for_status()
            callers = [Caller(number, url, trusted, done) for number in range(CLIENTS)]
            for caller in callers:
                caller.start()
            for stopped, other in ((one, two), (two, one)):
                time.sleep(2)
                assert (serves(stopped.url), serves(other.url)) == (True, False)
                assert stopped.stop() == 0
                until(partial(serves, other.url))
                stopped.start()
            time.sleep(2)
            done.set()
            for caller in callers:
                caller.join()
            assert [caller.wrong for caller in callers] == [[] for _ in callers]
            assert all(caller.updates > 10 for caller in callers)
            with one.http() as http:
                for number in range(MODELS):
                    wanted = sum(caller.updates for caller in callers if caller.model == f"m{number}")
                    assert http.get(f"/models/m{number}").json()["version"] == wanted  # each once
            for service in (one, two):
                assert service.stop() == 0
                assert "error" not in service.errors.lower()
