"""The producer from threads, over a blocking client."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import NonRecordingSpan, SpanContext

from penstock.client.codec import EncodeError
from penstock.client.errors import ApiError
from penstock.client.structs import BatchResult, FailedEntry, SendEntry, SentEntry
from penstock.client.sync_producer import SyncProducer


class FakeClient:
    """Refuses bodies that begin with ``bad``."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.bodies: list[str] = []
        self.traces: list[Any] = []
        self._lock = threading.Lock()

    def send_message_batch(self, queue_url: str, entries: Iterable[SendEntry]) -> BatchResult[SentEntry]:
        given = list(enumerate(entries))
        with self._lock:
            self.sizes.append(len(given))
            self.bodies += [entry.body for _, entry in given]
            self.traces += [entry.message_system_attributes for _, entry in given]
        result: BatchResult[SentEntry] = BatchResult(successful=[], failed=[])
        for place, entry in given:
            if entry.body.startswith("bad"):
                result.failed.append(FailedEntry(str(place), "InvalidMessageContents", sender_fault=True))
            else:
                result.successful.append(SentEntry(f"id-{entry.body}", id=str(place)))
        return result


def test_messages_of_many_threads_share_requests() -> None:
    client = FakeClient()
    with SyncProducer(client, "orders", linger_s=3600) as producer, ThreadPoolExecutor(20) as threads:
        sent = list(threads.map(producer.send, (str(number) for number in range(200))))
    assert [one.message_id for one in sent] == [f"id-{number}" for number in range(200)]
    assert client.sizes == [10] * 20


def test_a_submitted_message_is_sent_by_a_flush_or_a_close() -> None:
    client = FakeClient()
    with SyncProducer(client, "orders", linger_s=3600) as producer:
        first = producer.submit("tea")
        producer.flush()
        assert client.bodies == ["tea"]
        second = producer.submit("coffee")
    assert [first.result().message_id, second.result().message_id] == ["id-tea", "id-coffee"]


def test_errors_reach_the_caller() -> None:
    with SyncProducer(FakeClient(), "orders") as producer:
        with pytest.raises(EncodeError):
            producer.send(object())
        with pytest.raises(ApiError, match="InvalidMessageContents"):
            producer.send("bad tea")


def test_a_closed_producer_takes_nothing_more() -> None:
    producer = SyncProducer(FakeClient(), "orders")
    producer.close()
    producer.close()
    for act in (producer.send, producer.submit):
        with pytest.raises(RuntimeError, match="closed"):
            act("tea")


def test_the_trace_is_that_of_the_calling_thread() -> None:
    client = FakeClient()
    context = SpanContext(trace_id=1, span_id=2, is_remote=False)
    with SyncProducer(client, "orders") as producer, trace.use_span(NonRecordingSpan(context)):
        producer.send("tea")
    header = "Root=1-00000000-000000000000000000000001;Parent=0000000000000002;Sampled=0"
    assert client.traces == [{"AWSTraceHeader": header}]


def test_wrong_settings_are_refused() -> None:
    with pytest.raises(TypeError, match="linger"):
        SyncProducer(FakeClient(), "orders", linger=1)  # type: ignore[call-arg]


def test_a_full_producer_lets_threads_wait_and_loses_nothing() -> None:
    client = FakeClient()
    with (
        SyncProducer(client, "orders", messages_max=3, linger_s=0) as producer,
        ThreadPoolExecutor(10) as threads,
    ):
        list(threads.map(producer.submit, (str(number) for number in range(1000))))
    assert sorted(map(int, client.bodies)) == list(range(1000))
