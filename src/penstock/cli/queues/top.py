"""``penstock top``: a live table of queues."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from penstock.cli.arguments import DurationArgument, short_age, short_size
from penstock.cli.output import Cell, cell_text, safe
from penstock.cli.target import Target, with_target
from penstock.client.api import ApiError, Json, Unavailable
from penstock.clock import real_s

if TYPE_CHECKING:
    from rich.table import Table

_COLUMNS = (
    "QUEUE", "VISIBLE", "IN FLIGHT", "DELAYED", "OLDEST", "SENT/S", "RECEIVED/S", "DELETED/S", "SIZE", "DEAD LETTERS"
)  # fmt: skip
_SORTS = {
    "n": "name", "v": "visible", "f": "in_flight", "d": "delayed", "a": "age", "s": "sent_rate", "b": "bytes",
}  # fmt: skip
_HEADINGS = {
    "name": "QUEUE", "visible": "VISIBLE", "in_flight": "IN FLIGHT", "delayed": "DELAYED", "age": "OLDEST",
    "sent_rate": "SENT/S", "bytes": "SIZE",
}  # fmt: skip
_KEYS = "n name  v visible  f in flight  d delayed  a age  s sent  b size  r reverse  q end"
# A terminal that is narrower than this leaves the column out.
_WIDTH_MIN = {"RECEIVED/S": 100, "DELETED/S": 100, "SIZE": 120, "DEAD LETTERS": 120}
_FRAME = 6  # lines around the rows


@click.command("top")
@click.option("--sort", type=click.Choice([*_SORTS.values()]), default="visible", show_default=True)
@click.option("--reverse", is_flag=True, help="Smallest first; by name: last first.")
@click.option("--contains", metavar="TEXT", help="Only queues with this text in their names.")
@click.option("--kind", type=click.Choice(["standard", "fifo", "dlq"]), help="Only queues of this kind.")
@click.option("--interval", type=DurationArgument(0.2, 3600), default=2.0, help="Between two readings.  [2s]")
@click.option("--once", is_flag=True, help="Print the table once, as in a pipe.")
@click.option(
    "--max", "count", type=click.IntRange(1, 1000), default=1000, help="Queues at most, with --once."
)
@with_target
def command(
    target: Target, sort: str, reverse: bool, contains: str | None, kind: str | None, interval: float, once: bool,
    count: int,
) -> None:  # fmt: skip
    """Show queues with their numbers of messages, the age of the oldest, and rates over the last minute.

    The table is renewed until q is pressed. Keys choose the order; they are shown below it.

    \b
    Examples:
      penstock top
      penstock top --sort age --kind dlq
      penstock top --once --max 5
      penstock top --once --json | jq 'select(.oldest_age_s > 600) | .name'
    """
    target.need_penstock("top")
    view = _View(target, sort, reverse, {"contains": contains, "kind": kind})
    if once or not target.out.is_terminal or target.out.as_json:
        queues = view.read(count)
        if target.out.as_json:
            target.out.json_lines(queues)
        else:
            target.out.table(_COLUMNS, map(_row, queues))
        return
    _live(view, interval)


class _View:
    """What is asked of the server, and how it is drawn."""

    def __init__(self, target: Target, sort: str, reverse: bool, query: Json) -> None:
        self._target = target
        self._query = query
        self._sort = sort
        self._reverse = reverse

    def read(self, count: int) -> list[Json]:
        # Most first, but names from A to Z.
        descending = (self._sort != "name") != self._reverse
        query = {**self._query, "sort": self._sort, "descending": str(descending).lower(), "limit": count}
        queues: list[Json] = self._target.admin("GET", "/queues", query)["queues"]
        return queues

    def press(self, key: str) -> None:
        if key == "r":
            self._reverse = not self._reverse
        elif key in _SORTS:
            self._sort, self._reverse = _SORTS[key], False

    def drawn(self, width: int, lines: int) -> Table:
        """Draws the table for a terminal of this size. A server that does not answer is asked again with the next
        reading."""
        from rich import box
        from rich.table import Table
        from rich.text import Text

        problem, queues = "", []
        try:
            queues = self.read(max(1, min(1000, lines - _FRAME)))
        except (ApiError, Unavailable) as error:
            problem = safe(str(error))
        title = Text(
            f"{safe(self._target.endpoint.url)}  {time.strftime('%H:%M:%S', time.localtime(real_s()))}  {problem}"
        )
        table = Table(
            box=box.SIMPLE_HEAD, title=title, title_justify="left", caption=Text(_KEYS), expand=True
        )
        shown = [i for i, name in enumerate(_COLUMNS) if width >= _WIDTH_MIN.get(name, 0)]
        for name in (_COLUMNS[i] for i in shown):
            is_text = name in ("QUEUE", "DEAD LETTERS")
            table.add_column(
                name, justify="left" if is_text else "right", no_wrap=True, overflow="ellipsis",
                ratio=1 if is_text else None, header_style="bold cyan" if name == _HEADINGS[self._sort] else "bold",
            )  # fmt: skip
        for queue in queues:
            row = _row(queue)
            table.add_row(*(Text(cell_text(row[i])) for i in shown), style=_style(queue))
        return table


def _row(queue: Json) -> list[Cell]:
    return [
        queue["name"], queue["visible"], queue["in_flight"], queue["delayed"],
        short_age(queue.get("oldest_age_s")),
        float(queue["sent_rate"]), float(queue["received_rate"]), float(queue["deleted_rate"]),
        short_size(queue["bytes"]), queue.get("dead_letter_queue"),
    ]  # fmt: skip


def _style(queue: Json) -> str | None:
    """Dead letters are what a person on call looks for first."""
    has_dead_letters = queue["is_dead_letter_queue"] and queue["visible"]
    return "red" if has_dead_letters else None


def _live(view: _View, interval: float) -> None:
    from rich.live import Live

    with _keys() as pressed, Live(screen=True, auto_refresh=False) as live:
        while True:
            live.update(view.drawn(live.console.width, live.console.height), refresh=True)
            key = pressed(interval)
            if key == "q":
                return
            view.press(key)


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """Yields what waits for a key for this many seconds, and returns the key, or nothing."""
    if not sys.stdin.isatty():

        def no_keys(seconds: float) -> str:
            time.sleep(seconds)
            return ""

        yield no_keys
        return
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)

    def pressed(seconds: float) -> str:
        if not select.select([terminal], [], [], seconds)[0]:
            return ""
        return os.read(terminal, 1).decode(errors="ignore") or "q"  # the end of the input is the end

    tty.setcbreak(terminal)
    try:
        yield pressed
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)
