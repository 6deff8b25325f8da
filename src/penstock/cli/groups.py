"""Groups of commands: one word for one thing, and a hint for a mistyped word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterable

# Spellings of the version before, for the present ones. They still work; help and docs do not show them.
FORMER_WORDS = {
    "list": "ls", "get": "show", "add": "create", "put": "set", "remove": "delete", "rm": "delete",
    "reroot": "replace-root", "reseal": "reencrypt",
}  # fmt: skip
_SIMILAR = {"ls": "status", "list": "status"}  # words of other groups, for what a group has instead


class CommandGroup(click.Group):
    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        return super().get_command(ctx, name) or super().get_command(ctx, FORMER_WORDS.get(name, name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            known = self.list_commands(ctx)
            meant = _SIMILAR.get(name)
            ctx.fail(f'No such command "{name}"{did_you_mean(meant if meant in known else name, known)}')
        return super().resolve_command(ctx, args)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown name: the known one that is most like it, if there is one."""
    from difflib import get_close_matches

    near = get_close_matches(name.lower(), known, n=1)
    return f': did you mean "{near[0]}"?' if near else ""
