"""Reload while the server runs, on SIGHUP or by request: settings, declared queues, certificates, credentials, keys.

Everything is read again. Settings that can change at run time are used at once, for what begins from then on. A
change of another one is refused, and it stays as it was until the next start. A file that cannot be used leaves
everything as it was. The log says what became of each.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from penstock.errors import PenstockError
from penstock.server.settings.config import Config, ConfigError, settings
from penstock.server.settings.declared import DeclarationError

if TYPE_CHECKING:
    from penstock.server.compose import Parts

log = logging.getLogger("penstock.server")

RUN_TIME = frozenset({
    "log_level", "cors_origins", "disk_warning", "relaxed_waits", "memory_budget",
    "max_connections", "max_connections_per_address", "max_header_size", "max_body_size", "max_buffered_size",
    "idle_timeout", "header_timeout", "body_timeout", "write_timeout", "stop_timeout",
    "requests_per_second", "requests_burst", "quota_queues", "quota_messages", "quota_bytes",
    "alarm_webhooks", "topic_private_endpoints", "smtp_url", "smtp_password_file", "email_from",
})  # fmt: skip
"""Settings that can change while the server runs."""

QUEUES, TOPICS = "declared queues", "declared topics"
_RESTART = "it takes effect with the next start"
_UNCOUNTED = (
    "messages are counted only if the server was started with a quota of messages or bytes: restart it"
)


class ReloadReport(NamedTuple):
    """What a reload changed, by the names of settings and files."""

    reloaded: list[str]
    unchanged: list[str]
    refused: list[tuple[str, str]]  # with the reason

    def log(self) -> None:
        log.info("reloaded", extra={"reloaded": self.reloaded, "unchanged": self.unchanged})
        for what, why in self.refused:
            log.warning("not reloaded: %s: %s", what, why)


class Adopted(NamedTuple):
    config: Config  # the present settings, with those of the new ones that can be used at once
    changed: list[str]
    refused: list[tuple[str, str]]


def adopt(present: Config, wanted: Config) -> Adopted:
    """Declared queues and topics are not part of it."""
    changed: dict[str, object] = {}
    refused = []
    counts = bool(present.quota_messages or present.quota_bytes)
    for name in settings():
        value = getattr(wanted, name)
        if value == getattr(present, name):
            continue
        if name not in RUN_TIME:
            refused.append((name, _RESTART))
        elif name in ("quota_messages", "quota_bytes") and not counts:
            refused.append((name, _UNCOUNTED))
        else:
            changed[name] = value
    return Adopted(replace(present, **changed), list(changed), refused)  # type: ignore[arg-type]


class Reloading:
    def __init__(self, parts: Parts, load: Callable[[], Config], reload_others: Callable[[], None]) -> None:
        """``load`` reads the settings again, as at the start, and raises ConfigError. ``reload_others`` makes the
        other processes of the server reload, too."""
        self._parts = parts
        self._load = load
        self._reload_others = reload_others

    async def requested(self) -> ReloadReport:
        """Reloads because a client of this process asked for it."""
        report = await self.run()
        self._reload_others()
        return report

    async def run(self) -> ReloadReport:
        report = ReloadReport([], [], [])
        try:
            wanted = self._load()
        except ConfigError as error:
            report.refused.append(("settings", str(error)))
        else:
            self._apply(wanted, report)
            await self._declare(wanted, report)
        for what, problem in (await self._parts.early.reload_files()).items():
            if problem:
                report.refused.append((what, problem))
            else:
                report.reloaded.append(what)
        report.log()
        return report

    def _apply(self, wanted: Config, report: ReloadReport) -> None:
        adopted = adopt(self._parts.config, wanted)
        if adopted.changed:
            self._parts.apply(adopted.config)
            report.reloaded.extend(adopted.changed)
        report.refused.extend(adopted.refused)
        if not adopted.changed and not adopted.refused:
            report.unchanged.append("settings")

    async def _declare(self, wanted: Config, report: ReloadReport) -> None:
        parts, present = self._parts, self._parts.config
        try:
            changed = await parts.declare_queues(wanted)
            _note(QUEUES, bool(changed) or wanted.queues != present.queues, report)
        except (DeclarationError, PenstockError) as error:
            report.refused.append((QUEUES, str(error) or type(error).__name__))
            return
        try:
            changed = await parts.declare_topics(wanted)
            if wanted.topics or present.topics:
                _note(TOPICS, bool(changed) or wanted.topics != present.topics, report)
        except (DeclarationError, PenstockError) as error:
            report.refused.append((TOPICS, str(error) or type(error).__name__))
            return
        parts.early.declared(wanted)


def _note(what: str, is_changed: bool, report: ReloadReport) -> None:
    (report.reloaded if is_changed else report.unchanged).append(what)
