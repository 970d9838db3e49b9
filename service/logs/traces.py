"""OpenTelemetry traces of calls: a span for each request, with a child span for each stage, made after its end."""

from __future__ import annotations

from importlib.util import find_spec
from time import perf_counter, time_ns
from typing import Any

from livesvm.service.logs.calls import NANOSECONDS, Call

SERVICE = "livesvm"
_EXPORTER = "opentelemetry.exporter.otlp.proto.http.trace_exporter"


class Tracing:
    """Sends traces of calls to the exporter that variables ``OTEL_...`` name; needs ``livesvm[otel]``."""

    def __init__(self, version: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.trace import SpanKind, set_span_in_context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        resource = Resource.create({"service.name": SERVICE, "service.version": version})
        self._provider = TracerProvider(resource=resource)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer(SERVICE, version)
        self._parent_of = TraceContextTextMapPropagator().extract
        self._within = set_span_in_context
        self._kind = SpanKind.SERVER

    def __call__(
        self, call: Call, end: float, line: dict[str, Any], headers: list[tuple[bytes, bytes]]
    ) -> dict[str, Any]:
        """Send one call as a child of the span in its ``traceparent`` header; return the trace's id for the log."""
        origin = time_ns() - int(perf_counter() * NANOSECONDS)
        parent = self._parent_of({name.decode("latin-1"): value.decode("latin-1") for name, value in headers})
        attributes = {
            "http.request.method": line["method"],
            "http.route": line["route"],
            "http.response.status_code": line["status"],
        }
        attributes |= {
            f"{SERVICE}.{name}": line.get(name) for name in ("model", "version", "outcome", "problem", "job")
        }
        attributes |= {f"{SERVICE}.request": call.id, f"{SERVICE}.key": call.key}
        span = self._tracer.start_span(
            f"{line['method']} {line['route']}",
            parent,
            self._kind,
            {name: value for name, value in attributes.items() if value is not None},
            start_time=origin + int(call.began * NANOSECONDS),
        )
        for name, began, until in call.spans(end):
            part = self._tracer.start_span(name, self._within(span), start_time=origin + int(began * NANOSECONDS))
            part.end(origin + int(until * NANOSECONDS))
        span.end(origin + int(end * NANOSECONDS))
        return {"trace": f"{span.get_span_context().trace_id:032x}"}


def is_possible() -> bool:
    """Return whether the packages that traces need are installed."""
    try:
        return find_spec("opentelemetry.sdk.trace") is not None and find_spec(_EXPORTER) is not None
    except ModuleNotFoundError:  # not even the packages around it are installed
        return False
