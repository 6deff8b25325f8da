"""``penstock user``: users and their access keys."""

from __future__ import annotations

import sys

import click

from penstock.auth.identity.access_keys import Pair
from penstock.auth.identity.admin import (
    Subject,
    add_key,
    add_user,
    find_key,
    find_user,
    imported_key,
    retire_older_keys,
)
from penstock.auth.identity.model import ROOT, Account, CredentialsContent, PolicyHolder
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
    shown_key,
    table,
    with_file,
)


@click.group("user", cls=CommandGroup)
def command() -> None:
    """Users and their access keys. A running broker reads changes within about two seconds.

    The name "root" is the account itself: its key may do everything in the account.

    \b
    Examples:
      penstock user create alice --policy administrator
      penstock user ls
      penstock user set alice --tag team=orders
      penstock user rotate alice              adds a second key
      penstock user rotate alice --finish     removes the first
    """


@command.command("create")
@click.argument("name")
@account_option
@click.option("--policy", "policies", multiple=True, metavar="NAME|FILE.json", help="What the user may do.")
@click.option(
    "--tag", "tags", multiple=True, metavar="KEY=VALUE", help="A tag, for conditions on aws:PrincipalTag."
)
@click.option(
    "--key", metavar="ID", help="A key that clients already have; its secret comes on standard input."
)
@with_file
def add(
    file: CredentialsFile, name: str, account: str | None, policies: tuple[str, ...], tags: tuple[str, ...],
    key: str | None,
) -> None:  # fmt: skip
    """Add a user with an access key, and print it. The secret is shown here, and by penstock env.

    A missing credentials file is created, and so is a root key beside it, which encrypts the secrets.

    \b
    Examples:
      penstock user create alice --policy administrator
      penstock user create worker --policy sqs-receive --policy ./orders.json --tag team=orders
      penstock user create root --account 111122223333
      penstock user create legacy --key AKIAIOSFODNN7EXAMPLE < secret.txt
      penstock user create ci --policy sqs-send --json | jq -r .secret_key
    """
    given = None if key is None else imported_key(key, _read_secret(key))
    with file.changed() as content:
        subject = add_user(content, account or file.config.account, name, now())
        equip(content, subject, policies, tags)
        pair = add_key(subject, file.root_key_or_new(content), now(), given)
    if given is None:
        _show_new(file, subject, pair)
    else:
        file.out.result(f"added {file.arn_of(subject)}", arn=file.arn_of(subject), access_key=pair.id)
    if not policies and name != ROOT:
        click.echo(
            f"penstock: {name} has no policies yet and may do nothing: penstock policy ls shows what there is, "
            f"penstock policy attach administrator --user {name} allows everything",
            err=True,
        )


@command.command("ls")
@with_file
def list_(file: CredentialsFile) -> None:
    """List users, their keys and their policies.

    \b
    Examples:
      penstock user ls
      penstock user ls --json | jq -r 'select(.keys | length > 1) | .arn'
    """
    if file.out.as_json:
        file.out.json_lines(_as_json(file, subject) for subject in _all(file.read()))
        return
    rows = [("NAME", "ACCOUNT", "KEYS", "POLICIES")]
    for subject in _all(file.read()):
        keys = ", ".join(key.id if key.active else f"{key.id} (inactive)" for key in subject.keys)
        policies = (
            "everything"
            if subject.name == ROOT
            else ", ".join([*subject.holder.policies, *subject.holder.inline])
        )
        rows.append((subject.name, subject.account, keys or "-", policies or "-"))
    table(rows)


@command.command("show")
@click.argument("name")
@account_option
@with_file
def show(file: CredentialsFile, name: str, account: str | None) -> None:
    """Show one user. Secrets are not shown: penstock env prints them.

    \b
    Examples:
      penstock user show alice
      penstock user show root --account 111122223333
    """
    subject = find_user(file.read(), name, account)
    if file.out.as_json:
        holder = subject.owner if isinstance(subject.owner, PolicyHolder) else None
        file.out.json(_as_json(file, subject) | ({} if holder is None else holder_facts(holder)))
        return
    rows = [("arn", file.arn_of(subject)), *(("key", shown_key(key)) for key in subject.keys)]
    if isinstance(subject.owner, PolicyHolder):
        rows += holder_rows(subject.owner)
    table(rows)


