"""When the numbers of a shard were given out.

A message has no time of its arrival in the queue it is in: a dead letter keeps the time of its first send. But its
position is made from a number, and numbers grow with time. So it is enough to note now and then which number came
next: every second while queues are used. Notes become rarer with their age: a time that is read from them is wrong by
a second, or by a few percent of its age, at most.
"""

from __future__ import annotations

from bisect import bisect_right

import msgspec

from penstock.limits import DAY
from penstock.store.changes import RecordKind
from penstock.store.moving import to_fed_alone

_PRECISION = 32  # two notes are apart by less than their age divided by this
_KEPT_MS = 15 * DAY  # a queue keeps messages for at most 14 days


class NumberNotes(msgspec.Struct, frozen=True):
    """The stored notes. Each has the next number, and the time at which it was noted."""

    notes: list[tuple[int, int]] = []


NUMBER_NOTES = RecordKind("number_times", NumberNotes, to_fed_alone)


class NumberTimes:
    def __init__(self, stored: NumberNotes | None) -> None:
        self._notes: list[tuple[int, int]] = [] if stored is None else list(stored.notes)

    @property
    def stored(self) -> NumberNotes:
        return NumberNotes(list(self._notes))

    def note(self, next_number: int, now_ms: int) -> None:
        """Note that at this time all numbers below the next one have been given out, and no others."""
        notes = self._notes
        if len(notes) > 1 and notes[-1][0] == notes[-2][0] == next_number:
            notes.pop()  # of a time without any, the first and the last moment are known
        notes.append((next_number, now_ms))
        self._thin_out(now_ms)

    def note_idle(self, until_ms: int) -> None:
        """Note that no number was given out from the last note to this time."""
        if self._notes and self._notes[-1][1] < until_ms:
            self.note(self._notes[-1][0], until_ms)

    def _thin_out(self, now_ms: int) -> None:
        kept: list[tuple[int, int]] = []
        for note in self._notes:
            if note[1] < now_ms - _KEPT_MS:
                continue
            # The one before can go if this one is near enough to the one before that.
            if len(kept) > 1 and note[1] - kept[-2][1] < (now_ms - kept[-1][1]) // _PRECISION:
                kept.pop()
            kept.append(note)
        self._notes = kept

    def given_ms(self, number: int, now_ms: int) -> int:
        """About when this number was given out; the oldest time that is known if it was before that."""
        notes = self._notes
        place = bisect_right(notes, number, key=lambda note: note[0])
        if place == 0:
            return notes[0][1] if notes else now_ms
        if place == len(notes):
            return notes[-1][1]
        (first, first_ms), (last, last_ms) = notes[place - 1], notes[place]
        return first_ms + (last_ms - first_ms) * (number - first) // (last - first)
