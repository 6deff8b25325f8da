"""What is known about queues, in the words of the admin API.

Penstock knows it exactly. For Amazon SQS, and for users who may not use the admin API, they are what the actions of
SQS tell: approximate counts, and neither ages nor rates.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from operator import itemgetter
from typing import Any

from penstock.cli.failure import Failure
from penstock.cli.target import Target
from penstock.cli.times import rfc3339
from penstock.client.api import ApiError, Json, quoted
from penstock.client.queue_names import queue_account, queue_name

SORTS = {  # as the admin API calls them: the member that each sorts by
    "name": "name",
    "visible": "visible",
    "in_flight": "in_flight",
    "delayed": "delayed",
    "age": "oldest_age_s",
    "sent_rate": "sent_rate",
    "bytes": "bytes",
}
_PAGE = 1000
_COUNTS = {
    "visible": "ApproximateNumberOfMessages",
    "in_flight": "ApproximateNumberOfMessagesNotVisible",
    "delayed": "ApproximateNumberOfMessagesDelayed",
}


def list_queues(
    target: Target,
    *,
    prefix: str = "",
    kind: str | None = None,
    sort: str = "name",
    descending: bool = False,
    page: int | None = None,
) -> Iterator[Json]:
    """``kind``: standard, fifo, dlq. ``page``: how many are needed; more are read if they are."""
    if target.uses_admin:
        query: Json = {
            "prefix": prefix or None,
            "kind": kind,
            "sort": sort,
            "limit": min(page or _PAGE, _PAGE),
        }
        if descending:
            query["descending"] = "true"
        try:
            yield from target.admin_pages("/queues", "queues", query)
            return
        except ApiError as error:
            _note_denied(target, error)
    # Which queues are dead-letter queues is seen in all others only.
    known = _sqs_queues(target, "" if kind == "dlq" else prefix)
    queues = (queue for queue in _of_kind(known, kind) if queue["name"].startswith(prefix))
    yield from _sorted(queues, sort, descending)


def queue_facts(target: Target, queue: str) -> Json:
    """The facts of a queue, with its attributes, tags, and the queues of which it is the dead-letter queue."""
    if target.uses_admin:
        query = {"account": queue_account(queue)}
        try:
            return target.admin("GET", f"/queues/{quoted(queue_name(queue))}", query)
        except ApiError as error:
            if error.is_missing_queue:
                raise target.no_queue(queue) from None
            _note_denied(target, error)
    url = target.queue_url(queue)
    facts = _from_attributes(target, url)
    facts["tags"] = target.sqs("ListQueueTags", QueueUrl=url).get("Tags") or {}
    facts["sources"] = sorted(
        map(queue_name, _pages(target, "ListDeadLetterSourceQueues", "queueUrls", QueueUrl=url))
    )
    facts["is_dead_letter_queue"] = bool(facts["sources"])
    return facts


def messages_in(queue: Json) -> int:
    """The number of messages in any state."""
    return int(queue["visible"] + queue["in_flight"] + queue["delayed"])


def queue_urls(target: Target, prefix: str = "") -> Iterator[str]:
    return _pages(target, "ListQueues", "QueueUrls", QueueNamePrefix=prefix or None)


def queue_arn(target: Target, queue: str) -> str:
    if queue.startswith("arn:"):
        return queue
    answer = target.sqs("GetQueueAttributes", QueueUrl=target.queue_url(queue), AttributeNames=["QueueArn"])
    return str(answer["Attributes"]["QueueArn"])


def _pages(target: Target, action: str, member: str, **request: Any) -> Iterator[str]:
    token = None
    while True:
        page = target.sqs(action, **request, MaxResults=_PAGE, NextToken=token)
        yield from page.get(member) or ()
        token = page.get("NextToken")
        if token is None:
            return


def _note_denied(target: Target, error: ApiError) -> None:
    if not error.is_denied or not target.endpoint.has_keys:
        raise error
    target.uses_admin = False
    target.out.note(f"Showing what SQS tells, without ages and rates. {error.message}")


def _sqs_queues(target: Target, prefix: str) -> Iterator[Json]:
    queues = [_from_attributes(target, url) for url in queue_urls(target, prefix)]
    dead_letter_queues = {queue.get("dead_letter_queue") for queue in queues}
    for queue in queues:
        yield queue | {"is_dead_letter_queue": queue["name"] in dead_letter_queues}


def _from_attributes(target: Target, url: str) -> Json:
    attributes = target.sqs("GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])["Attributes"]
    _, _, _, region, account, name = attributes["QueueArn"].split(":")
    redrive = json.loads(attributes.get("RedrivePolicy") or "{}")
    facts = {
        "name": name,
        "account": account,
        "region": region,
        "arn": attributes["QueueArn"],
        "url": url,
        "kind": "fifo" if name.endswith(".fifo") else "standard",
        **{member: int(attributes[attribute]) for member, attribute in _COUNTS.items()},
        "created_at": rfc3339(float(attributes["CreatedTimestamp"])),
        "modified_at": rfc3339(float(attributes["LastModifiedTimestamp"])),
        "attributes": attributes,
    }
    if redrive:
        facts["dead_letter_queue"] = queue_name(redrive["deadLetterTargetArn"])
        facts["max_receives"] = int(redrive["maxReceiveCount"])
    return facts


def _of_kind(queues: Iterable[Json], kind: str | None) -> Iterator[Json]:
    for queue in queues:
        if kind is None or queue["kind"] == kind or (kind == "dlq" and queue["is_dead_letter_queue"]):
            yield queue


def _sorted(queues: Iterable[Json], sort: str, descending: bool) -> list[Json]:
    if sort in ("age", "sent_rate", "bytes"):
        raise Failure(f"sorting by {sort} needs Penstock: Amazon SQS does not tell it")
    return sorted(queues, key=itemgetter(SORTS[sort]), reverse=descending)
