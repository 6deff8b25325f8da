"""``penstock key``: the root key, and the keys that messages are encrypted under."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import click

from penstock.auth.encryption.keyring import Keyring
from penstock.auth.encryption.keys import Key
from penstock.auth.encryption.root_key import RootKeyError, create_root_key_file
from penstock.cli.failure import Failure
from penstock.cli.identity import table
from penstock.cli.key_reroot import reroot
from penstock.cli.keyring import with_keyring
from penstock.server.encryption import ProgressFile
from penstock.server.settings.config import Config

_ALIAS = re.compile(r"alias/(?!aws/)[A-Za-z0-9/_-]{1,250}")


@click.group("key")
def command() -> None:
    """Keys that messages are encrypted under. A running broker takes changes up within seconds; only for reroot it
    must be stopped.

    A key is named by its id, its alias (alias/NAME), or the ARN of either: what a queue's KmsMasterKeyId takes.

    \b
    Examples:
      penstock key root /etc/penstock/penstock-root.key
      penstock key create --alias alias/orders
      penstock key rotate alias/orders
      penstock key list
      penstock key reroot --new-root-key-file new.key
    """


command.add_command(reroot)


@command.command("root")
@click.argument("file", type=click.Path(path_type=Path))
def root(file: Path) -> None:
    """Make a root key in a new file that only you may read. Nothing is encrypted under it yet.

    Keep it away from the data and its backups, and keep a copy: without it nothing that is encrypted can be read.
    """
    try:
        made = create_root_key_file(file)
    except RootKeyError as error:
        raise Failure(str(error)) from None
    click.echo(f"made {file} (fingerprint {made.fingerprint})")


@command.command("create")
@click.option("--alias", metavar="alias/NAME", help="A name for the key.")
@with_keyring
def create(config: Config, keyring: Keyring, alias: str | None) -> None:
    """Make a key, and print its ARN."""
    if alias is not None and _ALIAS.fullmatch(alias) is None:
        raise Failure(f'--alias "{alias}" is not right: give alias/NAME, and not alias/aws/...')
    click.echo(keyring.create(config.space, alias).arn)


@command.command("list")
@with_keyring
def list_(config: Config, keyring: Keyring) -> None:
    """List all keys, and say how far encrypting stored messages anew has come."""
    rows: list[tuple[str, ...]] = [("ID", "ACCOUNT", "REGION", "ALIAS", "VERSION", "ROTATED", "STATE")]
    rows += [_row(key) for key in keyring.keys.file.keys]
    table(rows)
    click.echo(f"\n{_progress(config, keyring)}")


@command.command("rotate")
@click.argument("key", required=False)
@click.option("--all", "every", is_flag=True, help="Every key of the keyring, of all accounts and regions.")
@with_keyring
def rotate(config: Config, keyring: Keyring, key: str | None, every: bool) -> None:
    """Add a version to a key: what is sent from now on uses it.

    A running broker then looks at all stored messages in the background, as after penstock key reseal, and encrypts
    anew what older versions have encrypted; if none runs, the next one does. penstock key list shows how far it is.
    """
    if (key is None) is not every:
        raise Failure("give one key, or --all")
    for changed in keyring.rotate_all() if key is None else (keyring.rotate(config.space, key),):
        click.echo(f"{changed.arn} has {len(changed.versions)} versions")


@command.command("disable")
@click.argument("key")
@with_keyring
def disable(config: Config, keyring: Keyring, key: str) -> None:
    """Refuse sends to and receives from queues that name this key. Nothing is lost: see enable."""
    click.echo(f"disabled {keyring.set_enabled(config.space, key, False).arn}")


@command.command("enable")
@click.argument("key")
@with_keyring
def enable(config: Config, keyring: Keyring, key: str) -> None:
    """Allow a key to be used again. Stored messages are looked at as after penstock key reseal."""
    click.echo(f"enabled {keyring.set_enabled(config.space, key, True).arn}")


@command.command("reseal")
@with_keyring
def reseal(_config: Config, keyring: Keyring) -> None:
    """Encrypt stored messages anew where they are not encrypted under the key that their queue names today.

    For when a queue was given another key, or encryption: as in SQS, that alone leaves its stored messages as they
    are. A running broker does it in the background; if none runs, the next one does.
    """
    keyring.encrypt_anew()
    click.echo("stored messages will be looked at")


def _row(key: Key) -> tuple[str, ...]:
    rotated = _day(key.versions[-1].created_ms)
    account, region = ("every", "every") if key.managed else (key.space.account, key.space.region)
    state = "enabled" if key.enabled else "disabled"
    return key.id, account, region, ", ".join(key.aliases) or "-", str(key.newest), rotated, state


def _day(moment_ms: int) -> str:
    try:
        return datetime.fromtimestamp(moment_ms / 1000, UTC).date().isoformat()
    except (OSError, OverflowError, ValueError):
        return "-"  # the file says a time that is in no calendar


def _progress(config: Config, keyring: Keyring) -> str:
    progress = ProgressFile(config.keyring_file).load()
    if progress is None or progress.generation != keyring.keys.file.generation:
        return "encrypting stored messages anew: waits for a running broker"
    counted = f"{progress.looked_at} looked at, {progress.resealed} encrypted"
    shut = f", {progress.unreadable} could not be opened" if progress.unreadable else ""
    return f"encrypting stored messages anew: {progress.percent}%, {counted}{shut}"
