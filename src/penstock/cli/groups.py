"""Groups of commands: one word for one thing, and an answer to a word that a group does not have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from penstock.cli.failure import Failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

VERBS = ("ls", "show", "create", "set", "delete")  # they mean the same in every group
# Spellings of the version before, for the present ones. They still work; help and docs do not show them.
FORMER_WORDS = {
    "list": "ls", "get": "show", "add": "create", "put": "set", "remove": "delete", "rm": "delete",
    "reroot": "replace-root", "reseal": "reencrypt",
}  # fmt: skip


class CommandGroup(click.Group):
    def __init__(
        self,
        *arguments: Any,
        missing: Mapping[str, str] | None = None,
        aliases: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        """``missing``: for each of the VERBS that the group does not have, what a user who tries it should know.
        ``aliases``: other words for its commands, which their help names."""
        super().__init__(*arguments, **options)
        self.missing = missing or {}
        self.aliases = aliases or {}

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        return super().get_command(ctx, name) or super().get_command(ctx, self._present(name))

    def _present(self, name: str) -> str:
        return self.aliases.get(name) or FORMER_WORDS.get(name, name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if self.get_command(ctx, name) is None and not name.startswith("-"):
            verb = self._present(name)
            if verb in self.missing:
                raise Failure(f'there is no "penstock {self.name} {name}": {self.missing[verb]}')
            ctx.fail(f'No such command "{name}"{did_you_mean(name, self.list_commands(ctx))}')
        return super().resolve_command(ctx, args)


def words_of_groups(main: click.Group) -> dict[str, list[str]]:
    """Returns the commands of the groups whose name users leave out most: "peek" for "message peek"."""
    context = click.Context(main)
    groups = {each: main.get_command(context, each) for each in ("message", "queue")}
    return {
        each: [*group.list_commands(context), *group.aliases]
        for each, group in groups.items()
        if isinstance(group, CommandGroup)
    }


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown name: the known one that is most like it, if there is one."""
    from difflib import get_close_matches

    near = get_close_matches(name.lower(), known, n=1)
    return f': did you mean "{near[0]}"?' if near else ""
