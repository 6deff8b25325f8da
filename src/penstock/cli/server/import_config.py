"""``penstock import-config``: the configuration of ElasticMQ, GoAWS or LocalStack as one of Penstock."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.failure import Failure
from penstock.cli.output import Output, json_option
from penstock.migrate.elasticmq import read_elasticmq
from penstock.migrate.goaws import read_goaws
from penstock.migrate.localstack import read_localstack
from penstock.migrate.plan import ImportFailure, Plan
from penstock.migrate.write import write_config
from penstock.server.startup_report import amount

_FORMATS = {
    ".conf": "elasticmq", ".hocon": "elasticmq", ".yaml": "goaws", ".yml": "goaws", ".sh": "localstack",
}  # fmt: skip
_FILE_BYTES_MAX = 1024 * 1024


@click.command("import-config")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--output", metavar="FILE", type=click.Path(path_type=Path), help="Write to a new file.  [stdout]"
)
@click.option(
    "--from", "format_", type=click.Choice(["elasticmq", "goaws", "localstack"]),
    help="Format of FILE. Default: elasticmq for .conf and .hocon, goaws for .yaml and .yml, localstack for .sh.",
)  # fmt: skip
@click.option(
    "--environment", metavar="NAME", help="Environment of a GoAWS file to convert.  [Local, or the only one]"
)
@json_option
def command(
    file: Path, output: Path | None, format_: str | None, environment: str | None, as_json: bool
) -> None:
    """Convert the configuration of ElasticMQ or GoAWS, or an init script of LocalStack, to a config file.

    A script is not run: its plain awslocal commands are read, which create queues and topics and subscribe. What
    cannot be carried over is named in a comment, with the reason.

    \b
    Examples:
      penstock import-config elasticmq.conf --output penstock.toml
      penstock import-config goaws.yaml --environment Dev
      penstock import-config init/ready.d/queues.sh --output penstock.toml
      penstock check penstock.toml
    """
    plan = _plan(_text(file), _format(file, format_), file, environment)
    text = write_config(plan, file.name)
    queues, topics, notes = len(plan.queues), len(plan.topics), plan.losses
    if output is not None:
        _write(output, text)
    if as_json:
        where = {"config": text} if output is None else {"file": str(output)}
        Output(as_json).json({"queues": queues, "topics": topics, "notes": notes, **where})
        return
    if output is None:
        click.echo(text, nl=False)
    counts = (amount(queues, "queue"), *([amount(topics, "topic")] if topics else []), amount(notes, "note"))
    click.echo(f"penstock: {', '.join(counts)}{'; read the comments' if notes else ''}", err=True)


def _format(file: Path, given: str | None) -> str:
    found = given or _FORMATS.get(file.suffix.lower())
    if found is None:
        raise Failure(f'cannot tell the format of "{file}": use --from elasticmq, goaws or localstack')
    return found


def _plan(text: str, format_: str, file: Path, environment: str | None) -> Plan:
    if format_ != "goaws" and environment is not None:
        raise Failure("--environment is for GoAWS files: others have no environments")
    try:
        if format_ == "goaws":
            return read_goaws(text, environment)
        return read_elasticmq(text) if format_ == "elasticmq" else read_localstack(text)
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
