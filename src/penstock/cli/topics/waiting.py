"""``penstock topic waiting`` and ``outbox``: what is not delivered yet, and what cannot leave the machine."""

from __future__ import annotations

from itertools import islice

import click

from penstock.cli.arguments import TOPIC, short_duration, yes_option
from penstock.cli.failure import Breakdown
from penstock.cli.output import Cell, Styled, shortened
from penstock.cli.target import Target, with_target
from penstock.cli.times import rfc3339, shown_time
from penstock.cli.topics.facts import check_topic, shown_endpoint, topic_arn
from penstock.client.api import Json, quoted
from penstock.client.topic_names import topic_name
from penstock.clock import real_s

_PAGE = 1000
_BODY_WIDTH = 60


@click.command("waiting")
@click.argument("topic", type=TOPIC, required=False)
@click.option("--limit", "-n", type=click.IntRange(1), metavar="N", help="Show at most this many.")
@with_target
def waiting(target: Target, topic: str | None, limit: int | None) -> None:
    """List deliveries that wait: how many attempts there were, why the last one failed, and when the next try is.

    These are messages for URLs and addresses, and those for queues that could not be reached.

    \b
    Examples:
      penstock topic waiting
      penstock topic waiting orders
      penstock topic waiting --json | jq -r 'select(.attempt > 3) | .endpoint'
    """
    target.need_penstock("topic waiting")
    query: Json = {"limit": min(limit or _PAGE, _PAGE)}
    if topic is not None:
        query["topic"] = topic_name(topic_arn(target, topic))
    found = list(islice(target.admin_pages("/topics/deliveries", "deliveries", query), limit))
    if target.out.as_json:
        target.out.json_lines(found)
    elif not found:
        if topic is not None:
            check_topic(target, topic)
        target.out.note("nothing waits")
    else:
        columns = ["TOPIC", "ENDPOINT", "MESSAGE", "ATTEMPTS", "AGE", "NEXT TRY", "LAST ERROR"]
        target.out.table(columns, [_delivery_row(target, each) for each in found])


def _delivery_row(target: Target, delivery: Json) -> list[Cell]:
    error = delivery.get("last_error")
    return [
        topic_name(delivery["topic"]),
        shown_endpoint(delivery["protocol"], delivery["endpoint"]),
        delivery.get("message_id"),
        delivery["attempt"],
        short_duration(delivery["age_ms"] // 1000),
        _next_try(delivery["due_ms"]),
        Styled(error, "red") if error else None,
    ]


def _next_try(due_ms: int) -> str:
    seconds = due_ms / 1000 - real_s()
    return f"in {short_duration(int(seconds))}" if seconds >= 1 else "now"


@click.command("outbox")
@click.argument("id", required=False)
@click.option("--limit", "-n", type=click.IntRange(1), metavar="N", help="Show at most this many.")
@click.option("--delete", "delete", multiple=True, metavar="ID", help="Delete this one. Can be repeated.")
@click.option("--delete-all", is_flag=True, help="Delete everything in it.")
@yes_option
@with_target
def outbox(
    target: Target,
    id: str | None,
    limit: int | None,
    delete: tuple[str, ...],
    delete_all: bool,
    yes: bool,
) -> None:
    """Show what could not leave the machine: SMS, push messages, and emails if no SMTP server is set.

    Each counts as delivered. The oldest are forgotten when there are too many. With ID, one is shown with its whole
    text, such as the link that confirms a subscription.

    \b
    Examples:
      penstock topic outbox
      penstock topic outbox 001795129200000-6f2a83c90d14be57
      penstock topic outbox --json | jq -r 'select(.protocol == "email") | .body'
      penstock topic outbox --delete 001795129200000-6f2a83c90d14be57
      penstock topic outbox --delete-all --yes
    """
    target.need_penstock("topic outbox")
    if delete and (delete_all or limit):
        raise click.UsageError("--delete does not go with --delete-all or --limit")
    if id and (delete or delete_all or limit):
        raise click.UsageError("ID does not go with --delete, --delete-all or --limit")
    if delete or delete_all:
        _delete(target, delete, yes)
        return
    if id:
        _show(target, id)
        return
    found = _entries(target, limit)
    if target.out.as_json:
        target.out.json_lines(found)
    elif not found:
        target.out.note("the outbox is empty")
    else:
        target.out.table(
            ["ID", "AT", "PROTOCOL", "TO", "TOPIC", "SUBJECT", "BODY"],
            [
                [
                    each["id"], shown_time(rfc3339(each["at_ms"] / 1000), target.out), each["protocol"],
                    each["destination"], topic_name(each.get("topic", "")) or None, each.get("subject"),
                    shortened(each["body"], _BODY_WIDTH),
                ]
                for each in found
            ],
        )  # fmt: skip


def _entries(target: Target, limit: int | None) -> list[Json]:
    pages = target.admin_pages("/outbox", "entries", {"limit": min(limit or _PAGE, _PAGE)})
    return list(islice(pages, limit))


def _show(target: Target, id: str) -> None:
    found = next((each for each in _entries(target, None) if each["id"] == id), None)
    if found is None:
        raise Breakdown(f'there is no entry "{id}" in the outbox of {target.endpoint.place}')
    if target.out.as_json:
        target.out.json(found)
        return
    target.out.facts(
        [
            ("At", shown_time(rfc3339(found["at_ms"] / 1000), target.out)),
            ("To", f"{found['destination']} ({found['protocol']})"),
            ("Topic", found.get("topic")),
            ("Subject", found.get("subject")),
        ]
    )
    target.out.line("")
    target.out.line(found["body"])


def _delete(target: Target, ids: tuple[str, ...], yes: bool) -> None:
    """``ids``: none of them: everything."""
    target.out.confirm(f"Delete {f'{len(ids)} entries' if ids else 'everything'} of the outbox?", yes)
    if ids:
        for id in ids:
            target.admin("DELETE", f"/outbox/{quoted(id)}")
        deleted = len(ids)
    else:
        deleted = target.admin("DELETE", "/outbox")["deleted"]
    target.out.result(f"deleted {deleted} of the outbox", deleted=deleted)
