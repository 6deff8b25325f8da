"""``penstock check``: everything that serve would refuse, without starting it, and where each setting comes from."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import click

from penstock.cli.failure import Failure
from penstock.cli.options import configured, shown, with_settings
from penstock.cli.output import Output
from penstock.cli.server.setting_sections import SettingsCommand, help_all_option
from penstock.clock import SystemClock
from penstock.errors import StoreRefused
from penstock.names import QueueName
from penstock.server.compose import declare_services
from penstock.server.encryption import Encryption, root_key
from penstock.server.node import link_security
from penstock.server.security import SETUP_ERRORS, check_plain_http, link_tls, open_credentials, tls_files
from penstock.server.settings.config import Config, settings
from penstock.server.settings.declared import DeclarationError
from penstock.server.settings.queues import check_queues
from penstock.server.settings.topic_plans import missing_queues
from penstock.server.startup_report import amount
from penstock.server.stored_queues import stored_queues
from penstock.server.tls import Tls


@click.command("check", cls=SettingsCommand)
@click.argument("file", required=False)
@help_all_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_settings
def command(file: str | None, config: str | None, as_json: bool, **flags: object) -> None:
    """Check everything that serve would refuse, and show each setting with where it was given.

    Checked are the settings, the declared queues and their dead-letter queues (against the queues in the data
    directory, if there is one), the declared topics and subscriptions, certificates, credentials, root key, keyring,
    and the secret of the cluster. Nothing is started or created. FILE is the config file, as is --config; the default
    is the one that PENSTOCK_CONFIG names. Flags and variables apply as for serve. A setting that was given has a "*",
    and where: a flag, a variable or the file. Only a start can tell whether the port is free.

    The first line is the verdict. Exit codes: 0 in order, 2 serve would refuse to start.

    \b
    Examples:
      penstock check penstock.toml
      penstock check --config penstock.toml --processes 4
      penstock check penstock.toml --json | jq .settings.port
      PENSTOCK_PORT=99999 penstock check
    """
    if file is not None and config is not None:
        raise click.UsageError("Give the config file once: as FILE, or with --config.")
    checked = configured({**flags, "config": file or config}, serves=True)
    try:
        _read_files(checked)
        existing = stored_queues(checked)
        check_queues(checked.queues, checked.space, existing)
    except (*SETUP_ERRORS, StoreRefused) as error:
        raise Failure(str(error)) from None
    except DeclarationError as error:
        raise Failure(f"cannot create the declared queues: {error} ({checked.file})") from None
    for text in (*checked.warnings, *_missing(checked, existing)):
        click.echo(f"warning: {text}", err=True)
    verdict = _verdict(checked, is_complete=existing is not None)
    if as_json:
        Output().json({"verdict": verdict, **_as_json(checked)})
        return
    click.echo(verdict)
    _print_settings(checked)
    _print_queues(checked)
    _print_topics(checked)


def _missing(config: Config, existing: Mapping[QueueName, object] | None) -> Iterator[str]:
    """Yields what declared topics send to and does not exist, if it is known what exists."""
    if existing is not None:
        space = config.space
        declared = {QueueName(space.account, space.region, queue.name): queue for queue in config.queues}
        yield from missing_queues(config.topics, space, {**existing, **declared})


def _read_files(config: Config) -> None:
    check_plain_http(config)
    if (files := tls_files(config)) is not None:
        Tls(files)
    link = link_tls(config)
    if config.advertise is not None:
        link_security(config, link)
    root = root_key(config, os.environ)
    declare_services()
    open_credentials(config, root, SystemClock())
    Encryption(config, root, SystemClock())


def _verdict(config: Config, *, is_complete: bool) -> str:
    given = [amount(len(config.sources), "setting"), amount(len(config.queues), "declared queue")]
    if config.topics:
        given.append(amount(len(config.topics), "declared topic"))
    listed = f"{', '.join(given[:-1])} and {given[-1]}"
    unknown = "whether dead-letter queues that are not declared exist, only a start can tell"
    return f"in order: {listed}" + (f"; {unknown}" if config.queues and not is_complete else "")


def _as_json(config: Config) -> dict[str, object]:
    """Values as they could be given, with None for those that are not set."""
    values = {name: (setting, getattr(config, name)) for name, setting in settings().items()}
    return {
        "settings": {
            name: {
                "value": None if value in (None, ()) else shown(setting, value),
                "given": config.sources.get(name),
            }
            for name, (setting, value) in values.items()
        },
        "queues": [
            {"name": queue.name, "attributes": queue.all_attributes(config.space), "tags": dict(queue.tags)}
            for queue in config.queues
        ],
        "topics": [
            {
                "name": topic.name,
                "attributes": topic.attributes,
                "tags": dict(topic.tags),
                "subscriptions": [
                    {
                        "protocol": each.subscriber.protocol,
                        "endpoint": each.endpoint(config.space),
                        "attributes": each.all_attributes(config.space),
                    }
                    for each in topic.subscriptions
                ],
            }
            for topic in config.topics
        ],
    }


def _print_settings(config: Config) -> None:
    width = max(map(len, settings()))
    values = {name: shown(setting, getattr(config, name)) for name, setting in settings().items()}
    longest = max(len(values[name]) for name in config.sources) if config.sources else 0
    for name, value in values.items():
        where = config.sources.get(name)
        click.echo(
            f"  {name:<{width}}  {value}"
            if where is None
            else f"* {name:<{width}}  {value:<{longest}}  {where}"
        )


def _print_queues(config: Config) -> None:
    for queue in config.queues:
        click.echo(f"\nqueue {queue.name}")
        for name, value in sorted(queue.all_attributes(config.space).items()):
            click.echo(f"  {name} = {value}")
        for key, value in queue.tags.items():
            click.echo(f"  tag {key} = {value}")


def _print_topics(config: Config) -> None:
    for topic in config.topics:
        click.echo(f"\ntopic {topic.name}")
        for name, value in sorted(topic.attributes.items()):
            click.echo(f"  {name} = {value}")
        for key, value in topic.tags.items():
            click.echo(f"  tag {key} = {value}")
        for each in topic.subscriptions:
            click.echo(f"  subscription of {each.shown}")
            for name, value in sorted(each.all_attributes(config.space).items()):
                click.echo(f"    {name} = {value}")
