"""What surrounds handlers: the order of middleware, log lines, metrics, traces."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import prometheus_client
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from client.consumer.fake_queue import FakeQueue, Started, run
from penstock.client.consumer.context import MessageContext
from penstock.client.consumer.metrics import Metrics
from penstock.client.consumer.middleware import CallNext, log_handled
from penstock.client.consumer.retry import Constant, Retry, RetryPolicy
from penstock.client.consumer.tracing import Tracing, span_context
from penstock.client.structs import Message
from penstock.client.trace_header import trace_header

SOON = RetryPolicy(Constant(1))


def consume(queue: FakeQueue, handle: Callable[..., Any], **options: Any) -> None:
    async def story() -> None:
        async with Started(queue, handle, **options):
            await queue.empty()

    run(story())


async def failing_once(body: str, context: MessageContext) -> None:
    if context.attempt == 1 and body == "bad":
        raise ValueError("wrong")
    if context.attempt == 1 and body == "later":
        raise Retry("not now", after=1)


def test_the_first_middleware_is_the_outermost() -> None:
    calls: list[str] = []

    def named(name: str) -> Any:
        async def middleware(context: MessageContext, call_next: CallNext) -> Any:
            calls.append(f"{name} begins")
            result = await call_next()
            calls.append(f"{name} ends with {result}")
            return f"{result}, {name}"

        return middleware

    async def handle(body: str) -> str:
        calls.append("handler")
        return body

    queue = FakeQueue()
    queue.put("x")
    consume(queue, handle, middleware=[named("outer"), named("inner")])
    assert calls == [
        "outer begins", "inner begins", "handler", "inner ends with x", "outer ends with x, inner",
    ]  # fmt: skip


def test_a_middleware_can_do_without_the_handler() -> None:
    async def skip(context: MessageContext, call_next: CallNext) -> Any:
        return None

    async def handle(body: str) -> None:
        raise AssertionError

    queue = FakeQueue()
    queue.put("x")
    consume(queue, handle, middleware=[skip])
    assert queue.done("delete") == [["x"]]


def test_a_line_for_each_call(caplog: pytest.LogCaptureFixture) -> None:
    queue = FakeQueue()
    queue.put("good", "bad", "later")
    with caplog.at_level(logging.INFO, "penstock.worker"):
        consume(queue, failing_once, middleware=[log_handled], retry=SOON)
    lines = {
        (record.getMessage(), record.levelname): record
        for record in caplog.records
        if hasattr(record, "seconds")
    }
    assert set(lines) == {
        ("handled", "INFO"), ("failed: ValueError: wrong", "WARNING"), ("to be retried: not now", "INFO"),
    }  # fmt: skip
    failed = lines["failed: ValueError: wrong", "WARNING"]
    assert failed.exc_info is not None
    assert (failed.queue, failed.message_id, failed.attempt) == ("orders", "m1-bad", 1)  # type: ignore[attr-defined]
    assert "bad" not in caplog.text.replace("m1-bad", ""), "bodies are not logged"


def test_counts_and_durations() -> None:
    metrics, queue = Metrics(), FakeQueue("https://sqs.us-east-1.amazonaws.com/123456789012/orders")
    queue.put("good", "bad", "later")
    consume(queue, failing_once, middleware=[metrics], retry=SOON)
    assert metrics.counts() == {("orders", "done"): 3, ("orders", "failed"): 1, ("orders", "retry"): 1}
    durations = metrics.durations()["orders"]
    assert durations.count == sum(durations.buckets) == 5 and durations.sum_s > 0


def test_interrupted_calls_are_counted() -> None:
    async def story() -> None:
        metrics, queue = Metrics(), FakeQueue()
        queue.put("x")

        async def handle(body: str) -> None:
            await asyncio.sleep(10_000)

        async with Started(queue, handle, middleware=[metrics]):
            await queue.until(lambda: not queue.visible, "it is handled")
        assert metrics.counts() == {("orders", "interrupted"): 1}

    run(story())


def test_metrics_for_prometheus() -> None:
    metrics, queue = Metrics(), FakeQueue()
    registry = prometheus_client.CollectorRegistry()
    registry.register(metrics)
    queue.put("good", "bad")
    consume(queue, failing_once, middleware=[metrics], retry=SOON)
    assert (
        registry.get_sample_value("penstock_worker_messages_total", {"queue": "orders", "result": "done"})
        == 2
    )
    assert (
        registry.get_sample_value("penstock_worker_messages_total", {"queue": "orders", "result": "failed"})
        == 1
    )
    assert registry.get_sample_value("penstock_worker_running", {"queue": "orders"}) == 0
    assert registry.get_sample_value("penstock_worker_handler_seconds_count", {"queue": "orders"}) == 3
    last = {"queue": "orders", "le": "+Inf"}
    assert registry.get_sample_value("penstock_worker_handler_seconds_bucket", last) == 3
    assert b"penstock_worker_handler_seconds_sum" in prometheus_client.generate_latest(registry)


# -- traces --------------------------------------------------------------------------------------------------

W3C = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
AWS = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1"


@pytest.fixture
def spans() -> tuple[Tracing, InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return Tracing(provider.get_tracer("test")), exporter


def test_a_call_is_a_span_in_the_trace_of_its_message(spans: tuple[Tracing, InMemorySpanExporter]) -> None:
    tracing, exporter = spans
    sent_with: list[str | None] = []

    def handle(body: str) -> None:  # in a thread
        sent_with.append(trace_header())

    queue = FakeQueue()
    queue.put("x", traceparent=W3C)

    async def story() -> None:  # threads need the real time
        async with Started(queue, handle, middleware=[tracing]):
            await queue.empty()

    asyncio.run(story())
    (span,) = exporter.get_finished_spans()
    assert (span.name, span.kind) == ("process orders", SpanKind.CONSUMER)
    assert span.context is not None and span.parent is not None and span.attributes is not None
    assert f"{span.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert f"{span.parent.span_id:016x}" == "b7ad6b7169203331"
    assert span.attributes["messaging.message.id"] == "m0-x"
    assert sent_with == [
        f"Root=1-0af76519-16cd43dd8448eb211c80319c;Parent={span.context.span_id:016x};Sampled=1"
    ]


def test_a_failure_is_an_error_and_a_retry_is_none(spans: tuple[Tracing, InMemorySpanExporter]) -> None:
    tracing, exporter = spans
    queue = FakeQueue()
    queue.put("bad", "later")
    consume(queue, failing_once, middleware=[tracing], retry=SOON, concurrency=1)
    codes = [span.status.status_code for span in exporter.get_finished_spans()]
    assert codes.count(StatusCode.ERROR) == 1 and len(codes) == 4


def test_a_batch_is_linked_to_the_traces_of_its_messages(spans: tuple[Tracing, InMemorySpanExporter]) -> None:
    tracing, exporter = spans

    async def handle(bodies: list[str]) -> None: ...

    queue = FakeQueue()
    queue.put("a", traceparent=W3C)
    queue.put("b")
    consume(queue, handle, middleware=[tracing], batch_size=10)
    (span,) = exporter.get_finished_spans()
    assert span.parent is None and [link.context.span_id for link in span.links] == [0xB7AD6B7169203331]


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (AWS, (0x5759E988BD862E3FE1BE46A994272793, 0x53995C3F42CD8AD8, 1)),
        (AWS.replace("Sampled=1", "Sampled=0"), (0x5759E988BD862E3FE1BE46A994272793, 0x53995C3F42CD8AD8, 0)),
        ("Root=1-5759e988-bd862e3fe1be46a994272793", None),
        ("nonsense", None),
        ("", None),
    ],
)
def test_the_header_of_aws(header: str, expected: tuple[int, int, int] | None) -> None:
    found = span_context(Message("id", "handle", "body", attributes={"AWSTraceHeader": header}))
    assert (None if found is None else (found.trace_id, found.span_id, int(found.trace_flags))) == expected
    assert trace.get_current_span() is trace.INVALID_SPAN
