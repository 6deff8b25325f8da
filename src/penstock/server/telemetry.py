"""OpenTelemetry: a span for each request to a service, and the metrics of /metrics, sent to a collector over OTLP.

A request belongs to the trace that its header ``traceparent`` (W3C) or ``X-Amzn-Trace-Id`` names. A message that is
sent without a trace of its own gets that of the request, as its AWSTraceHeader, so that its consumer continues it.
A receive has links to the traces of its messages.

Nothing of this is imported, and nothing costs anything, unless an endpoint is configured.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from penstock import __version__
from penstock.aws_trace_header import format_trace_header, parse_trace_header
from penstock.metrics.exposition import MetricFamily
from penstock.names import QueueName
from penstock.promise import outcome, start
from penstock.server.http.request import Request
from penstock.server.routes import Dispatch
from penstock.wire.service import Call, Response

log = logging.getLogger("penstock.server")

_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_LINKS_MAX = 10
_RESOURCE = "OTEL_RESOURCE_ATTRIBUTES"
_EXPORT_S = 60.0
_W3C = TraceContextTextMapPropagator()


class Telemetry:
    """``endpoint``: of a collector, such as ``http://127.0.0.1:4318``. ``families`` gives what /metrics shows."""

    def __init__(
        self,
        endpoint: str,
        families: Callable[[], Coroutine[Any, None, list[MetricFamily]]],
        instance: Mapping[str, str],
    ) -> None:
        own = {"service.version": __version__, **instance}
        if "OTEL_SERVICE_NAME" not in os.environ and "service.name=" not in os.environ.get(_RESOURCE, ""):
            own["service.name"] = "penstock"
        resource = Resource.create(own)
        self._traces = TracerProvider(resource=resource)
        exporter = OTLPSpanExporter(_url(endpoint, "traces"))
        self._traces.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._traces.get_tracer("penstock", __version__)
        self._families = families
        self._shown: dict[str, MetricFamily] = {}
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(_url(endpoint, "metrics")))
        self._metrics = MeterProvider([reader], resource=resource)
        self._meter = self._metrics.get_meter("penstock", __version__)
        self._timer: asyncio.TimerHandle | None = None
        self._reading: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Read the metrics again and again: the thread that exports them cannot ask the broker."""
        self._reading = asyncio.get_running_loop().create_task(self._read())
        self._timer = asyncio.get_running_loop().call_later(_export_s() / 2, self.start)

    def stop(self) -> None:
        for waiting in (self._timer, self._reading):
            if waiting is not None:
                waiting.cancel()

    def close(self) -> None:
        """Export what is left. This runs in a thread, because it may take some seconds."""
        self._traces.shutdown()
        self._metrics.shutdown()

    # -- traces ------------------------------------------------------------------------------------------------

    def around(self, dispatch: Dispatch) -> Dispatch:
        """The same with a span for each request."""

        def traced(request: Request, call: Call, done: Callable[[Response], None]) -> None:
            span = self._tracer.start_span("request", _parent(request.headers), SpanKind.SERVER)
            call.trace = format_trace_header(span.get_span_context())
            call.traces = []

            def ended(response: Response) -> None:
                _finish(span, call, response)
                done(response)

            dispatch(request, call, ended)

        return traced

    # -- metrics -----------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        try:
            found = await outcome(start(self._families()))
        except Exception as error:
            log.debug("metrics for OpenTelemetry could not be read: %s", error)
            return
        for family in found:
            if family.name not in self._shown:
                self._create(family)
            self._shown[family.name] = family

    def _create(self, family: MetricFamily) -> None:
        """Histograms and summaries become two counters: what was measured, and how often."""
        name, unit, help = family.name, family.unit, family.help
        if family.kind == "gauge":
            self._meter.create_observable_gauge(name, [self._observed(name, "")], unit, help)
        elif family.kind == "counter":
            self._meter.create_observable_counter(name, [self._observed(name, "")], unit, help)
        else:
            for suffix in ("_sum", "_count"):
                self._meter.create_observable_counter(
                    f"{name}{suffix}",
                    [self._observed(name, suffix)],
                    "" if suffix == "_count" else unit,
                    help,
                )

    def _observed(self, name: str, suffix: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def observe(_: CallbackOptions) -> Iterable[Observation]:
            for found, labels, value in self._shown[name].samples:
                if found == suffix:
                    yield Observation(value, dict(_LABEL.findall(labels)))

        return observe


def _export_s() -> float:
    """How often metrics are exported, in seconds."""
    try:
        return float(os.environ["OTEL_METRIC_EXPORT_INTERVAL"]) / 1000
    except (KeyError, ValueError):
        return _EXPORT_S


def _url(endpoint: str, signal: str) -> str:
    """OTLP: the endpoint of all signals has the path of each below it; one of a single signal is used as it is."""
    own = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
    return own or f"{endpoint.rstrip('/')}/v1/{signal}"


def _parent(headers: Mapping[bytes, bytes]) -> Any:
    """The context of a span in another process; None: a new trace begins."""
    given = headers.get(b"traceparent")
    if given is not None:
        carrier = {"traceparent": given.decode("latin-1")}
        if (state := headers.get(b"tracestate")) is not None:
            carrier["tracestate"] = state.decode("latin-1")
        return _W3C.extract(carrier)
    found = parse_trace_header(headers.get(b"x-amzn-trace-id", b"").decode("latin-1"))
    return None if found is None else trace.set_span_in_context(trace.NonRecordingSpan(found))


def _finish(span: Span, call: Call, response: Response) -> None:
    queue = QueueName.of_arn(getattr(call.resource, "arn", ""))
    name = "" if queue is None else queue.name
    action = call.action or "request"
    span.update_name(f"{action} {name}" if name else action)
    span.set_attribute("rpc.system", "aws-api")
    span.set_attribute("rpc.method", action)
    span.set_attribute("http.response.status_code", response.status)
    span.set_attribute("aws.request_id", call.request_id)
    if name:
        span.set_attribute("messaging.system", "aws_sqs")
        span.set_attribute("messaging.destination.name", name)
    for header in (call.traces or ())[:_LINKS_MAX]:
        if (origin := parse_trace_header(header)) is not None:
            span.add_link(origin)
    if response.status >= 500:
        span.set_status(Status(StatusCode.ERROR))
    span.end()
