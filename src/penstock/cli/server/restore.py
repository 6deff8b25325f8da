"""``penstock restore``: make a data directory from a backup, or only check the backup."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.failure import Breakdown, Failure
from penstock.cli.output import Output
from penstock.cli.server.backup import show
from penstock.errors import StoreError, StoreRefused
from penstock.server.backup import restore, verify


@click.command("restore")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--data", "directory", type=click.Path(path_type=Path), metavar="DIR",
    help="Data directory to create. It must not exist yet, or be empty.",
)  # fmt: skip
@click.option(
    "--check", "checks", is_flag=True, help="Only read the backup and check it: nothing is restored."
)
@click.option("--json", "as_json", is_flag=True, help="Print what the backup holds as JSON.")
def command(file: Path, directory: Path | None, checks: bool, as_json: bool) -> None:
    """Make a data directory from a backup that "penstock backup" has written.

    The backup is checked completely: checksums, every page of the databases, the keyring. One that is damaged is not
    restored. Stop the consumers before a server is started on the restored data: a receipt handle that was issued
    after the backup may match another message. Start it as the owner of the directory, and with the root key that was
    in use at the time of the backup if there is a keyring.

    Exit codes: 0 done, 1 failed, 2 refused: something has to be changed first.

    \b
    Examples:
      penstock restore penstock-monday.tar --data /var/lib/penstock-restored
      penstock serve --data /var/lib/penstock-restored
      penstock restore penstock-monday.tar --check
    """
    if checks == (directory is not None):
        raise click.UsageError("Give either --data DIR, or --check.")
    try:
        contents = verify(file) if directory is None else restore(file, directory)
    except StoreRefused as error:
        raise Failure(str(error)) from None
    except StoreError as error:
        raise Breakdown(f"nothing was restored: {error}") from None
    show(
        Output(as_json),
        contents,
        "the backup is in order" if directory is None else f"restored into {directory}",
    )
