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

from penstock.auth.keyring import Keyring, KeyringError
from penstock.auth.keys import Key
from penstock.auth.rootkey import RootKeyError, create_root_key_file
from penstock.cli.failure import Failure
from penstock.cli.identity import DEFAULT_FILE, table
from penstock.cli.options import configured, with_these_settings
from penstock.clock import SystemClock
from penstock.errors import KeyMissing
from penstock.server.config import Config
from penstock.server.encryption import ProgressFile, root_key

_SETTINGS = ("data", "keyring", "root_key_file", "root_key_command", "credentials", "account", "region")
_ALIAS = re.compile(r"alias/(?!aws/)[A-Za-z0-9/_-]{1,250}")


@click.group("key")
def command() -> None:
    """Keys that messages are encrypted under. A running broker takes changes up within seconds.

    A key is named by its id, its alias (alias/NAME), or the ARN of either: what a queue's KmsMasterKeyId takes.

    \b
    Examples:
      penstock key root /etc/penstock/penstock-root.key
      penstock key create --alias alias/orders
      penstock key rotate alias/orders
      penstock key list
    """


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


def _with_keyring(function: Callable[..., None]) -> Callable[..., None]:
    """The flags for the keyring; the function gets the settings and the keyring first."""

    @with_these_settings(*_SETTINGS)
    @wraps(function)
    def run(**given: Any) -> None:
        config = configured({name: given.pop(name) for name in ("config", *_SETTINGS)})
        try:
            function(config, _opened(config), **given)
        except (RootKeyError, KeyringError) as error:
            raise Failure(str(error)) from None
        except KeyMissing as error:
            raise Failure(f"there is no key {error.key}") from None

    return run


def _opened(config: Config) -> Keyring:
    """Never makes one: only the server knows whether its data needs an older one."""
    path = config.keyring_file
    if path is None:
        raise Failure("a broker that keeps everything in memory has no keyring: give --keyring")
    if not path.exists():
        raise Failure(
            f"there is no keyring {path}: give the server's --config or --data; "
            "its first start with a root key makes it"
        )
    found = root_key(_with_default_credentials(config), os.environ)
    if found is None:
        raise Failure("there is no root key: give --root-key-file, or the server's --config")
    return Keyring(path, found, SystemClock())


def _with_default_credentials(config: Config) -> Config:
    """As penstock user finds them: the root key may lie beside the file that it makes if it is told no other."""
    here = config.credentials is None and DEFAULT_FILE.exists()
    return replace(config, credentials=DEFAULT_FILE) if here else config


@command.command("create")
@click.option("--alias", metavar="alias/NAME", help="A name for the key.")
@_with_keyring
def create(config: Config, keyring: Keyring, alias: str | None) -> None:
    """Make a key, and print its ARN."""
    if alias is not None and _ALIAS.fullmatch(alias) is None:
        raise Failure(f'--alias "{alias}" is not right: give alias/NAME, and not alias/aws/...')
    click.echo(keyring.create(config.space, alias).arn)


@command.command("list")
@_with_keyring
def list_(config: Config, keyring: Keyring) -> None:
    """List all keys, and say how far encrypting stored messages anew has come."""
    rows: list[tuple[str, ...]] = [("ID", "ACCOUNT", "REGION", "ALIAS", "VERSION", "ROTATED", "STATE")]
    rows += [_row(key) for key in keyring.keys.file.keys]
    table(rows)
    click.echo(f"\n{_progress(config, keyring)}")


@command.command("rotate")
@click.argument("key")
@_with_keyring
def rotate(config: Config, keyring: Keyring, key: str) -> None:
    """Add a version to a key: what is sent from now on uses it.

    A running broker then looks at all stored messages in the background, as after penstock key reseal, and encrypts
    anew what older versions have encrypted; if none runs, the next one does. penstock key list shows how far it is.
    """
    changed = keyring.rotate(config.space, key)
    click.echo(f"{changed.arn} has {len(changed.versions)} versions")


@command.command("disable")
@click.argument("key")
@_with_keyring
def disable(config: Config, keyring: Keyring, key: str) -> None:
    """Refuse sends to and receives from queues that name this key. Nothing is lost: see enable."""
    click.echo(f"disabled {keyring.set_enabled(config.space, key, False).arn}")


@command.command("enable")
@click.argument("key")
@_with_keyring
def enable(config: Config, keyring: Keyring, key: str) -> None:
    """Allow a key to be used again. Stored messages are looked at as after penstock key reseal."""
    click.echo(f"enabled {keyring.set_enabled(config.space, key, True).arn}")


@command.command("reseal")
@_with_keyring
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
