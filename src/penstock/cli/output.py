"""What commands print: laid out and coloured in a terminal, plain text in a pipe, JSON on request.

Bodies and names come from others: their control characters never reach a terminal.
"""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import click

from penstock.cli.failure import Breakdown, Failure


class Styled(NamedTuple):
    """A cell of a table, or a part of a line, that a terminal shows in a colour."""

    value: str | int | float | None
    colour: str


Cell = str | int | float | Styled | None

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print JSON, a line for each element of a list."
)


class Output:
    def __init__(self, as_json: bool = False) -> None:
        self.as_json = as_json
        self.is_terminal = sys.stdout.isatty()

    def json(self, value: Any) -> None:
        """Print one object on one line; indented in a terminal."""
        click.echo(json_text(value, terminal=self.is_terminal, indent=2 if self.is_terminal else None))

    def result(self, text: str, **facts: Any) -> None:
        """Print what a command has done: a text, or with --json the facts in it."""
        if self.as_json:
            self.json(facts)
        else:
            self.line(text)

    def json_line(self, value: Any) -> None:
        """Print one object of a list."""
        click.echo(json_text(value, terminal=self.is_terminal))

    def json_lines(self, values: Iterable[Any]) -> None:
        for value in values:
            self.json_line(value)

    def line(self, *parts: str | Styled, **style: Any) -> None:
        """Print one line, or several at line breaks. ``style``: as of ``click.style``; only a terminal shows it."""
        texts = (safe(str(part.value if isinstance(part, Styled) else part), lines=True) for part in parts)
        shown = "".join(_coloured(text, part) for text, part in zip(texts, parts, strict=True))
        click.echo(click.style(shown, **style) if style else shown)

    def note(self, text: str) -> None:
        """Print a line for people, beside the output."""
        click.echo(safe(text), err=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Cell]]) -> None:
        """Print a table. Numbers are aligned to the right. A column that starts with "_" has no heading."""
        cells = [list(row) for row in rows]
        lines = [[cell_text(cell) for cell in row] for row in cells]
        numeric = [_are_numbers([line[i] for line in lines]) for i in range(len(columns))]
        widths = [max([_width(name), *(_width(line[i]) for line in lines)]) for i, name in enumerate(columns)]

        def padded(text: str, i: int) -> str:
            space = " " * (widths[i] - _width(text))
            return f"{space}{text}" if numeric[i] else text if i == len(columns) - 1 else f"{text}{space}"

        headings = ["" if name.startswith("_") else name for name in columns]
        self.line("  ".join(padded(name, i) for i, name in enumerate(headings)).rstrip(), bold=True)
        for row, line in zip(cells, lines, strict=True):
            shown = (_coloured(padded(text, i), row[i]) for i, text in enumerate(line))
            click.echo("  ".join(shown).rstrip())

    def facts(self, pairs: Iterable[tuple[str, Cell]]) -> None:
        """Print one thing, with a line for each of its facts."""
        shown = [(safe(name), cell_text(value)) for name, value in pairs if value is not None]
        width = max((len(name) for name, _ in shown), default=0)
        for name, value in shown:
            label = click.style(f"{name:<{width}}", bold=True)
            click.echo(f"{label}  {value}")

    @contextmanager
    def progress(self, what: str, total: int | None = None) -> Iterator[Callable[[int], None]]:
        """Yields what is called with the number done so far. In a pipe nothing is drawn."""
        if self.as_json or not sys.stderr.isatty():
            yield lambda done: None
            return
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as drawn:
            task = drawn.add_task(safe(what), total=total)
            yield lambda done: drawn.update(task, completed=done)

    def confirm(self, question: str, yes: bool) -> None:
        """Ends the command if the answer is no. Without a terminal, only --yes is a yes."""
        if yes:
            return
        question = safe(question)
        if not sys.stdin.isatty():
            raise Failure(f"{question} Give --yes to do it without being asked.")
        if not click.confirm(question, err=True):
            raise Breakdown("nothing was changed")


def json_text(value: Any, *, terminal: bool, indent: int | None = None) -> str:
    """The value as JSON; for a ``terminal`` in ASCII, because JSON escapes everything else, also what would control
    it."""
    return json.dumps(value, indent=indent, ensure_ascii=terminal)


def safe(text: str, *, lines: bool = False) -> str:
    """Escapes control characters and the like. With ``lines``, line breaks and tabs stay."""
    kept = "\n\t" if lines else ""
    return "".join(c if c.isprintable() or c in kept else _escape(c) for c in text)


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()


def shortened(text: str, width: int) -> str:
    text = safe(text)
    return text if len(text) <= width else f"{text[: width - 1]}…"


def counted_messages(count: int) -> str:
    return "1 message" if count == 1 else f"{count} messages"


def _coloured(text: str, cell: object) -> str:
    return click.style(text, fg=cell.colour) if isinstance(cell, Styled) else text


def cell_text(cell: Cell) -> str:
    if isinstance(cell, Styled):
        return cell_text(cell.value)
    if cell is None:
        return "-"
    return safe(f"{cell:.1f}" if isinstance(cell, float) else str(cell))


def _are_numbers(cells: list[str]) -> bool:
    known = [cell for cell in cells if cell != "-"]
    return bool(known) and all(cell.replace(".", "", 1).isdigit() for cell in known)


def _width(text: str) -> int:
    """The width in columns of a terminal: East Asian characters take two."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)
