"""``penstock key``: the root key, and the keys that messages are encrypted under."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any

import click

from penstock.auth.encryption.keyring import Key, Keyring, KeyringError
from penstock.auth.encryption.root_key import (
    NEW_VARIABLE,
    VARIABLE,
    RootKey,
    RootKeyError,
    create_root_key_file,
    find_new_root_key,
)
from penstock.auth.identity import CredentialsError
from penstock.cli.failure import Failure
from penstock.cli.groups import CommandGroup
from penstock.cli.options import configured, with_these_settings
from penstock.cli.output import Output, json_option
from penstock.cli.security.identity import DEFAULT_FILE, is_there, table
from penstock.clock import SystemClock
from penstock.errors import KeyMissing
from penstock.server.compose import declare_services
from penstock.server.encryption import progress_of_shards, root_key
from penstock.server.replace_root_key import replace_root_key
from penstock.server.settings.config import Config

_ALIAS = re.compile(r"alias/(?!aws/)[A-Za-z0-9/_-]{1,250}")
_SETTINGS = ("data", "keyring", "root_key_file", "root_key_command", "credentials")

_AFTER_REPLACEMENT = """\
Give the server the new root key before you start it, and keep a copy of it away from the data.
Sessions have ended: clients with temporary credentials have to get new ones.
FIFO sends from before are not known as duplicates: if that matters, start the server five minutes after its stop.
If others may know the old root key, this alone does not end their access: see docs/encryption.md.
"""

Command = Callable[..., None]


_MISSING = {
    "set": 'use "penstock key rotate", "penstock key disable" or "penstock key enable"',
    "delete": 'messages that are encrypted with it could not be read; "penstock key disable" refuses its use',
}


@click.group("key", cls=CommandGroup, missing=_MISSING)
def command() -> None:
    """Encryption keys, and the root key that protects them. A running broker reads changes within seconds; only for
    replace-root it must be stopped.

    A key is named by its id, its alias (alias/NAME), or the ARN of either, as in a queue's KmsMasterKeyId.

    \b
    Examples:
      penstock key root /etc/penstock/penstock-root.key
      penstock key create --alias alias/orders
      penstock key rotate alias/orders
      penstock key ls
      penstock key replace-root --new-root-key-file new.key
    """


# -- settings ------------------------------------------------------------------------------------------------


def _with_key_settings(*more: str) -> Callable[[Command], Command]:
    """Adds the settings that lead to the keyring, and ``more``; the function gets the configuration and where to
    print first."""
    names = (*_SETTINGS, *more)

    def add(function: Command) -> Command:
        @json_option
        @with_these_settings(*names)
        @wraps(function)
        def run(as_json: bool, **given: Any) -> None:
            flags = {name: given.pop(name) for name in ("config", *names)}
            config = configured(flags, besides=(NEW_VARIABLE,))
            if config.credentials is None and is_there(DEFAULT_FILE):
                # As penstock user does: the root key may be beside the default file.
                config = replace(config, credentials=DEFAULT_FILE)
            try:
                function(config, Output(as_json), **given)
            except (RootKeyError, KeyringError, CredentialsError) as error:
                raise Failure(str(error)) from None
            except KeyMissing as error:
                raise Failure(f"there is no key {error.key}: see penstock key ls") from None

        return run

    return add


def _with_keyring(function: Command) -> Command:
    """The same with account and region; the function gets the keyring, too."""

    @_with_key_settings("account", "region")
    @wraps(function)
    def run(config: Config, out: Output, **given: Any) -> None:
        path = _existing_keyring(config)
        if path is None:
            raise Failure("a broker that keeps everything in memory has no keyring: give --keyring")
        function(config, out, Keyring(path, _present_root_key(config), SystemClock()), **given)

    return run


def _existing_keyring(config: Config) -> Path | None:
    """None if the settings have none. No command creates one: only the server knows whether its data needs an older
    keyring."""
    path = config.keyring_file
    if path is not None and not is_there(path):
        raise Failure(
            f"there is no keyring {path}: give the server's --config or --data; "
            "its first start with a root key creates it"
        )
    return path


def _present_root_key(config: Config) -> RootKey:
    found = root_key(config, os.environ)
    if found is None:
        raise Failure("there is no root key: give --root-key-file, or the server's --config")
    return found


# -- commands ------------------------------------------------------------------------------------------------


@command.command("root")
@click.argument("file", type=click.Path(path_type=Path))
@json_option
def root(file: Path, as_json: bool) -> None:
    """Create a root key in a new file that only you may read. Nothing is encrypted with it yet.

    Keep it away from the data and its backups, and keep a copy: without it nothing that is encrypted can be read.

    \b
    Example:
      penstock key root /etc/penstock/penstock-root.key
    """
    try:
        created = create_root_key_file(file)
    except RootKeyError as error:
        raise Failure(str(error)) from None
    Output(as_json).result(
        f"created {file} (fingerprint {created.fingerprint})", file=str(file), fingerprint=created.fingerprint
    )


@command.command("create")
@click.option("--alias", metavar="alias/NAME", help="A name for the key.")
@_with_keyring
def create(config: Config, out: Output, keyring: Keyring, alias: str | None) -> None:
    """Create a key, and print its ARN.

    \b
    Example:
      penstock key create --alias alias/orders --account 000000000000 --region us-east-1
    """
    if alias is not None and _ALIAS.fullmatch(alias) is None:
        raise Failure(f'invalid value "{alias}" for --alias: expected alias/NAME, and not alias/aws/...')
    created = keyring.create(config.space, alias)
    out.result(created.arn, **_as_json(created))


@command.command("ls")
@_with_keyring
def list_(config: Config, out: Output, keyring: Keyring) -> None:
    """List all keys, and the progress of re-encrypting stored messages.

    \b
    Examples:
      penstock key ls
      penstock key ls --json
    """
    if out.as_json:
        out.json_lines(_as_json(key) for key in keyring.keys.file.keys)
        return
    rows: list[tuple[str, ...]] = [("ID", "ACCOUNT", "REGION", "ALIAS", "VERSION", "ROTATED", "STATE")]
    for key in keyring.keys.file.keys:
        account, region = ("every", "every") if key.managed else (key.space.account, key.space.region)
        state = "enabled" if key.enabled else "disabled"
        aliases = ", ".join(key.aliases) or "-"
        rows.append((key.id, account, region, aliases, str(key.newest), _rotated_on(key), state))
    table(rows)
    click.echo(f"\n{_progress(config, keyring)}")


@command.command("show")
@click.argument("key")
@_with_keyring
def show(config: Config, out: Output, keyring: Keyring, key: str) -> None:
    """Show one key: its aliases, when each version was created, and whether it can be used. No key is printed.

    \b
    Examples:
      penstock key show alias/orders
      penstock key show alias/orders --json | jq .version
    """
    found = keyring.keys.find_for_operator(config.space, key)
    if out.as_json:
        versions = [{"version": each.number, "created": _day(each.created_ms)} for each in found.versions]
        out.json({**_as_json(found), "versions": versions})
        return
    rows = [("id", found.id), ("arn", found.arn)]
    rows += [("alias", alias) for alias in found.aliases]
    rows += [("state", "enabled" if found.enabled else "disabled")]
    rows += [("version", f"{each.number}, created {_day(each.created_ms)}") for each in found.versions]
    out.facts(rows)


@command.command("rotate")
@click.argument("key", required=False)
@click.option("--all", "every", is_flag=True, help="Every key of the keyring, of all accounts and regions.")
@_with_keyring
def rotate(config: Config, out: Output, keyring: Keyring, key: str | None, every: bool) -> None:
    """Add a version to a key: what is sent from now on uses it.

    A running broker then checks all stored messages in the background, as after penstock key reencrypt, and encrypts
    again what older versions have encrypted; otherwise the next start does. penstock key ls shows the progress.

    \b
    Examples:
      penstock key rotate alias/orders
      penstock key rotate --all
    """
    if (key is None) is not every:
        raise Failure("give one key, or --all")
    for changed in keyring.rotate_all() if key is None else (keyring.rotate(config.space, key),):
        out.result(f"{changed.arn} has {len(changed.versions)} versions", **_as_json(changed))


@command.command("disable")
@click.argument("key")
@_with_keyring
def disable(config: Config, out: Output, keyring: Keyring, key: str) -> None:
    """Refuse sends to and receives from queues that use this key. Nothing is lost: see enable.

    \b
    Example:
      penstock key disable alias/orders
    """
    changed = keyring.set_enabled(config.space, key, False)
    out.result(f"disabled {changed.arn}", **_as_json(changed))


@command.command("enable")
@click.argument("key")
@_with_keyring
def enable(config: Config, out: Output, keyring: Keyring, key: str) -> None:
    """Allow a key to be used again. Stored messages are checked as after penstock key reencrypt.

    \b
    Example:
      penstock key enable alias/orders
    """
    changed = keyring.set_enabled(config.space, key, True)
    out.result(f"enabled {changed.arn}", **_as_json(changed))


@command.command("reencrypt")
@_with_keyring
def reencrypt(_config: Config, out: Output, keyring: Keyring) -> None:
    """Encrypt stored messages again where they are not encrypted under the key that their queue names today.

    For queues that were given another key, or encryption: as in SQS, that alone leaves stored messages as they are. A
    running broker does it in the background; otherwise the next start does.

    \b
    Example:
      penstock key reencrypt
    """
    keyring.request_reencryption()
    out.result(
        "the server will check stored messages, and re-encrypt those under an older version of their key",
        requested=True,
    )


@command.command("replace-root")
@click.option(
    "--new-root-key-file", metavar="FILE", type=click.Path(path_type=Path),
    help="File with the new root key, as penstock key root creates it.",
)  # fmt: skip
@click.option(
    "--new-root-key-command",
    metavar="COMMAND",
    help="Command that prints the new root key. It takes precedence over the file.",
)
@_with_key_settings()
def replace_root(
    config: Config, out: Output, new_root_key_file: Path | None, new_root_key_command: str | None
) -> None:
    """Replace the root key: encrypt the keyring and the secrets of the credentials file with a new one.

    The server must be stopped. The present root key comes from the settings, as for the server; the new one
    from a file, from a command, or from the variable PENSTOCK_NEW_ROOT_KEY, which takes precedence over both.
    Messages stay as they are. If the command is interrupted, repeat it: it completes the replacement. (Former
    name: reroot.)

    \b
    Examples:
      penstock key root new.key
      penstock key replace-root --config penstock.toml --new-root-key-file new.key
      penstock key replace-root --config penstock.toml --new-root-key-command "vault kv get -field=key secret/new"
    """
    if config.credentials is not None and not is_there(config.credentials):
        raise Failure(
            f"there is no credentials file {config.credentials}: give the server's --config or --credentials"
        )
    _existing_keyring(config)
    old = _present_root_key(config)
    new = find_new_root_key(environ=os.environ, command=new_root_key_command, file=new_root_key_file)
    if new is None:
        raise Failure(
            f"there is no new root key: give --new-root-key-file, --new-root-key-command or {NEW_VARIABLE}"
        )
    if new.fingerprint == old.fingerprint:
        raise Failure(
            f"the new root key is the one in the settings (fingerprint {old.fingerprint}): create another with "
            f"penstock key root; to complete a replacement, give the old one with --root-key-file or {VARIABLE}"
        )
    declare_services()  # the file is checked before it is written
    changed = replace_root_key(config, old, new)
    if out.as_json:
        files = [str(path) for path in changed]
        out.json({"fingerprint": new.fingerprint, "former_fingerprint": old.fingerprint, "changed": files})
        return
    for path in changed:
        click.echo(f"encrypted with the new root key: {path}")
    if not changed:
        click.echo("everything is encrypted with the new root key already")
    if config.credentials is None:
        click.echo(
            "no credentials file is named in the settings: if there is one, repeat this with --credentials"
        )
    click.echo(f"the root key has the fingerprint {new.fingerprint} now; the old one had {old.fingerprint}\n")
    click.echo(_AFTER_REPLACEMENT, nl=False)


def _as_json(key: Key) -> dict[str, object]:
    return {
        "id": key.id,
        "arn": key.arn,
        "account": None if key.managed else key.space.account,
        "region": None if key.managed else key.space.region,
        "aliases": key.aliases,
        "version": key.newest,
        "rotated": _rotated_on(key),
        "enabled": key.enabled,
    }


def _rotated_on(key: Key) -> str:
    return _day(key.versions[-1].created_ms)


def _day(wall_ms: int) -> str:
    try:
        return datetime.fromtimestamp(wall_ms / 1000, UTC).date().isoformat()
    except (OSError, OverflowError, ValueError):
        return "-"  # the file holds a time outside the calendar


def _progress(config: Config, keyring: Keyring) -> str:
    found = progress_of_shards(config.keyring_file)
    begun = [each for each in found if each.generation == keyring.keys.file.generation]
    if not begun:
        return "re-encrypting stored messages: waiting for a running broker"
    percent = sum(each.percent for each in begun) // len(found)
    counted = (
        f"{sum(each.checked for each in begun)} checked, {sum(each.reencrypted for each in begun)} encrypted"
    )
    lost = sum(each.unreadable for each in begun)
    unreadable = f", {lost} could not be decrypted" if lost else ""
    return f"re-encrypting stored messages: {percent}%, {counted}{unreadable}"
