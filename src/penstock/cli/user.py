"""``penstock user``."""

from __future__ import annotations

import sys

import click

from penstock.auth.identity.access_keys import Pair
from penstock.auth.identity.book import ROOT, Account, Book, Holder
from penstock.auth.identity.editing import (
    Found,
    add_key,
    add_user,
    find_key,
    find_user,
    retire_older_keys,
    taken_over,
)
from penstock.cli.ending import add_ending_commands
from penstock.cli.failure import Failure
from penstock.cli.identity import (
    CredentialsFile,
    account_option,
    equip,
    holder_rows,
    now,
    shown_key,
    table,
    with_file,
)


@click.group("user")
def command() -> None:
    """Users and their access keys. A running broker takes changes up within about two seconds.

    The name "root" stands for the account itself: whoever has its key may do everything in the account.

    \b
    Examples:
      penstock user add alice --policy sqs-full-access
      penstock user list
      penstock user rotate alice              adds a second key
      penstock user rotate alice --finish     removes the first
    """


@command.command("add")
@click.argument("name")
@account_option
@click.option("--policy", "policies", multiple=True, metavar="NAME|FILE.json", help="What the user may do.")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="Conditions can look at tags.")
@click.option(
    "--key", metavar="ID", help="A key that clients already have; its secret comes on standard input."
)
@with_file
def add(
    file: CredentialsFile, name: str, account: str | None, policies: tuple[str, ...], tags: tuple[str, ...],
    key: str | None,
) -> None:  # fmt: skip
    """Add a user with an access key, and print it. The secret is shown here, and by penstock env.

    The file is made if there is none, and so is a root key beside it, with which secrets are sealed.

    \b
    Examples:
      penstock user add alice --policy sqs-full-access
      penstock user add worker --policy sqs-receive --policy ./orders.json --tag team=orders
      penstock user add root --account 111122223333
      penstock user add legacy --key AKIAIOSFODNN7EXAMPLE < secret.txt
    """
    given = None if key is None else taken_over(key, _asked_for_secret(key))
    with file.changed() as book:
        found = add_user(book, account or file.config.account, name, now())
        equip(book, found, policies, tags)
        pair = add_key(found, file.root_key_or_new(book), now(), given)
    if given is None:
        _show_new(found, pair)
    if not policies and name != ROOT:
        click.echo(
            f"penstock: {name} may do nothing yet but what queues' own policies allow: see penstock policy attach",
            err=True,
        )


@command.command("list")
@with_file
def list_(file: CredentialsFile) -> None:
    """List users, their keys and their policies."""
    rows = [("NAME", "ACCOUNT", "KEYS", "POLICIES")]
    for found in _all(file.read()):
        keys = ", ".join(key.id if key.active else f"{key.id} (inactive)" for key in found.keys)
        policies = (
            "everything" if found.name == ROOT else ", ".join([*found.holder.policies, *found.holder.inline])
        )
        rows.append((found.name, found.account, keys or "-", policies or "-"))
    table(rows)


@command.command("show")
@click.argument("name")
@account_option
@with_file
def show(file: CredentialsFile, name: str, account: str | None) -> None:
    """Show one user. Secrets are not shown: penstock env prints them."""
    found = find_user(file.read(), name, account)
    rows = [("arn", found.arn), *(("key", shown_key(key)) for key in found.keys)]
    if isinstance(found.owner, Holder):
        rows += holder_rows(found.owner)
    table(rows)


@command.command("rotate")
@click.argument("name")
@account_option
@click.option("--finish", is_flag=True, help="Remove all keys but the newest.")
@click.option("--retire", metavar="KEY", help="Remove this key.")
@click.option("--deactivate", metavar="KEY", help="Refuse this key from now on, but keep it.")
@click.option("--activate", metavar="KEY", help="Take a deactivated key again.")
@with_file
def rotate(
    file: CredentialsFile, name: str, account: str | None, finish: bool, **changes: str | None
) -> None:
    """Change a user's key without downtime: add a second key, give it to the clients, remove the first.

    A session lives no longer than the key it was made with; taking the key again does not bring it back.

    \b
    Examples:
      penstock user rotate alice
      penstock user rotate alice --deactivate AKIAIOSFODNN7EXAMPLE    does anybody still use it?
      penstock user rotate alice --finish
    """
    asked = [(what, key) for what, key in changes.items() if key is not None]
    if len(asked) + finish > 1:
        raise Failure("give one of --finish, --retire, --deactivate, --activate")
    if not asked and not finish:
        _add_second(file, name, account)
        return
    with file.changed() as book:
        found = find_user(book, name, account)
        said = _finished(found) if finish else _changed_key(found, *asked[0])
    click.echo(said)


add_ending_commands(
    command,
    find_user,
    removing="Remove a user with all keys. Its sessions end too.",
    revoking="End all sessions so far that came from the user's keys, those of roles too. The keys themselves go on.",
)


def _all(book: Book) -> list[Found]:
    found = []
    for number, account in sorted(book.accounts.items()):
        if account.keys:
            found.append(Found(number, ROOT, account))
        found += [Found(number, name, user) for name, user in sorted(account.users.items())]
    return found


def _add_second(file: CredentialsFile, name: str, account: str | None) -> None:
    with file.changed() as book:
        found = find_user(book, name, account)
        pair = add_key(found, file.root_key_for(book), now())
    _show_new(found, pair)


def _finished(found: Found) -> str:
    return f"removed {', '.join(retire_older_keys(found))}"


def _changed_key(found: Found, what: str, key_id: str) -> str:
    key = find_key(found, key_id)
    if what == "retire":
        found.keys.remove(key)
        return f"removed {key_id}"
    if what == "activate" and not key.active:
        key.end_sessions(now())  # what deactivating has ended does not come back
    key.status = "active" if what == "activate" else "inactive"
    return f"{key_id} is {key.status}"


def _asked_for_secret(key_id: str) -> str:
    """Never an argument: those are for everyone on the machine to read."""
    if sys.stdin.isatty():
        secret: str = click.prompt(f"Secret of {key_id}", hide_input=True, err=True)
        return secret
    try:
        return sys.stdin.buffer.readline().decode().strip()
    except UnicodeDecodeError:
        raise Failure("the secret on standard input is not UTF-8 text") from None


def _show_new(found: Found, pair: Pair) -> None:
    who = "root" if isinstance(found.owner, Account) else f"user {found.name}"
    click.echo(f"penstock: {who} of account {found.account} has a new key", err=True)
    click.echo(f"AWS_ACCESS_KEY_ID={pair.id}\nAWS_SECRET_ACCESS_KEY={pair.secret}")
