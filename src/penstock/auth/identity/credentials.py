"""The credentials of a running server: the newest directory that the file could be made into.

Rule 1: a request sees one state of the file or another, never a mixture: the directory is replaced as a whole.
Rule 2: a file that cannot be used changes nothing. The log says why, and says it again every minute: as long as it
lasts, whoever was removed since is still let in.
Rule 3: unasked, a file is read when it has changed and nobody is writing it (:mod:`penstock.auth.watch`); and in any
case what changed while it was read is not taken.
Rule 4: a file that could not be read, this time, is tried again with every look.
"""

from __future__ import annotations

import logging
from pathlib import Path

from penstock.auth.encryption.root_key import INTERRUPTED, RootKey
from penstock.auth.identity.access_keys import SealedElsewhere
from penstock.auth.identity.book import CredentialsError, CredentialsUnreadable
from penstock.auth.identity.differences import differences, in_short
from penstock.auth.identity.directory import Directory
from penstock.auth.identity.file import read_file
from penstock.auth.watch import Watch
from penstock.clock import Clock

_log = logging.getLogger("penstock.auth")

_REMIND_MS = 60_000


class Credentials:
    def __init__(self, path: Path, root_key: RootKey, clock: Clock) -> None:
        """Raises CredentialsError."""
        self._path = path
        self._root_key = root_key
        self._clock = clock
        self._watch = Watch(path)
        self._trouble = ""  # why the file as it is now cannot be used
        self._told_ms = 0
        self.directory = self._read()
        self._watch.settle()
        _warn(self.directory.oddities)

    def reload(self, *, asked: bool = False) -> str:
        """Take up a changed file. Gives one line that was also logged; empty if there was nothing to do.

        Cheap when the file is as it was: it can be called every second. ``asked`` reads it in any case. A file of ten
        thousand users takes seconds to read; this may run in a thread beside those who ask the directory.
        """
        has_changed = self._watch.has_changed()
        if asked:
            self._trouble = ""  # whoever asks is told, even what was told a moment ago
        return self._take_up() if asked or has_changed else self._reminded()

    def _take_up(self) -> str:
        try:
            new = self._read()
        except CredentialsUnreadable as error:
            self._watch.unsettle()
            trouble = _still_in_force(error)
            if trouble == self._trouble:
                return self._reminded()
            self._trouble = trouble
            return self._complained()
        except CredentialsError as error:
            self._watch.settle()
            self._trouble = _still_in_force(error)
            return self._complained()
        if not self._watch.is_steady():
            line = (
                f"the credentials file {self._path} is being written: it will be read when it stays the same"
            )
            _log.info("%s", line)
            return line
        self._watch.settle()
        self._trouble = ""
        line = f"credentials read again: {differences(self.directory.book, new.book)}"
        _log.info("%s", line)
        _warn([each for each in new.oddities if each not in self.directory.oddities])
        self.directory = new
        return line

    def _reminded(self) -> str:
        due = self._trouble and self._clock.now_ms() - self._told_ms >= _REMIND_MS
        return self._complained() if due else ""

    def _complained(self) -> str:
        self._told_ms = self._clock.now_ms()
        _log.error("%s", self._trouble)
        return self._trouble

    def _read(self) -> Directory:
        book = read_file(self._path)
        try:
            return Directory(book, self._root_key, self._clock)
        except CredentialsError as error:
            hint = f"; {INTERRUPTED}" if isinstance(error, SealedElsewhere) else ""
            raise CredentialsError(f"cannot use the credentials file {self._path}: {error}{hint}") from None


def _still_in_force(error: CredentialsError) -> str:
    return f"{error}; the old credentials are still in force"


def _warn(oddities: list[str]) -> None:
    if oddities:
        _log.warning("%s", in_short(oddities))
