"""FIFO queues: order, message groups, deduplication, receive attempts."""

from __future__ import annotations

import hashlib
import random
import threading
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.process import ServerProcess
from support.sqs import Background, sqs_client


def fifo(sqs: Any, name: str = "q", **attributes: str) -> str:
    given = {"FifoQueue": "true", "ContentBasedDeduplication": "true", **attributes}
    url: str = sqs.create_queue(QueueName=f"{name}.fifo", Attributes=given)["QueueUrl"]
    return url


def send(sqs: Any, url: str, body: str, group: str = "g", **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = sqs.send_message(QueueUrl=url, MessageBody=body, MessageGroupId=group, **more)
    return answer


def receive(sqs: Any, url: str, count: int = 10, **more: Any) -> list[dict[str, Any]]:
    answer = sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=count, **more)
    messages: list[dict[str, Any]] = answer.get("Messages", [])
    return messages


def bodies(messages: list[dict[str, Any]]) -> list[str]:
    return [message["Body"] for message in messages]


def delete(sqs: Any, url: str, *messages: dict[str, Any]) -> None:
    for message in messages:
        sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])


def test_a_receive_empties_one_group_before_the_next(sqs: Any) -> None:
    url = fifo(sqs)
    for body in ("g1m1", "g2m1", "g1m2", "g1m3"):
        send(sqs, url, body, body[:2])
    assert bodies(receive(sqs, url)) == ["g1m1", "g1m2", "g1m3", "g2m1"]


def test_messages_in_flight_block_their_group(sqs: Any) -> None:
    url = fifo(sqs)
    for i in range(3):
        send(sqs, url, f"a{i}", "a")
    send(sqs, url, "b0", "b")
    first, second = receive(sqs, url, 2)
    assert bodies([first, second]) == ["a0", "a1"]
    assert bodies(receive(sqs, url)) == ["b0"]
    send(sqs, url, "a3", "a")
    assert receive(sqs, url) == []
    delete(sqs, url, first)
    assert receive(sqs, url) == [], "one of two is still in flight"
    delete(sqs, url, second)
    assert bodies(receive(sqs, url)) == ["a2", "a3"]


def test_blocked_messages_of_a_group_count_as_visible(sqs: Any) -> None:
    url = fifo(sqs)
    for i in range(6):
        send(sqs, url, str(i), f"g{i % 2}")
    receive(sqs, url, 1)
    receive(sqs, url, 1)
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert (
        shown["ApproximateNumberOfMessages"],
        shown["ApproximateNumberOfMessagesNotVisible"],
        shown["ApproximateNumberOfMessagesDelayed"],
    ) == ("4", "2", "0")


def test_visibility_0_on_receive_frees_the_group_at_once(sqs: Any) -> None:
    url = fifo(sqs)
    send(sqs, url, "a")
    send(sqs, url, "b")
    assert bodies(receive(sqs, url, VisibilityTimeout=0)) == ["a", "b"]
    assert bodies(receive(sqs, url)) == ["a", "b"]


def test_a_duplicate_is_dropped_even_after_the_first_was_deleted(sqs: Any) -> None:
    url = fifo(sqs)
    first = send(sqs, url, "same", MessageDeduplicationId="d")
    delete(sqs, url, *receive(sqs, url))
    again = send(sqs, url, "other", MessageDeduplicationId="d")
    assert again["MessageId"] == first["MessageId"]
    assert again["SequenceNumber"] == first["SequenceNumber"]
    assert again["MD5OfMessageBody"] == hashlib.md5(b"other").hexdigest(), "of what this request sent"
    assert receive(sqs, url) == []


def test_content_deduplication_looks_at_the_body_alone(sqs: Any) -> None:
    url = fifo(sqs)
    first = send(sqs, url, "same")
    colour = {"c": {"DataType": "String", "StringValue": "red"}}
    assert send(sqs, url, "same", MessageAttributes=colour)["MessageId"] == first["MessageId"]
    assert send(sqs, url, "same", "other")["MessageId"] == first["MessageId"], "the scope is the queue"
    explicit = send(sqs, url, "same", "third", MessageDeduplicationId="own")
    assert explicit["MessageId"] != first["MessageId"], "an explicit id wins"
    messages = receive(sqs, url, AttributeNames=["All"])
    assert messages[0]["Attributes"]["MessageDeduplicationId"] == hashlib.sha256(b"same").hexdigest()
    assert [m["Attributes"]["MessageGroupId"] for m in messages] == ["g", "third"]
    assert len(messages) == 2


def test_the_deduplication_scope_is_fixed_at_creation(sqs: Any) -> None:
    by_group = fifo(sqs, "by-group", DeduplicationScope="messageGroup")
    by_queue = fifo(sqs, "by-queue")
    sqs.set_queue_attributes(QueueUrl=by_group, Attributes={"DeduplicationScope": "queue"})
    sqs.set_queue_attributes(QueueUrl=by_queue, Attributes={"DeduplicationScope": "messageGroup"})
    for url, expected in ((by_group, 2), (by_queue, 1)):
        send(sqs, url, "same", "a")
        send(sqs, url, "same", "b")
        assert len(receive(sqs, url)) == expected
    shown = sqs.get_queue_attributes(QueueUrl=by_group, AttributeNames=["DeduplicationScope"])["Attributes"]
    assert shown == {"DeduplicationScope": "queue"}, "yet a change is shown"


