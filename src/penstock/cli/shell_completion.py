"""Completion in the shell: commands, their options and arguments, names of queues, ids of messages."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress

import click
from click.shell_completion import ShellComplete
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from penstock.cli.arguments import QUEUE
from penstock.cli.target import Target
from penstock.client.api import ApiError, ApiSession, Unavailable, quoted

_TIMEOUT_S = 2  # a server that hangs must not keep the prompt from answering
_SHOWN_MAX = 50


class ShellCompleter(Completer):
    """What follows a command of the command line is completed as in any other shell: by click."""

    def __init__(
        self, target: Target, main: click.Command, words: dict[str, str], queue: Callable[[], str | None]
    ) -> None:
        """``words``: the shell's own commands, with a line on each."""
        self._session = ApiSession.of(target.endpoint, timeout_s=_TIMEOUT_S)
        self._context = click.Context(main, obj=target)
        self._use = click.Argument(["queue"], type=QUEUE)
        self._click = ShellComplete(main, {"obj": target}, "penstock", "_PENSTOCK_COMPLETE")
        self._words = words
        self._queue = queue

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        text = document.text_before_cursor
        try:
            words = shlex.split(text)
        except ValueError:
            return  # an open quotation mark
        typed = words.pop() if words and not text[-1:].isspace() else ""
        for value, meaning in self._candidates(words, typed):
            if value.startswith(typed):
                yield Completion(value, start_position=-len(typed), display_meta=meaning)

    def _candidates(self, before: list[str], typed: str) -> Iterable[tuple[str, str]]:
        if not before:
            yield from self._words.items()
        elif before[0] == "use" and len(before) == 1:
            yield from ((item.value, "") for item in QUEUE.shell_complete(self._context, self._use, typed))
            return
        elif before[0] == "id" and len(before) == 1:
            yield from self._ids(typed)
            return
        for item in self._click.get_completions(before, typed):
            if item.value not in self._words or before:
                yield item.value, item.help or ""

    def _ids(self, typed: str) -> Iterator[tuple[str, str]]:
        queue = self._queue()
        with suppress(ApiError, Unavailable):
            if queue is None or not self._session.is_penstock:
                return
            query = {"limit": _SHOWN_MAX, "body_bytes": 0}
            page = self._session.admin("GET", f"/queues/{quoted(queue)}/messages", query)
            yield from ((each["id"], each["state"]) for each in page["messages"])
