"""Traces and metrics of OpenTelemetry, as a collector gets them: a receiver of OTLP over HTTP in the test."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from support.process import ServerProcess
from support.waiting import until

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Collector:
    """Keeps what it is sent."""

    def __init__(self) -> None:
        self.spans: list[Any] = []
        self.metrics: dict[str, Any] = {}
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.take(self.path, body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.spans += [span for scope in resource.scope_spans for span in scope.spans]
        else:
            assert path == "/v1/metrics"
            for found in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                self.metrics |= {
                    metric.name: metric for scope in found.scope_metrics for metric in scope.metrics
                }

    def span(self, name: str) -> Any:
        until(lambda: any(span.name == name for span in self.spans), f"the span {name}")
        return next(span for span in self.spans if span.name == name)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def collector() -> Iterator[Collector]:
    found = Collector()
    yield found
    found.close()


@pytest.fixture
def traced(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerProcess]:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "200")
    with ServerProcess("--memory", "--otel-endpoint", collector.url) as server:
        yield server


def client(server: ServerProcess, **headers: str) -> Any:
    made = boto3.client(
        "sqs",
        endpoint_url=server.url,
        region_name="us-east-1",
        aws_access_key_id="x",
        aws_secret_access_key="x",
    )

    def add(request: Any, **_: Any) -> None:
        for name, value in headers.items():
            request.headers[name] = value

    made.meta.events.register("before-sign.sqs", add)
    return made


def attributes(span: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


@pytest.mark.parametrize(
    "headers",
    [
        {"traceparent": f"00-{TRACE}-{SPAN}-01"},
        {"X-Amzn-Trace-Id": f"Root=1-{TRACE[:8]}-{TRACE[8:]};Parent={SPAN};Sampled=1"},
    ],
    ids=["W3C", "AWS"],
)
def test_a_trace_goes_from_the_producer_through_the_broker_to_the_consumer(
    collector: Collector, traced: ServerProcess, headers: dict[str, str]
) -> None:
    url = client(traced).create_queue(QueueName="orders")["QueueUrl"]
    client(traced, **headers).send_message(QueueUrl=url, MessageBody="x")
    sent = collector.span("SendMessage orders")
    assert (sent.trace_id.hex(), sent.parent_span_id.hex()) == (TRACE, SPAN)
    assert attributes(sent).items() >= {
        "rpc.method": "SendMessage", "messaging.destination.name": "orders", "http.response.status_code": 200,
    }.items()  # fmt: skip
    asked = client(traced).receive_message(QueueUrl=url, MessageSystemAttributeNames=["AWSTraceHeader"])
    (message,) = asked["Messages"]
    root = f"Root=1-{TRACE[:8]}-{TRACE[8:]}"
    assert message["Attributes"]["AWSTraceHeader"] == f"{root};Parent={sent.span_id.hex()};Sampled=1"
    received = collector.span("ReceiveMessage orders")
    assert [link.trace_id.hex() for link in received.links] == [TRACE]
    assert received.trace_id.hex() != TRACE


def test_a_trace_that_the_sender_names_stays(collector: Collector, traced: ServerProcess) -> None:
    url = client(traced).create_queue(QueueName="orders")["QueueUrl"]
    own = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"
    system = {"AWSTraceHeader": {"DataType": "String", "StringValue": own}}
    client(traced).send_message(QueueUrl=url, MessageBody="x", MessageSystemAttributes=system)
    asked = client(traced).receive_message(QueueUrl=url, MessageSystemAttributeNames=["AWSTraceHeader"])
    assert asked["Messages"][0]["Attributes"]["AWSTraceHeader"] == own
    (link,) = collector.span("ReceiveMessage orders").links
    assert link.span_id.hex() == "53995c3f42cd8ad8"


def test_metrics_are_those_of_the_page(collector: Collector, traced: ServerProcess) -> None:
    sqs = client(traced)
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    for _ in range(3):
        sqs.send_message(QueueUrl=url, MessageBody="x")

    def sent() -> float:
        metric = collector.metrics.get("penstock_sqs_messages_sent")
        if metric is None:
            return 0
        assert metric.sum.is_monotonic
        total: float = sum(
            point.as_int or point.as_double
            for point in metric.sum.data_points
            if {"queue": "orders"}.items()
            <= {each.key: each.value.string_value for each in point.attributes}.items()
        )
        return total

    until(lambda: sent() == 3, "three sends in the metrics")
    assert {"penstock_connections", "penstock_request_duration_seconds_count"} <= collector.metrics.keys()


def test_what_is_left_is_exported_at_the_stop(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    with ServerProcess("--memory") as server:
        client(server).create_queue(QueueName="orders")
        assert server.stop() == 0
    assert [span.name for span in collector.spans] == ["CreateQueue orders"]


def test_nothing_of_it_is_imported_without_an_endpoint() -> None:
    code = (
        "import penstock.server.compose, sys; sys.exit(any('opentelemetry' in name for name in sys.modules))"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    assert subprocess.run([sys.executable, "-c", code], env=environment, timeout=60).returncode == 0
