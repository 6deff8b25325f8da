"""``penstock queue``: look at queues. The commands that change them are in ``changes``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from itertools import count, islice

import click

from penstock.cli.arguments import DURATION, QUEUE, queue_argument, short_age, short_duration, short_size
from penstock.cli.groups import CommandGroup
from penstock.cli.output import Cell, Output, Styled
from penstock.cli.queues.changes import create, delete, purge, set_
from penstock.cli.queues.facts import SORTS, list_queues, queue_facts, queue_urls
from penstock.cli.queues.scale import scale
from penstock.cli.target import Target, with_target
from penstock.cli.times import rfc3339, shown_time
from penstock.client.api import Json
from penstock.client.objects import read_json
from penstock.client.queue_names import queue_name
from penstock.clock import real_s

_NUMBERS_OF_SQS = ("visible", "in_flight", "delayed")
_NUMBERS = (
    *_NUMBERS_OF_SQS, "bytes", "oldest_age_s", "sent_rate", "received_rate", "deleted_rate",
    "waiting_receives",
)  # fmt: skip
_SECONDS = (
    "DelaySeconds", "KmsDataKeyReusePeriodSeconds", "MessageRetentionPeriod", "ReceiveMessageWaitTimeSeconds",
    "VisibilityTimeout",
)  # fmt: skip
_INTERNAL_PER_PAGE = 1000
_SHOWN_ELSEWHERE = ("CreatedTimestamp", "LastModifiedTimestamp", "QueueArn")


@click.group("queue", cls=CommandGroup)
def command() -> None:
    """List, show, create, change, purge and delete queues.

    A queue is given by its name, its URL or its ARN.

    \b
    Examples:
      penstock queue ls
      penstock queue create orders --dead-letter-queue orders-dlq --max-receives 3
      penstock queue show orders
      penstock queue stat orders visible
    """


for _part in (create, set_, purge, delete, scale):
    command.add_command(_part)


@command.command("ls")
@click.argument("pattern", required=False)
@click.option("--kind", type=click.Choice(["standard", "fifo", "dlq"]), help="Only queues of this kind.")
@click.option(
    "--sort", type=click.Choice(list(SORTS)), default="name", show_default=True, help="Sort by this."
)
@click.option("--descending", "-d", is_flag=True, help="Largest first.")
@click.option("--limit", "-n", type=click.IntRange(1), metavar="N", help="Show at most this many queues.")
@click.option("--names", is_flag=True, help="Print names only, which is faster.")
@click.option("--internal", is_flag=True, help="List the server's own work that waits, of all accounts.")
@with_target
def ls(
    target: Target,
    pattern: str | None,
    kind: str | None,
    sort: str,
    descending: bool,
    limit: int | None,
    names: bool,
    internal: bool,
) -> None:
    """List queues with their messages, ages and rates.

    PATTERN is part of a name, or a whole name with * and ?. Counts of Penstock are exact, rates are per second over
    the last minute, OLDEST is the age of the oldest message. Amazon SQS tells approximate counts only.

    With --internal: what the server has to do in the background, such as actions of alarms. PUT OFF are those among
    the WAITING that failed and are tried again, or that are due later. It needs Penstock, and takes --limit and
    --json only.

    \b
    Examples:
      penstock queue ls
      penstock queue ls 'orders-*' --sort visible --descending
      penstock queue ls --kind dlq
      penstock queue ls --sort age --descending --limit 5
      penstock queue ls --json | jq -r 'select(.visible > 1000) | .name'
      penstock queue ls --internal
      penstock queue ls --endpoint-url aws --region eu-central-1 --names
    """
    if internal:
        if pattern or kind or sort != "name" or descending or names:
            raise click.UsageError("--internal takes no PATTERN, --kind, --sort, --descending or --names")
        _list_internal(target, limit)
        return
    matches, prefix = _matcher(pattern)
    listed: Iterable[Json]
    if names and kind is None and sort == "name":
        found = sorted(map(queue_name, queue_urls(target, prefix)), reverse=descending)
        listed = ({"name": name} for name in found)
    else:
        page = None if pattern else limit
        listed = list_queues(target, prefix=prefix, kind=kind, sort=sort, descending=descending, page=page)
    queues = islice((queue for queue in listed if matches(queue["name"])), limit)
    if target.out.as_json:
        target.out.json_lines({"name": queue["name"]} if names else queue for queue in queues)
    elif names:
        for queue in queues:
            target.out.line(queue["name"])
    else:
        _print_table(target.out, list(queues))


def _list_internal(target: Target, limit: int | None) -> None:
    target.need_penstock("queue ls --internal")
    page = min(limit or _INTERNAL_PER_PAGE, _INTERNAL_PER_PAGE)
    queues = list(islice(target.admin_pages("/internal-queues", "queues", {"limit": page}), limit))
    if target.out.as_json:
        target.out.json_lines(queues)
    elif not queues:
        target.out.note("no work waits")
    else:
        target.out.table(
            ["KIND", "ACCOUNT", "REGION", "WAITING", "RUNNING", "PUT OFF", "OLDEST"],
            [
                [
                    queue["kind"], queue["account"], queue["region"], queue["waiting"], queue["running"],
                    queue["put_off"], short_age(queue.get("oldest_age_s")),
                ]
                for queue in queues
            ],
        )  # fmt: skip


def _matcher(pattern: str | None) -> tuple[Callable[[str], bool], str]:
    """Returns a function that tells whether a name is meant, and how all such names begin."""
    if not pattern:
        return (lambda name: True), ""
    if not set("*?[") & set(pattern):
        return (lambda name: pattern in name), ""
    prefix = pattern[: min(pattern.index(sign) for sign in "*?[" if sign in pattern)]
    return (lambda name: fnmatchcase(name, pattern)), prefix


def _print_table(out: Output, queues: Sequence[Json]) -> None:
    if not queues:
        out.note("no queues")
        return
    exact = "sent_rate" in queues[0]
    rates = ["OLDEST", "SENT/S", "RECEIVED/S", "DELETED/S"] if exact else []
    columns = ["NAME", "KIND", "VISIBLE", "IN FLIGHT", "DELAYED", *rates, "DEAD LETTERS TO"]
    out.table(columns, (_row(queue, exact) for queue in queues))


def _row(queue: Json, exact: bool) -> list[Cell]:
    is_dlq = queue["is_dead_letter_queue"]
    # Dead letters are what a person on call looks for first.
    visible = Styled(queue["visible"], "red") if is_dlq and queue["visible"] else queue["visible"]
    age = short_age(queue.get("oldest_age_s"))
    rates = [age, queue["sent_rate"], queue["received_rate"], queue["deleted_rate"]] if exact else []
    kind = f"{queue['kind']} dlq" if is_dlq else queue["kind"]
    return [
        queue["name"], kind, visible, queue["in_flight"], queue["delayed"], *rates, queue.get("dead_letter_queue"),
    ]  # fmt: skip


@command.command("show")
@queue_argument
@with_target
def show(target: Target, queue: str) -> None:
    """Show everything about a queue: messages, rates, attributes, dead-letter queue, tags and policy.

    \b
    Examples:
      penstock queue show orders
      penstock queue show arn:aws:sqs:us-east-1:000000000000:orders
      penstock queue show orders --json | jq .attributes.VisibilityTimeout
    """
    facts = queue_facts(target, queue)
    if target.out.as_json:
        target.out.json(facts)
        return
    _print_summary(target.out, facts)
    attributes = facts.get("attributes") or {}
    _print_section(target.out, "Attributes", _readable_attributes(attributes))
    _print_section(target.out, "Tags", sorted((facts.get("tags") or {}).items()))
    if attributes.get("Policy"):
        target.out.line("\nPolicy", bold=True)
        target.out.line(_indented(attributes["Policy"]))


def _print_summary(out: Output, facts: Json) -> None:
    age = facts.get("oldest_age_s")
    oldest = f"; the oldest is {short_age(age)} old" if age is not None else ""
    dead_letters = None
    if "dead_letter_queue" in facts:
        dead_letters = f"to {facts['dead_letter_queue']} after {facts['max_receives']} receives"
    rates = None
    if "sent_rate" in facts:
        rates = ", ".join(f"{facts[f'{what}_rate']:.1f} {what}" for what in ("sent", "received", "deleted"))
    out.facts(
        [
            ("Queue", f"{facts['name']} ({facts['kind']})"),
            ("URL", facts["url"]),
            ("ARN", facts["arn"]),
            (
                "Messages",
                "{visible} visible, {in_flight} in flight, {delayed} delayed".format(**facts) + oldest,
            ),
            ("Size", short_size(facts.get("bytes"))),
            ("Per second", rates),
            ("Waiting receives", facts.get("waiting_receives")),
            ("Dead letters", dead_letters),
            ("Dead letters of", ", ".join(facts.get("sources") or ()) or None),
            ("Created", shown_time(facts["created_at"], out)),
            ("Changed", shown_time(facts["modified_at"], out)),
        ]
    )


def _readable_attributes(attributes: dict[str, str]) -> Iterable[tuple[str, str]]:
    for name, value in sorted(attributes.items()):
        if name in _SHOWN_ELSEWHERE or name == "Policy" or name.startswith("ApproximateNumber"):
            continue
        long = name in _SECONDS and value.isdigit() and int(value) >= 60
        yield name, f"{value} ({short_duration(int(value))})" if long else value


def _print_section(out: Output, title: str, pairs: Iterable[tuple[str, str]]) -> None:
    if pairs := list(pairs):
        out.line(f"\n{title}", bold=True)
        out.facts(pairs)


def _indented(document: str) -> str:
    try:
        return json.dumps(read_json(document), indent=2, ensure_ascii=False)
    except ValueError:
        return document


@command.command("stat")
@click.argument("queue", type=QUEUE)
@click.argument("numbers", nargs=-1, type=click.Choice(_NUMBERS), metavar="[NUMBER]...")
@click.option("--watch", "-w", is_flag=True, help="Keep printing, a line each time.")
@click.option(
    "--interval",
    type=DURATION,
    default="2s",
    metavar="TIME",
    show_default=True,
    help="Between two lines with --watch.",
)
@click.option(
    "--count", "-n", "times", type=click.IntRange(1), metavar="N", help="End --watch after this many lines."
)
@with_target
def stat(
    target: Target, queue: str, numbers: tuple[str, ...], watch: bool, interval: float, times: int | None
) -> None:
    """Print numbers of a queue, for scripts and monitoring.

    Without NUMBER all are printed, a line each; with one or more, only their values, on one line. NUMBER is one of
    visible, in_flight, delayed, bytes, oldest_age_s, sent_rate, received_rate, deleted_rate and waiting_receives, of
    which Amazon SQS tells the first three. What is not known is printed as "-".

    \b
    Examples:
      penstock queue stat orders
      test "$(penstock queue stat orders-dlq visible)" -eq 0 || echo "dead letters"
      penstock queue stat orders visible oldest_age_s --watch --interval 10s
      penstock queue stat orders --watch --json >> orders.jsonl
    """
    for number in range(times or 1) if times or not watch else count():
        if number:
            time.sleep(interval)
        facts = queue_facts(target, queue)
        names = numbers or (_NUMBERS if "bytes" in facts else _NUMBERS_OF_SQS)
        values = [_number(facts.get(name)) for name in names]
        now = rfc3339(real_s())
        if target.out.as_json:
            known = {name: facts[name] for name in names if name in facts}
            target.out.json_line({"name": facts["name"], "at": now} | known)
        elif watch:
            if not number:
                target.out.line(" ".join(["time", *names]))
            target.out.line(" ".join([now, *values]))
        elif numbers:
            target.out.line(" ".join(values))
        else:
            for name, value in zip(names, values, strict=True):
                target.out.line(f"{name} {value}")


def _number(value: float | None) -> str:
    return (
        "-"
        if value is None
        else f"{value:.3f}".rstrip("0").rstrip(".")
        if isinstance(value, float)
        else str(value)
    )
