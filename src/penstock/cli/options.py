"""Flags for the settings, generated from their definitions."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Mapping
from typing import Any, TypeVar

import click

from penstock.cli.failure import Failure
from penstock.client.endpoint import CONTEXT_VARIABLE
from penstock.server.settings.config import Config, ConfigError, Setting, former_settings, settings
from penstock.server.settings.load import CONFIG_VARIABLE, load_config
from penstock.server.settings.types import BOOLEAN, DATABASE, MAIL_URL, without_password

F = TypeVar("F", bound=Callable[..., Any])


def with_settings(function: F) -> F:
    for setting in former_settings().values():
        function = click.option(setting.flag, setting.name, hidden=True)(function)
    return with_these_settings(*settings())(function)


def with_these_settings(*names: str) -> Callable[[F], F]:
    """The flags of some settings, and --config for the rest."""

    def add(function: F) -> F:
        for name in reversed(names):
            function = _option(settings()[name])(function)
        return click.option(
            "--config", metavar="FILE", help=f"TOML file with settings and queues.  [{CONFIG_VARIABLE}]"
        )(function)

    return add


def configured(flags: Mapping[str, object], *, besides: Container[str] = (), serves: bool = False) -> Config:
    """``besides`` are variables of the command itself, which are not settings. ``serves``: they are those of a
    server, and checked as such."""
    environment = {
        name: value for name, value in os.environ.items() if name not in besides and name != CONTEXT_VARIABLE
    }
    try:
        return load_config(flags, environment, serves=serves)
    except ConfigError as error:
        raise Failure(str(error)) from None


def shown(setting: Setting, value: object) -> str:
    """Shows a value as it could be given in a flag or a file."""
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and setting.type.metavar == "SIZE":
        return _size(value)
    if setting.type in (DATABASE, MAIL_URL) and value is not None:
        return without_password(str(value))
    return "none" if value is None else f"{value:g}s" if isinstance(value, float) else str(value)


def _size(size: int) -> str:
    """Shows a size in the largest unit that gives a whole number."""
    for power, unit in ((40, "TB"), (30, "GB"), (20, "MB"), (10, "KB")):
        if size and size % (1 << power) == 0:
            return f"{size >> power}{unit}"
    return str(size)


def _option(setting: Setting) -> Callable[[F], F]:
    default = (
        ""
        if setting.default in (None, ()) or setting.type is BOOLEAN
        else f"{shown(setting, setting.default)}; "
    )
    help = f"{setting.help}  [{default}{setting.variable}]"
    if setting.type is BOOLEAN:
        return click.option(f"{setting.flag}/--no-{setting.flag[2:]}", setting.name, default=None, help=help)
    if setting.type.repeatable:
        return click.option(
            setting.flag, setting.name, metavar=setting.type.metavar, help=help, multiple=True,
            callback=lambda _context, _option, texts: ",".join(texts) if texts else None,
        )  # fmt: skip
    return click.option(setting.flag, setting.name, metavar=setting.type.metavar, help=help)
