"""``penstock tail``: the last messages of a queue, and new ones as they come, without receiving them.

Messages are listed in the order of the queue. The cursor of the last page is kept and asked for again: what is new on
that page has come since. A page that became full has a next one.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Any

import click

from penstock.cli.arguments import DurationArgument, queue_argument
from penstock.cli.failure import printable
from penstock.cli.messages.admin_queue import AdminQueue, chosen, with_filter
from penstock.cli.output import safe, shortened
from penstock.cli.target import Target, with_target
from penstock.cli.times import shown_time
from penstock.client.api import Json, Unavailable

_LAST_MAX = 1000
_PAGE = 100  # while following: the last page is listed again and again
# A condition that no message meets: pages are only passed.
_NONE = {"receives_min": 2**31 - 1, "body_bytes": 0}
_WIDTH = 200


@click.command("tail")
@queue_argument
@click.option(
    "--follow",
    "-f",
    is_flag=True,
    help="Print new messages, too, until Ctrl-C; without it, tail ends at once.",
)
@click.option(
    "--lines", "-n", "count", type=click.IntRange(0, _LAST_MAX), default=10, show_default=True,
    help="Number of last messages to print.",
)  # fmt: skip
@with_filter
@click.option("--full", is_flag=True, help="Print whole bodies.")
@click.option(
    "--interval", type=DurationArgument(0.1, 3600), default=1.0, help="With -f: look this often.  [1s]"
)
@with_target
def command(
    target: Target, queue: str, follow: bool, count: int, full: bool, interval: float, **flags: Any
) -> None:
    """Print the last messages of QUEUE and end; with -f, wait and print new ones as they come.

    Nothing is received, hidden or counted. A message that is deleted sooner than tail looks again is not seen.

    \b
    Examples:
      penstock tail orders
      penstock tail -f orders
      penstock tail -f orders -n 0 --where '$.total > 1000' --json
    """
    target.need_penstock("tail")
    admin = AdminQueue(target, queue)
    following = _Following(admin, chosen(flags))
    for message in deque(following.new(), maxlen=count):
        _show(target, admin, message, full)
    is_lost = False
    while follow:
        time.sleep(interval)
        try:
            for message in following.new():
                _show(target, admin, message, full)
            is_lost = False
        except Unavailable as error:  # it may be restarted
            if not is_lost:
                target.out.note(f"{printable(str(error))}; trying again")
            is_lost = True


class _Following:
    """What has come since it was asked last; the first time, the messages on the last pages."""

    def __init__(self, admin: AdminQueue, filter: Json) -> None:
        self._admin = admin
        self._filter = {**filter, "limit": _PAGE}
        self._after = self._near_the_end()
        self._seen: set[str] = set()  # of the page after the cursor

    def _near_the_end(self) -> str | None:
        """A cursor with at least one page behind it, unless the queue is shorter."""
        cursors: deque[str | None] = deque([None, None], maxlen=2)
        for _, after in self._admin.pages(_NONE):
            if after is not None:
                cursors.append(after)
        return cursors[0]

    def new(self) -> Iterator[Json]:
        for page, after in self._admin.pages(self._filter, self._after):
            yield from (message for message in page if message["id"] not in self._seen)
            self._seen = self._seen | {message["id"] for message in page} if after is None else set()
            self._after = after or self._after


def _show(target: Target, admin: AdminQueue, message: Json, full: bool) -> None:
    if target.out.as_json:
        target.out.json_line(admin.whole(message))
        return
    body = admin.whole(message).get("body", "") if full else message.get("body", "")
    text = safe(body, lines=True) if full else shortened(body, _WIDTH)
    at = shown_time(message["enqueued_at"], target.out)
    group = f"  {safe(message['group'])}" if "group" in message else ""
    target.out.line(f"{at}  {message['id']}{group}  {text}")
