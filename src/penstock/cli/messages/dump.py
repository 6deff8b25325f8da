"""``penstock dump``: writes the messages of a queue as JSON lines."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import click

from penstock.cli.arguments import DURATION, queue_argument
from penstock.cli.failure import Failure
from penstock.cli.messages.admin_queue import AdminQueue, as_listed, chosen, with_filter
from penstock.cli.output import counted_messages, json_text
from penstock.cli.queues.facts import messages_in
from penstock.cli.target import Target, with_target
from penstock.client.api import ApiError, Json
from penstock.client.limits import ENTRIES_MAX

STANDARD = Path("-")  # standard input or output
_BODY_BYTES = 4 * 1024 * 1024  # of bodies in a page; longer ones are read one by one
_LAST_POLL_S = 2  # Amazon SQS asks all of its servers only if a receive waits


@click.command("dump")
@queue_argument
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False, allow_dash=True))
@with_filter
@click.option("--resume", is_flag=True, help="Continue an interrupted dump to FILE.")
@click.option(
    "--receive", is_flag=True, help="Receive the messages, which counts: the only way with Amazon SQS."
)
@click.option(
    "--visibility", type=DURATION, default=600.0, help="With --receive: hide them for this long.  [10m]"
)
@with_target
def command(
    target: Target, queue: str, file: Path, resume: bool, receive: bool, visibility: float, **flags: Any
) -> None:
    """Write the messages of QUEUE to FILE, one JSON object a line. Nothing is received, hidden or counted.

    All states and all attributes are written; penstock load sends them again. FILE "-" is standard output. What an
    interrupted dump needs to continue is kept in FILE.state.

    With Amazon SQS, a message can be read by receiving it only. With --receive, messages are received, written, and
    made visible again at the end. That counts as a receive, and can send messages to the dead-letter queue.

    \b
    Examples:
      penstock dump orders orders.jsonl
      penstock dump orders orders.jsonl --resume
      penstock dump orders-dlq - --where '$.customer = 7' | jq .body
      penstock dump orders orders.jsonl --receive --endpoint-url aws
    """
    filter = chosen(flags)
    if receive:
        if filter or resume:
            raise Failure("--receive takes all messages that it gets: it cannot filter or resume")
        count = _received(target, target.queue_url(queue), file, round(visibility))
    elif target.is_penstock:
        count = write_messages(target, AdminQueue(target, queue), filter, file, None, resume=resume)
    else:
        raise Failure(
            "dump needs Penstock to read messages without receiving them. With Amazon SQS, give --receive: that"
            " counts as a receive, and can send messages to the dead-letter queue"
        )
    target.out.note(f"wrote {counted_messages(count)}")


def write_messages(
    target: Target, admin: AdminQueue, filter: Json, file: Path, maximum: int | None, *, resume: bool = False
) -> int:
    """Returns how many were written. After each page of a file the place to continue at is saved."""
    state = _DumpState.read(file, admin.name, filter) if resume else _DumpState(file, admin.name, filter)
    unreadable, total = 0, messages_in(admin.call("GET"))
    with _opened(file, state.offset) as stream, target.out.progress("dumping", total) as progress:
        for page, after in admin.pages({**filter, "body_bytes": _BODY_BYTES}, state.after):
            for message in page[: None if maximum is None else maximum - state.count]:
                whole = _whole(admin, message)
                if whole is not None:
                    _write(stream, whole)
                    state.count += 1
                    unreadable += "unreadable" in message
            progress(state.count)
            if state.count == maximum:
                break
            if after is not None:
                state.save(stream, after)
    state.remove()
    if unreadable:
        target.out.note(f"without a body, because its key cannot be used or it is damaged: {unreadable}")
    return state.count


def _write(stream: IO[bytes], message: Json) -> None:
    line = json_text(message, terminal=stream.isatty())
    stream.write(line.encode("utf-8", "surrogatepass") + b"\n")


def _whole(admin: AdminQueue, message: Json) -> Json | None:
    """The message with its whole body; None if it was deleted since it was listed."""
    try:
        return admin.whole(message)
    except ApiError as error:
        if error.code != "MessageDoesNotExist":
            raise
        return None


class _DumpState:
    """Where a dump is, in a small file beside it."""

    def __init__(
        self, file: Path, queue: str, filter: Json, after: str | None = None, count: int = 0, offset: int = 0
    ) -> None:
        self.after, self.count, self.offset = after, count, offset
        self._of = {"queue": queue, "filter": filter}
        self._path = None if file == STANDARD else file.with_name(f"{file.name}.state")

    @classmethod
    def read(cls, file: Path, queue: str, filter: Json) -> _DumpState:
        path = file.with_name(f"{file.name}.state")
        try:
            saved = json.loads(path.read_bytes())
            state = cls(file, queue, filter, saved["after"], saved["count"], saved["offset"])
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            raise Failure(f'there is no interrupted dump to resume: "{path}" is missing or damaged') from None
        if (saved.get("queue"), saved.get("filter")) != (queue, filter):
            raise Failure(f'"{path}" is of a dump of {saved.get("queue")} with other conditions')
        return state

    def save(self, stream: IO[bytes], after: str) -> None:
        """What is written so far is complete up to ``after``."""
        self.after = after
        if self._path is None:
            return
        stream.flush()
        self.offset = stream.tell()
        saved = {**self._of, "after": after, "count": self.count, "offset": self.offset}
        temporary = self._path.with_name(f"{self._path.name}.new")
        temporary.write_text(json.dumps(saved), encoding="utf-8")
        temporary.replace(self._path)

    def remove(self) -> None:
        if self._path is not None:
            self._path.unlink(missing_ok=True)


@contextmanager
def _opened(file: Path, offset: int = 0) -> Iterator[IO[bytes]]:
    """Opens the file to write from ``offset`` on. Messages may be secret: only the user may read a new file."""
    if file == STANDARD:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with open(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as stream:
        stream.truncate(offset)
        stream.seek(offset)
        yield stream


def _received(target: Target, url: str, file: Path, visibility_s: int) -> int:
    """Receives until a receive that waits is empty. Each message is written once, however often it is received."""
    handles: dict[str, str] = {}
    with _opened(file) as stream, target.out.progress("receiving") as progress:
        try:
            while messages := _next_messages(target, url, visibility_s):
                for message in messages:
                    if message["MessageId"] not in handles:
                        _write(stream, as_listed(message))
                    handles[message["MessageId"]] = message["ReceiptHandle"]
                progress(len(handles))
        finally:
            _make_visible(target, url, list(handles.values()))
    return len(handles)


def _next_messages(target: Target, url: str, visibility_s: int) -> list[Json]:
    answer = target.sqs(
        "ReceiveMessage", QueueUrl=url, MaxNumberOfMessages=ENTRIES_MAX, VisibilityTimeout=visibility_s,
        WaitTimeSeconds=_LAST_POLL_S, MessageSystemAttributeNames=["All"], MessageAttributeNames=["All"],
    )  # fmt: skip
    return answer.get("Messages") or []


def _make_visible(target: Target, url: str, handles: list[str]) -> None:
    for start in range(0, len(handles), ENTRIES_MAX):
        entries = [
            {"Id": str(i), "ReceiptHandle": handle, "VisibilityTimeout": 0}
            for i, handle in enumerate(handles[start : start + ENTRIES_MAX])
        ]
        target.sqs("ChangeMessageVisibilityBatch", QueueUrl=url, Entries=entries)
