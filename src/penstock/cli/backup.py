"""``penstock backup``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from penstock.cli.failure import Breakdown, Failure
from penstock.cli.options import configured, with_these_settings
from penstock.cli.output import Output
from penstock.errors import StoreError, StoreRefused
from penstock.server.backup import BackupContents, back_up_to, verify
from penstock.server.startup_report import format_bytes


@click.command("backup")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--verify", "verifies", is_flag=True, help="Read the backup back and check all of it.")
@click.option("--replace", is_flag=True, help="Overwrite FILE, once the new backup is complete.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON.")
@with_these_settings("data", "store", "keyring")
def command(file: Path, verifies: bool, replace: bool, as_json: bool, **flags: Any) -> None:
    """Write a backup of all queues and messages to FILE, while the server runs or not.

    The backup is a tar file for its owner alone (mode 0600): the databases of all shards as they were at one moment,
    and the keyring. It does not hold the root key, the credentials, the config file, certificates or the audit log:
    keep the root key elsewhere, and never with the backup. Run it as the user of the server. It reads the data
    directory, which it finds by the settings of the server: --config, PENSTOCK_CONFIG, PENSTOCK_DATA or --data.

    The directory of FILE needs free space for it and for a copy of the largest shard, or with --verify of all.

    Exit codes: 0 done, 1 failed, 2 refused: something has to be changed first.

    \b
    Examples:
      penstock backup /var/backups/penstock-monday.tar --data /var/lib/penstock --verify
      penstock backup latest.tar --config /etc/penstock/penstock.toml --replace
      penstock restore latest.tar --data /var/lib/penstock-restored
    """
    config, out = configured(flags), Output(as_json)
    try:
        with out.progress("backup, percent", 100) as progress:
            contents = back_up_to(config, file, lambda part: progress(int(100 * part)), replace=replace)
        if verifies:
            verify(file)
    except StoreRefused as error:
        raise Failure(str(error)) from None
    except StoreError as error:
        raise Breakdown(f"the backup failed: {error}") from None
    show(out, contents, f"backup in {file}" + (", read back and in order" if verifies else ""))


def show(out: Output, contents: BackupContents, verdict: str) -> None:
    if out.as_json:
        out.json(msgspec.to_builtins(contents))
        return
    out.line(verdict)
    out.record(
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
