"""``penstock migrate``: copy all queues and messages into another store, and compare them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import msgspec

from penstock.auth.encryption.envelope import MessageCipher
from penstock.auth.encryption.keyring import Keyring, KeyringError
from penstock.auth.encryption.root_key import RootKeyError
from penstock.cli.failure import Breakdown, Failure
from penstock.cli.options import configured, with_these_settings
from penstock.clock import SystemClock
from penstock.errors import StoreError, StoreRefused
from penstock.migrate.stores.checking import Sums
from penstock.migrate.stores.copying import AlreadyComplete
from penstock.migrate.stores.migration import Migration
from penstock.migrate.stores.opened import SQLITE, check_unused, opened, store_site
from penstock.server.encryption import root_key
from penstock.server.settings.config import Config
from penstock.server.settings.types import without_password
from penstock.server.startup_report import amount
from penstock.store.encrypted import Cipher

_LINE_EVERY_S = 5
_AGAIN = "repeat the command to continue where it stopped"


@click.command("migrate")
@click.option("--from", "source", metavar="STORE", required=True, help="Store to copy.")
@click.option("--to", "target", metavar="STORE", required=True, help="Store to create, or an empty one.")
@click.option(
    "--shards", type=click.IntRange(1, 1024), metavar="N",
    help="Shards of the created store.  [1 for SQLite, 32 for PostgreSQL]",
)  # fmt: skip
@click.option("--check", is_flag=True, help="Only say what would be done: nothing is copied or created.")
@click.option("--json", "as_json", is_flag=True, help="Print the result as JSON, with every queue.")
@with_these_settings("root_key_file", "root_key_command", "keyring")
def command(source: str, target: str, shards: int | None, check: bool, as_json: bool, **flags: Any) -> None:
    """Copy all queues and messages into another store.

    A STORE is sqlite:DIRECTORY or postgresql://USER@HOST/DATABASE. No server may use either of them. Definitions,
    messages with their ids, counts and times, remembered FIFO sends and move tasks are copied and then compared by
    counts and checksums; receipt handles stay valid. The source keeps all its data. The target does not serve until
    everything was compared. If the command is interrupted, repeat it: it continues where it stopped.

    Encrypted messages are copied as they are. Where shards are merged they are encrypted again, which needs the root
    key and the keyring. Credentials, keyring and audit log are files, and not part of a store.

    Exit codes: 0 done, 1 interrupted or failed, 2 refused: something has to be changed first.

    \b
    Examples:
      penstock migrate --from sqlite:penstock-data --to postgresql://penstock@db/penstock
      penstock migrate --from sqlite:penstock-data --to sqlite:penstock-data-8 --shards 8
      penstock migrate --from postgresql://penstock@db/penstock --to sqlite:restored --check
    """
    config = configured(flags)
    if config.keyring is None and source.startswith(SQLITE):
        config = replace(config, data=Path(source.removeprefix(SQLITE)))
    try:
        report = _migrate(config, source, target, shards, check=check)
    except AlreadyComplete as complete:
        report = Report(complete=True, note=str(complete))
    except (StoreRefused, RootKeyError, KeyringError) as error:
        raise Failure(str(error)) from None
    except StoreError as error:
        raise Breakdown(f"the migration failed: {error}; {_AGAIN}") from None
    except KeyboardInterrupt:
        raise Breakdown(f"interrupted; {_AGAIN}") from None
    report.source, report.target = without_password(source), without_password(target)
    click.echo(msgspec.json.format(msgspec.json.encode(report)).decode() if as_json else report.text())


class QueueReport(msgspec.Struct):
    queue: str
    messages: int
    bytes: int
    remembered_sends: int
    checksum: str


class Report(msgspec.Struct, kw_only=True):
    """What is printed in the end."""

    source: str = ""
    target: str = ""
    complete: bool = False
    resumed: bool = False
    source_shards: int = 0
    target_shards: int = 0
    queue_count: int = 0
    messages: int = 0
    bytes: int = 0
    left_out: int = 0
    encrypts_again: bool = False
    note: str = ""
    queues: list[QueueReport] = []

    @classmethod
    def of(cls, migration: Migration, target_shards: int, **more: Any) -> Report:
        found = migration.amount
        return cls(
            source_shards=found.shards, target_shards=target_shards, queue_count=found.queues,
            messages=found.messages, bytes=found.bytes, encrypts_again=migration.encrypts_again,
            resumed=migration.resumed, left_out=migration.left_out, **more,
        )  # fmt: skip

    def text(self) -> str:
        held = (
            amount(self.queue_count, "queue"),
            amount(self.messages, "message"),
            amount(self.bytes, "byte"),
        )
        what, shards = ", ".join(held), f"{self.source_shards} to {amount(self.target_shards, 'shard')}"
        if not self.target_shards:
            lines = []
        elif self.complete:
            lines = [f"{what} copied and compared, from {shards}"]
        else:
            lines = [f"{what} would be copied, from {shards}"]
        if self.encrypts_again:
            lines.append("messages of merged shards are encrypted again")
        if self.left_out:
            lines.append(f"left out: {amount(self.left_out, 'message')} of deleted queues")
        return "\n".join([*lines, *filter(None, [self.note])])


def _migrate(config: Config, source: str, target: str, shards: int | None, *, check: bool) -> Report:
    if source == target:
        raise StoreRefused("--from and --to are the same store")
    old, new = store_site(source, None), store_site(target, shards)
    if not old.exists():
        raise StoreRefused(f"there is no store in {without_password(source)}: check --from")
    is_there = new.exists()
    check_unused(old)
    if is_there:
        check_unused(new)
    with opened(old) as sources:
        if check and not is_there:
            migration = Migration(sources, new.shards, lambda: _cipher(config))
            return Report.of(migration, new.shards, note="the target does not exist yet and would be created")
        with opened(new) as targets:
            if shards not in (None, new.shards):
                raise StoreRefused(f"{without_password(target)} has {new.shards} shards, not {shards}")
            migration = Migration(sources, new.shards, lambda: _cipher(config))
            if check:
                migration.check_target(targets)
                return Report.of(migration, new.shards, note="the target exists and can be used")
            queues = _queue_reports(migration.run(targets, _show))
            return Report.of(migration, new.shards, complete=True, queues=queues, note=_note(config))


def _cipher(config: Config) -> Cipher | None:
    root = root_key(config, os.environ)
    if root is None or config.keyring_file is None:
        return None
    clock = SystemClock()
    return MessageCipher(Keyring(config.keyring_file, root, clock), clock)


def _note(config: Config) -> str:
    keyring = config.keyring_file
    if keyring is None or not keyring.exists():
        return ""
    return (
        f"messages may be encrypted: give the server of the target the same root key and --keyring {keyring}"
    )


def _queue_reports(sums: Sums) -> list[QueueReport]:
    return [
        QueueReport(queue.name.arn, held.messages, held.bytes, held.sends, held.checksum)
        for queue, held in sorted(sums.items())
    ]


# -- progress ------------------------------------------------------------------------------------------------


@contextmanager
def _show(step: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar in a terminal; a line now and then everywhere else."""
    if sys.stderr.isatty():
        with click.progressbar(range(total), label=f"{step:9}", file=sys.stderr, show_pos=True) as bar:
            yield lambda done: bar.update(done - bar.pos)
    else:
        yield ProgressLines(step, total).show


class ProgressLines:
    def __init__(self, step: str, total: int) -> None:
        self._step = step
        self._total = total
        self._next = 0.0

    def show(self, done: int) -> None:
        if time.monotonic() >= self._next or done == self._total:
            self._next = time.monotonic() + _LINE_EVERY_S
            click.echo(f"{self._step}: {done} of {self._total} messages", err=True)
