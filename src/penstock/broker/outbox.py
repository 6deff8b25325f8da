"""Messages for queues of other shards: they leave their queue with one commit, and are handed over until the other
shard has them.

A message that leaves stays a row of this store, with all that is known of it, but of the queue ``OUTBOX``; the same
commit appends to the log of the target shard which queue it left and which it is for. So nothing is lost. A page of
that log is handed over at a time and in order. The other shard adds the messages and notes the last position that it
took in one commit (:mod:`penstock.broker.inbox`), and takes none at or below that position again. So nothing arrives
twice. Only after its acknowledgement is the log truncated here and the rows removed, again in one commit.

A message that the other shard refuses, because its queue does not exist any more, goes back to where it was: same
queue, same place, same counts.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable
from enum import StrEnum
from functools import partial

import msgspec

from penstock.broker.catalogue import Catalogue
from penstock.broker.encryption import contents_or_errors
from penstock.broker.failures import FailureReport, Failures
from penstock.broker.history import MOVED
from penstock.broker.live_queue import LiveQueue
from penstock.broker.other_shards import HandedMessage, Handover, OtherShards, RemoteQueues
from penstock.broker.shard import Shard
from penstock.errors import PenstockError
from penstock.limits import MINUTE, SECOND
from penstock.names import QueueName, shard_of
from penstock.promise import Promise, run_detached
from penstock.queues.messages import Entry, entry_of
from penstock.store.changes import EntryRow, LogRow
from penstock.store.port import Store

log = logging.getLogger("penstock.broker")

OUTBOX = 0
"""The rows of messages on their way have this queue. Ids of queues begin at 1."""

LOG_KIND = "outbox"

_ROWS_PER_PAGE = 100
_BYTES_PER_PAGE = 512 * 1024  # or one message
_PAGES_MAX = 16
_RETRY_MIN_MS, _RETRY_MAX_MS = 100, 5 * SECOND
_UNREADABLE_PAUSE_MS = MINUTE


class Move(StrEnum):
    """What an operator does with a message for another shard."""

    MOVE = "move"  # it keeps its id
    DEAD_LETTER = "dead-letter"
    COPY = "copy"  # it belongs to no queue of this shard: if it is refused, it is forgotten


class Departure(msgspec.Struct, frozen=True, array_like=True):
    """An entry of the log: which message left which queue for which.

    Stored as a msgpack array: new fields come last, with a default."""

    seq: int
    queue: int
    source: QueueName
    target: QueueName
    task: str | None = None  # the move task or the bulk task that moves it
    move: Move | None = None  # what an operator does with it

    @property
    def is_dead_letter(self) -> bool:
        return self.move is Move.DEAD_LETTER or (self.move is None and self.task is None)


encode_departure = msgspec.msgpack.Encoder().encode
decode_departure = msgspec.msgpack.Decoder(Departure).decode


class Leaving(msgspec.Struct):
    """A message of a page."""

    position: int
    departure: Departure
    row: EntryRow
    content: bytes | None  # None: it cannot be decrypted


class PageSlots:
    """Bounds how many pages all outboxes of a process hold in memory at a time."""

    def __init__(self, free: int = _PAGES_MAX) -> None:
        self._free = free
        self._waiting: deque[Promise[None]] = deque()

    async def acquire(self) -> None:
        if self._free:
            self._free -= 1
        else:
            turn: Promise[None] = Promise()
            self._waiting.append(turn)
            await turn

    def release(self) -> None:
        if self._waiting:
            self._waiting.popleft().resolve(None)
        else:
            self._free += 1


class Outbox:
    def __init__(
        self,
        shard: Shard,
        catalogue: Catalogue,
        shards: int,
        others: OtherShards,
        slots: PageSlots,
        failures: Failures,
    ) -> None:
        self.shard = shard
        self.others = others
        self.slots = slots
        self.failures = failures
        self.remote = RemoteQueues(others, shard.clock)
        self.stopped = False
        self._catalogue = catalogue
        self._shards = shards
        self._routes = {target: Route(self, target) for target in range(shards) if target != shard.index}

    on_returned: Callable[[str], None]
    """Called for each message of a move task that goes back, with the task's id and the commit that does it open."""

    def start(self) -> None:
        """Go on with what was on its way when the shard was closed."""
        if OUTBOX in self.shard.usage:
            for route in self._routes.values():
                route.wake()

    def stop(self) -> None:
        self.stopped = True

    def other_shard(self, name: QueueName) -> int | None:
        """The shard of a queue; None if it is this one."""
        index = shard_of(name, self._shards)
        return None if index == self.shard.index else index

    def exists(self, name: QueueName) -> bool:
        """Can messages be sent there? Of queues of other shards this is what is known at once."""
        return self._catalogue.exists(name) or (
            self.other_shard(name) is not None and self.remote.may_exist(name)
        )

    def dead_letter(self, message: Entry, leaving: LiveQueue, to: QueueName, now_ms: int) -> None:
        """A message that was received too often leaves its queue for another one of whichever shard."""
        if self.other_shard(to) is None:
            self._catalogue.dead_letter(message, leaving, to, now_ms)
        else:
            self.add(message, leaving, to)

    def add(
        self,
        message: Entry,
        leaving: LiveQueue,
        to: QueueName,
        task: str | None = None,
        move: Move | None = None,
    ) -> int:
        """Let a message leave its queue for one of another shard, with the open commit. Returns its position."""
        message.due_ms = 0
        self.shard.changes.move(leaving.id, OUTBOX, message)
        return self._depart(Departure(message.seq, leaving.id, leaving.name, to, task, move))

    def add_copy(self, message: Entry, source: QueueName, to: QueueName, task: str | None = None) -> None:
        """A new message, made of one of this queue or by another part of the server, is for a queue of another
        shard."""
        self.shard.changes.add(OUTBOX, message)
        self._depart(Departure(message.seq, OUTBOX, source, to, task, Move.COPY))

    def _depart(self, departure: Departure) -> int:
        shard = shard_of(departure.target, self._shards)
        changes, position = self.shard.changes, self.shard.next_number()
        changes.logs.append(LogRow(LOG_KIND, str(shard), position, encode_departure(departure)))
        self.shard.touch(self._routes[shard])
        return position

    def is_pending(self, position: int) -> bool:
        """Is a message that left durably, of this position or of one before, still on its way?"""
        return any(route.running and route.taken < position for route in self._routes.values())

    def put_back(self, returning: list[Leaving]) -> None:
        """These messages cannot be handed over: they are again where they were. Part of the open commit."""
        queues: set[LiveQueue] = set()
        for leaving in returning:
            departure, row = leaving.departure, leaving.row
            queue = self._catalogue.by_id(departure.queue)
            if queue is None or row.position <= queue.record.purged_to:
                self.shard.changes.remove(OUTBOX, row)  # deleted or purged meanwhile, as if it had been there
                if departure.move is Move.COPY and departure.task is not None:
                    self.on_returned(departure.task)
                continue
            hidden_ms = self.shard.clock.now_ms() + _UNREADABLE_PAUSE_MS if leaving.content is None else 0
            entry = entry_of(row)
            entry.due_ms = hidden_ms if row.receives else 0
            self.shard.changes.move(OUTBOX, queue.id, entry)
            self.shard.open_commit.noted.append((row.seq, MOVED, f"back from {departure.target.name}"))
            queues.add(queue)
            if leaving.content is not None:
                self.remote.note(departure.target, exists=False)
            if departure.task is not None:
                self.on_returned(departure.task)
        for queue in queues:
            # Rare enough: no state of memory has to be patched.
            self.shard.touch(queue)
            queue.memory.forget()
            queue.memory.reload()


