"""``penstock role``: roles that users and other accounts can assume."""

from __future__ import annotations

import json
from pathlib import Path

import click

from penstock.auth.identity.admin import Subject, add_role, find_role, trust_document
from penstock.auth.identity.model import DEFAULT_MAX_SESSION_S, MAX_SESSION_S, Role
from penstock.auth.identity.principals import document_text
from penstock.cli.failure import Failure
from penstock.cli.groups import CommandGroup
from penstock.cli.security.identity import (
    CredentialsFile,
    account_option,
    add_delete_and_revoke,
    change_tags,
    equip,
    holder_facts,
    holder_rows,
    now,
    read_policy,
    table,
    with_file,
)


@click.group("role", cls=CommandGroup)
def command() -> None:
    """Roles: permissions that users and other accounts can assume temporarily (AssumeRole).

    \b
    Examples:
      penstock role create deployer --trust alice --policy sqs-full-access
      penstock role create auditor --trust 444455556666 --external-id 7F3K --policy sqs-read-only
      penstock role set deployer --max-session 43200
      penstock role ls
    """


@command.command("create")
@click.argument("name")
@account_option
@click.option(
    "--trust", multiple=True, required=True, metavar="WHO|FILE.json",
    help="Who may assume it: a user's name, an ARN, an account, or a file with a trust policy.",
)  # fmt: skip
@click.option("--external-id", metavar="TEXT", help="The ExternalId that AssumeRole must give.")
@click.option(
    "--allow-tags",
    is_flag=True,
    help="Allow tags of the session, which replace those of the role.",
)
@click.option("--policy", "policies", multiple=True, metavar="NAME|FILE.json", help="What it may do.")
@click.option(
    "--max-session", type=click.IntRange(DEFAULT_MAX_SESSION_S, MAX_SESSION_S), default=DEFAULT_MAX_SESSION_S,
    show_default=True, metavar="SECONDS", help="How long a session may be.",
)  # fmt: skip
@click.option(
    "--tag", "tags", multiple=True, metavar="KEY=VALUE", help="A tag, for conditions on aws:PrincipalTag."
)
@with_file
def add(
    file: CredentialsFile, name: str, account: str | None, trust: tuple[str, ...], external_id: str | None,
    allow_tags: bool, policies: tuple[str, ...], max_session: int, tags: tuple[str, ...],
) -> None:  # fmt: skip
    """Add a role.

    A user of the role's account that is trusted by name needs no policy. A trusted account decides which of its users
    may assume the role: by a policy that allows sts:AssumeRole, such as assume-roles.

    Policies with aws:PrincipalTag trust the tags of a session, and --allow-tags (sts:TagSession) lets the caller of
    AssumeRole choose them. Tags that are inherited in a chain of roles need it, too.

    \b
    Examples:
      penstock role create deployer --trust alice --trust bob --policy sqs-full-access
      penstock role create batch --trust ./trust.json --policy ./batch.json --max-session 43200
    """
    account = account or file.config.account
    document = _trust(trust, account, external_id, allow_tags)
    with file.changed() as content:
        subject = add_role(content, account, name, document, max_session, now())
        equip(content, subject, policies, tags)
    file.out.result(file.arn_of(subject), arn=file.arn_of(subject))


@command.command("ls")
@with_file
def list_(file: CredentialsFile) -> None:
    """List roles.

    \b
    Examples:
      penstock role ls
      penstock role ls --json
    """
    rows, objects = [("NAME", "ACCOUNT", "MAX SESSION", "POLICIES")], []
    for number, account in sorted(file.read().accounts.items()):
        for name, role in sorted(account.roles.items()):
            policies = [*role.policies, *role.inline]
            rows.append((name, number, f"{role.max_session} s", ", ".join(policies) or "-"))
            objects.append(
                {"name": name, "account": number, "max_session_s": role.max_session, "policies": policies}
            )
    if file.out.as_json:
        file.out.json_lines(objects)
    else:
        table(rows)