def test_the_delay_is_the_queues_and_a_change_applies_to_waiting_messages(sqs: Any) -> None:
    url = fifo(sqs, DelaySeconds="600")
    send(sqs, url, "a", DelaySeconds=0)
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    assert shown["ApproximateNumberOfMessagesDelayed"] == "1", "0 means the queue's"
    assert receive(sqs, url) == []
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "0"})
    assert bodies(receive(sqs, url)) == ["a"]


def test_delete_works_within_an_extended_visibility_and_fails_after_expiry(sqs: Any) -> None:
    url = fifo(sqs)
    send(sqs, url, "a", "extended")
    send(sqs, url, "b", "expired")
    extended, expired = receive(sqs, url, VisibilityTimeout=1)
    handle = extended["ReceiptHandle"]
    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=600)
    (again,) = receive(sqs, url, WaitTimeSeconds=20)
    assert again["Body"] == "b"
    delete(sqs, url, extended)
    with pytest.raises(ClientError) as refused:
        delete(sqs, url, expired)
    assert refused.value.response["Error"]["Message"] == (
        f"Value {expired['ReceiptHandle']} for parameter ReceiptHandle is invalid. "
        "Reason: The receipt handle has expired."
    )
    entries = [{"Id": "a", "ReceiptHandle": expired["ReceiptHandle"]}]
    (failed,) = sqs.delete_message_batch(QueueUrl=url, Entries=entries)["Failed"]
    assert (failed["Code"], failed["Message"]) == ("ReceiptHandleIsInvalid", "The receipt handle has expired")
    with pytest.raises(ClientError, match="not available for visibility timeout change"):
        sqs.change_message_visibility(
            QueueUrl=url, ReceiptHandle=expired["ReceiptHandle"], VisibilityTimeout=9
        )
    delete(sqs, url, again)


def test_a_repeated_receive_attempt_returns_the_same_messages_and_handles(sqs: Any) -> None:
    url = fifo(sqs)
    for i in range(3):
        send(sqs, url, str(i))
    first = receive(sqs, url, 2, ReceiveRequestAttemptId="try")
    again = receive(sqs, url, 2, ReceiveRequestAttemptId="try")
    assert [m["ReceiptHandle"] for m in again] == [m["ReceiptHandle"] for m in first]
    assert receive(sqs, url, 2, ReceiveRequestAttemptId="another") == []
    delete(sqs, url, *again)
    assert bodies(receive(sqs, url, 2, ReceiveRequestAttemptId="try")) == ["2"], (
        "one was deleted: a new receive"
    )


def test_a_long_poll_wakes_when_a_group_opens_by_delete_expiry_or_change(sqs: Any) -> None:
    url = fifo(sqs)
    for i in range(4):
        send(sqs, url, str(i))

    def opened_by(action: Any, hidden_s: int = 600) -> list[str]:
        (held,) = receive(sqs, url, 1, VisibilityTimeout=hidden_s)
        poll = Background(receive, sqs=sqs, url=url, count=1, WaitTimeSeconds=20, VisibilityTimeout=0)
        action(held)
        return bodies(poll.result())

    def show(message: dict[str, Any]) -> None:
        handle = message["ReceiptHandle"]
        sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0)

    assert opened_by(lambda message: delete(sqs, url, message)) == ["1"]
    assert opened_by(show) == ["1"]
    assert opened_by(lambda message: None, hidden_s=1) == ["1"]


def test_many_consumers_with_random_failures_keep_the_order_of_every_group(
    server: ServerProcess, account: str
) -> None:
    sqs = sqs_client(server.url, account)
    url = fifo(sqs)
    groups, per_group = 50, 6
    for number in range(per_group):
        for start in range(0, groups, 10):
            entries = [
                {"Id": f"e{g}", "MessageBody": f"{g}:{number}", "MessageGroupId": f"g{g}"}
                for g in range(start, start + 10)
            ]
            assert len(sqs.send_message_batch(QueueUrl=url, Entries=entries)["Successful"]) == 10
    done: dict[str, list[int]] = {str(g): [] for g in range(groups)}
    lock = threading.Lock()
    random_ = random.Random(7)

    def finished() -> bool:
        return sum(map(len, done.values())) >= groups * per_group

    def handle_all(messages: list[dict[str, Any]]) -> None:
        for i, message in enumerate(messages):
            group, _, number = message["Body"].partition(":")
            with lock:
                fails = random_.random() < 0.2
                if not fails:
                    done[group].append(int(number))
            if fails:
                # Give this one back and the rest with it: what follows in its group has to wait for it.
                for given_back in messages[i:]:
                    handle = given_back["ReceiptHandle"]
                    sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0)
                return
            delete(sqs, url, message)

    def consume() -> None:
        while not finished():
            handle_all(receive(sqs, url, 3, WaitTimeSeconds=1))

    consumers = [threading.Thread(target=consume, daemon=True) for _ in range(20)]
    for consumer in consumers:
        consumer.start()
    for consumer in consumers:
        consumer.join(60)
    assert all(numbers == list(range(per_group)) for numbers in done.values())