class Route:
    """The way to one other shard: hands over page after page while there is something in the log."""

    def __init__(self, outbox: Outbox, target: int) -> None:
        self._outbox = outbox
        self._target = target
        self._more = False  # something may have been added since the last read
        self.running = False
        self.taken = 0  # everything up to this position arrived there or went back

    def committed(self, arrived: list[Entry], now_ms: int) -> None:
        self.wake()

    def refused(self) -> None:
        """Nothing of the commit is in memory. But it may have been made, with an answer that came too late."""
        self.wake()

    def wake(self) -> None:
        self._more = True
        if not self.running:
            self.running = True
            run_detached(self._run())

    async def _run(self) -> None:
        outbox, pause_ms = self._outbox, _RETRY_MIN_MS
        try:
            while self._more and not outbox.stopped and outbox.shard.ended is None:
                self._more = False
                try:
                    await self._hand_over()
                    pause_ms = _RETRY_MIN_MS
                except Exception as error:
                    self._more = True
                    if not isinstance(error, PenstockError):
                        log.exception("handing messages over to shard %d failed", self._target)
                    elif pause_ms == _RETRY_MIN_MS and not outbox.stopped:
                        log.warning("messages for shard %d wait: %s", self._target, error)
                    await outbox.shard.pause(pause_ms)
                    pause_ms = min(2 * pause_ms, _RETRY_MAX_MS)
        finally:
            self.running = False

    async def _hand_over(self) -> None:
        """Hand the first page over, and forget what arrived. Raises PenstockError: then it is to be tried again."""
        outbox = self._outbox
        await outbox.slots.acquire()
        try:
            shard = outbox.shard
            page = await shard.read(partial(_read_page, shard.store, str(self._target), self.taken))
            if page:
                self._more = True
                await self.forget(page, await self.refused_of(page))
        finally:
            outbox.slots.release()

    async def refused_of(self, page: list[Leaving]) -> list[Leaving]:
        """Hand a page over; answers the messages that cannot be handed over."""
        outbox, now_ms = self._outbox, self._outbox.shard.clock.now_ms()
        messages = [
            _handed(leaving, now_ms, outbox.failures.of(leaving.row.seq))
            for leaving in page
            if leaving.content is not None
        ]
        refused: frozenset[int] = frozenset()
        if messages:
            taken = await outbox.others.deliver(Handover(outbox.shard.index, self._target, messages))
            assert taken.position >= messages[-1].position, "a page is taken whole or not at all"
            refused = frozenset(taken.refused)
        return [leaving for leaving in page if leaving.content is None or leaving.position in refused]

    async def forget(self, page: list[Leaving], refused: list[Leaving]) -> None:
        """The other shard has what it did not refuse. Done when that is durable here."""
        outbox, back = self._outbox, {leaving.position for leaving in refused}
        changes = outbox.shard.changes
        for leaving in page:
            if leaving.position not in back:
                changes.remove(OUTBOX, leaving.row)
        last = page[-1].position
        changes.truncated[LOG_KIND, str(self._target)] = last
        outbox.put_back(refused)
        await outbox.shard.settled()
        self.taken = last


