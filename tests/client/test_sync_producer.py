"""The producer from threads, over a blocking client."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.client.codec import EncodeError
from penstock.client.errors import ApiError
from penstock.client.structs import BatchResult, FailedEntry, SendEntry, SentEntry
from penstock.client.sync_producer import SyncProducer


class FakeClient:
    """Refuses bodies that begin with ``bad``."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.bodies: list[str] = []
        self._lock = threading.Lock()

    def send_message_batch(self, queue_url: str, entries: Iterable[SendEntry]) -> BatchResult[SentEntry]:
        given = list(enumerate(entries))
        with self._lock:
            self.sizes.append(len(given))
            self.bodies += [entry.body for _, entry in given]
        result: BatchResult[SentEntry] = BatchResult(successful=[], failed=[])
        for place, entry in given:
            if entry.body.startswith("bad"):
                result.failed.append(FailedEntry(str(place), "InvalidMessageContents", sender_fault=True))
            else:
                result.successful.append(SentEntry(f"id-{entry.body}", id=str(place)))
        return result


def test_messages_of_many_threads_share_requests() -> None:
    client = FakeClient()
    with SyncProducer(client, "orders", linger_s=0.05) as producer, ThreadPoolExecutor(20) as threads:
        sent = list(threads.map(producer.send, (str(number) for number in range(200))))
    assert [one.message_id for one in sent] == [f"id-{number}" for number in range(200)]
    assert len(client.sizes) < 100


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
