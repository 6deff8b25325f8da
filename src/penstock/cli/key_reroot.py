"""``penstock key reroot``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from penstock.auth.encryption.root_key import NEW_VARIABLE, VARIABLE, find_new_root_key
from penstock.cli.failure import Failure
from penstock.cli.keyring import keyring_there, present_root_key, with_key_settings
from penstock.server.rerooting import reroot_server
from penstock.server.settings.config import Config

_WHAT_TO_DO = """\
Give the server the new root key before you start it, and keep a copy of it away from the data.
Sessions have ended: whoever uses temporary credentials has to get new ones.
FIFO sends from before are not known as duplicates: if that matters, start the server five minutes after its stop.
If others may know the old root key, this alone does not shut them out: docs/encryption.md says what does.
"""


@click.command("reroot")
@click.option(
    "--new-root-key-file", metavar="FILE", type=click.Path(path_type=Path),
    help="File with the new root key, such as penstock key root makes.",
)  # fmt: skip
@click.option(
    "--new-root-key-command",
    metavar="COMMAND",
    help="Command that prints the new root key. It goes before the file.",
)
@with_key_settings()
def reroot(config: Config, new_root_key_file: Path | None, new_root_key_command: str | None) -> None:
    """Exchange the root key: seal the keyring and the secrets of the credentials file under a new one.

    The server must be stopped. The present root key comes from the settings, as for the server; the new one from a
    file, from a command, or from the variable PENSTOCK_NEW_ROOT_KEY, which goes before both. Messages stay as they
    are. Whatever interrupts the command, repeat it: it finishes.

    \b
    Examples:
      penstock key root new.key
      penstock key reroot --config penstock.toml --new-root-key-file new.key
      penstock key reroot --config penstock.toml --new-root-key-command "vault kv get -field=key secret/new"
    """
    if config.credentials is not None and not config.credentials.exists():
        raise Failure(
            f"there is no credentials file {config.credentials}: give the server's --config or --credentials"
        )
    keyring_there(config)
    old = present_root_key(config)
    new = find_new_root_key(environ=os.environ, command=new_root_key_command, file=new_root_key_file)
    if new is None:
        raise Failure(
            f"there is no new root key: give --new-root-key-file, --new-root-key-command or {NEW_VARIABLE}"
        )
    if new.fingerprint == old.fingerprint:
        raise Failure(
            f"the new root key is the one that the settings give (fingerprint {old.fingerprint}): make another with "
            f"penstock key root; to finish an exchange, give the old one with --root-key-file or {VARIABLE}"
        )
    changed = reroot_server(config, old, new)
    for path in changed:
        click.echo(f"sealed under the new root key: {path}")
    if not changed:
        click.echo("all is sealed under the new root key already")
    if config.credentials is None:
        click.echo(
            "no credentials file is named in the settings: if there is one, repeat this with --credentials"
        )
    click.echo(f"the root key has the fingerprint {new.fingerprint} now; the old one had {old.fingerprint}\n")
    click.echo(_WHAT_TO_DO, nl=False)
