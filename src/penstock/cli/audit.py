"""``penstock audit``."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path

import click

from penstock.cli.failure import Failure
from penstock.cli.options import configured
from penstock.server.audit.search import (
    Event,
    Line,
    Trail,
    Wanted,
    certificate_of,
    is_denied,
    part_of,
    queue_of,
    read_moment,
)

_POLL_S = 0.5
_HEAD = ("TIME", "DECISION", "WHO", "ACTION", "QUEUE", "FROM", "ERROR")
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
@click.option("--denied", is_flag=True, help="Only what was refused.")
@click.option("--since", metavar="TIME", help="From then on: 2026-01-31T12:00Z, or 15m, 2h, 3d ago.")
@click.option("--until", metavar="TIME", help="Before then.")
@click.option("--last", metavar="NUMBER", type=click.IntRange(1), help="Only the last so many.")
@click.option("--follow", "go_on", is_flag=True, help="Go on with what is written from now on.")
@click.option("--json", "as_json", is_flag=True, help="The lines as they are in the file.")
@click.option("--config", metavar="FILE", help="Config file of the server, which says where the trail is.")
def command(
    file: Path | None,
    last: int | None,
    go_on: bool,
    as_json: bool,
    config: str | None,
    since: str | None,
    until: str | None,
    **wanted: str | bool | None,
) -> None:
    """Show the audit trail: who called what, from where, and whether it was allowed.

    FILE is the trail; without it, the one that the server's settings name. Its older files (FILE.1, FILE.2 ...) are
    read as well. Patterns take * and ?, in any case. Times without a zone are local ones.

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
    choice = Wanted(since=_moment("--since", since), until=_moment("--until", until), **wanted)  # type: ignore[arg-type]
    try:
        with closing(Trail(path)) as trail, suppress(KeyboardInterrupt):
            if not trail.exists:
                raise Failure(f'there is no audit trail "{path}"')
            _show(trail, choice, last, as_json)
            _tell_left_out(trail)
            while go_on:
                time.sleep(_POLL_S)
                _print(_chosen(trail.news(), choice), choice, as_json)
                _tell_left_out(trail)
    except BrokenPipeError:
        raise  # whoever read our output has enough
    except OSError as error:
        raise Failure(f'cannot read "{error.filename or path}": {error.strerror}') from None


def _show(trail: Trail, wanted: Wanted, last: int | None, as_json: bool) -> None:
    lines = _chosen(trail.past(), wanted)
    if not as_json:
        click.echo(_row(_HEAD, "CERTIFICATE" if wanted.certificate else None))
    _print(deque(lines, last) if last else lines, wanted, as_json)


def _print(lines: Iterable[Line], wanted: Wanted, as_json: bool) -> None:
    for line in lines:
        if as_json:
            click.echo(line.text)
        else:
            certificate = certificate_of(line.event) if wanted.certificate else None
            click.echo(_row(_cells(line.event), certificate))


def _tell_left_out(trail: Trail) -> None:
    if left_out := trail.left_out():
        click.echo(f"penstock: left out: {left_out}", err=True)


def _chosen(lines: Iterable[Line], wanted: Wanted) -> Iterator[Line]:
    return (line for line in lines if wanted.takes(line.event))


def _configured_path(config: str | None) -> Path:
    settings = configured({"config": config})
    return settings.audit_file or settings.default_audit_file


def _moment(option: str, text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return read_moment(text, datetime.now(UTC))
    except (ValueError, OverflowError):
        raise Failure(f'{option} "{text}" is not a time such as 2026-01-31T12:00Z or 15m') from None


def _cells(event: Event) -> tuple[str, ...]:
    at, name = str(event.get("eventTime")), event["eventName"]
    if details := part_of(event, "serviceEventDetails"):  # the trail's own word
        said = " ".join(f"{name}={value}" for name, value in details.items())
        return (at, "denied" if is_denied(event) else "-", "-", name, "-", "-", said)
    return (
        at,
        str(part_of(event, "additionalEventData").get("decision", "-")),
        _who(event),
        name,
        queue_of(event) or "-",
        str(event.get("sourceIPAddress")),
        str(event.get("errorCode") or ""),
    )


def _who(event: Event) -> str:
    who = part_of(event, "userIdentity")
    if "arn" in who:
        # user/alice, assumed-role/worker/session, root: the account is in the JSON
        return str(who["arn"]).rpartition(":")[2]
    if who.get("type") == "Unknown":
        return f"unknown {who.get('accessKeyId', '')}".strip()
    return "anonymous"


def _row(cells: tuple[str, ...], certificate: str | None) -> str:
    """Aligned; what callers chose cannot steer the terminal."""
    widths = _WIDTHS
    if certificate is not None:
        cells, widths = (*cells[:-1], certificate, cells[-1]), (*_WIDTHS, _CERTIFICATE_WIDTH)
    shown = ["".join(c if c.isprintable() else "?" for c in cell) for cell in cells]
    padded = [f"{cell:<{width}}" for cell, width in zip(shown, widths, strict=False)]
    return " ".join([*padded, shown[-1]]).rstrip()
