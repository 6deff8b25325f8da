"""Looks for commits in the write-ahead log that SQLite would not find, because a frame before them is damaged.

SQLite reads the log up to the first frame with a wrong checksum and takes that for its end, as it must after a power
cut. If the damage is in the middle, everything behind it would vanish without a word. The checksum of a frame goes on
from that of the frame before, which is stored in it, so a frame behind the damage can still be checked by its
neighbour. https://sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from os import SEEK_END
from pathlib import Path
from struct import Struct, unpack
from typing import BinaryIO, NamedTuple

_HEADER = Struct(">8I")  # magic, version, page size, checkpoint, salt (2), checksum (2)
_FRAME = Struct(">6I")  # page, pages of the database if it ends a commit, salt (2), checksum (2)
_MAGIC = 0x377F0682  # one more: checksums are of big-endian numbers
_LAST_FRAME_OFFSET = 16  # in the index of the log, in the byte order of the machine
_WORDS = 1 << 32


class LostCommits(NamedTuple):
    """What the log contains after the point that SQLite takes for its end."""

    commits: int
    # Whether something was written after the first commit there. A single one may have been cut off by a power
    # failure while it was written: then nobody was told that it was made.
    is_damage: bool


def lost_commits(path: Path, page_bytes: int) -> LostCommits:
    """``path``: the database file, which no process has open. Nothing is changed."""
    log = Path(f"{path}-wal")
    commits, marks, is_damage = 0, 0, False  # marks: frames that end a commit, themselves damaged or not
    if log.exists() and log.stat().st_size > _HEADER.size and (reached := _frames_reached(path)) is not None:
        with log.open("rb") as file:
            frames = _Frames(file, page_bytes)
            for number in range(reached, frames.count):
                ends_commit = frames.ends_commit(number)
                if ends_commit is None or not (ends_commit or (marks and not is_damage)):
                    continue  # of an earlier use of the file; or it would tell nothing new
                if frames.is_sound(number):
                    is_damage = is_damage or marks > 0
                    commits += ends_commit
                marks += ends_commit
    return LostCommits(commits, is_damage)


def _frames_reached(path: Path) -> int | None:
    """How many frames SQLite finds; None if the database is not in the mode that uses a log, as a copy may be.

    A connection that only reads leaves the log as it is when it is closed."""
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
            return None
        with Path(f"{path}-shm").open("rb") as index:
            index.seek(_LAST_FRAME_OFFSET)
            return int.from_bytes(index.read(4), sys.byteorder)


class _Frames:
    """The frames of a log, counted from 0."""

    def __init__(self, file: BinaryIO, page_bytes: int) -> None:
        self._file = file
        self._bytes = _FRAME.size + page_bytes
        self.count = (file.seek(0, SEEK_END) - _HEADER.size) // self._bytes
        file.seek(0)
        header = file.read(_HEADER.size)
        magic, _, _, _, *self._salt, sum_0, sum_1 = _HEADER.unpack(header)
        self._order = "<>"[magic & 1] if magic & ~1 == _MAGIC else "<>"[sys.byteorder == "big"]
        self._header_sum = sum_0, sum_1
        if self._sum(header[:24], (0, 0)) != self._header_sum and self.count:
            self._salt = self._header(0)[2:4]  # the header itself is damaged

    def ends_commit(self, number: int) -> bool | None:
        """Whether the frame ends a commit; None if it is not a frame of the present use of the file, which begins
        again after each checkpoint."""
        _, pages, *salt_and_sum = self._header(number)
        return pages > 0 if salt_and_sum[:2] == self._salt else None

    def is_sound(self, number: int) -> bool:
        """Whether its checksum continues the one that is stored in the frame before."""
        before = self._header_sum if number == 0 else tuple(self._header(number - 1)[4:])
        stored = tuple(self._header(number)[4:])
        self._file.seek(_HEADER.size + number * self._bytes)
        frame = self._file.read(self._bytes)
        return self._sum(frame[:8] + frame[_FRAME.size :], before) == stored

    def _header(self, number: int) -> list[int]:
        self._file.seek(_HEADER.size + number * self._bytes)
        return list(_FRAME.unpack(self._file.read(_FRAME.size)))

    def _sum(self, data: bytes, before: tuple[int, ...]) -> tuple[int, int]:
        first, second = before
        words = iter(unpack(f"{self._order}{len(data) // 4}I", data))
        for word, next_word in zip(words, words, strict=True):
            first = (first + word + second) % _WORDS
            second = (second + next_word + first) % _WORDS
        return first, second
