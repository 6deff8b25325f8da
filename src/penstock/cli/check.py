"""``penstock check``."""

from __future__ import annotations

import click

from penstock.cli.failure import Failure
from penstock.cli.options import configured, shown
from penstock.server.config import Config, ConfigError, settings
from penstock.server.exposure import check_exposure


@click.command("check")
@click.argument("file", required=False)
def command(file: str | None) -> None:
    """Check settings and declared queues, and print what a start would use. Nothing is started or created.

    FILE is the config file; without it, the one that PENSTOCK_CONFIG names. Variables count as for serve.

    \b
    Examples:
      penstock check penstock.toml
      PENSTOCK_PORT=99999 penstock check
    """
    config = configured({"config": file})
    try:
        check_exposure(config)
    except ConfigError as error:
        raise Failure(str(error)) from None
    width = max(map(len, settings()))
    for name in settings():
        click.echo(f"{name:<{width}}  {shown(getattr(config, name))}")
    _print_queues(config)


def _print_queues(config: Config) -> None:
    for queue in config.queues:
        attributes = queue.plain() | queue.redrive(config.space)
        click.echo(f"\nqueue {queue.name}")
        for name, value in sorted(attributes.items()):
            click.echo(f"  {name} = {value}")
        for key, value in queue.tags.items():
            click.echo(f"  tag {key} = {value}")
