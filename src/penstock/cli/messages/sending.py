"""Sends many messages: ten a request, at a rate, with an outcome for each."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from penstock.cli.failure import Failure
from penstock.cli.target import Target
from penstock.client.limits import ENTRIES_MAX, MESSAGE_BYTES_MAX

_SLICES_PER_S = 10  # at a rate, a second is divided among this many requests


class MessageToSend(NamedTuple):
    number: int  # of the message: its line in a file, or which of --count it is
    members: dict[str, Any]  # of SendMessage, without the queue


class Outcome(NamedTuple):
    number: int
    id: str | None = None
    sequence_number: str | None = None
    error: str | None = None  # None: sent


class Pace:
    """Waits so that not more than ``rate`` messages a second are sent."""

    def __init__(
        self,
        rate: float | None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.rate = rate
        self._clock, self._sleep = clock, sleep
        self._due = clock()

    @property
    def batch(self) -> int:
        """How many to send at once, so that a rate of 20 is not two bursts of ten."""
        return ENTRIES_MAX if self.rate is None else max(1, min(ENTRIES_MAX, int(self.rate / _SLICES_PER_S)))

    def wait(self, count: int) -> None:
        """Wait until ``count`` messages may be sent. Time that was lost is not made up for."""
        if self.rate is None:
            return
        now = self._clock()
        if self._due > now:
            self._sleep(self._due - now)
        self._due = max(self._due, now) + count / self.rate


def send_all(
    target: Target, queue_url: str, messages: Iterable[MessageToSend], pace: Pace
) -> Iterator[list[Outcome]]:
    """Yields after each request. Raises ApiError if a whole request is refused, as all later ones would be."""
    for batch in _batches(messages, pace.batch):
        pace.wait(len(batch))
        entries = [{"Id": str(i), **message.members} for i, message in enumerate(batch)]
        answer = target.sqs("SendMessageBatch", QueueUrl=queue_url, Entries=entries)
        outcomes = {
            int(sent["Id"]): Outcome(
                batch[int(sent["Id"])].number, sent["MessageId"], sent.get("SequenceNumber")
            )
            for sent in answer.get("Successful") or ()
        }
        for failed in answer.get("Failed") or ():
            error = f"{failed['Code']}: {failed.get('Message', '')}"
            outcomes[int(failed["Id"])] = Outcome(batch[int(failed["Id"])].number, error=error)
        yield [outcomes[i] for i in sorted(outcomes)]


def _batches(messages: Iterable[MessageToSend], size: int) -> Iterator[list[MessageToSend]]:
    batch: list[MessageToSend] = []
    batch_bytes = 0
    for message in messages:
        message_bytes = bytes_of(message.members)
        if batch and (len(batch) == size or batch_bytes + message_bytes > MESSAGE_BYTES_MAX):
            yield batch
            batch, batch_bytes = [], 0
        batch.append(message)
        batch_bytes += message_bytes
    if batch:
        yield batch


def bytes_of(members: dict[str, Any]) -> int:
    """How large a message is, as SQS counts: its body, and names, types and values of its attributes."""
    size = _utf8_bytes(members["MessageBody"])
    for name, attribute in members.get("MessageAttributes", {}).items():
        size += _utf8_bytes(name) + sum(
            len(value) * 3 // 4 if member == "BinaryValue" else _utf8_bytes(value)  # it is in base64
            for member, value in attribute.items()
        )
    return size


def _utf8_bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def read_attribute(text: str) -> tuple[str, dict[str, str]]:
    """Parses "name=value" or "name:Number=3" into an attribute as SQS takes it. Binary values are given in base64."""
    name, equals, value = text.partition("=")
    name, colon, kind = name.partition(":")
    kind = kind if colon else "String"
    if not equals or not name or kind.partition(".")[0] not in ("String", "Number", "Binary"):
        raise Failure(
            f'"{text}" is not an attribute: expected name=value, name:Number=3 or name:Binary=BASE64'
        )
    return name, sqs_attribute(kind, value)


def sqs_attribute(kind: str, value: str) -> dict[str, str]:
    member = "BinaryValue" if kind.partition(".")[0] == "Binary" else "StringValue"
    return {"DataType": kind, member: value}


def read_body(body: str | None, file: Path | None) -> str:
    """Reads the body of a message: BODY, @FILE, a file, or standard input."""
    if body is not None and body.startswith("@"):
        file = Path(body[1:])
    elif body is not None and body != "-":
        return body
    if file is None and body is None and sys.stdin.isatty():
        raise Failure("no body: give it as an argument, with --file, or on standard input")
    content = sys.stdin.buffer.read() if file is None else file.read_bytes()
    try:
        return content.decode()
    except UnicodeDecodeError:
        where = "standard input" if file is None else f'"{file}"'
        raise Failure(
            f"{where} is not UTF-8 text: messages are text; encode other content, for example in base64"
        ) from None
