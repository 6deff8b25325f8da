"""``penstock audit``: search the audit log."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import click

from penstock.cli.failure import Failure, printable
from penstock.cli.options import configured
from penstock.clock import real_utc
from penstock.server.audit.search import (
    AuditReader,
    EventFilter,
    Line,
    certificate_of,
    parse_time,
    summarize,
)

_POLL_S = 0.5
_HEAD = ("TIME", "DECISION", "CALLER", "ACTION", "QUEUE", "FROM", "ERROR")
_WIDTHS: tuple[int, ...] = (20, 8, 32, 28, 24, 15)
_CERTIFICATE_WIDTH = 32  # of one more column, before the last


@click.command("audit")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option(
    "--principal", "--user", metavar="PATTERN", help="Name, ARN, id, access key or account of the caller."
)
@click.option("--action", metavar="PATTERN", help="Action, such as DeleteQueue or sqs:*Permission.")
@click.option("--queue", metavar="QUEUE", help="Name, URL or ARN of the queue.")
@click.option("--source-ip", metavar="PATTERN", help="Address that the request came from.")
@click.option(
    "--certificate", metavar="PATTERN", help="Subject of the client's certificate, which is then shown."
)
@click.option("--denied", is_flag=True, help="Only denied requests.")
@click.option(
    "--since", metavar="TIME", help="From this time on: 2026-01-31T12:00Z, or an age such as 15m, 2h, 3d."
)
@click.option("--until", metavar="TIME", help="Before this time.")
@click.option("--last", metavar="NUMBER", type=click.IntRange(1), help="Only the last NUMBER events.")
@click.option("--follow", is_flag=True, help="Continue with new events until interrupted.")
@click.option("--json", "as_json", is_flag=True, help="Print the JSON lines of the file.")
@click.option("--config", metavar="FILE", help="Config file of the server, which names the audit log.")
def command(
    file: Path | None,
    last: int | None,
    follow: bool,
    as_json: bool,
    config: str | None,
    since: str | None,
    until: str | None,
    **patterns: str | bool | None,
) -> None:
    """Show the audit log: who called what, from where, and whether it was allowed.

    FILE is the audit log; the default is the one in the server's settings. Rotated files (FILE.1, FILE.2.gz ...) are
    read as well. Patterns may contain * and ?, and ignore case. Times without a zone are local.

    \b
    Examples:
      penstock audit --since 1h
      penstock audit --denied --follow
      penstock audit --user alice --action 'sqs:*Permission'
      penstock audit --certificate 'CN=worker-*'
      penstock audit --queue orders --since 2026-01-31 --until 2026-02-01 --json
      penstock audit /var/lib/penstock/audit/audit.jsonl --last 20
    """
    path = file or _configured_path(config)
    chosen = EventFilter(since=_time("--since", since), until=_time("--until", until), **patterns)  # type: ignore[arg-type]
    try:
        with closing(AuditReader(path)) as log, suppress(KeyboardInterrupt):
            if not log.exists:
                raise Failure(f'there is no audit log "{path}": give its path or the --config of the server')
            _show(log, chosen, last, as_json)
            _warn_skipped(log)
            while follow:
                time.sleep(_POLL_S)
                _print(_matching(log.appended(), chosen), chosen, as_json)
                _warn_skipped(log)
    except BrokenPipeError:
        raise  # the reader of our output has closed it
    except OSError as error:
        raise Failure(f'cannot read "{error.filename or path}": {error.strerror}') from None


def _show(log: AuditReader, chosen: EventFilter, last: int | None, as_json: bool) -> None:
    lines = _matching(log.existing(), chosen)
    if not as_json:
        click.echo(_row(_HEAD, "CERTIFICATE" if chosen.certificate else None))
    _print(deque(lines, last) if last else lines, chosen, as_json)


def _print(lines: Iterable[Line], chosen: EventFilter, as_json: bool) -> None:
    for line in lines:
        if as_json:
            click.echo(line.text)
        else:
            certificate = certificate_of(line.event) if chosen.certificate else None
            click.echo(_row(summarize(line.event), certificate))


def _warn_skipped(log: AuditReader) -> None:
    if skipped := log.skipped():
        click.echo(f"penstock: skipped {skipped}", err=True)


def _matching(lines: Iterable[Line], chosen: EventFilter) -> Iterator[Line]:
    return (line for line in lines if chosen.matches(line.event))


def _configured_path(config: str | None) -> Path:
    settings = configured({"config": config})
    return settings.audit_file or settings.default_audit_file


def _time(option: str, text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return parse_time(text, real_utc())
    except (ValueError, OverflowError):
        raise Failure(
            f'invalid value "{text}" for {option}: expected a time such as 2026-01-31T12:00Z or 15m'
        ) from None


def _row(cells: tuple[str, ...], certificate: str | None) -> str:
    """Formats a line with aligned columns, without control characters that callers chose."""
    widths = _WIDTHS
    if certificate is not None:
        cells, widths = (*cells[:-1], certificate, cells[-1]), (*_WIDTHS, _CERTIFICATE_WIDTH)
    shown = [printable(cell) for cell in cells]
    padded = [f"{cell:<{width}}" for cell, width in zip(shown, widths, strict=False)]
    return " ".join([*padded, shown[-1]]).rstrip()
