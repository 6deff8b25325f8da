"""``penstock load``: sends messages from a file of JSON lines."""

from __future__ import annotations

import json
import sys
import uuid
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from math import isfinite
from pathlib import Path
from typing import IO, Any

import click

from penstock.cli.arguments import RATE, queue_argument
from penstock.cli.failure import Breakdown, Failure, printable
from penstock.cli.messages.dump import STANDARD
from penstock.cli.messages.sending import (
    MessageToSend,
    Outcome,
    Pace,
    bytes_of,
    send_all,
    sqs_attribute,
)
from penstock.cli.output import counted_messages
from penstock.cli.target import Target, with_target
from penstock.client.api import Json
from penstock.client.limits import DELAY_S_MAX, MESSAGE_BYTES_MAX
from penstock.client.objects import read_json

_ERRORS_SHOWN = 20


@click.command("load")
@queue_argument
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True, exists=True))
@click.option("--rate", type=RATE, help="Send at most this many messages a second.")
@click.option("--skip", type=click.IntRange(0), metavar="N", help="Skip the first N lines.")
@click.option("--group", metavar="ID", help="Message group of lines that have none.")
@click.option("--new-dedup-ids", is_flag=True, help="Give every message a new deduplication id.")
@click.option(
    "--errors", type=click.Path(path_type=Path, dir_okay=False), help="Write lines that were refused here."
)
@with_target
def command(
    target: Target, queue: str, file: Path, rate: float | None, skip: int | None, group: str | None,
    new_dedup_ids: bool, errors: Path | None,
) -> None:  # fmt: skip
    """Send the messages in FILE to QUEUE, each a line with a JSON object, as penstock dump writes them.

    A line needs the member "body"; it can have "attributes", "group", "dedup_id", "delay_s" and "trace". A body that
    is not a text is sent as JSON. An attribute is a text, a number, or {"type": "Binary", "value": "AAE="}. Other
    members are ignored. FILE "-" is standard input.

    How far a load is, is kept in FILE.loaded: the same command resumes after an interruption, and may send up to ten
    messages twice. Lines that are refused are reported, and do not end it; exit code 1 says that there were some.

    A FIFO queue ignores a deduplication id that it has seen in the last five minutes: see --new-dedup-ids.

    \b
    Examples:
      penstock load orders orders.jsonl
      penstock load orders orders.jsonl --rate 100 --errors refused.jsonl
      penstock dump orders-dlq - | penstock load orders -
    """
    url = target.queue_url(queue)
    state = None if file == STANDARD else _LoadState(file, url)
    done = skip or 0
    if skip is None and state is not None and (done := state.read()):
        target.out.note(f'continuing after line {done}: remove "{state.path}" to load all lines')
    refused = _Refused(target, errors, is_continued=done > 0)
    reader = _LineReader(refused, group, new_dedup_ids)
    sent = 0
    with _opened(file) as stream, target.out.progress("loading", _line_count(file)) as progress:
        for batch in send_all(target, url, reader.messages(stream, done), Pace(rate)):
            sent += reader.settle(batch)
            progress(batch[-1].number)
            if state is not None:
                state.save(batch[-1].number)
    if state is not None:
        state.remove()
    refused.close()
    if target.out.as_json:
        target.out.json({"sent": sent, "refused": refused.count})
    else:
        target.out.line(f"sent {counted_messages(sent)}")
    if refused.count:
        raise Breakdown("1 line was refused" if refused.count == 1 else f"{refused.count} lines were refused")


class _Refused:
    """Lines that were not sent: a message on standard error for the first ones, all of them in a file if asked."""

    def __init__(self, target: Target, file: Path | None, *, is_continued: bool) -> None:
        self.count = 0
        self._target = target
        self._stream = None if file is None else file.open("ab" if is_continued else "wb")

    def add(self, number: int, line: bytes, why: str) -> None:
        self.count += 1
        if self.count <= _ERRORS_SHOWN:
            self._target.out.note(f"line {number}: {printable(why)}")
        elif self.count == _ERRORS_SHOWN + 1:
            self._target.out.note("further lines that are refused are only counted")
        if self._stream is not None:
            self._stream.write(line.rstrip(b"\r\n") + b"\n")

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()


