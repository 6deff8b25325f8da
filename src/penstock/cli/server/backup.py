"""``penstock backup``: copy the data directory on this machine, or ask a running server for a copy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from penstock.cli.failure import Breakdown, Failure
from penstock.cli.options import configured, with_these_settings
from penstock.cli.output import Output
from penstock.cli.target import Target, with_target
from penstock.client.api import NotWritten
from penstock.errors import StoreError, StoreRefused
from penstock.server.backup import BackupContents, back_up_to, new_archive, verify
from penstock.server.startup_report import format_bytes


@click.command("backup")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--verify", "verifies", is_flag=True, help="Read the backup back and check all of it.")
@click.option("--replace", is_flag=True, help="Overwrite FILE, once the new backup is complete.")
@with_target
@with_these_settings("data", "store", "keyring")
def command(file: Path, verifies: bool, replace: bool, target: Target, **flags: Any) -> None:
    """Write a backup of all queues and messages to FILE, while the server runs or not.

    The backup is a tar file for its owner alone (mode 0600): the databases of all shards as they were at one moment,
    and the keyring. It does not hold the root key, the credentials, the config file, certificates or the audit log:
    keep the root key elsewhere, and never with the backup.

    Without --endpoint-url and --context it reads the data directory on this machine, which it finds by the settings
    of the server: --config, PENSTOCK_CONFIG, PENSTOCK_DATA or --data. Run it as the user of the server. With one of
    them it asks a running server for the backup, which needs the permission penstock:Backup.

    The directory of FILE needs free space for it and for a copy of the largest shard, or with --verify of all.

    Exit codes: 0 done, 1 failed, 2 refused: something has to be changed first.

    \b
    Examples:
      penstock backup /var/backups/penstock-monday.tar --data /var/lib/penstock --verify
      penstock backup latest.tar --config /etc/penstock/penstock.toml --replace
      penstock backup from-far.tar --endpoint-url https://queues.example.com --profile operator
      penstock restore latest.tar --data /var/lib/penstock-restored
    """
    out = target.out
    try:
        if target.is_chosen:
            target.need_penstock("backup")
            with new_archive(file, replace=replace) as (archive, unfinished):
                target.session.download("/backup", archive)
                archive.flush()
                contents = verify(unfinished)
        else:
            config = configured(flags)
            with out.progress("backup, percent", 100) as progress:
                contents = back_up_to(
                    config, file, lambda part: progress(int(100 * part)), replace=replace, verifies=verifies
                )
    except StoreRefused as error:
        raise Failure(str(error)) from None
    except (StoreError, NotWritten) as error:
        raise Breakdown(f"the backup failed: {error}") from None
    is_checked = verifies or target.is_chosen  # what came over a network is always read back
    show(out, contents, f"backup in {file}" + (", read back and in order" if is_checked else ""))


def show(out: Output, contents: BackupContents, verdict: str) -> None:
    if out.as_json:
        out.json(msgspec.to_builtins(contents))
        return
    out.line(verdict)
    out.facts(
        (
            ("created", contents.created),
            ("version", contents.version),
            ("shards", contents.shards),
            ("queues", contents.queues),
            ("messages", f"{contents.messages:,}, {format_bytes(contents.bytes)}"),
            (
                "keyring",
                "yes: it needs the root key, which is not in the backup" if contents.keyring else "none",
            ),
        )
    )
