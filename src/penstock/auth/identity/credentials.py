"""The credentials of a running server: a directory that is replaced as a whole when the file changes.

A request sees one state of the file or another, never a mixture. A file that cannot be used changes nothing; the log
says why, and repeats it every minute, because removed users are still accepted until then. A file that could not be
read is tried again with every look.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from penstock.auth.encryption.root_key import INTERRUPTED, RootKey
from penstock.auth.identity.access_keys import OtherRootKey
from penstock.auth.identity.directory import Directory
from penstock.auth.identity.file import read_file
from penstock.auth.identity.model import CredentialsContent, CredentialsError, CredentialsUnreadable, all_keys
from penstock.auth.secret_files import FileWatch
from penstock.clock import Clock
from penstock.names import PARTITION

_log = logging.getLogger("penstock.auth")

_REPEAT_MS = 60_000
_WARNINGS_MAX = 8


class Credentials:
    def __init__(self, path: Path, root_key: RootKey, clock: Clock, partition: str = PARTITION) -> None:
        """Raises CredentialsError."""
        self._partition = partition
        self._path = path
        self._root_key = root_key
        self._clock = clock
        self._watch = FileWatch(path)
        self.problem = ""  # why the file as it is now cannot be used
        self._logged_ms = 0
        self.directory = self._read()
        self._watch.mark_read()
        _warn(self.directory.warnings)

    def reload(self, *, requested: bool = False) -> str:
        """Read a changed file. Returns the line that was logged; empty if there was nothing to do.

        Cheap if the file is unchanged: it can be called every second. ``requested`` reads it in any case. A
        file of ten thousand users takes seconds to read; this may run in a thread beside those that use the
        directory."""
        has_changed = self._watch.has_changed()
        if requested:
            self.problem = ""  # so that it is logged again
        return self._reread() if requested or has_changed else self._repeated()

    def _reread(self) -> str:
        try:
            new = self._read()
        except CredentialsUnreadable as error:
            self._watch.mark_unread()
            problem = _still_in_force(error)
            if problem == self.problem:
                return self._repeated()
            self.problem = problem
            return self._logged()
        except CredentialsError as error:
            self._watch.mark_read()
            self.problem = _still_in_force(error)
            return self._logged()
        if not self._watch.is_stable():
            line = f"the credentials file {self._path} is being written: it will be read when it is complete"
            _log.info("%s", line)
            return line
        self._watch.mark_read()
        self.problem = ""
        line = f"credentials reloaded: {_changes(self.directory.content, new.content)}"
        _log.info("%s", line)
        _warn([each for each in new.warnings if each not in self.directory.warnings])
        self.directory = new
        return line

    def _repeated(self) -> str:
        due = self.problem and self._clock.now_ms() - self._logged_ms >= _REPEAT_MS
        return self._logged() if due else ""

    def _logged(self) -> str:
        self._logged_ms = self._clock.now_ms()
        _log.error("%s", self.problem)
        return self.problem

    def _read(self) -> Directory:
        content = read_file(self._path)
        try:
            return Directory(content, self._root_key, self._clock, self._partition)
        except CredentialsError as error:
            hint = f"; {INTERRUPTED}" if isinstance(error, OtherRootKey) else ""
            raise CredentialsError(f"cannot use the credentials file {self._path}: {error}{hint}") from None


def _still_in_force(error: CredentialsError) -> str:
    return f"{error}; the old credentials are still in force"


def _warn(warnings: list[str]) -> None:
    if warnings:
        more = [f"and {len(warnings) - _WARNINGS_MAX} more"] if len(warnings) > _WARNINGS_MAX else []
        _log.warning("%s", ", ".join([*warnings[:_WARNINGS_MAX], *more]))


def _changes(old: CredentialsContent, new: CredentialsContent) -> str:
    """How many of each kind were added, removed or changed: ``1 user added, 2 active keys removed``."""
    counts: list[str] = []
    for (word, before), (_, after) in zip(_kinds(old), _kinds(new), strict=True):
        changed = [name for name in before.keys() & after.keys() if before[name] != after[name]]
        for what, names in (
            ("added", after.keys() - before.keys()),
            ("removed", before.keys() - after.keys()),
            ("changed", changed),
        ):
            if names:
                counts.append(_count(names, word, what))
    return ", ".join(counts) or "nothing changed"


def _count(names: Iterable[str], word: str, what: str) -> str:
    number = len(list(names))
    plural = word if number == 1 else f"{word.removesuffix('y')}ies" if word == "policy" else f"{word}s"
    return f"{number} {plural} {what}"


def _kinds(content: CredentialsContent) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What can differ, by name. Keys are counted by themselves, not with their owners."""
    accounts = content.accounts.items()
    yield "account", {number: account.sessions_since for number, account in accounts}
    yield (
        "user",
        {
            f"{number}/{name}": msgspec.structs.replace(user, keys=[])
            for number, account in accounts
            for name, user in account.users.items()
        },
    )
    yield (
        "role",
        {f"{number}/{name}": role for number, account in accounts for name, role in account.roles.items()},
    )
    yield "active key", {each.key.id: each.key for each in all_keys(content) if each.key.active}
    yield "policy", content.policies
