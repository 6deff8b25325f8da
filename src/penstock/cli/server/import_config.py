"""``penstock import-config``: the configuration of ElasticMQ or GoAWS as one of Penstock."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.failure import Failure
from penstock.cli.output import Output, json_option
from penstock.migrate.elasticmq import read_elasticmq
from penstock.migrate.goaws import read_goaws
from penstock.migrate.plan import ImportFailure, Plan
from penstock.migrate.write import write_config

_FORMATS = {".conf": "elasticmq", ".hocon": "elasticmq", ".yaml": "goaws", ".yml": "goaws"}
_FILE_BYTES_MAX = 1024 * 1024


@click.command("import-config")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to a new file.  [stdout]"
)
@click.option(
    "--from", "format_", type=click.Choice(["elasticmq", "goaws"]),
    help="Format of FILE. Default: elasticmq for .conf and .hocon, goaws for .yaml and .yml.",
)  # fmt: skip
@click.option(
    "--environment", metavar="NAME", help="Environment of a GoAWS file to convert.  [Local, or the only one]"
)
@json_option
def command(
    file: Path, output: Path | None, format_: str | None, environment: str | None, as_json: bool
) -> None:
    """Convert the configuration of ElasticMQ or GoAWS to a config file for penstock.

    What cannot be carried over is named in a comment, with the reason.

    \b
    Examples:
      penstock import-config elasticmq.conf --output penstock.toml
      penstock import-config goaws.yaml --environment Dev
      penstock check penstock.toml
    """
    plan = _plan(_text(file), _format(file, format_), file, environment)
    text = write_config(plan, file.name)
    queues, notes = len(plan.queues), plan.losses
    if output is not None:
        _write(output, text)
    if as_json:
        where = {"config": text} if output is None else {"file": str(output)}
        Output(as_json).json({"queues": queues, "notes": notes, **where})
        return
    if output is None:
        click.echo(text, nl=False)
    summary = f"{queues} {'queue' if queues == 1 else 'queues'}, {notes} {'note' if notes == 1 else 'notes'}"
    click.echo(f"penstock: {summary}{'; read the comments' if notes else ''}", err=True)


def _format(file: Path, given: str | None) -> str:
    found = given or _FORMATS.get(file.suffix.lower())
    if found is None:
        raise Failure(f'cannot tell the format of "{file}": use --from elasticmq or --from goaws')
    return found


def _plan(text: str, format_: str, file: Path, environment: str | None) -> Plan:
    if format_ == "elasticmq" and environment is not None:
        raise Failure("--environment is for GoAWS files: ElasticMQ files have no environments")
    try:
        return read_elasticmq(text) if format_ == "elasticmq" else read_goaws(text, environment)
    except ImportFailure as error:
        raise Failure(f'cannot read "{file}": {error}') from None


def _text(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            data = opened.read(_FILE_BYTES_MAX + 1)
    except OSError as error:
        raise Failure(f'cannot read "{file}": {error.strerror}') from None
    if len(data) > _FILE_BYTES_MAX:
        raise Failure(f'cannot read "{file}": it is larger than 1 MB')
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Failure(f'cannot read "{file}": it is not UTF-8 text') from None


def _write(output: Path, text: str) -> None:
    try:
        with output.open("x", encoding="utf-8") as opened:
            opened.write(text)
    except FileExistsError:
        raise Failure(f'"{output}" exists already: remove it, or choose another name') from None
    except OSError as error:
        raise Failure(f'cannot write "{output}": {error.strerror}') from None