class _LineReader:
    """Makes messages of lines, and keeps each line until it is known whether its message was sent."""

    def __init__(self, refused: _Refused, group: str | None, new_dedup_ids: bool) -> None:
        self._refused = refused
        self._group = group
        self._new_dedup_ids = new_dedup_ids
        self._pending: dict[int, bytes] = {}

    def messages(self, lines: Iterable[bytes], skip: int) -> Iterator[MessageToSend]:
        for number, line in enumerate(lines, 1):
            if number <= skip or not line.strip():
                continue
            try:
                members = self._members(line)
            except ValueError as error:
                self._refused.add(number, line, str(error))
                continue
            self._pending[number] = line
            yield MessageToSend(number, members)

    def settle(self, batch: list[Outcome]) -> int:
        """Returns how many were sent."""
        for outcome in batch:
            line = self._pending.pop(outcome.number)
            if outcome.error is not None:
                self._refused.add(outcome.number, line, outcome.error)
        return sum(outcome.error is None for outcome in batch)

    def _members(self, line: bytes) -> Json:
        """Returns the members for SendMessage. Raises ValueError that says what is wrong with the line."""
        try:
            given = read_json(line)
        except ValueError as error:
            raise ValueError(f"not JSON that can be used: {error}") from None
        if not isinstance(given, dict) or given.get("body") is None:
            raise ValueError('expected a JSON object with the member "body"')
        if given.get("body_cut"):
            raise ValueError("only the beginning of its body was written")
        for name in ("group", "dedup_id", "trace"):
            if not isinstance(given.get(name), str | None):
                raise ValueError(f'expected a text as "{name}"')
        members: Json = {"MessageBody": _body(given["body"])}
        if (attributes := given.get("attributes")) is not None:
            members["MessageAttributes"] = _attributes(attributes)
        if (delay_s := given.get("delay_s")) is not None:
            members["DelaySeconds"] = _delay_s(delay_s)
        if group := given.get("group") or self._group:
            members["MessageGroupId"] = group
        if self._new_dedup_ids:
            members["MessageDeduplicationId"] = str(uuid.uuid4())
        elif dedup_id := given.get("dedup_id"):
            members["MessageDeduplicationId"] = dedup_id
        if trace := given.get("trace"):
            members["MessageSystemAttributes"] = {"AWSTraceHeader": sqs_attribute("String", trace)}
        if (size := bytes_of(members)) > MESSAGE_BYTES_MAX:  # else SQS refuses its whole batch
            raise ValueError(f"the message has {size} bytes: expected at most {MESSAGE_BYTES_MAX}")
        return members


def _body(given: Any) -> str:
    """A text, or anything else as JSON."""
    try:
        return given if isinstance(given, str) else json.dumps(given, ensure_ascii=False, allow_nan=False)
    except RecursionError:
        raise ValueError('"body" is nested too deeply') from None


def _delay_s(given: Any) -> int:
    if type(given) not in (int, float) or not 0 <= given <= DELAY_S_MAX or given != int(given):
        raise ValueError(
            f'expected a whole number from 0 to {DELAY_S_MAX} as "delay_s", not {str(given)[:20]}'
        )
    return int(given)


def _attributes(given: Any) -> Json:
    """A value is {"type", "value"}, or a text or number by itself."""
    if not isinstance(given, dict):
        raise ValueError('expected an object as "attributes"')
    attributes = {}
    for name, value in given.items():
        if (
            isinstance(value, dict)
            and isinstance(value.get("type"), str)
            and isinstance(value.get("value"), str)
        ):
            attributes[name] = sqs_attribute(value["type"], value["value"])
        elif isinstance(value, str):
            attributes[name] = sqs_attribute("String", value)
        elif type(value) is int or (type(value) is float and isfinite(value)):
            attributes[name] = sqs_attribute("Number", str(value))
        else:
            raise ValueError(
                f'attribute "{name}": expected {{"type": "String", "value": "…"}}, a text or a number'
            )
    return attributes


class _LoadState:
    """How many lines of a file were sent to which queue, in a small file beside it."""

    def __init__(self, file: Path, queue_url: str) -> None:
        self.path = file.with_name(f"{file.name}.loaded")
        self._of = {"queue": queue_url, "size": file.stat().st_size}

    def read(self) -> int:
        """Returns how many lines are done."""
        try:
            saved = json.loads(self.path.read_bytes())
            done = int(saved.pop("lines"))
        except FileNotFoundError:
            return 0
        except (ValueError, KeyError, TypeError, AttributeError):
            raise Failure(f'"{self.path}" is damaged: remove it, and give --skip N to continue') from None
        if saved != self._of:
            raise Failure(
                f'"{self.path}" is of a load of another file, or into {saved.get("queue")}: remove it to load all'
                " lines, or give --skip N"
            )
        return done

    def save(self, lines: int) -> None:
        temporary = self.path.with_name(f"{self.path.name}.new")
        temporary.write_text(json.dumps({**self._of, "lines": lines}), encoding="utf-8")
        temporary.replace(self.path)

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)


def _opened(file: Path) -> AbstractContextManager[IO[bytes]]:
    return nullcontext(sys.stdin.buffer) if file == STANDARD else file.open("rb")


def _line_count(file: Path) -> int | None:
    if file == STANDARD:
        return None
    with file.open("rb") as stream:
        return sum(1 for _ in stream)
