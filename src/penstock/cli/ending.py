"""``remove`` and ``revoke``, which users and roles have alike."""

from __future__ import annotations

from collections.abc import Callable

import click

from penstock.auth.identity.book import Book
from penstock.auth.identity.editing import Found, remove
from penstock.cli.identity import CredentialsFile, account_option, now, with_file


def add_ending_commands(
    group: click.Group, find: Callable[[Book, str, str | None], Found], *, removing: str, revoking: str
) -> None:
    """``removing`` and ``revoking`` are what the two say about themselves."""

    @group.command("remove", help=removing)
    @click.argument("name")
    @account_option
    @with_file
    def remove_(file: CredentialsFile, name: str, account: str | None) -> None:
        with file.changed() as book:
            found = find(book, name, account)
            remove(book, found)
        click.echo(f"removed {found.arn}")

    @group.command("revoke", help=revoking)
    @click.argument("name")
    @account_option
    @with_file
    def revoke(file: CredentialsFile, name: str, account: str | None) -> None:
        with file.changed() as book:
            found = find(book, name, account)
            found.owner.end_sessions(now())
        click.echo(f"sessions of {found.arn} that began before {found.owner.sessions_since} are refused")
