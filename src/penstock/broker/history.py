"""What happened to a message, and who holds it.

The events of all messages of a process stand in one ring, in the order in which they happened: a request adds a tuple
for each of its messages, and nothing is put into words before it is asked for. The ring forgets the oldest events
first, so that the history of a message is complete if it begins with the send. It lives in memory: a restart, and a
move of the shard to another process, forget it. (The store still knows how often a message was received, and when
first.)

Who holds a message in flight is kept with its entry (:class:`Hold`), since a busy ring may forget a receive long
before its visibility timeout ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from penstock.broker.parts import Part
from penstock.clock import Clock, wall_offset
from penstock.limits import SECOND
from penstock.names import Requester
from penstock.queues.messages import Entry, State

if TYPE_CHECKING:
    from penstock.broker.shard import Commit, Shard

EventKind = Literal[
    "sent", "received", "extended", "released", "failed", "moved", "dead_lettered", "edited", "deleted", "expired"
]  # fmt: skip

# Strings and no enumeration: a tuple of strings and numbers is nothing that the garbage collector has to look at.
SENT: Final = "sent"
RECEIVED: Final = "received"
EXTENDED: Final = "extended"
RELEASED: Final = "released"
FAILED: Final = "failed"
MOVED: Final = "moved"
DEAD_LETTERED: Final = "dead_lettered"
EDITED: Final = "edited"
DELETED: Final = "deleted"
EXPIRED: Final = "expired"

Noted = tuple[int, int, int, EventKind, Requester | None, int | str | None, int]
"""(shard, seq, now_ms, event, requester, detail, queue). A detail that is a number: hidden for that many ms.
The queue is 0 where no request made it happen."""


class MessageEvent(NamedTuple):
    at_ms: int  # of the wall clock
    event: EventKind
    requester: Requester | None  # None: the server itself
    detail: str | None


class History(NamedTuple):
    events: list[MessageEvent]  # oldest first
    complete: bool  # False: earlier ones were forgotten, or happened in another shard


class Holder(NamedTuple):
    """Who received a message that is in flight."""

    by: str
    address: str
    user_agent: str
    since_ms: int  # of the wall clock, as the next
    until_ms: int
    extended: int  # how often


class ShardHistory(Part):
    """Records what happens to messages of one shard in the history of the process."""

    def __init__(self, shard: Shard, history: MessageHistory) -> None:
        self._shard = shard
        self._history = history
        shard.watch_events(self._note)

    def _note(self, commit: Commit) -> None:
        """Record events of messages that no request asked for."""
        note, index, now_ms = self._history.note, self._shard.index, self._shard.clock.now_ms()
        for seq, event, detail in commit.noted:
            note((index, seq, now_ms, event, None, detail, 0))
        for seq in commit.changes.expired:
            note((index, seq, now_ms, EXPIRED, None, None, 0))

    def forget_old(self) -> None:
        self._history.forget_old(self._shard.index, self._shard.clock.now_ms())

    def forget(self) -> None:
        self._history.forget_shard(self._shard.index)


class MessageHistory:
    """The events of all shards of a process."""

    def __init__(self, events_max: int, age_ms_max: int) -> None:
        """``events_max``: 0: none are kept."""
        self.events_max = events_max
        self._age_ms_max = age_ms_max
        self._ring: deque[Noted] = deque(maxlen=events_max)
        self.note: Callable[[Noted], None] = self._ring.append  # costs no Python call

    def __len__(self) -> int:
        return len(self._ring)

    def watch(self, watcher: Callable[[Noted], None]) -> None:
        """Call back for every event of queues that are created or loaded from now on."""
        keep = self.note

        def note(noted: Noted) -> None:
            keep(noted)
            watcher(noted)

        self.note = note

    def of(self, shard: int, seq: int, clock: Clock, queue: int | None = None) -> History:
        """``queue``: nothing, unless it is known that the message was in this queue: others may not look at it."""
        now_ms = clock.now_ms()
        since_ms, wall_offset_ms = now_ms - self._age_ms_max, wall_offset(clock)
        noted = [each for each in self._ring if each[1] == seq and each[0] == shard and each[2] > since_ms]
        if queue is not None and all(each[6] != queue for each in noted):
            return History([], False)
        # A waiting receive gets a message before the send is answered, which is when that is noted.
        noted.sort(key=lambda each: each[3] is not SENT)
        events = [
            MessageEvent(at_ms + wall_offset_ms, event, requester, _worded(event, detail))
            for _, _, at_ms, event, requester, detail, _ in noted
        ]
        return History(events, bool(events) and events[0].event == SENT)

    def forget_old(self, shard: int, now_ms: int) -> None:
        """Remove old events of a shard. This is called from time to time for each shard, because each has a clock of
        its own."""
        ring, since_ms = self._ring, now_ms - self._age_ms_max
        while ring and ring[0][0] == shard and ring[0][2] <= since_ms:
            ring.popleft()

    def forget_shard(self, shard: int) -> None:
        """Another process takes over: what happens there would be missing here."""
        kept = [each for each in self._ring if each[0] != shard]
        self._ring.clear()
        self._ring.extend(kept)


def holder_of(entry: Entry | None, clock: Clock) -> Holder | None:
    """Who holds a message; None if it is not in flight, or if that is not known since a restart."""
    if entry is None or entry.state is not State.IN_FLIGHT:
        return None
    hold = entry.hold
    if hold is None or hold.requester is None or hold.until_ms != entry.due_ms:
        return None  # hidden by something else since, such as a move task
    wall_offset_ms = wall_offset(clock)
    requester = hold.requester
    return Holder(
        requester.by, requester.address, requester.user_agent,
        hold.since_ms + wall_offset_ms, hold.until_ms + wall_offset_ms, hold.extended,
    )  # fmt: skip


def _worded(event: EventKind, detail: int | str | None) -> str | None:
    if isinstance(detail, int):
        return f"hidden for {detail / SECOND:g} s" if detail else "not hidden"
    return detail
