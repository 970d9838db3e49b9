"""The log: a line a request and a job, each found by its name; what changed a model; and never what is secret."""

from __future__ import annotations

import json
import logging
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import httpx
import numpy as np
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from livesvm.service.access.keys import new_key
from livesvm.service.logs import outlet
from livesvm.service.logs.calls import AUDIT, tell
from tests.service.process import ServiceProcess, ServiceStartedAfresh, blobs

SECRET, ENTRY = new_key("gauge", "learn")
ADMIN, ADMIN_ENTRY = new_key("boss", "admin")
GIVEN = "tell-tale-91.7"
"""Stands in keys, names of fields and headers, where a caller might put a secret."""
VALUE = 417.250625
"""Stands in examples and targets."""


def lines(service: ServiceProcess) -> list[dict[str, Any]]:
    """Return every line that a service that has ended wrote, each of them JSON."""
    return [json.loads(line) for line in service.errors.splitlines()]


def of(service: ServiceProcess, request: str, event: str = "request") -> dict[str, Any]:
    """Return the one line of a kind that a request has."""
    (found,) = [line for line in lines(service) if (line.get("request"), line["event"]) == (request, event)]
    return found


def post(http: httpx.Client, path: str, body: Any, request: str, secret: str = SECRET, **params: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {secret}", "x-request-id": request}
    answer = http.post(path, json=body, headers=headers, params=params)
    assert answer.headers["x-request-id"] == request
    return answer


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> ServiceProcess:
    """A service that has ended, after requests of every outcome."""
    X, y = blobs(np.random.default_rng(0), 30)
    process = ServiceProcess(tmp_path_factory.mktemp("logs"), api_keys=f"{ENTRY},{ADMIN_ENTRY}", slow_seconds=1e-6)
    process.module = "tests.faults.failing_update"
    with process, process.http() as http:
        post(http, "/models", {"id": "m", "window": {"max_examples": 30}}, "made", ADMIN)
        post(http, "/models/m/update", {"add": {"X": X, "y": y}}, "learnt")
        post(http, "/models/m/update", {"add": {"X": X[:4], "y": y[:4]}, "C": 2.0}, "slid")
        post(http, "/models/m/predict", {"X": X[:3]}, "predicted")
        refused = {"add": {"X": [[VALUE] * 3], "y": [VALUE], "keys": [GIVEN]}}
        assert post(http, "/models/m/update", refused, "refused").status_code == 422
        assert post(http, "/models/m/update", {"remove": {"keys": [GIVEN]}}, "unknown").status_code == 422
        assert post(http, "/models/m/update", {GIVEN: [VALUE]}, "misnamed").status_code == 422
        assert post(http, "/models/m/update", {"add": {"X": [[666.0] * 3], "y": [1]}}, "failed").status_code == 500
        assert post(http, f"/models/m/update?{GIVEN}", {}, "stranger", GIVEN).status_code == 401
        assert post(http, "/models", {"id": "n"}, "forbidden").status_code == 403
        assert post(http, "/models/m/update", {"C": 3.0}, "late", max_seconds=1e-9).status_code == 503
        job = post(http, "/models/m/assessment", {"method": "leave-one-out"}, "asked").json()["id"]
        bearer = {"authorization": f"Bearer {SECRET}"}
        while http.get(f"/jobs/{job}", headers=bearer).json()["state"] in ("queued", "running"):
            time.sleep(0.03)
        unnamed = http.get("/health/live", headers={"x-request-id": f"bad name {GIVEN}"})
        assert len(unnamed.headers["x-request-id"]) == 24
        post(http, "/models/m/restore", {"version": 1}, "back")
        http.delete("/models/m", headers={"authorization": f"Bearer {ADMIN}", "x-request-id": "gone"})
        assert process.stop() == 0
    return process


def test_the_log_line_of_an_update_has_caller_action_and_times(reported: ServiceProcess) -> None:
    line = of(reported, "slid")
    assert (line["key"], line["model"], line["version"], line["outcome"]) == ("gauge", "m", 2, "done")
    assert (line["added"], line["removed"], line["C"], line["durability"]) == (4, 4, 2.0, "fsynced")
    assert list(line["stages"]) == [
        "receive",
        "check",
        "queue",
        "write",
        "log",
        "turn",
        "solve",
        "publish",
        "answer",
    ]
    assert sum(line["stages"].values()) == pytest.approx(line["seconds"], abs=1e-5)
    predicted = of(reported, "predicted")
    assert (predicted["model"], predicted["version"], predicted["rows"]) == ("m", 2, 3)


def test_a_refused_update_is_found_with_its_reason(reported: ServiceProcess) -> None:
    line = of(reported, "refused")
    assert (line["status"], line["outcome"], line["problem"]) == (422, "refused", "invalid-input")
    assert (line["key"], line["model"], line["field"], line["row"]) == ("gauge", "m", "y", 0)
    assert "label" in line["detail"]
    assert of(reported, "unknown")["problem"] == "unknown-key"
    assert "version" not in line
    assert (of(reported, "stranger")["problem"], "key" in of(reported, "stranger")) == ("unauthorized", False)
    assert (of(reported, "forbidden")["problem"], of(reported, "forbidden")["key"]) == ("forbidden", "gauge")
    assert of(reported, "late")["problem"] == "turn-missed"


def test_a_failed_update_is_found_with_its_traceback(reported: ServiceProcess) -> None:
    line = of(reported, "failed")
    assert (line["status"], line["outcome"], line["problem"], line["level"]) == (500, "failed", "internal", "warning")
    causes = [other for other in lines(reported) if other.get("request") == "failed" and "exception" in other]
    assert causes
    assert all("ArithmeticError: nobody foresaw this" in cause["exception"] for cause in causes)


def test_a_slow_update_is_found_with_what_took_longest(reported: ServiceProcess) -> None:
    """Here every request counts as slow."""
    line = of(reported, "learnt")
    assert line["level"] == "warning"
    assert line["stages"][line["slow"]] == max(line["stages"].values())


def test_a_job_names_its_caller(reported: ServiceProcess) -> None:
    line = of(reported, "asked", "job")
    assert (line["key"], line["model"], line["kind"], line["outcome"]) == ("gauge", "m", "assessment", "done")
    assert (line["version"], line["job"]) == (2, of(reported, "asked")["job"])
    assert line["stages"].keys() == {"wait", "run"}


def test_what_changed_a_model_stands_in_the_audit_log(reported: ServiceProcess) -> None:
    audit = [line for line in lines(reported) if line["logger"] == "livesvm.audit"]
    seen = [(line["event"], line["request"], line["key"], line.get("version")) for line in audit]
    assert seen == [
        ("create", "made", "boss", 0),
        ("update", "learnt", "gauge", 1),
        ("update", "slid", "gauge", 2),
        ("restore", "back", "gauge", 3),
        ("delete", "gone", "boss", None),
    ]


def test_nothing_secret_and_no_value_is_reported(reported: ServiceProcess) -> None:
    for what in (SECRET, ADMIN, GIVEN, str(VALUE), "666.0", ENTRY.split(":")[2]):
        assert what not in reported.errors


def test_the_audit_log_has_a_file_of_its_own_if_asked_and_survives_its_rotation_and_its_loss(tmp_path: Path) -> None:
    logs, away = tmp_path / "logs", tmp_path / "away"
    logs.mkdir()
    file = logs / "audit.log"
    process = ServiceProcess(tmp_path / "data", audit_file=file, log_level="error", log_format="text")
    with process, process.http() as http:
        http.post("/models", json={"id": "m", "C": 1.0}, headers={"x-request-id": "made"}).raise_for_status()
        while not file.read_text().endswith("\n"):
            pass
        file.rename(logs / "audit.log.1")
        http.delete("/models/m", headers={"x-request-id": "gone"}).raise_for_status()
        while not file.exists() or not file.read_text().endswith("\n"):
            pass
        assert process.errors == ""
        logs.rename(away)
        for name in "ab":
            http.post(
                "/models", json={"id": name, "C": 1.0}, headers={"x-request-id": f"lost-{name}"}
            ).raise_for_status()
        while process.errors.count("create") < 2:
            pass
        away.rename(logs)
        http.delete("/models/a", headers={"x-request-id": "back"}).raise_for_status()
        assert process.stop() == 0
    texts = (logs / "audit.log.1").read_text(), *file.read_text().splitlines()
    lines = [json.loads(text) for text in texts]
    assert [(line["event"], line["request"]) for line in lines] == [
        ("create", "made"),
        ("delete", "gone"),
        ("delete", "back"),
    ]
    assert [part in process.errors for part in ("lost-a", "lost-b", "made", "Traceback")] == [True, True, False, False]
    assert process.errors.count("cannot be written") == 2  # at once, and counted
    assert "(and 1 times more)" in process.errors
    assert (logs / "audit.log.1").stat().st_mode & 0o077 == 0


def test_what_is_said_again_and_again_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[str] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", lambda record: written.append(record.getMessage()))
    monkeypatch.setattr(outlet, "SAME_SECONDS", 0.3)
    opened, log = outlet.Outlet(lambda: lambda name: handler), logging.getLogger("livesvm.again")
    monkeypatch.setattr(log, "propagate", False)
    log.addHandler(opened)
    try:
        for number in range(1000):
            log.error("the part %d is away", number % 2)
            tell(log, logging.ERROR, "called", {"number": number})
            tell(log, logging.ERROR, "refused", {"number": number}, "one receiver")
        while len(written) < 1006:  # without another line
            pass
        log.error("the part 1 is away")
    finally:
        log.removeHandler(opened)
        opened.close()
    away = [text for text in written if "away" in text]
    repeats = outlet.Repeats()
    numbered = [logging.makeLogRecord({"name": "opentelemetry", "msg": f"again in {n}.5 s"}) for n in range(9)]
    assert [repeats.has(record) for record in numbered] == [False] + [True] * 8
    assert [record.getMessage() for record in repeats.due(is_over=True)] == ["again in 8.5 s (and 8 times more)"]
    assert away[:2] == ["the part 0 is away", "the part 1 is away"]
    counts = [int(text.split()[-3]) for text in away if "(and" in text]
    assert sum(counts) + 2 == 1001
    assert len(away) < 10
    refused = [text for text in written if text.startswith("refused")]
    assert refused[0] == "refused"
    assert sum(int(text.split()[-3]) for text in refused[1:]) == 999
    assert len(refused) < 6
    assert written.count("called") == 1000


def test_an_audit_log_that_cannot_be_written_is_reported_at_the_start(tmp_path: Path) -> None:
    process = ServiceProcess(tmp_path / "data", audit_file=tmp_path / "nowhere" / "audit.log")
    process.launch()
    assert process.wait() == 1
    assert "nowhere" in process.errors
    assert process.errors.count("\n") == 1


def test_text_is_for_people(tmp_path: Path) -> None:
    with ServiceProcess(tmp_path, log_format="text") as process, process.http() as http:
        http.get("/models", headers={"x-request-id": "mine"}).raise_for_status()
        assert process.stop() == 0
    assert "request=mine" in process.errors
    assert not process.errors.startswith("{")


class Collector(BaseHTTPRequestHandler):
    """Keeps the spans that it is sent."""

    spans: ClassVar[list[Any]] = []

    def do_POST(self) -> None:
        """Take one export."""
        sent = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["content-length"])))
        type(self).spans += [span for all in sent.resource_spans for scope in all.scope_spans for span in scope.spans]
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


