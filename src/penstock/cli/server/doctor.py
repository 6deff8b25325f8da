"""``penstock doctor``: look at all queues and at the server, and say what to change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from ipaddress import ip_address
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

import click

from penstock.cli.arguments import DURATION, QUEUE
from penstock.cli.messages.admin_queue import AdminQueue
from penstock.cli.output import Output, safe
from penstock.cli.queues.facts import queue_urls
from penstock.cli.server.doctor_checks import (
    CHECKS,
    HINT,
    PROBLEM,
    QUEUE_CHECKS,
    WARNING,
    Finding,
    QueueFacts,
    Site,
    Thresholds,
    access_findings,
    failing_subscriptions,
    not_allowed,
    server_findings,
)
from penstock.cli.target import Target, with_target
from penstock.cli.times import age_s
from penstock.client.api import ApiError, ApiSession, Unavailable
from penstock.client.queue_names import queue_name

_SAMPLE = 100  # messages of a page
_PAGES_MAX = 5  # of the messages of a queue
_FAILING_MAX = 1000  # subscriptions that are counted
_COLOURS = {PROBLEM: "red", WARNING: "yellow", HINT: "cyan"}
_EXIT_CODES = {PROBLEM: 3, WARNING: 1, HINT: 0}


@click.command("doctor")
@click.argument("queues", nargs=-1, type=QUEUE, metavar="[QUEUE]...")
@click.option("--prefix", metavar="TEXT", help="Only queues whose names begin with it.")
@click.option(
    "--ignore", multiple=True, type=click.Choice(CHECKS), metavar="CHECK",
    help="Leave out a check, by the name in brackets. Can be repeated.",
)  # fmt: skip
@click.option(
    "--late",
    "late_s",
    type=DURATION,
    default="5m",
    metavar="AGE",
    show_default=True,
    help="Messages older than this are late.",
)
@click.option(
    "--receives", default=5, show_default=True, help="Report messages that were received at least this often."
)
@with_target
@click.pass_context
def command(
    ctx: click.Context,
    target: Target,
    queues: tuple[str, ...],
    prefix: str | None,
    ignore: tuple[str, ...],
    late_s: float,
    receives: int,
) -> None:
    """Find what is wrong with queues, topics and the server, and say what to change.

    Looking changes nothing. On Amazon SQS only the settings of queues and their counts can be checked.

    Exit codes: 0 fine, or only hints; 1 warnings; 3 problems, or the server cannot be checked.

    \b
    Examples:
      penstock doctor
      penstock doctor orders payments
      penstock doctor --ignore short-polling --late 60s
      penstock doctor --json | jq 'select(.severity == "problem")'
    """
    try:
        facts = list(_facts(target, queues, prefix, receives))
        findings = [*_findings(Site({each.arn: each for each in facts}, Thresholds(late_s, receives)))]
        if target.is_penstock:
            findings += _of_topics(target)
            findings += _of_server(target)
            findings += not_allowed([each.name for each in facts if not each.info])
    except (ApiError, Unavailable) as error:
        facts = []
        findings = [_unreachable(target, error)]
    shown = [finding for finding in findings if finding.check not in ignore]
    _show(target.out, shown, len(facts))
    ctx.exit(max((_EXIT_CODES[finding.severity] for finding in shown), default=0))


def _findings(site: Site) -> Iterator[Finding]:
    for queue in site.queues.values():
        for check in QUEUE_CHECKS:
            yield from check(queue, site)


def _of_topics(target: Target) -> Iterator[Finding]:
    try:
        failing = target.admin("GET", "/topics/failing", {"limit": _FAILING_MAX})["subscriptions"]
    except ApiError as error:
        if not error.is_denied:  # who may look at queues need not look at topics
            raise
    else:
        yield from failing_subscriptions(failing)


def _of_server(target: Target) -> Iterator[Finding]:
    endpoint = target.endpoint
    try:
        yield from server_findings(target.admin("GET", "/status"))
    except ApiError as error:
        if not error.is_denied:  # the server belongs to one account, and others may use it
            raise
    unsigned = ApiSession.of(endpoint._replace(credentials=None))
    try:
        unsigned.sqs("ListQueues", MaxResults=1)
        is_open = True
    except ApiError:
        is_open = False
    finally:
        unsigned.close()
    yield from access_findings(endpoint.url, is_open=is_open, is_local=_is_local(endpoint.url))


def _is_local(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _unreachable(target: Target, error: ApiError | Unavailable) -> Finding:
    change = (
        f"check that the server runs and that the keys may look (endpoint from: {target.endpoint.chosen_by})"
    )
    return Finding(PROBLEM, "not-looked-at", None, str(error), change, "penstock health")


# -- facts ---------------------------------------------------------------------------------------------------------


def _facts(
    target: Target, queues: tuple[str, ...], prefix: str | None, receives: int
) -> Iterator[QueueFacts]:
    urls = [target.queue_url(queue) for queue in queues] if queues else list(queue_urls(target, prefix or ""))
    with target.out.progress("queues", len(urls)) as advance:
        for done, url in enumerate(urls, 1):
            found = _queue_facts(target, url, receives)
            if found is not None:
                yield found
            advance(done)


def _queue_facts(target: Target, url: str, receives: int) -> QueueFacts | None:
    """The facts of a queue; None if it was deleted since it was listed."""
    name = queue_name(url)
    try:
        attributes = target.sqs("GetQueueAttributes", QueueUrl=url, AttributeNames=["All"])["Attributes"]
        if not target.is_penstock:
            return QueueFacts(name, attributes)
        return _with_messages(AdminQueue(target, url), attributes, receives)
    except ApiError as error:
        if error.is_missing_queue:
            return None
        raise


def _with_messages(queue: AdminQueue, attributes: dict[str, str], receives: int) -> QueueFacts:
    """The queue with what the admin API tells, or without that if the caller may not use it."""
    try:
        info = queue.call("GET")
        in_flight = _sample(queue, {"state": "in_flight"}) if info["in_flight"] else []
        often = _sample(queue, {"receives_min": receives})
    except ApiError as error:
        if not error.is_denied:
            raise
        return QueueFacts(queue.name, attributes)
    for message in in_flight:
        if holder := message.get("holder"):
            holder["held_s"] = age_s(holder["since"])
    return QueueFacts(queue.name, attributes, info, tuple(in_flight), tuple(often))


def _sample(queue: AdminQueue, query: dict[str, Any]) -> list[dict[str, Any]]:
    """Some messages from the front of the queue: a large one is not looked through."""
    pages = islice(queue.pages({**query, "limit": _SAMPLE, "body_bytes": 0}), _PAGES_MAX)
    return [message for page, _ in pages for message in page]


# -- output --------------------------------------------------------------------------------------------------------


def _show(out: Output, findings: list[Finding], queues: int) -> None:
    if out.as_json:
        out.json_lines({k: v for k, v in each._asdict().items() if v is not None} for each in findings)
        return
    for finding in sorted(findings, key=lambda finding: list(_EXIT_CODES).index(finding.severity)):
        label = click.style(f"{finding.severity:<8}", fg=_COLOURS[finding.severity], bold=True)
        place = f"{finding.queue}: " if finding.queue else ""
        click.echo(f"{label} {safe(place + finding.what)} [{finding.check}]")
        click.echo(f"         {safe(finding.change)}:")
        click.echo(f"           {safe(finding.command)}")
    counts = Counter(finding.severity for finding in findings)
    parts = [f"{counts[s]} {s}{'s' if counts[s] != 1 else ''}" for s in _EXIT_CODES if counts[s]]
    checked = f"{queues} queue{'s' if queues != 1 else ''} checked"
    click.echo(f"{checked}: {', '.join(parts) or 'fine'}")
