"""Where settings come from: a TOML file, the environment, flags. Each is named in its errors."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from penstock.auth.encryption.root_key import VARIABLE as ROOT_KEY_VARIABLE
from penstock.server.settings.config import Config, ConfigError, Setting, settings
from penstock.server.settings.queues import DeclaredQueueError, read_queues
from penstock.server.settings.types import WrongPart

_PREFIX = "PENSTOCK_"
CONFIG_VARIABLE = f"{_PREFIX}CONFIG"
_DEPTH_MAX = 32
_NO_SETTINGS = (CONFIG_VARIABLE, ROOT_KEY_VARIABLE)
_SERVICE_LINK = re.compile(r"PENSTOCK_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_\w+)")


class Given(NamedTuple):
    setting: Setting
    value: object
    where: str


def load_config(flags: Mapping[str, object], environment: Mapping[str, str]) -> Config:
    """Raises ConfigError. Flags that are None were not given."""
    path = flags.get("config") or environment.get(CONFIG_VARIABLE)
    where = "--config" if flags.get("config") else CONFIG_VARIABLE
    table = _read_file(Path(str(path)), where) if path else {}
    with _told_as_config_error(str(path)):
        queues = read_queues(table.pop("queues", {}))

    values: dict[str, Any] = {}
    for source in (_from_file(table, str(path)), _from_environment(environment), _from_flags(flags)):
        found = {given.setting.name: _value(given) for given in source}
        if "listen" not in found and not found.keys().isdisjoint(("host", "port")):
            # The simple form of a stronger source stands for the list of a weaker one.
            values.pop("listen", None)
        values |= found
    config = Config(**values, queues=queues)
    _check_together(config)
    with _told_as_config_error(str(path)):
        for queue in queues:
            queue.check(config.space)
    return config


def did_you_mean(name: str, known: Iterable[str]) -> str:
    # Neither case nor the prefix that all variables share says anything about nearness.
    by_folded = {_folded(each): each for each in known}
    near = get_close_matches(_folded(name), by_folded, n=1, cutoff=0.5)
    return f'; did you mean "{by_folded[near[0]]}"?' if near else ""


def _folded(name: str) -> str:
    return name.removeprefix(_PREFIX).lower()


def _read_file(path: Path, where: str) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f'cannot read the config file "{path}" ({where}): {error.strerror}') from None
    except UnicodeDecodeError:
        raise ConfigError(f'cannot read the config file "{path}" ({where}): it is not UTF-8 text') from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(f"{path} is not valid TOML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise _too_deep(path) from None
    level: list[Any] = [table]
    for _ in range(_DEPTH_MAX):
        within = [part for each in level for part in (each.values() if isinstance(each, dict) else each)]
        level = [part for part in within if isinstance(part, (dict, list))]
    if level:
        raise _too_deep(path)
    return table


def _too_deep(path: Path) -> ConfigError:
    return ConfigError(f"{path}: tables and arrays lie too deep in one another")


def _from_file(table: Mapping[str, object], path: str) -> Iterator[Given]:
    for name, value in table.items():
        setting = settings().get(name)
        if setting is None:
            hint = did_you_mean(name, [*settings(), "queues"])
            raise ConfigError(f'unknown setting "{name}" in {path}{hint}')
        yield Given(setting, value, path)


def _from_environment(environment: Mapping[str, str]) -> Iterator[Given]:
    by_variable = {setting.variable: setting for setting in settings().values()}
    for name, value in environment.items():
        if not name.startswith(_PREFIX) or name in _NO_SETTINGS or _is_service_link(name, value):
            continue
        if name not in by_variable:
            hint = did_you_mean(name, [*by_variable, *_NO_SETTINGS])
            raise ConfigError(f'unknown setting "{name}" in the environment{hint}')
        yield Given(by_variable[name], value, name)


def _is_service_link(name: str, value: str) -> bool:
    """Kubernetes sets such variables in every pod beside a Service that is called penstock."""
    return _SERVICE_LINK.fullmatch(name) is not None or (name == "PENSTOCK_PORT" and "://" in value)


def _from_flags(flags: Mapping[str, object]) -> Iterator[Given]:
    for name, setting in settings().items():
        if flags.get(name) is not None:
            yield Given(setting, flags[name], setting.flag)


def _value(given: Given) -> Any:
    kind = given.setting.kind
    try:
        return kind.read(given.value)
    except ValueError as error:
        value = error.part if isinstance(error, WrongPart) else given.value
        shown = " ".join(str(value).split())
        shown = f"{shown[:100]}…" if len(shown) > 100 else shown
        shown = f'"{shown}"' if isinstance(value, str) else shown
        name = given.setting.name
        raise ConfigError(f"{name} = {shown} ({given.where}) is not right: give {kind.allowed}") from None


@contextmanager
def _told_as_config_error(path: str) -> Iterator[None]:
    try:
        yield
    except DeclaredQueueError as error:
        hint = did_you_mean(error.unknown, error.known) if error.unknown else ""
        raise ConfigError(f"{error} ({path}){hint}") from None


def _check_together(config: Config) -> None:
    if (config.tls_certificate is None) != (config.tls_key is None):
        given, lacking = "tls_certificate", "tls_key"
        if config.tls_certificate is None:
            given, lacking = lacking, given
        raise ConfigError(f"{given} is set and {lacking} is not: HTTPS needs both")
    if config.tls_client_ca is None and config.tls_client_auth != "none":
        asked = f"tls_client_auth = {config.tls_client_auth}"
        raise ConfigError(f"{asked} needs tls_client_ca: whose certificates are to be believed?")
    if config.tls_client_ca is not None and config.tls_client_auth == "none":
        raise ConfigError(
            "tls_client_ca is set and nobody is asked: set tls_client_auth to required or optional"
        )
    if config.tls_client_ca is not None and config.tls_certificate is None:
        raise ConfigError("tls_client_ca is set and tls_certificate is not: client certificates need HTTPS")
    if config.durability != "interval" and config.durability_interval != Config.durability_interval:
        told = f"durability_interval is set and durability is {config.durability}"
        raise ConfigError(f"{told}: set durability to interval")
    if config.durability != "commit" and config.memory:
        raise ConfigError(f"durability = {config.durability} needs a disk, and memory is set")
    if config.requests_burst and not config.requests_per_second:
        raise ConfigError("requests_burst is set and requests_per_second is not: a burst is beyond a rate")
    if config.regions and config.credentials is None:
        raise ConfigError(
            "regions is set and credentials is not: nobody verifies what a request is signed for"
        )
    if config.audit_required and not config.keeps_trail:
        raise ConfigError("audit_required is set and there is no audit trail: name its file with audit")
