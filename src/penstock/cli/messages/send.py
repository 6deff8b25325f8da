"""``penstock message send``: one message, or many from a template."""

from __future__ import annotations

import re
import time
import uuid
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from penstock.cli.arguments import DURATION, RATE, queue_argument
from penstock.cli.failure import Breakdown, Failure
from penstock.cli.messages.sending import MessageToSend, Outcome, Pace, read_attribute, read_body, send_all
from penstock.cli.output import counted_messages
from penstock.cli.target import Target, with_target
from penstock.cli.times import rfc3339
from penstock.client.api import ApiError, Json, Unavailable
from penstock.client.limits import ENTRIES_MAX
from penstock.clock import real_s


@click.command("send")
@queue_argument
@click.argument("body", required=False)
@click.option("--file", type=click.Path(path_type=Path, dir_okay=False), help="Read the body from a file.")
@click.option(
    "--attribute", "attributes", multiple=True, metavar="NAME[:TYPE]=VALUE",
    help="An attribute; TYPE is String, Number or Binary (base64). Can be repeated.",
)  # fmt: skip
@click.option("--group", metavar="ID", help="Message group; a FIFO queue needs one.")
@click.option("--dedup-id", metavar="ID", help="Deduplication id, on a FIFO queue.")
@click.option("--delay", type=DURATION, help="Deliver it later: 30s, 5m.")
@click.option("--template", is_flag=True, help="Replace {n}, {uuid} and {now} in body, attributes and ids.")
@click.option("--count", type=click.IntRange(1), default=1, help="Send as many messages.")
@click.option("--rate", type=RATE, help="Send at most this many messages a second.")
@with_target
def send(
    target: Target,
    queue: str,
    body: str | None,
    file: Path | None,
    count: int,
    rate: float | None,
    **flags: Any,
) -> None:
    """Send a message, or with --count many, and print their ids.

    BODY is a text, or @FILE. Without BODY and --file, or if BODY is "-", it is read from standard input. Messages are
    sent ten a request.

    \b
    Examples:
      penstock message send orders 'hello'
      penstock message send orders @order.json --attribute kind=new --attribute priority:Number=3
      cat order.json | penstock message send orders --delay 5m
      penstock message send orders.fifo 'hello' --group customer-7 --dedup-id 4711
      penstock message send orders '{"n": {n}, "at": "{now}"}' --template --count 1000 --rate 50
    """
    if body is not None and file is not None:
        raise Failure("give either BODY or --file")
    text = read_body(body, file)
    if not text:
        raise Failure(
            "the body is empty, which SQS does not accept: give it as an argument, with --file, or on"
            " standard input"
        )
    members = _members(text, **flags)
    url = target.queue_url(queue)
    outgoing = (
        MessageToSend(n, _filled(members, n) if flags["template"] else members) for n in range(1, count + 1)
    )
    report = _SendReport(target, count)
    bar = target.out.progress("sending", count) if count > ENTRIES_MAX else nullcontext(_unseen)
    with bar as progress:
        try:
            for batch in send_all(target, url, outgoing, Pace(rate)):
                report.add(batch)
                progress(report.sent + report.refused)
        except (ApiError, Unavailable):
            if report.sent:
                target.out.note(f"{counted_messages(report.sent)} sent before")
            raise
    report.end()


def _unseen(done: int) -> None:
    """Few messages need no progress bar, which takes time to load."""


def _members(
    body: str,
    attributes: tuple[str, ...],
    group: str | None,
    dedup_id: str | None,
    delay: float | None,
    **_: Any,
) -> Json:
    members: Json = {"MessageBody": body}
    if attributes:
        members["MessageAttributes"] = dict(map(read_attribute, attributes))
    if delay is not None:
        members["DelaySeconds"] = round(delay)
    if group is not None:
        members["MessageGroupId"] = group
    if dedup_id is not None:
        members["MessageDeduplicationId"] = dedup_id
    return members


_PLACEHOLDER = re.compile(r"\{(n|uuid|now)\}")


def _filled(value: Any, n: int) -> Any:
    """Replaces the placeholders in all texts; other braces stay, because JSON is full of them."""
    if isinstance(value, dict):
        return {name: _filled(each, n) for name, each in value.items()}
    if not isinstance(value, str):
        return value
    now = rfc3339(real_s())
    return _PLACEHOLDER.sub(lambda found: {"n": str(n), "now": now}.get(found[1]) or str(uuid.uuid4()), value)


class _SendReport:
    """Prints the id of one message, and how many there were of more; with --json a line for each."""

    def __init__(self, target: Target, count: int) -> None:
        self.sent = self.refused = 0
        self._out, self._is_one = target.out, count == 1
        self._started = time.monotonic()
        self._first_error = ""

    def add(self, batch: list[Outcome]) -> None:
        for outcome in batch:
            if outcome.error is not None:
                self.refused += 1
                self._first_error = (
                    self._first_error or f"message {outcome.number} was refused: {outcome.error}"
                )
                continue
            self.sent += 1
            if self._out.as_json:
                self._out.json_line(_sent_json(outcome))
            elif self._is_one:
                self._out.line(f"{outcome.id}")

    def end(self) -> None:
        if not self._out.as_json and not self._is_one:
            seconds = time.monotonic() - self._started
            per_second = self.sent / seconds if seconds else 0
            self._out.line(
                f"sent {counted_messages(self.sent)} in {seconds:.1f} s ({per_second:.0f} a second)"
            )
        if self.refused:
            more = f" (and {self.refused - 1} more)" if self.refused > 1 else ""
            raise Breakdown(f"{self._first_error}{more}")


def _sent_json(outcome: Outcome) -> Json:
    shown = {"MessageId": outcome.id, "SequenceNumber": outcome.sequence_number}
    return {name: value for name, value in shown.items() if value is not None}