@command.command("show")
@click.argument("name")
@account_option
@with_file
def show(file: CredentialsFile, name: str, account: str | None) -> None:
    """Show one role and its trust policy.

    \b
    Example:
      penstock role show worker
    """
    subject, role = _find(file, name, account)
    if file.out.as_json:
        file.out.json(_as_json(file, subject, role))
        return
    table([("arn", file.arn_of(subject)), ("max session", f"{role.max_session} s"), *holder_rows(role)])
    click.echo(f"\n{document_text(role.trust).strip()}")


@command.command("set")
@click.argument("name")
@account_option
@click.option(
    "--trust", multiple=True, metavar="WHO|FILE.json",
    help="Who may assume it from now on: a user's name, an ARN, an account, or a file with a trust policy.",
)  # fmt: skip
@click.option("--external-id", metavar="TEXT", help="With --trust: the ExternalId that AssumeRole must give.")
@click.option(
    "--allow-tags", is_flag=True,
    help="With --trust: allow tags of the session, which replace those of the role.",
)  # fmt: skip
@click.option(
    "--max-session", type=click.IntRange(DEFAULT_MAX_SESSION_S, MAX_SESSION_S), metavar="SECONDS",
    help="How long a session may be.",
)  # fmt: skip
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="Add a tag, or change its value.")
@click.option("--untag", multiple=True, metavar="KEY", help="Remove a tag.")
@with_file
def set_(
    file: CredentialsFile, name: str, account: str | None, trust: tuple[str, ...], external_id: str | None,
    allow_tags: bool, max_session: int | None, tags: tuple[str, ...], untag: tuple[str, ...],
) -> None:  # fmt: skip
    """Change who may assume a role, how long its sessions may be, and its tags. What is not given stays as it is.

    --trust replaces the whole trust policy. Present sessions stay: penstock role revoke ends them. For policies, see
    penstock policy attach and detach.

    \b
    Examples:
      penstock role set deployer --trust alice --trust carol
      penstock role set deployer --max-session 43200
      penstock role set deployer --tag team=orders --untag owner
    """
    if not trust and (external_id is not None or allow_tags):
        raise click.UsageError(
            "--external-id and --allow-tags are parts of the trust policy: give --trust, too"
        )
    if not (trust or max_session or tags or untag):
        raise click.UsageError("nothing to change: give --trust, --max-session, --tag or --untag")
    with file.changed() as content:
        subject = find_role(content, name, account)
        role = subject.owner
        assert isinstance(role, Role)
        if trust:
            role.trust = _trust(trust, subject.account, external_id, allow_tags)
        if max_session is not None:
            role.max_session = max_session
        change_tags(subject, tags, untag)
    file.out.result(f"changed {file.arn_of(subject)}", **_as_json(file, subject, role))


add_delete_and_revoke(
    command,
    find_role,
    delete_help="Remove a role. Its sessions end.",
    revoke_help="End all present sessions of a role. It can be assumed again.",
)


def _as_json(file: CredentialsFile, subject: Subject, role: Role) -> dict[str, object]:
    trust = json.loads(document_text(role.trust))
    return {
        "arn": file.arn_of(subject),
        "max_session_s": role.max_session,
        "trust": trust,
        **holder_facts(role),
    }


def _find(file: CredentialsFile, name: str, account: str | None) -> tuple[Subject, Role]:
    subject = find_role(file.read(), name, account)
    assert isinstance(subject.owner, Role)
    return subject, subject.owner


def _trust(given: tuple[str, ...], account: str, external_id: str | None, allow_tags: bool) -> str:
    if not any(each.endswith(".json") for each in given):
        return trust_document(given, account, external_id, allow_tags=allow_tags)
    if len(given) > 1 or external_id is not None or allow_tags:
        raise Failure(
            "a trust policy in a file is complete: give --trust once, and neither --external-id nor --allow-tags"
        )
    return read_policy(Path(given[0]), "trust")
