"""``penstock check``."""

from __future__ import annotations

import os

import click

from penstock.cli.failure import Failure
from penstock.cli.options import configured, shown
from penstock.clock import SystemClock
from penstock.server.encryption import root_key
from penstock.server.security import SETUP_ERRORS, check_plain_http, open_credentials, tls_files
from penstock.server.settings.config import Config, settings
from penstock.server.tls import Tls


@click.command("check")
@click.argument("file", required=False)
def command(file: str | None) -> None:
    """Check settings, declared queues, certificates, credentials and root key, and print the resulting settings.

    Nothing is started or created. FILE is the config file; the default is the one that PENSTOCK_CONFIG names.
    Environment variables apply as for serve. Only a start can tell whether the port is free, whether the data
    directory can be used, and whether dead-letter queues that are not declared exist.

    \b
    Examples:
      penstock check penstock.toml
      PENSTOCK_PORT=99999 penstock check
    """
    config = configured({"config": file}, serves=True)
    try:
        _read_files(config)
    except SETUP_ERRORS as error:
        raise Failure(str(error)) from None
    width = max(map(len, settings()))
    for name, setting in settings().items():
        click.echo(f"{name:<{width}}  {shown(setting, getattr(config, name))}")
    _print_queues(config)


def _read_files(config: Config) -> None:
    check_plain_http(config)
    if (files := tls_files(config)) is not None:
        Tls(files)
    open_credentials(config, root_key(config, os.environ), SystemClock())


def _print_queues(config: Config) -> None:
    for queue in config.queues:
        click.echo(f"\nqueue {queue.name}")
        for name, value in sorted(queue.all_attributes(config.space).items()):
            click.echo(f"  {name} = {value}")
        for key, value in queue.tags.items():
            click.echo(f"  tag {key} = {value}")
