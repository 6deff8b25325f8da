"""Reads the settings from a TOML file, the environment and flags. Errors name the source of the value."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple

from penstock.auth.encryption.root_key import VARIABLE as ROOT_KEY_VARIABLE
from penstock.auth.secret_files import why_not_trusted
from penstock.server.settings.config import (
    FORMER_NAMES,
    MEMORY_BUDGET_MIN,
    Config,
    ConfigError,
    Setting,
    former_settings,
    settings,
)
from penstock.server.settings.declared import DeclarationError
from penstock.server.settings.queues import check_queues, read_queues
from penstock.server.settings.topic_plans import check_topics
from penstock.server.settings.topics import read_topics
from penstock.server.settings.types import InvalidItem, without_password

_PREFIX = "PENSTOCK_"
_NEXT_VERSION = "the next version does not know the old name"
CONFIG_VARIABLE = f"{_PREFIX}CONFIG"
_DEPTH_MAX = 32
_NO_SETTINGS = (CONFIG_VARIABLE, ROOT_KEY_VARIABLE)
_SERVICE_LINK = re.compile(
    r"PENSTOCK_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_\w+)?)"
)


class Given(NamedTuple):
    setting: Setting
    value: object
    where: str


def load_config(
    flags: Mapping[str, object], environment: Mapping[str, str], *, serves: bool = True
) -> Config:
    """Raises ConfigError. Flags that are None were not given. ``serves``: the settings have to be complete, as a
    server needs them; other commands use some of them, and a part of them may be in the flags of the server."""
    path = str(flags.get("config") or environment.get(CONFIG_VARIABLE) or "")
    where = "--config" if flags.get("config") else CONFIG_VARIABLE
    table = _read_file(Path(path), where) if path else {}
    with _as_config_error(path):
        queues = read_queues(table.pop("queues", {}))
        topics = read_topics(table.pop("topics", {}))

    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    warnings: list[str] = []
    for source in (_from_file(table, path), _from_environment(environment), _from_flags(flags)):
        found: dict[str, tuple[Any, str]] = {}
        for given in source:
            name = FORMER_NAMES.get(given.setting.name, given.setting.name)
            if name in found:
                raise ConfigError(
                    f"{name} is given twice, once under its former name: remove that ({given.where})"
                )
            if name != given.setting.name:
                warnings.append(
                    f"{given.setting.name} ({given.where}) is called {name} now, and {_NEXT_VERSION}"
                )
            found[name] = _value(given), given.where
        if "listen" not in found and not found.keys().isdisjoint(("host", "port")):
            # host and port of a stronger source replace the list of a weaker one.
            values.pop("listen", None)
            sources.pop("listen", None)
        values |= {name: value for name, (value, _) in found.items()}
        sources |= {name: where for name, (_, where) in found.items()}
    config = Config(
        **values, queues=queues, topics=topics, file=path, sources=sources, warnings=tuple(warnings),
        flags={name: value for name, value in flags.items() if value is not None},
        variables={
            name: value for name, value in environment.items()
            if name.startswith(_PREFIX) and name != ROOT_KEY_VARIABLE
        },
    )  # fmt: skip
    if serves:
        _check_combinations(config)
    with _as_config_error(path):
        check_queues(queues, config.space)
        check_topics(topics, config.space)
    return config


def load_again(config: Config) -> Config:
    """Loads the settings again with the same flags and variables, as the file is now. Raises ConfigError."""
    return load_config(config.flags, config.variables)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    # Case and the prefix that all variables share do not make names more alike.
    by_folded = {_folded(each): each for each in known}
    near = get_close_matches(_folded(name), by_folded, n=1, cutoff=0.5)
    return f'; did you mean "{by_folded[near[0]]}"?' if near else ""


def _folded(name: str) -> str:
    return name.removeprefix(_PREFIX).lower()


def _read_file(path: Path, where: str) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            found, text = os.fstat(file.fileno()), file.read().decode()
        table = tomllib.loads(text)
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
    # The server runs this command: a user who can write or replace the file could run any command as the server.
    if "root_key_command" in table and (problem := why_not_trusted(path, found)) is not None:
        raise ConfigError(f"{path} sets root_key_command and cannot be trusted: {problem}")
    return table


def _too_deep(path: Path) -> ConfigError:
    return ConfigError(f"{path}: tables and arrays are nested too deeply: at most {_DEPTH_MAX} levels")


def _from_file(table: Mapping[str, object], path: str) -> Iterator[Given]:
    for name, value in table.items():
        setting = settings().get(name) or former_settings().get(name)
        if setting is None:
            hint = did_you_mean(name, [*settings(), "queues", "topics"])
            raise ConfigError(f'unknown setting "{name}" in {path}{hint}')
        yield Given(setting, value, path)


def _from_environment(environment: Mapping[str, str]) -> Iterator[Given]:
    by_variable = {setting.variable: setting for setting in settings().values()}
    known = by_variable | {setting.variable: setting for setting in former_settings().values()}
    for name, value in environment.items():
        if not name.startswith(_PREFIX) or name in _NO_SETTINGS or _is_service_link(name, value):
            continue
        if name not in known:
            hint = did_you_mean(name, [*by_variable, *_NO_SETTINGS])
            raise ConfigError(f'unknown setting "{name}" in the environment{hint}')
        yield Given(known[name], value, name)


def _is_service_link(name: str, value: str) -> bool:
    """Kubernetes sets such variables in every pod of a namespace with a Service named penstock, or penstock-NAME."""
    return _SERVICE_LINK.fullmatch(name) is not None or (name.endswith("_PORT") and "://" in value)


def _from_flags(flags: Mapping[str, object]) -> Iterator[Given]:
    for name, setting in (settings() | former_settings()).items():
        if flags.get(name) is not None:
            yield Given(setting, flags[name], setting.flag)


def _value(given: Given) -> Any:
    type_ = given.setting.type
    try:
        return type_.parse(given.value)
    except ValueError as error:
        value = error.item if isinstance(error, InvalidItem) else given.value
        shown = without_password(" ".join(str(value).split()))
        shown = f"{shown[:100]}…" if len(shown) > 100 else shown
        shown = f'"{shown}"' if isinstance(value, str) else shown
        source = f"{given.setting.name} ({given.where})"
        raise ConfigError(f"invalid value {shown} for {source}: expected {type_.expected}") from None


@contextmanager
def _as_config_error(path: str) -> Iterator[None]:
    try:
        yield
    except DeclarationError as error:
        hint = did_you_mean(error.unknown, error.known) if error.unknown else ""
        raise ConfigError(f"{error} ({path}){hint}") from None


def _check_combinations(config: Config) -> None:
    """A setting that would have no effect is an error."""
    if (config.tls_certificate is None) != (config.tls_key is None):
        given, missing = "tls_certificate", "tls_key"
        if config.tls_certificate is None:
            given, missing = missing, given
        raise ConfigError(f"{given} is set but {missing} is not: HTTPS needs both")
    if config.tls_client_ca is None and config.tls_client_auth != "none":
        raise ConfigError(
            f"tls_client_auth = {config.tls_client_auth} needs tls_client_ca: set it to the certificates of the "
            "authorities that issue client certificates"
        )
    if config.tls_client_ca is not None and config.tls_client_auth == "none":
        raise ConfigError(
            "tls_client_ca is set but client certificates are not asked for: "
            "set tls_client_auth to required or optional"
        )
    if config.tls_client_ca is not None and config.tls_certificate is None:
        raise ConfigError("tls_client_ca is set but tls_certificate is not: client certificates need HTTPS")
    if config.durability != "interval" and config.durability_interval != Config.durability_interval:
        raise ConfigError(
            f"durability_interval is set but durability is {config.durability}: set durability to interval"
        )
    if config.durability != "commit" and config.memory:
        raise ConfigError(
            f"durability = {config.durability} has no effect with memory, which uses no disk: remove one of them"
        )
    _check_test_clock(config)
    _check_mail(config)
    if 0 < config.shards < config.processes:
        raise ConfigError(
            f"shards = {config.shards} is too few for {config.processes} processes, which own at least one each: "
            "set shards to four per process, or leave it out"
        )
    if config.memory_budget < config.processes * MEMORY_BUDGET_MIN:
        raise ConfigError(
            f"memory_budget is too small for {config.processes} processes, which divide it: set it to "
            f"{config.processes * MEMORY_BUDGET_MIN >> 20}MB or more"
        )
    _check_cluster(config)
    if config.requests_burst and not config.requests_per_second:
        raise ConfigError("requests_burst is set but requests_per_second is not: a burst needs a rate limit")
    if config.regions and config.credentials is None:
        raise ConfigError(
            "regions is set but credentials is not: without credentials no signature is verified"
        )
    if config.audit_required and config.audit_file is None:
        raise ConfigError("audit_required is set but there is no audit log: set audit to the path of a file")


def _check_mail(config: Config) -> None:
    for name in ("smtp_password_file", "email_from"):
        if getattr(config, name) is not None and config.smtp_url is None:
            raise ConfigError(f"{name} is set but smtp_url is not: only a mail server needs it")
    if config.smtp_url is not None and config.email_from is None:
        raise ConfigError("smtp_url is set but email_from is not: set it to the address that mail comes from")


def _check_test_clock(config: Config) -> None:
    """Messages that an application needs must not expire because a test has advanced the clock."""
    if not config.test_clock:
        return
    if not config.memory:
        raise ConfigError(
            "test_clock is set but memory is not: advancing the clock would expire stored messages. Set memory, and "
            "remove store if it is set"
        )
    if config.processes > 1:
        raise ConfigError(
            "test_clock cannot be used with processes, which would each have a clock of its own: remove one of them"
        )


_CLUSTER_TLS = ("cluster_tls_certificate", "cluster_tls_key", "cluster_tls_ca")


def _check_cluster(config: Config) -> None:
    if config.store is not None:
        for name, is_set in (
            ("memory", config.memory),
            ("durability", config.durability != "commit"),
        ):
            if is_set:
                raise ConfigError(f"{name} has no effect with store, which is a database: remove one of them")
        if config.processes > 1:
            raise ConfigError(
                "processes cannot be used with store: a server on a database is one process. Start several of them "
                "as nodes of a cluster, with advertise"
            )
    if config.advertise is None:
        for name in ("cluster_listen", "cluster_secret_file", *_CLUSTER_TLS):
            if getattr(config, name) is not None:
                raise ConfigError(f"{name} is set but advertise is not: only nodes of a cluster need it")
    elif config.store is None:
        raise ConfigError("advertise is set but store is not: the nodes of a cluster share a database")
    elif config.cluster_secret_file is None:
        raise ConfigError(
            "advertise is set but cluster_secret_file is not: create one with "
            "(umask 077; openssl rand -hex 32 > cluster.secret), and give all nodes the same"
        )
    elif not config.advertise.port:
        raise ConfigError(
            "advertise has port 0: the other nodes need the port under which they reach this one"
        )
    given = [name for name in _CLUSTER_TLS if getattr(config, name) is not None]
    if given and len(given) < len(_CLUSTER_TLS):
        missing = next(name for name in _CLUSTER_TLS if name not in given)
        raise ConfigError(f"{given[0]} is set but {missing} is not: TLS between nodes needs all three files")
