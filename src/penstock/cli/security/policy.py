"""``penstock policy``: what users and roles may do, and what the broker would decide."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from penstock.auth.authorize import Permission
from penstock.auth.identity.admin import (
    Subject,
    attach,
    attached_to,
    detach,
    find_role,
    find_user,
    put_policy,
    remove_policy,
)
from penstock.auth.identity.model import Account, CredentialsContent, Role, unique_id
from penstock.auth.identity.principals import Principals, document_text, named_policy, unknown_keys_warning
from penstock.auth.identity.sessions import Session
from penstock.auth.policy import Policy, Question, Verdict, compile_policy, decide
from penstock.auth.policy.vocabulary import builtin_policies, is_unknown
from penstock.auth.principal import ANONYMOUS, Principal
from penstock.cli.failure import Failure
from penstock.cli.groups import CommandGroup
from penstock.cli.security.identity import (
    CredentialsFile,
    account_option,
    is_there,
    pairs,
    policy_names,
    read_policy,
    table,
    with_file,
)
from penstock.clock import real_s
from penstock.names import Arn, partition_of

_SESSION_NAME = "test"
_TAGS = {
    "aws:principaltag/": "principal_tags",
    "aws:resourcetag/": "resource_tags",
    "aws:requesttag/": "request_tags",
}
_PLAIN = {"aws:sourceip": "source_ip", "aws:sourcearn": "source_arn", "aws:sourceaccount": "source_account"}
_TIMES = {"aws:currenttime": "now_s", "aws:epochtime": "now_s", "aws:tokenissuetime": "issued_s"}


@click.group("policy", cls=CommandGroup)
def command() -> None:
    """Policies: what users and roles may do. The language is that of AWS IAM.

    \b
    Examples:
      penstock policy ls
      penstock policy attach sqs-send --user alice
      penstock policy attach ./orders.json --role worker
      penstock policy test --user alice --action sqs:SendMessage \\
          --resource arn:aws:sqs:us-east-1:000000000000:orders
    """


@command.command("ls")
@with_file
def list_(file: CredentialsFile) -> None:
    """List the policies that can be attached: built in, and those of the credentials file.

    \b
    Examples:
      penstock policy ls
      penstock policy ls --json | jq -r 'select(.attached_to == []) | .name'
    """
    content = file.read() if is_there(file.path) else CredentialsContent()
    found = [(name, "built in", attached_to(content, name)) for name in builtin_policies()]
    found += [(name, "custom", attached_to(content, name)) for name in content.policies]
    if file.out.as_json:
        file.out.json_lines({"name": name, "kind": kind, "attached_to": to} for name, kind, to in found)
        return
    table(
        [("NAME", "KIND", "ATTACHED TO"), *((name, kind, ", ".join(to) or "-") for name, kind, to in found)]
    )


@command.command("show")
@click.argument("name")
@with_file
def show(file: CredentialsFile, name: str) -> None:
    """Print a policy.

    \b
    Example:
      penstock policy show sqs-send
    """
    content = CredentialsContent() if name in builtin_policies() else file.read()
    text = document_text(named_policy(content, name)).strip()
    if file.out.as_json:
        file.out.json(json.loads(text))
    else:
        click.echo(text)


@command.command("create")
@click.argument("name")
@click.argument("document", type=click.Path(path_type=Path))
@with_file
def create(file: CredentialsFile, name: str, document: Path) -> None:
    """Add a policy from a JSON file.

    \b
    Example:
      penstock policy create orders ./orders.json
    """
    _write(file, name, document, replaces=False)


@command.command("set")
@click.argument("name")
@click.argument("document", type=click.Path(path_type=Path))
@with_file
def put(file: CredentialsFile, name: str, document: Path) -> None:
    """Replace a policy for all users and roles that have it, or add it if there is none of this name.

    \b
    Example:
      penstock policy set orders ./orders.json
    """
    _write(file, name, document, replaces=True)


def _write(file: CredentialsFile, name: str, document: Path, *, replaces: bool) -> None:
    with file.changed() as content:
        if name in content.policies and not replaces:
            raise Failure(f'there is a policy "{name}": replace it with "penstock policy set"')
        put_policy(content, name, read_policy(document))
    file.out.result(f"wrote policy {name} to {file.path}", name=name, file=str(file.path))
    _warn_of_unknown_keys([_compiled(content, name)])


@command.command("delete")
@click.argument("name")
@with_file
def remove(file: CredentialsFile, name: str) -> None:
    """Remove a policy that is not attached.

    \b
    Example:
      penstock policy delete orders
    """
    with file.changed() as content:
        remove_policy(content, name)
    file.out.result(f"removed policy {name}", removed=name)


@command.command("attach")
@click.argument("policy", metavar="NAME|FILE.json")
@click.option("--user", metavar="NAME", help="The user to attach it to.")
@click.option("--role", metavar="NAME", help="The role to attach it to.")
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
    with file.changed() as content:
        subject = _find(content, user, role, account)
        (name,) = policy_names(content, [policy])
        attach(content, subject, name)
    file.out.result(
        f"{name} is attached to {file.arn_of(subject)}", policy=name, attached_to=file.arn_of(subject)
    )
    _warn_of_unknown_keys([_compiled(content, name)])


@command.command("detach")
@click.argument("policy", metavar="NAME")
@click.option("--user", metavar="NAME", help="The user to detach it from.")
@click.option("--role", metavar="NAME", help="The role to detach it from.")
@account_option
@with_file
def detach_(
    file: CredentialsFile, policy: str, user: str | None, role: str | None, account: str | None
) -> None:
    """Detach a policy from a user or role.

    \b
    Example:
      penstock policy detach sqs-send --user alice
    """
    with file.changed() as content:
        subject = _find(content, user, role, account)
        detach(subject, policy)
    file.out.result(
        f"{policy} is detached from {file.arn_of(subject)}", policy=policy, detached_from=file.arn_of(subject)
    )


@command.command("test")
@click.option("--user", metavar="NAME", help='The caller; "root" for the root of the account.')
@click.option("--role", metavar="NAME", help="The caller is a session of this role.")
@click.option("--anonymous", is_flag=True, help="The caller did not sign.")
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
    help="A condition key, such as aws:SourceIp=10.0.0.1 or aws:TagKeys=team,stage.",
)
@account_option
@with_file
def test(
    file: CredentialsFile, user: str | None, role: str | None, anonymous: bool, action: str, resource: str,
    queue_policy: Path | None, context: tuple[str, ...], account: str | None,
) -> None:  # fmt: skip
    """Print what the broker would decide, and which statement decides it. Exit code 0: allowed. 1: denied.

    The policy of the queue is not known here: give it with --queue-policy.

    \b
    Examples:
      penstock policy test --user alice --action sqs:SendMessage \\
          --resource arn:aws:sqs:us-east-1:000000000000:orders
      penstock policy test --anonymous --action sqs:SendMessage --queue-policy ./queue.json \\
          --resource arn:aws:sqs:us-east-1:000000000000:drop-box --context aws:SourceIp=10.0.0.1
    """
    if anonymous and (user or role):
        raise Failure("give one of --user, --role, --anonymous")
    content = CredentialsContent() if anonymous else file.read()
    subject = None if anonymous else _find(content, user, role, account)
    policy = None
    if queue_policy is not None:
        policy = compile_policy(read_policy(queue_policy, "resource"), kind="resource")
    principal = _principal_of(content, subject, partition_of(file.config.region))
    given = pairs(context, "--context")
    if len({key.lower() for key in given}) < len(context):
        raise Failure("give each key of --context once")
    verdict = _ask(principal, action, resource, policy, given)
    _warn_of_unknown_keys([*principal.policies, *([] if policy is None else [policy])])
    text = f"{'allowed' if verdict.allowed else 'denied'}: {verdict.reason.removeprefix('allowed ')}"
    if verdict.policy is not None:
        text += f"\npolicy {verdict.policy}, statement {verdict.statement}"
    file.out.result(
        text,
        allowed=verdict.allowed,
        reason=verdict.reason,
        policy=verdict.policy,
        statement=verdict.statement,
    )
    sys.exit(0 if verdict.allowed else 1)


def _compiled(content: CredentialsContent, name: str) -> Policy:
    return compile_policy(document_text(named_policy(content, name)), kind="identity", name=name)


def _warn_of_unknown_keys(policies: Iterable[Policy]) -> None:
    for policy in policies:
        if policy.unknown_keys:
            click.echo(f"penstock: {unknown_keys_warning(policy)}", err=True)


def _find(content: CredentialsContent, user: str | None, role: str | None, account: str | None) -> Subject:
    if user is not None and role is None:
        return find_user(content, user, account)
    if role is not None and user is None:
        return find_role(content, role, account)
    raise Failure("give either --user or --role")


# -- the question of penstock policy test -------------------------------------------------------------------


def _principal_of(content: CredentialsContent, subject: Subject | None, partition: str) -> Principal:
    if subject is None:
        return ANONYMOUS
    principals = Principals(content, partition)
    if isinstance(subject.owner, Account):
        return principals.root(subject.account, "")
    if not isinstance(subject.owner, Role):
        return principals.user(subject.account, subject.name, "")
    session = Session(
        kind="role", account=subject.account, owner=subject.name, owner_id=unique_id(subject.owner, subject.arn),
        parent_key="", parent_id="", issued_s=int(real_s()), expires_s=0, name=_SESSION_NAME,
    )  # fmt: skip
    return principals.session(session, "")


def _ask(
    principal: Principal, action: str, resource: str, policy: Policy | None, context: Mapping[str, str]
) -> Verdict:
    arn = Arn.parse(resource)
    if arn is None:
        raise Failure(
            f'invalid value "{resource}" for --resource: expected an ARN (arn:aws:sqs:REGION:ACCOUNT:QUEUE)'
        )
    asked: dict[str, Any] = {"now_s": real_s(), "keys": {}, **{tags: {} for tags in _TAGS.values()}}
    for key, value in context.items():
        _put_key(asked, key, value)
    issued_s = asked.pop("issued_s", principal.issued_s)
    tags = _merged_tags(principal.tags, asked.pop("principal_tags"))
    tag_keys = asked.pop("tag_keys", ())
    row = _row(action)
    return decide(
        Question(
            principal=msgspec.structs.replace(principal, issued_s=issued_s, tags=tags),
            action=action if row is None else row.permission,
            grantable=row is None or row.grantable,
            root_always=row is not None and row.root_always,
            resource=resource,
            resource_account=arn.account,
            resource_policy=policy,
            tag_keys=tuple(dict.fromkeys((*tag_keys, *asked["request_tags"]))),
            **asked,
        )
    )


def _row(action: str) -> Permission | None:
    """The row of ``sqs:SendMessage`` in the table of its service."""
    from penstock.server.compose import SERVICES  # the whole server, which is not needed for help texts

    for service, _ in SERVICES:
        for name, row in service.actions.items():
            if row.permission and f"{service.name}:{name}".lower() == action.lower():
                return row
    return None


def _merged_tags(tags: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Conditions ignore the case of a tag's key."""
    replaced = {name.lower() for name in given}
    return {name: value for name, value in tags.items() if name.lower() not in replaced} | dict(given)


def _put_key(asked: dict[str, Any], key: str, value: str) -> None:
    name = key.lower()
    for prefix, tags in _TAGS.items():
        if name.startswith(prefix):
            asked[tags][key[len(prefix) :]] = value
            return
    if name in _PLAIN:
        asked[_PLAIN[name]] = value
    elif name == "aws:securetransport":
        asked["secure"] = value.lower() == "true"
    elif name in _TIMES:
        asked[_TIMES[name]] = _time(key, value)
    elif name == "aws:tagkeys":
        asked["tag_keys"] = tuple(value.split(","))
    elif name == "sts:transitivetagkeys":
        asked["keys"][name] = tuple(value.split(","))
    elif is_unknown(key):
        raise Failure(f"unknown key {key} in --context: no request has it here")
    elif name.startswith("aws:"):
        raise Failure(f"invalid key {key} in --context: it follows from the caller and from --resource")
    else:
        asked["keys"][name] = value


def _time(key: str, value: str) -> float:
    try:
        return float(value) if key.lower() == "aws:epochtime" else datetime.fromisoformat(value).timestamp()
    except ValueError:
        raise Failure(
            f'invalid value "{value}" for --context {key}: expected a time such as 2026-01-31T12:00:00Z'
        ) from None
