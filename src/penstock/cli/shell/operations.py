"""DynamoMQ's operations, on a queue and its dead-letter queue.

A message that was received here is handled by its receipt handle, so that a slow operator cannot take it from the
consumer that received it next. All others are handled by their id, through the admin API.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

from penstock.cli.failure import Breakdown, Failure
from penstock.cli.messages.admin_queue import AdminQueue
from penstock.cli.queues.facts import messages_in
from penstock.cli.shell.view import (
    IDS_MAX,
    Found,
    Message,
    dead_letter_stats,
    queue_stats,
    received_message,
)
from penstock.cli.target import Target
from penstock.client.api import ApiError, quoted
from penstock.client.queue_names import queue_name

TEST_NAMES = ("A-101", "A-202", "A-303", "A-404")
_NAME = "id"  # the attribute with the name of a test message: ids are made by the server
_ID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_LISTED_MAX = 10


class QueueOperations:
    def __init__(self, target: Target, queue: str) -> None:
        self._target = target
        self.queue = queue_name(queue)
        self.url = target.queue_url(queue)
        self._receipts: dict[str, str] = {}  # of what was received here, by id

    # -- looking -------------------------------------------------------------------------------------------------

    def stats(self) -> dict[str, Any]:
        if not self._target.is_penstock:
            counts = self._counts(self.url)
            return queue_stats(counts[0], counts[1] + counts[2], None, None)
        info = self._info(self.queue)
        hidden: list[str] = []
        for state in ("in_flight", "delayed"):
            hidden += self._ids(self.queue, min(info[state], IDS_MAX - len(hidden)), state)
        return queue_stats(
            info["visible"], info["in_flight"] + info["delayed"], self._ids(self.queue), hidden
        )

    def dead_letters(self) -> dict[str, Any]:
        """Statistics of the dead-letter queue."""
        queue = self._dead_letter_queue()
        if queue is None:
            adding_one = f"penstock queue set {self.queue} --dead-letter-queue NAME --max-receives 5"
            raise Failure(f"{self.queue} has no dead-letter queue: {adding_one}")
        if not self._target.is_penstock:
            return dead_letter_stats(sum(self._counts(self._target.queue_url(queue))), None)
        info = self._info(queue)
        return dead_letter_stats(messages_in(info), self._ids(queue))

    def first(self) -> list[Found]:
        """Ten of the queue, then of its dead-letter queue."""
        self._target.need_penstock("ls")
        limit = _LISTED_MAX
        dead_letters = self._dead_letter_queue()
        found = [
            Found(self.queue, dead_letters == self.queue, each) for each in self._some(self.queue, limit)
        ]
        if dead_letters is not None and dead_letters != self.queue and len(found) < limit:
            found += [
                Found(dead_letters, True, each) for each in self._some(dead_letters, limit - len(found))
            ]
        return found

    def find(self, id: str) -> Found:
        """Finds a message by id or by the name of a test message, in the queue, then in its dead-letter queue."""
        self._target.need_penstock("looking at a message by its id")
        for queue in dict.fromkeys([self.queue, self._dead_letter_queue()]):
            if queue is None:
                continue
            if message := self._get(queue, id):
                return self._found(queue, message)
            for named in self._named(queue, id, 1):
                return self._found(queue, named)
        raise not_found(id)

    def refreshed(self, found: Found) -> Found | None:
        if not self._target.is_penstock:
            return found
        message = self._get(found.queue, found.id)
        return None if message is None else found._replace(message=message)

    # -- changing the queue --------------------------------------------------------------------------------------

    def receive(self) -> Found:
        answer = self._target.sqs(
            "ReceiveMessage", QueueUrl=self.url, AttributeNames=["All"], MessageAttributeNames=["All"]
        )
        if not answer.get("Messages"):
            raise Breakdown("Cannot proceed, queue is empty.")
        (message,) = answer["Messages"]
        self._receipts[message["MessageId"]] = message["ReceiptHandle"]
        if self._target.is_penstock and (known := self._get(self.queue, message["MessageId"])):
            return self._found(self.queue, known)
        return Found(self.queue, False, received_message(message))

    def enqueue_test(self) -> dict[str, str]:
        """Send the test messages, in place of earlier ones. Returns their ids by name."""
        sent = {}
        for name in TEST_NAMES:
            if self._target.is_penstock:
                self._delete_named(name)
            fifo = {"MessageGroupId": name, "MessageDeduplicationId": str(uuid4())}
            answer = self._target.sqs(
                "SendMessage",
                QueueUrl=self.url,
                MessageBody=json.dumps(_payload(name)),
                MessageAttributes={_NAME: {"DataType": "String", "StringValue": name}},
                **(fifo if self.queue.endswith(".fifo") else {}),
            )
            sent[name] = str(answer["MessageId"])
        return sent

    def purge(self, *, yes: bool) -> tuple[int, list[str]]:
        """Ask, then remove all messages. Returns their number, and the first ids where these can be listed."""
        count = sum(self._counts(self.url))
        if not count:
            return 0, []
        self._target.out.confirm(f"Remove all {count} messages of {self.queue}?", yes)
        ids = self._ids(self.queue) if self._target.is_penstock else []
        self._target.sqs("PurgeQueue", QueueUrl=self.url)
        return count, ids

    # -- changing one message ------------------------------------------------------------------------------------

    def reset(self, found: Found) -> Found:
        """Make a message what it was when it was sent. A dead letter returns to its queue."""
        self._target.need_penstock("reset")
        self._release(found)
        if found.is_dead_letter:
            found = self.redrive(found)
        return found._replace(message=self._change(found, "reset"))

    def redrive(self, found: Found) -> Found:
        self._target.need_penstock("redrive")
        if not found.is_dead_letter:
            raise Failure(
                f"operation redrive failed for status {found.status}: can only redrive messages from DLQ."
            )
        self._release(found)
        return self._arrived(self._change(found, "redrive"))

    def invalid(self, found: Found) -> Found:
        """Move a message to the dead-letter queue."""
        self._target.need_penstock("invalid")
        if found.is_dead_letter:
            return found
        self._release(found)
        return self._arrived(self._change(found, "dead-letter"))

    def fail(self, found: Found) -> Found | None:
        """Make a message visible at once."""
        if not self._release(found):
            self._target.need_penstock("fail of a message that was not received here")
            if found.message["state"] != "visible":
                self._change(found, "release")
        return self.refreshed(found)

    def delete(self, found: Found) -> None:
        receipt = self._receipts.pop(found.id, None)
        if receipt is not None:
            self._target.sqs("DeleteMessage", QueueUrl=self._url_of(found), ReceiptHandle=receipt)
        else:
            self._target.need_penstock("delete of a message that was not received here")
            self._admin(found.queue).call("DELETE", f"/messages/{quoted(found.id)}")

    # -- the admin API -------------------------------------------------------------------------------------------

    def _release(self, found: Found) -> bool:
        """Give a message back that was received here. One that has become visible by itself is as good."""
        receipt = self._receipts.pop(found.id, None)
        if receipt is None:
            return False
        try:
            self._target.sqs(
                "ChangeMessageVisibility",
                QueueUrl=self._url_of(found),
                ReceiptHandle=receipt,
                VisibilityTimeout=0,
            )
        except ApiError as error:
            if not error.code.endswith("MessageNotInflight"):
                raise
        return True

    def _change(self, found: Found, operation: str) -> dict[str, Any]:
        return self._admin(found.queue).change(found.id, operation)

    def _arrived(self, moved: dict[str, Any]) -> Found:
        message = self._get(moved["queue"], moved["id"])
        if message is None:  # the server waits for a second until it is there
            raise Breakdown(f"the message {moved['id']} is on its way to {moved['queue']}")
        return self._found(moved["queue"], message)

    def _delete_named(self, name: str) -> None:
        """Delete test messages with this name, except for those in flight: their consumers decide."""
        for message in list(self._named(self.queue, name)):
            if message["state"] != "in_flight":
                self._admin(self.queue).call("DELETE", f"/messages/{quoted(message['id'])}")

    def _admin(self, queue: str) -> AdminQueue:
        return AdminQueue(self._target, self.url if queue == self.queue else queue)

    def _get(self, queue: str, id: str) -> Message | None:
        try:
            return self._admin(queue).message(id)
        except ApiError as error:
            if error.code == "MessageDoesNotExist":
                return None
            raise

    def _some(self, queue: str, limit: int, state: str | None = None) -> Iterator[Message]:
        """The first messages, without bodies."""
        return self._admin(queue).messages({"state": state, "body_bytes": 0}, limit) if limit else iter(())

    def _ids(self, queue: str, limit: int = IDS_MAX, state: str | None = None) -> list[str]:
        return [message["id"] for message in self._some(queue, limit, state)]

    def _named(self, queue: str, name: str, limit: int | None = None) -> Iterator[Message]:
        """Test messages with this name. A name in the form of an id matches none, because the whole queue would
        have to be searched."""
        if _ID.fullmatch(name):
            return iter(())
        return self._admin(queue).messages({"attribute": f"{_NAME}={name}"}, limit)

    def _info(self, queue: str) -> dict[str, Any]:
        return self._admin(queue).call("GET")

    def _found(self, queue: str, message: Message) -> Found:
        return Found(queue, self._is_dead_letter_queue(queue), message)

    def _is_dead_letter_queue(self, queue: str) -> bool:
        return self._target.is_penstock and bool(self._info(queue)["is_dead_letter_queue"])

    def _dead_letter_queue(self) -> str | None:
        """The queue itself, if it is one."""
        if self._is_dead_letter_queue(self.queue):
            return self.queue
        answer = self._target.sqs("GetQueueAttributes", QueueUrl=self.url, AttributeNames=["RedrivePolicy"])
        policy = answer.get("Attributes", {}).get("RedrivePolicy")
        return queue_name(json.loads(policy)["deadLetterTargetArn"]) if policy else None

    def _url_of(self, found: Found) -> str:
        return self.url if found.queue == self.queue else self._target.queue_url(found.queue)

    def _counts(self, url: str) -> tuple[int, int, int]:
        """Returns the numbers of visible messages, those in flight and delayed ones."""
        names = ("", "NotVisible", "Delayed")
        wanted = [f"ApproximateNumberOfMessages{name}" for name in names]
        found = self._target.sqs("GetQueueAttributes", QueueUrl=url, AttributeNames=wanted)["Attributes"]
        visible, in_flight, delayed = (int(found[name]) for name in wanted)
        return visible, in_flight, delayed


def not_found(id: str) -> Breakdown:
    return Breakdown(f"message not found, ID: {id}")


def _payload(name: str) -> dict[str, Any]:
    """The payload of DynamoMQ's test messages."""
    items = [{"SKU": f"Item-{number}", "is_packed": True} for number in (1, 2, 3)]
    return {"id": name, "items": items, **{f"data_{number}": f"Data {number}" for number in (1, 2, 3)}}
