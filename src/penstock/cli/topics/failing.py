"""``penstock topic failing``: subscriptions that do not get their messages, and why."""

from __future__ import annotations

from itertools import islice

import click

from penstock.cli.arguments import TOPIC
from penstock.cli.output import Cell, Styled
from penstock.cli.target import Target, with_target
from penstock.cli.times import shown_time
from penstock.cli.topics.facts import check_topic, shown_endpoint, topic_arn
from penstock.client.api import Json
from penstock.client.queue_names import queue_name
from penstock.client.topic_names import topic_name

_PAGE = 1000


@click.command("failing")
@click.argument("topic", type=TOPIC, required=False)
@click.option("--limit", "-n", type=click.IntRange(1), metavar="N", help="Show at most this many.")
@with_target
def failing(target: Target, topic: str | None, limit: int | None) -> None:
    """List subscriptions that do not get their messages, and why.

    A subscription that gets a message again is no longer listed. FAILED counts the messages that a subscriber did
    not get and will not get, since the server was started. They are in the dead-letter queue, or lost. Without
    them the last attempt failed, and there may be others: "penstock topic waiting" lists the messages.

    \b
    Examples:
      penstock topic failing
      penstock topic failing orders
      penstock topic failing --json | jq -r 'select(.undelivered.is_denied) | .endpoint'
    """
    target.need_penstock("topic failing")
    query: Json = {"limit": min(limit or _PAGE, _PAGE)}
    if topic is not None:
        query["topic"] = topic_name(topic_arn(target, topic))
    found = list(islice(target.admin_pages("/topics/failing", "subscriptions", query), limit))
    if target.out.as_json:
        target.out.json_lines(found)
    elif not found:
        if topic is not None:
            check_topic(target, topic)
        target.out.note("all subscriptions got their messages, as far as the server remembers")
    else:
        columns = ["TOPIC", "ENDPOINT", "FAILED", "DEAD LETTERS TO", "LAST", "WHY"]
        target.out.table(columns, [_row(target, each) for each in found])
        _note_denied(target, found)


def _note_denied(target: Target, found: list[Json]) -> None:
    """Say how a queue lets the topic send, for the first of those that do not."""
    for each in found:
        if (each.get("undelivered") or {}).get("is_denied"):
            endpoint = shown_endpoint(each["protocol"], each["endpoint"])
            command = f"penstock topic set-subscription {topic_name(each['topic'])} {endpoint} --allow"
            target.out.note(f"to let the topic send to the queue: {command}")
            return


def _row(target: Target, subscription: Json) -> list[Cell]:
    lost, attempt = subscription.get("undelivered"), subscription.get("attempt")
    last = max(filter(None, (lost, attempt)), key=lambda each: str(each["at"]))
    return [
        topic_name(subscription["topic"]),
        shown_endpoint(subscription["protocol"], subscription["endpoint"]),
        lost["count"] if lost else 0,
        _went_to(lost) if lost else None,
        shown_time(last["at"], target.out),
        Styled(last["reason"], "red"),
    ]


def _went_to(lost: Json) -> Cell:
    queue = lost.get("dead_letter_queue")
    return queue_name(queue) if queue else Styled("lost", "red")
