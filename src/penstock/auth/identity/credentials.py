"""The credentials of a running server: the newest directory that the file could be made into.

Rule 1: a request sees one state of the file or another, never a mixture: the directory is replaced as a whole.
Rule 2: a file that cannot be used changes nothing. The reason is logged once for each state of the file.
"""

from __future__ import annotations

import logging
from pathlib import Path

from penstock.auth.identity.book import CredentialsError
from penstock.auth.identity.differences import differences
from penstock.auth.identity.directory import Directory
from penstock.auth.identity.file import read_file
from penstock.auth.private import stamp
from penstock.auth.rootkey import RootKey
from penstock.clock import Clock

_log = logging.getLogger("penstock.auth")


class Credentials:
    def __init__(self, path: Path, root_key: RootKey, clock: Clock) -> None:
        """Raises CredentialsError."""
        self._path = path
        self._root_key = root_key
        self._clock = clock
        self._seen = stamp(path)
        self.directory = self._read()

    def reload(self, *, asked: bool = False) -> str:
        """Take up a changed file. Gives one line that was also logged; empty if there was nothing to do.

        Cheap when the file is as it was: it can be called every second. ``asked`` reads it in any case. A file of ten
        thousand users takes seconds to read; this may run in a thread beside those who ask the directory.
        """
        found = stamp(self._path)
        if found == self._seen and not asked:
            return ""
        # Taken before the file is read: a change while it is read will be seen the next time.
        self._seen = found
        try:
            new = self._read()
        except CredentialsError as error:
            line = f"{error}; the credentials stay as they were"
            _log.error("%s", line)
            return line
        line = f"credentials read again: {differences(self.directory.book, new.book)}"
        self.directory = new
        _log.info("%s", line)
        return line

    def _read(self) -> Directory:
        book = read_file(self._path)
        try:
            return Directory(book, self._root_key, self._clock)
        except CredentialsError as error:
            raise CredentialsError(f"cannot use the credentials file {self._path}: {error}") from None
