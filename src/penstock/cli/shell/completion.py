"""Completion in the shell: commands, their options and arguments, names of queues, ids of messages."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator

import click
from click.shell_completion import CompletionItem, ShellComplete
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from penstock.cli.arguments import MESSAGE_ID, QUEUE
from penstock.cli.target import Target


class ShellCompleter(Completer):
    """What follows a command of the command line is completed as in any other shell: by click."""

    def __init__(
        self, target: Target, main: click.Command, words: dict[str, str], queue: Callable[[], str | None]
    ) -> None:
        """``words``: the shell's own commands, with a line on each."""
        self._context = click.Context(main, obj=target)  # of the shell's own commands
        self._parameter = click.Argument(["word"])
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
        for item in self._candidates(words, typed):
            if item.value.startswith(typed):
                yield Completion(item.value, start_position=-len(typed), display_meta=item.help or "")

    def _candidates(self, before: list[str], typed: str) -> Iterator[CompletionItem]:
        if not before:
            yield from (CompletionItem(word, help=text) for word, text in self._words.items())
            others = self._click.get_completions(before, typed)
            yield from (item for item in others if item.value not in self._words)
        elif before == ["use"]:
            yield from QUEUE.shell_complete(self._context, self._parameter, typed)
        elif before == ["id"]:
            self._context.params["queue"] = self._queue()
            yield from MESSAGE_ID.shell_complete(self._context, self._parameter, typed)
        else:
            yield from self._click.get_completions(before, typed)