def _handed(leaving: Leaving, now_ms: int, failures: tuple[FailureReport, ...]) -> HandedMessage:
    departure, row = leaving.departure, leaving.row
    assert leaving.content is not None
    keeps_id = departure.move is Move.MOVE
    return HandedMessage(
        position=leaving.position,
        target=departure.target,
        source=departure.source,
        is_dead_letter=departure.is_dead_letter,
        group=row.group,
        age_ms=max(0, now_ms - row.enqueued_ms),
        receives=row.receives,
        first_received_ms=row.first_received_ms,
        content=leaving.content,
        failures=failures if departure.move is not None or departure.task is None else (),
        keeps_id=keeps_id,
        version=row.version + keeps_id if keeps_id or departure.is_dead_letter else 1,
    )


# -- in the thread that reads --------------------------------------------------------------------------------


def _read_page(store: Store, key: str, after: int) -> list[Leaving]:
    entries = store.log(LOG_KIND, key, after, _ROWS_PER_PAGE)
    departures = [(entry.position, decode_departure(entry.data)) for entry in entries]
    rows = {row.seq: row for row in store.lookup(OUTBOX, 0, [each.seq for _, each in departures])}
    page: list[Leaving] = []
    bytes_left = _BYTES_PER_PAGE
    for position, departure in departures:
        row = rows[departure.seq]
        if page and row.size > bytes_left:
            break
        bytes_left -= row.size
        page.append(Leaving(position, departure, row, None))
    contents = contents_or_errors(store, [leaving.row.seq for leaving in page])
    for leaving in page:
        content = contents.get(leaving.row.seq)
        leaving.content = content if isinstance(content, bytes) else None
    return page