@command.command("set")
@click.argument("name")
@account_option
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="Add a tag, or change its value.")
@click.option("--untag", multiple=True, metavar="KEY", help="Remove a tag.")
@with_file
def set_(
    file: CredentialsFile, name: str, account: str | None, tags: tuple[str, ...], untag: tuple[str, ...]
) -> None:
    """Change the tags of a user, for conditions on aws:PrincipalTag. Other tags stay as they are.

    For policies, see penstock policy attach and detach; for keys, penstock user rotate.

    \b
    Examples:
      penstock user set alice --tag team=orders --tag stage=prod
      penstock user set alice --untag stage
    """
    if not (tags or untag):
        raise click.UsageError("nothing to change: give --tag or --untag")
    with file.changed() as content:
        subject = find_user(content, name, account)
        change_tags(subject, tags, untag)
    facts = _as_json(file, subject) | holder_facts(subject.holder)
    file.out.result(f"changed {file.arn_of(subject)}", **facts)


@command.command("rotate")
@click.argument("name")
@account_option
@click.option("--finish", is_flag=True, help="Remove all keys but the newest.")
@click.option("--retire", metavar="KEY", help="Remove this key.")
@click.option("--deactivate", metavar="KEY", help="Refuse this key from now on.")
@click.option("--activate", metavar="KEY", help="Accept a deactivated key again.")
@with_file
def rotate(
    file: CredentialsFile, name: str, account: str | None, finish: bool, **changes: str | None
) -> None:
    """Change a user's key without downtime: add a second key, give it to the clients, remove the first.

    A session ends with the key it was created with, and stays ended if the key is activated again.

    \b
    Examples:
      penstock user rotate alice
      penstock user rotate alice --deactivate AKIAIOSFODNN7EXAMPLE    is it still in use?
      penstock user rotate alice --finish
    """
    asked = [(what, key) for what, key in changes.items() if key is not None]
    if len(asked) + finish > 1:
        raise Failure("give one of --finish, --retire, --deactivate, --activate")
    if not asked and not finish:
        _add_second(file, name, account)
        return
    with file.changed() as content:
        subject = find_user(content, name, account)
        removed = retire_older_keys(subject) if finish else []
        done = f"removed {', '.join(removed)}" if finish else _changed_key(subject, *asked[0])
    file.out.result(done, **_as_json(file, subject))


add_delete_and_revoke(
    command,
    find_user,
    delete_help="Remove a user with all keys. Its sessions end too.",
    revoke_help="End all present sessions that came from the user's keys, those of roles too. The keys stay valid.",
)


def _as_json(file: CredentialsFile, subject: Subject) -> dict[str, object]:
    """The root of an account has no policies: it may do everything."""
    holder = subject.owner if isinstance(subject.owner, PolicyHolder) else None
    return {
        "name": subject.name,
        "account": subject.account,
        "arn": file.arn_of(subject),
        "keys": [{"id": key.id, "active": key.active} for key in subject.keys],
        "policies": [] if holder is None else [*holder.policies, *holder.inline],
    }


def _all(content: CredentialsContent) -> list[Subject]:
    found = []
    for number, account in sorted(content.accounts.items()):
        if account.keys:
            found.append(Subject(number, ROOT, account))
        found += [Subject(number, name, user) for name, user in sorted(account.users.items())]
    return found


def _add_second(file: CredentialsFile, name: str, account: str | None) -> None:
    with file.changed() as content:
        subject = find_user(content, name, account)
        pair = add_key(subject, file.root_key_for(content), now())
    _show_new(file, subject, pair)


def _changed_key(subject: Subject, what: str, key_id: str) -> str:
    key = find_key(subject, key_id)
    if what == "retire":
        subject.keys.remove(key)
        return f"removed {key_id}"
    if what == "activate" and not key.active:
        key.end_sessions(now())  # sessions that deactivating ended stay ended
    key.status = "active" if what == "activate" else "inactive"
    return f"{key_id} is {key.status}"


def _read_secret(key_id: str) -> str:
    """Reads the secret from standard input. It is not an argument: other users of the machine can read those."""
    if sys.stdin.isatty():
        secret: str = click.prompt(f"Secret of {key_id}", hide_input=True, err=True)
        return secret
    try:
        return sys.stdin.buffer.readline().decode().strip()
    except UnicodeDecodeError:
        raise Failure("the secret on standard input is not UTF-8 text") from None


def _show_new(file: CredentialsFile, subject: Subject, pair: Pair) -> None:
    who = "root" if isinstance(subject.owner, Account) else f"user {subject.name}"
    click.echo(f"penstock: {who} of account {subject.account} has a new key", err=True)
    file.out.result(
        f"AWS_ACCESS_KEY_ID={pair.id}\nAWS_SECRET_ACCESS_KEY={pair.secret}",
        arn=file.arn_of(subject),
        access_key=pair.id,
        secret_key=pair.secret,
    )
