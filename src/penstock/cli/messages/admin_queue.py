"""One queue in the admin API: its messages page by page, changes of one; and the flags that choose messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import click

from penstock.cli.arguments import DURATION
from penstock.cli.failure import Failure
from penstock.cli.target import Target
from penstock.cli.times import rfc3339
from penstock.client.api import ApiError, Json, quoted
from penstock.client.queue_names import queue_account, queue_name

PAGE = 1000  # messages a request


class AdminQueue:
    """The admin API of one queue, which is given by name, URL or ARN."""

    def __init__(self, target: Target, queue: str) -> None:
        self.name = queue_name(queue)
        self._target = target
        self._account = queue_account(queue)

    def call(self, method: str, path: str = "", query: Json | None = None, body: Json | None = None) -> Json:
        """``path``: below the queue, already quoted."""
        query = {**(query or {}), "account": self._account}
        try:
            return self._target.admin(method, f"/queues/{quoted(self.name)}{path}", query, body)
        except ApiError as error:
            if error.is_missing_queue and not (body or {}).get("to"):
                raise self._target.no_queue(self.name) from None
            raise  # with "to", it may be the other queue: the text says which

    def target_name(self, to: str) -> str:
        """Returns the name of the queue that messages are sent to, which must be in this queue's account."""
        account = queue_account(to)
        if account is not None:
            here = self.call("GET")
            region = to.split(":")[3] if to.startswith("arn:") else here["region"]
            if (account, region) != (here["account"], here["region"]):
                raise Failure(f'"{to}" is not in the account and region of {self.name}, as it has to be')
        return queue_name(to)

    def message(self, id: str) -> Json:
        return self.call("GET", f"/messages/{quoted(id)}")

    def change(self, id: str, what: str, **members: Any) -> Json:
        """``what``: "reorder", "move", …"""
        given = {name: value for name, value in members.items() if value is not None}
        return self.call("POST", f"/messages/{quoted(id)}/{what}", body=given)

    def pages(self, query: Json, after: str | None = None) -> Iterator[tuple[list[Json], str | None]]:
        """Pages of messages, each with the cursor of the next one. A page may be empty: few messages match."""
        while True:
            page = self.call("GET", "/messages", {"limit": PAGE, **query, "after": after})
            after = page.get("next")
            yield page["messages"], after
            if after is None:
                return

    def messages(self, query: Json, limit: int | None = None) -> Iterator[Json]:
        """Yields the messages that match, ``limit`` at most."""
        left = limit
        for page, _ in self.pages({**query, "limit": min(PAGE, limit or PAGE)}):
            yield from page[:left]
            if left is not None:
                left -= len(page)
                if left <= 0:
                    return

    def whole(self, message: Json) -> Json:
        """Returns the message with its whole body; a page has only the beginning of a long one."""
        return self.message(message["id"]) if message.get("body_cut") else message


def as_listed(received: Json) -> Json:
    """A message of ReceiveMessage with the members that the admin API has for it, as far as SQS gives them."""
    system = received.get("Attributes") or {}
    listed: Json = {
        "id": received["MessageId"],
        "sent_at": rfc3339(int(system["SentTimestamp"]) / 1000),
        "receives": int(system["ApproximateReceiveCount"]),
        "sender": system.get("SenderId"),
        "body": received["Body"],
        "group": system.get("MessageGroupId"),
        "dedup_id": system.get("MessageDeduplicationId"),
        "sequence_number": system.get("SequenceNumber"),
        "source": system.get("DeadLetterQueueSourceArn"),
        "trace": system.get("AWSTraceHeader"),
        "attributes": {
            name: listed_attribute(value) for name, value in (received.get("MessageAttributes") or {}).items()
        },
    }
    return {name: value for name, value in listed.items() if value not in (None, {})}


def listed_attribute(value: Json) -> Json:
    """Converts an attribute from the form of SQS to that of the admin API."""
    return {"type": value["DataType"], "value": value.get("StringValue", value.get("BinaryValue"))}


def with_filter(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adds the flags that choose messages; :func:`chosen` makes a filter of the API of them."""
    for option in reversed(_FILTERS):
        function = option(function)
    return function


def chosen(flags: Json) -> Json:
    """The filter's members by their names in the API."""
    renamed = {"where": "json", "older_than": "older_than_s", "younger_than": "younger_than_s"}
    renamed |= {"min_receives": "receives_min", "max_receives": "receives_max", "with_id": "id"}
    members = {renamed.get(name, name): value for name, value in flags.items()}
    if "://" in (members.get("source") or ""):
        members["source"] = queue_name(members["source"])  # the API takes names and ARNs
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in members.items()
        if value is not None and value != ()
    }


_FILTERS = (
    click.option(
        "--state", type=click.Choice(["visible", "delayed", "in_flight"]), help="Only in this state."
    ),
    click.option("--body", metavar="TEXT", help="Only with this text in the body."),
    click.option(
        "--regex", metavar="PATTERN", help="Only with a body in which this regular expression matches."
    ),
    click.option(
        "--where", metavar="CONDITION", help="""Only JSON bodies for which this holds: '$.order.id = "x"'."""
    ),
    click.option(
        "--attribute",
        multiple=True,
        metavar="NAME[=VALUE]",
        help="Only with this attribute. Can be repeated.",
    ),
    click.option("--group", metavar="ID", help="Only of this message group."),
    click.option("--with-id", multiple=True, metavar="ID", help="Only this message. Can be repeated."),
    click.option("--source", metavar="QUEUE", help="Only dead letters of this queue."),
    click.option("--older-than", type=DURATION, metavar="AGE", help="Only sent longer ago: 15m, 2h, 4d."),
    click.option("--younger-than", type=DURATION, metavar="AGE", help="Only sent since then."),
    click.option(
        "--min-receives", type=click.IntRange(0), metavar="N", help="Only messages received at least N times."
    ),
    click.option(
        "--max-receives", type=click.IntRange(0), metavar="N", help="Only messages received at most N times."
    ),
)
