"""The queues of the load: made before it, emptied after it."""

from __future__ import annotations

import json
import time

from support.load import DEAD, FIFO, HIDDEN_S, PLAIN, Client, ServerAddress


def make_queues(client: Client) -> None:
    hidden = {"VisibilityTimeout": str(HIDDEN_S)}
    client.ask("CreateQueue", QueueName=DEAD, Attributes=hidden)
    target = f"arn:aws:sqs:us-east-1:000000000000:{DEAD}"
    redrive = json.dumps({"deadLetterTargetArn": target, "maxReceiveCount": 2})
    client.ask("CreateQueue", QueueName=PLAIN, Attributes={"RedrivePolicy": redrive, **hidden})
    client.ask("CreateQueue", QueueName=FIFO, Attributes={"FifoQueue": "true", **hidden})


def count(client: Client, queue: str) -> int:
    """Waiting, in flight and delayed."""
    answer = client.ask("GetQueueAttributes", QueueUrl=queue, AttributeNames=["All"])
    return sum(
        int(value) for name, value in answer["Attributes"].items() if name.startswith("ApproximateNumberOf")
    )


def drain(client: Client, queue: str, limit_s: float = 60) -> list[str]:
    """Everything that is in a queue, once what is hidden or delayed has come out."""
    bodies: list[str] = []
    end = time.monotonic() + limit_s
    while count(client, queue) and time.monotonic() < end:
        answer = client.ask(
            "ReceiveMessage", QueueUrl=queue, MaxNumberOfMessages=10, WaitTimeSeconds=3, VisibilityTimeout=600
        )
        messages = answer.get("Messages", [])
        bodies += [message["Body"] for message in messages]
        if messages:
            entries = [{"Id": str(i), "ReceiptHandle": m["ReceiptHandle"]} for i, m in enumerate(messages)]
            done = client.ask("DeleteMessageBatch", QueueUrl=queue, Entries=entries)
            assert len(done["Successful"]) == len(entries)
    assert count(client, queue) == 0, "the counts say that there is more than can be received"
    return bodies


def remaining(port: int) -> tuple[int, list[str]]:
    """How many messages the counts of a server promise, and the bodies of all that can be received."""
    address = ServerAddress()
    address.open(port)
    client = Client(address)
    # Rests of a move task end by themselves; then nothing but us touches the queues.
    arn = f"arn:aws:sqs:us-east-1:000000000000:{DEAD}"
    while client.ask("ListMessageMoveTasks", SourceArn=arn)["Results"][0]["Status"] == "RUNNING":
        time.sleep(0.05)
    promised = sum(count(client, queue) for queue in (PLAIN, DEAD, FIFO))
    return promised, drain(client, PLAIN) + drain(client, DEAD) + drain(client, FIFO)