def test_traces_have_a_span_a_stage_below_the_callers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector:
        threading.Thread(target=collector.serve_forever, args=(0.01,)).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.server_port}")
        with ServiceStartedAfresh(tmp_path, traces="true") as process, process.http() as http:
            headers = {"traceparent": f"00-{trace}-{parent}-01", "x-request-id": "mine"}
            http.post("/models", json={"id": "m", "C": 1.0}, headers=headers).raise_for_status()
            assert process.stop() == 0
        collector.shutdown()
    (whole,) = [span for span in Collector.spans if span.parent_span_id.hex() == parent]
    parts = [span for span in Collector.spans if span.parent_span_id == whole.span_id]
    assert (whole.name, whole.trace_id.hex()) == ("POST /models", trace)
    assert of(process, "mine")["trace"] == trace
    assert [part.name for part in parts] == list(of(process, "mine")["stages"])
    assert parts[0].start_time_unix_nano == whole.start_time_unix_nano
    assert parts[-1].end_time_unix_nano == whole.end_time_unix_nano


class Urgent(threading.Event):
    """An event that counts how often it was set."""

    n_set = 0

    def set(self) -> None:
        self.n_set += 1
        super().set()


@pytest.mark.parametrize(("action", "is_urgent"), [("update", False), ("observe", False), ("erase", True)])
def test_a_change_that_the_store_has_wakes_the_log_only_after_its_pause(action: str, is_urgent: bool) -> None:
    written: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: written.append(record.getMessage())  # type: ignore[method-assign]
    opened = outlet.Outlet(lambda: lambda name: handler)
    opened._urgent = urgent = Urgent()
    opened.emit(logging.makeLogRecord({"name": AUDIT, "msg": action, "levelno": logging.INFO, "facts": {}}))
    opened.close()
    assert written == [action]
    assert urgent.n_set == is_urgent + 1  # and once for the end
