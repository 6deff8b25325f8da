"""What became of messages: the messages behind the assertions stay within their bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from penstock.client import SyncClient
from penstock.testing import Broker
from penstock.testing.known_messages import KnownMessages


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


@pytest.fixture
def client(broker: Broker) -> Iterator[SyncClient]:
    with broker.client() as client:
        yield client


def bound(broker: Broker, messages: int, size: int = 10**9) -> KnownMessages:
    found = broker._server.known
    found._messages_max, found._bytes_max = messages, size
    return found


def test_the_oldest_messages_are_forgotten_and_that_is_said(broker: Broker, client: SyncClient) -> None:
    known = bound(broker, 5)
    queue = client.create_queue("orders")
    for n in range(8):
        client.send_message(queue, str(n))
    assert len(known._in_order) == 5
    assert len(broker.messages("orders")) == 8
    broker.assert_sent("orders", "7")
    broker.assert_sent("orders", "0")  # it is still in the queue
    checks: list[Callable[[], object]] = [
        lambda: broker.assert_sent("orders", count=8),
        lambda: broker.assert_sent("orders", "9"),
    ]
    for check in checks:
        with pytest.raises(AssertionError, match=r"3 messages .*forgotten"):
            check()
    client.delete_message(queue, client.receive_message(queue)[0].receipt_handle)
    assert len(broker.messages("orders")) == 7
    assert len(known._in_order) <= 5


def test_large_bodies_are_forgotten_earlier(broker: Broker, client: SyncClient) -> None:
    known = bound(broker, 1000, size=10_000)
    queue = client.create_queue("orders")
    for n in range(10):
        client.send_message(queue, f"{n}" * 3000)
    assert known._bytes <= 10_000 and len(known._in_order) == 3


def test_nothing_is_left_of_a_deleted_queue(broker: Broker, client: SyncClient) -> None:
    known = broker._server.known
    for _ in range(3):
        queue = client.create_queue("orders")
        client.send_message(queue, "one")
        client.send_message(queue, "two")
        client.delete_message(queue, client.receive_message(queue)[0].receipt_handle)
        client.delete_queue(queue)
    assert (known._bytes, len(known._in_order), known._queue_of, known._queues) == (0, 0, {}, {})


def test_an_edited_message_has_its_new_body(broker: Broker, client: SyncClient) -> None:
    queue = client.create_queue("orders")
    id = client.send_message(queue, "draft").message_id
    client.admin("PATCH", f"/queues/orders/messages/{id}", body={"body": "final"})
    broker.assert_sent("orders", "final", count=1)
    client.delete_message(queue, client.receive_message(queue)[0].receipt_handle)
    broker.assert_deleted("orders", "final", count=1)


def test_a_copy_counts_as_sent(broker: Broker, client: SyncClient) -> None:
    client.send_message(client.create_queue("orders"), "one")
    client.create_queue("others")
    client.admin("POST", "/queues/orders/tasks", body={"operation": "copy", "to": "others"})
    broker.clock.advance(seconds=10)
    broker.assert_sent("others", "one", count=1)
    assert [each.state for each in broker.snapshot("orders").messages] == ["visible"]
