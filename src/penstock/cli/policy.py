"""``penstock policy``."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import click

from penstock.auth.identity.book import Book
from penstock.auth.identity.editing import (
    Found,
    attach,
    attached_to,
    detach,
    find_role,
    find_user,
    put_policy,
    remove_policy,
)
from penstock.auth.identity.managed import MANAGED
from penstock.auth.identity.principals import document_text, named_policy, oddity
from penstock.auth.policy import Policy, compile_policy
from penstock.cli.failure import Failure
from penstock.cli.identity import (
    CredentialsFile,
    account_option,
    pairs,
    policy_names,
    read_text,
    table,
    with_file,
)
from penstock.cli.policy_question import ask, principal_of, resource_policy


@click.group("policy")
def command() -> None:
    """Policies: what users and roles may do. The language is that of AWS IAM.

    \b
    Examples:
      penstock policy list
      penstock policy attach sqs-send --user alice
      penstock policy attach ./orders.json --role worker
      penstock policy test --user alice --action sqs:SendMessage \\
          --resource arn:aws:sqs:us-east-1:000000000000:orders
    """


@command.command("list")
@with_file
def list_(file: CredentialsFile) -> None:
    """List the policies that can be attached: built in, and the file's own."""
    book = file.read() if file.path.exists() else Book()
    rows = [("NAME", "KIND", "ATTACHED TO")]
    for kind, policies in (("built in", MANAGED), ("own", book.policies)):
        rows += [(name, kind, ", ".join(attached_to(book, name)) or "-") for name in policies]
    table(rows)


@command.command("show")
@click.argument("name")
@with_file
def show(file: CredentialsFile, name: str) -> None:
    """Print a policy."""
    book = Book() if name in MANAGED else file.read()
    click.echo(document_text(named_policy(book, name)).strip())


@command.command("put")
@click.argument("name")
@click.argument("document", type=click.Path(path_type=Path))
@with_file
def put(file: CredentialsFile, name: str, document: Path) -> None:
    """Add a policy from a file with JSON, or replace it for all whom it is attached to.

    \b
    Example:
      penstock policy put orders ./orders.json
    """
    with file.changed() as book:
        put_policy(book, name, read_text(document))
    click.echo(f"policy {name} is in {file.path}")
    _tell_oddities([_compiled(book, name)])


@command.command("remove")
@click.argument("name")
@with_file
def remove(file: CredentialsFile, name: str) -> None:
    """Remove a policy that is attached to nobody."""
    with file.changed() as book:
        remove_policy(book, name)
    click.echo(f"removed policy {name}")


@command.command("attach")
@click.argument("policy", metavar="NAME|FILE.json")
@click.option("--user", metavar="NAME", help="Whom to attach it to.")
@click.option("--role", metavar="NAME", help="What to attach it to.")
@account_option
@with_file
def attach_(
    file: CredentialsFile, policy: str, user: str | None, role: str | None, account: str | None
) -> None:
    """Attach a policy to a user or role.

    \b
    Examples:
      penstock policy attach sqs-full-access --user alice
      penstock policy attach ./orders.json --role worker
    """
    with file.changed() as book:
        found = _find(book, user, role, account)
        (name,) = policy_names(book, [policy])
        attach(book, found, name)
    click.echo(f"{name} is attached to {found.arn}")
    _tell_oddities([_compiled(book, name)])


@command.command("detach")
@click.argument("policy", metavar="NAME")
@click.option("--user", metavar="NAME", help="Whom to detach it from.")
@click.option("--role", metavar="NAME", help="What to detach it from.")
@account_option
@with_file
def detach_(
    file: CredentialsFile, policy: str, user: str | None, role: str | None, account: str | None
) -> None:
    """Detach a policy from a user or role."""
    with file.changed() as book:
        found = _find(book, user, role, account)
        detach(found, policy)
    click.echo(f"{policy} is detached from {found.arn}")


@command.command("test")
@click.option("--user", metavar="NAME", help='Who asks; "root" for the root of the account.')
@click.option("--role", metavar="NAME", help="Who asks: a session of this role.")
@click.option("--anonymous", is_flag=True, help="Who asks did not sign.")
@click.option("--action", required=True, metavar="ACTION", help="Such as sqs:SendMessage.")
@click.option(
    "--resource", required=True, metavar="ARN", help="Such as arn:aws:sqs:us-east-1:000000000000:orders."
)
@click.option(
    "--queue-policy", type=click.Path(path_type=Path), metavar="FILE", help="The queue's own policy."
)
@click.option(
    "--context",
    multiple=True,
    metavar="KEY=VALUE",
    help="What conditions see, such as aws:SourceIp=10.0.0.1 or aws:TagKeys=team,stage.",
)
@account_option
@with_file
def test(
    file: CredentialsFile, user: str | None, role: str | None, anonymous: bool, action: str, resource: str,
    queue_policy: Path | None, context: tuple[str, ...], account: str | None,
) -> None:  # fmt: skip
    """Say what the broker would decide, and which statement decides it. Exit code 0: allowed. 1: denied.

    Policies of a queue are not known here: give the one that counts with --queue-policy.

    \b
    Examples:
      penstock policy test --user alice --action sqs:SendMessage \\
          --resource arn:aws:sqs:us-east-1:000000000000:orders
      penstock policy test --anonymous --action sqs:SendMessage --queue-policy ./queue.json \\
          --resource arn:aws:sqs:us-east-1:000000000000:drop-box --context aws:SourceIp=10.0.0.1
    """
    if anonymous and (user or role):
        raise Failure("give one of --user, --role, --anonymous")
    book = Book() if anonymous else file.read()
    found = None if anonymous else _find(book, user, role, account)
    policy = None if queue_policy is None else resource_policy(read_text(queue_policy), queue_policy)
    principal = principal_of(book, found)
    given = pairs(context, "--context")
    if len({key.lower() for key in given}) < len(context):
        raise Failure("each key of --context may be given once")
    verdict = ask(principal, action, resource, policy, given)
    _tell_oddities([*principal.policies, *([] if policy is None else [policy])])
    click.echo(f"{'allowed' if verdict.allowed else 'denied'}: {verdict.reason}")
    if verdict.policy is not None:
        click.echo(f"policy {verdict.policy}, statement {verdict.statement}")
    sys.exit(0 if verdict.allowed else 1)


def _compiled(book: Book, name: str) -> Policy:
    return compile_policy(document_text(named_policy(book, name)), kind="identity", name=name)


def _tell_oddities(policies: Iterable[Policy]) -> None:
    for policy in policies:
        if policy.unknown_keys:
            click.echo(f"penstock: {oddity(policy)}", err=True)


def _find(book: Book, user: str | None, role: str | None, account: str | None) -> Found:
    if user is not None and role is None:
        return find_user(book, user, account)
    if role is not None and user is None:
        return find_role(book, role, account)
    raise Failure("give either --user or --role")
