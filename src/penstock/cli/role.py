"""``penstock role``."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.auth.identity.book import DEFAULT_MAX_SESSION_S, MAX_SESSION_S, Role
from penstock.auth.identity.editing import Found, add_role, find_role, trust_document
from penstock.auth.identity.principals import document_text
from penstock.cli.ending import add_ending_commands
from penstock.cli.failure import Failure
from penstock.cli.identity import (
    CredentialsFile,
    account_option,
    equip,
    holder_rows,
    now,
    read_text,
    table,
    with_file,
)


@click.group("role")
def command() -> None:
    """Roles: permissions that users and other accounts can take on for a while (AssumeRole).

    \b
    Examples:
      penstock role add deployer --trust alice --policy sqs-full-access
      penstock role add auditor --trust 444455556666 --external-id 7F3K --policy sqs-read-only
      penstock role list
    """


@command.command("add")
@click.argument("name")
@account_option
@click.option(
    "--trust", multiple=True, required=True, metavar="WHO|FILE.json",
    help="Who may assume it: a user's name, an ARN, an account, or a file with a trust policy.",
)  # fmt: skip
@click.option("--external-id", metavar="TEXT", help="What whoever assumes it has to say.")
@click.option(
    "--allow-tags",
    is_flag=True,
    help="Whoever assumes it may tag the session, in place of the role's own tags.",
)
@click.option("--policy", "policies", multiple=True, metavar="NAME|FILE.json", help="What it may do.")
@click.option(
    "--max-session", type=click.IntRange(DEFAULT_MAX_SESSION_S, MAX_SESSION_S), default=DEFAULT_MAX_SESSION_S,
    show_default=True, metavar="SECONDS", help="How long a session may be.",
)  # fmt: skip
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="Conditions can look at tags.")
@with_file
def add(
    file: CredentialsFile, name: str, account: str | None, trust: tuple[str, ...], external_id: str | None,
    allow_tags: bool, policies: tuple[str, ...], max_session: int, tags: tuple[str, ...],
) -> None:  # fmt: skip
    """Add a role.

    A user of the role's account needs nothing else than to be trusted by name. An account that is trusted decides
    itself which of its users may: by a policy that allows sts:AssumeRole, such as assume-roles.

    Policies with aws:PrincipalTag believe the tags of a session, and --allow-tags (sts:TagSession) lets whoever
    assumes the role choose them. Inherited tags, in a chain of roles, need it too.

    \b
    Examples:
      penstock role add deployer --trust alice --trust bob --policy sqs-full-access
      penstock role add batch --trust ./trust.json --policy ./batch.json --max-session 43200
    """
    account = account or file.config.account
    document = _trust(trust, account, external_id, allow_tags)
    with file.changed() as book:
        found = add_role(book, account, name, document, max_session, now())
        equip(book, found, policies, tags)
    click.echo(found.arn)


@command.command("list")
@with_file
def list_(file: CredentialsFile) -> None:
    """List roles."""
    rows = [("NAME", "ACCOUNT", "MAX SESSION", "POLICIES")]
    for number, account in sorted(file.read().accounts.items()):
        for name, role in sorted(account.roles.items()):
            policies = ", ".join([*role.policies, *role.inline])
            rows.append((name, number, f"{role.max_session} s", policies or "-"))
    table(rows)


@command.command("show")
@click.argument("name")
@account_option
@with_file
def show(file: CredentialsFile, name: str, account: str | None) -> None:
    """Show one role and whom it trusts."""
    found, role = _find(file, name, account)
    table([("arn", found.arn), ("max session", f"{role.max_session} s"), *holder_rows(role)])
    click.echo(f"\n{document_text(role.trust).strip()}")


add_ending_commands(
    command,
    find_role,
    removing="Remove a role. Its sessions end.",
    revoking="End all sessions of a role so far. Whoever it trusts can assume it anew.",
)


def _find(file: CredentialsFile, name: str, account: str | None) -> tuple[Found, Role]:
    found = find_role(file.read(), name, account)
    assert isinstance(found.owner, Role)
    return found, found.owner


def _trust(given: tuple[str, ...], account: str, external_id: str | None, allow_tags: bool) -> str:
    if not any(each.endswith(".json") for each in given):
        return trust_document(given, account, external_id, allow_tags=allow_tags)
    if len(given) > 1 or external_id is not None or allow_tags:
        raise Failure(
            "a trust policy in a file says it all: give --trust once, and neither --external-id nor --allow-tags"
        )
    return read_text(Path(given[0]))
