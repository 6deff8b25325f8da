"""Many clients at once: no message is lost, no response is 5xx, no request hangs."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from support.process import ServerProcess
from support.raw import Raw

BACKLOG = 10_000


def fill(raw: Raw, count: int, **more: Any) -> None:
    for start in range(0, count, 10):
        entries = [{"Id": str(i), "MessageBody": str(i), **more} for i in range(start, start + 10)]
        assert len(raw.done("SendMessageBatch", {"QueueUrl": "q", "Entries": entries})["Successful"]) == 10


def test_a_large_backlog_and_thirty_consumers(server: ServerProcess, account: str) -> None:
    raw = Raw(server.port, account)
    raw.done("CreateQueue", {"QueueName": "q"})
    fill(raw, BACKLOG)
    seen: list[str] = []

    def consume(_: int) -> None:
        client = Raw(server.port, account)
        request = {"QueueUrl": "q", "MaxNumberOfMessages": 10}
        while messages := client.done("ReceiveMessage", request).get("Messages"):
            entries = [{"Id": str(i), "ReceiptHandle": m["ReceiptHandle"]} for i, m in enumerate(messages)]
            done = client.done("DeleteMessageBatch", {"QueueUrl": "q", "Entries": entries})
            assert len(done["Successful"]) == len(entries)
            seen.extend(m["Body"] for m in messages)
        client.close()

    with ThreadPoolExecutor(30) as pool:
        list(pool.map(consume, range(30)))
    assert sorted(seen, key=int) == [str(i) for i in range(BACKLOG)]
    names = {"QueueUrl": "q", "AttributeNames": ["All"]}
    shown = raw.done("GetQueueAttributes", names)["Attributes"]
    assert {value for name, value in shown.items() if name.startswith("Approx")} == {"0"}
    raw.close()


def test_random_sends_receives_deletes_and_changes_lose_nothing(server: ServerProcess, account: str) -> None:
    """Each worker deletes half of what it gets and hides the rest for an hour."""
    Raw(server.port, account).done("CreateQueue", {"QueueName": "q"})
    workers, rounds = 8, 40
    lock = threading.Lock()
    sent: set[str] = set()
    deleted: set[str] = set()
    hidden: set[str] = set()

    def work(worker: int) -> None:
        client = Raw(server.port, account)
        for number in range(rounds):
            bodies = [f"{worker}.{number}.{i}" for i in range(5)]
            entries = [{"Id": str(i), "MessageBody": body} for i, body in enumerate(bodies)]
            client.done("SendMessageBatch", {"QueueUrl": "q", "Entries": entries})
            with lock:
                sent.update(bodies)
            take(client)
        while take(client):
            pass
        client.close()

    def take(client: Raw) -> bool:
        got = client.done("ReceiveMessage", {"QueueUrl": "q", "MaxNumberOfMessages": 10}).get("Messages", [])
        for i, message in enumerate(got):
            request = {"QueueUrl": "q", "ReceiptHandle": message["ReceiptHandle"]}
            if i % 2:
                client.done("DeleteMessage", request)
            else:
                client.done("ChangeMessageVisibility", request | {"VisibilityTimeout": 3600})
            with lock:
                (deleted if i % 2 else hidden).add(message["Body"])
        return bool(got)

    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(work, range(workers)))
    assert not deleted & hidden
    assert deleted | hidden == sent and len(sent) == workers * rounds * 5
    client = Raw(server.port, account)
    shown = client.done("GetQueueAttributes", {"QueueUrl": "q", "AttributeNames": ["All"]})["Attributes"]
    assert shown["ApproximateNumberOfMessagesNotVisible"] == str(len(hidden))
    assert shown["ApproximateNumberOfMessages"] == "0"
    client.close()


def test_one_group_of_many_is_received_in_order_from_a_deep_fifo_queue(
    server: ServerProcess, account: str
) -> None:
    raw = Raw(server.port, account)
    fifo = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    raw.done("CreateQueue", {"QueueName": "q.fifo", "Attributes": fifo})
    groups, deep = 20, 200
    for number in range(deep):
        for start in range(0, groups, 10):
            entries = [
                {"Id": str(g), "MessageBody": f"{g}:{number}", "MessageGroupId": f"g{g}"}
                for g in range(start, start + 10)
            ]
            raw.done("SendMessageBatch", {"QueueUrl": "q.fifo", "Entries": entries})
    got: dict[str, list[int]] = {}
    request = {"QueueUrl": "q.fifo", "MaxNumberOfMessages": 10}
    while messages := raw.done("ReceiveMessage", request).get("Messages"):
        for message in messages:
            group, _, number = message["Body"].partition(":")
            got.setdefault(group, []).append(int(number))
        entries = [{"Id": str(i), "ReceiptHandle": m["ReceiptHandle"]} for i, m in enumerate(messages)]
        raw.done("DeleteMessageBatch", {"QueueUrl": "q.fifo", "Entries": entries})
    assert len(got) == groups
    assert all(numbers == list(range(deep)) for numbers in got.values())
    raw.close()
