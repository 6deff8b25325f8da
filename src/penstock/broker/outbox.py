"""Messages for queues of other shards: they join the outbox with one commit, and are handed over until the other
shard has them.

A message that leaves a queue stays a row of this store, with all that is known of it, but of the queue ``OUTBOX``. A
new one is a row of that queue. The same commit appends a departure to the log of the target shard, which says what
the row is and which queues it is for. So nothing is lost. A message of a service for very many queues of this very
shard takes the same way, so that no commit is too large. A page of that log is handed over at a time and in order.
The other shard adds the messages and notes the last position that it took in one commit
(:mod:`penstock.broker.inbox`), and takes none at or below that position again. So nothing arrives twice. Only after
its acknowledgement is the log truncated here and the rows removed, again in one commit.

A route that is not behind hands over what it has in memory from the commits themselves: a message is in the other
queue after two commits. What is too much for memory, and what was on its way at a restart, is read from the store.

What becomes of a message that the other shard refuses is a rule of its cause (:mod:`penstock.broker.delivery`).
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from hashlib import blake2b
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from penstock.backoff import backoff
from penstock.broker.delivery import RULES, IfRefused, Refusal, message_for, outgoing_of
from penstock.broker.encryption import contents_or_errors
from penstock.broker.failures import Failures
from penstock.broker.handover import (
    UNREADABLE,
    Cause,
    Departed,
    HandedMessage,
    Handover,
    QueueTarget,
    SentFor,
    TargetRefusal,
)
from penstock.broker.history import MOVED
from penstock.broker.other_shards import RemoteQueues
from penstock.broker.parts import Part
from penstock.broker.questions import OtherShards
from penstock.broker.shard import Shard
from penstock.errors import DepartureUnreadable, KeyUnavailable, PenstockError, QueueMissing, StoreClosed
from penstock.limits import DAY, MINUTE, SECOND
from penstock.names import QueueName, shard_of
from penstock.promise import Promise, run_detached
from penstock.queues.messages import UNDECODABLE, Entry, entry_of
from penstock.store.changes import EntryRow, LogRow, RecordKind
from penstock.store.moving import left_out
from penstock.store.port import LAST, Store

if TYPE_CHECKING:
    from penstock.broker.live_queue import LiveQueue

log = logging.getLogger("penstock.broker")

OUTBOX = 0
"""The rows of messages on their way have this queue. Ids of queues begin at 1."""

LOG_KIND = "outbox"

ARRIVAL_MS_MAX = SECOND
"""How long a request waits at most until its dead letters have arrived."""

_DEPARTURES_PER_PAGE = 100
_BYTES_PER_PAGE = 512 * 1024  # or one message
_BYTES_PER_ARRIVAL = 4 * 1024 * 1024  # of one commit of the other shard, or one target
_TARGETS_PER_PAGE = 500  # or one departure: what arrives keeps the other shard from anything else
_PAGES_SHARED_MAX = 16
_PAGES_PER_TARGET_MAX = 8
_RETRY_MIN_MS, _RETRY_MAX_MS = 100, 5 * SECOND
_UNREADABLE_PAUSE_MS = MINUTE
_SERVICE_MS_MAX = 4 * DAY
_EXPIRED = "Expired"
_LOGGED_BYTES = 500


class Departure(msgspec.Struct, frozen=True, array_like=True):
    """An entry of the log: which message is for which queues, and why.

    It is stored as a msgpack array behind the number of its version: new fields come last, with a default."""

    seq: int
    cause: Cause
    targets: tuple[QueueTarget, ...]  # one, unless it is a message of a service
    source: str  # the name of the queue that it left, or what caused it
    queue: int = OUTBOX  # that it left
    leaving: QueueName | None = None  # the name of that queue
    task: str | None = None  # the move task or the bulk task that moves it
    service: str | None = None  # which service is asked if it is refused
    is_last: bool = True  # False: a later departure has more targets of the same row
    account: str = ""  # whose quota bounds what is on its way, if it is a new message
    delay_ms: int | None = None  # of its own, from the time of the row on
    due_ms: int = 0  # until when it was delayed in the queue that it left, for its return
    insert_at: int | None = None  # where in the body the queues get their insertions
    sent_for: SentFor | None = None


class FirstDeparture(Departure, frozen=True, array_like=True):
    """One that release 0.2 has stored. That release handed no message over that it could not decrypt, and the other
    shard may have taken what comes behind it."""


class OnTheWay(msgspec.Struct, frozen=True, array_like=True):
    """How many new messages an account has in the outbox of a shard, for all other shards: those of services, and
    copies."""

    messages: int = 0
    bytes: int = 0


ON_THE_WAY = RecordKind("on-the-way", OnTheWay, left_out)
"""The messages on their way, by account. ``penstock migrate`` leaves none."""
_NOTHING = OnTheWay()


class _FirstMove(StrEnum):
    MOVE = "move"
    DEAD_LETTER = "dead-letter"
    COPY = "copy"


class _FirstDeparture(msgspec.Struct, frozen=True, array_like=True):
    """The stored form up to release 0.2."""

    seq: int
    queue: int
    source: QueueName
    target: QueueName
    task: str | None = None
    move: _FirstMove | None = None

    def migrated(self) -> Departure:
        if self.move is not None:
            cause = Cause(self.move.value)
        else:
            cause = Cause.DEAD_LETTER if self.task is None else Cause.REDRIVE
        left = None if cause is Cause.COPY else self.source
        targets = (QueueTarget(self.target),)
        return FirstDeparture(self.seq, cause, targets, self.source.name, self.queue, left, self.task)


_VERSION = b"\x02"  # no msgpack array begins so, which is what the first form was
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Departure).decode
_decode_first = msgspec.msgpack.Decoder(_FirstDeparture).decode


def store_id(secret: bytes) -> str:
    """Returns what tells the store of a shard from one that replaces it, from the secret that a store has for as long
    as it exists. It does not disclose the secret."""
    return blake2b(b"outbox", digest_size=8, key=secret).hexdigest()


def encode_departure(departure: Departure) -> bytes:
    return _VERSION + _encode(departure)


def decode_departure(data: bytes) -> Departure:
    """Decodes an entry of the log. Raises DepartureUnreadable."""
    try:
        return _decode(data[1:]) if data[:1] == _VERSION else _decode_first(data).migrated()
    except UNDECODABLE as error:
        raise DepartureUnreadable(str(error)) from None


class Leaving(msgspec.Struct):
    """A message of a page."""

    position: int
    departure: Departure
    row: EntryRow
    content: bytes | None  # None: it is not in memory, or cannot be decrypted
    bytes: int  # of what travels


class OutboxPage(NamedTuple):
    """What is handed over at a time: the beginning of the log."""

    messages: list[Leaving]
    upto: int  # the position that it ends with; 0: the log is empty


class PageRoom:
    """What still fits into a page. The first message always does."""

    def __init__(self) -> None:
        self._messages = 0
        self._left = _DEPARTURES_PER_PAGE, _BYTES_PER_PAGE, _BYTES_PER_ARRIVAL, _TARGETS_PER_PAGE

    def take(self, leaving: Leaving) -> bool:
        """Whether this message belongs to the page, behind those before."""
        targets = len(leaving.departure.targets)
        messages, size, arrival, sends = self._left
        left = messages - 1, size - leaving.bytes, arrival - leaving.row.size * targets, sends - targets
        if self._messages and min(left) < 0:
            return False
        self._messages, self._left = self._messages + 1, left
        return True


class PageSlots:
    """Bounds how many pages all outboxes of a process hold in memory at a time.

    A page for a shard that does not answer stays in memory for long. So each shard has a page of its own, and some
    more of those that all share."""

    def __init__(self) -> None:
        self._used: Counter[int] = Counter()  # by target
        self._waiting: deque[tuple[int, Promise[None]]] = deque()

    async def acquire(self, target: int) -> None:
        if self._has_room(target):
            self._used[target] += 1
        else:
            turn: Promise[None] = Promise()
            self._waiting.append((target, turn))
            await turn

    def release(self, target: int) -> None:
        self._used[target] -= 1
        for each in self._waiting:
            next_target, turn = each
            if self._has_room(next_target):
                self._waiting.remove(each)
                self._used[next_target] += 1
                turn.resolve(None)
                return

    def _has_room(self, target: int) -> bool:
        used = self._used[target]
        if not used:
            return True
        shared = sum(pages - 1 for pages in self._used.values() if pages)
        return shared < _PAGES_SHARED_MAX and used < _PAGES_PER_TARGET_MAX


class Outbox(Part):
    """The messages of a shard that are for queues of other shards, and what becomes of those that come back."""

    def __init__(
        self,
        shard: Shard,
        queues: Mapping[QueueName, LiveQueue],
        shards: int,
        others: OtherShards,
        slots: PageSlots,
        failures: Failures,
    ) -> None:
        """``queues``: those of all shards of this process."""
        self.shard = shard
        self.others = others
        self.slots = slots
        self.failures = failures
        self.remote = RemoteQueues(others, shard.clock)
        self.stopped = False
        self.store_id = store_id(shard.secret)
        self._queues = queues
        self._shards = shards
        # One to this very shard, too: for messages of services that are too much for one commit.
        self._routes = {target: Route(self, target) for target in range(shards)}
        self._on_returned: list[Callable[[str, str], None]] = []
        self._on_refused: dict[str, Callable[[Refusal], None]] = {}
        self._on_the_way = shard.table(ON_THE_WAY)

    def on_returned(self, notify: Callable[[str, str], None]) -> None:
        """Call back for each message of a task that is refused, with the task's id and the name of the error. The
        commit that takes the message back is open."""
        self._on_returned.append(notify)

    def on_refused(self, service: str, decide: Callable[[Refusal], None]) -> None:
        """Call back for each message of a service that a queue of another shard refuses, with the commit that takes
        it out of the outbox open."""
        self._on_refused[service] = decide

    def start(self) -> None:
        """Continue with what was on its way when the shard was closed."""
        if OUTBOX in self.shard.usage:
            for route in self._routes.values():
                route.wake()
        else:
            # An entry that could not be handed over may have left something.
            for account, _ in self._on_the_way:
                self._on_the_way.remove(account)

    def stop(self) -> None:
        self.stopped = True
        for route in self._routes.values():
            route.end_waits()

    def other_shard(self, name: QueueName) -> int | None:
        """The shard of a queue; None if it is this one."""
        index = shard_of(name, self._shards)
        return None if index == self.shard.index else index

    @staticmethod
    def targets_at_a_time(size: int) -> int:
        """How many queues get a message of this size in one commit."""
        return max(1, min(_TARGETS_PER_PAGE, _BYTES_PER_ARRIVAL // max(1, size)))

    # -- in the open commit ------------------------------------------------------------------------------------

    def take(
        self, message: Entry, leaving: LiveQueue, to: QueueName, cause: Cause, task: str | None = None
    ) -> Departed:
        """A message leaves its queue for one of another shard."""
        # One that was received, or that a move task has withdrawn, is hidden and not delayed. When it returns, it is
        # visible.
        due_ms = 0 if message.receives or cause is Cause.REDRIVE else message.due_ms
        message.due_ms = 0
        self.shard.changes.move(leaving.id, OUTBOX, message)
        departure = Departure(
            message.seq,
            cause,
            (QueueTarget(to),),
            leaving.name.name,
            leaving.id,
            leaving.name,
            task,
            due_ms=due_ms,
        )
        return self._depart(message, departure)

    def add(
        self,
        message: Entry,
        cause: Cause,
        targets: Sequence[QueueTarget],
        source: str,
        task: str | None = None,
        service: str | None = None,
        account: str = "",
        delay_ms: int | None = None,
        insert_at: int | None = None,
        sent_for: SentFor | None = None,
    ) -> Departed:
        """A new message is for queues of one shard. It is stored once. Returns the last departure."""
        assert message.content is not None
        self.shard.changes.add(OUTBOX, message)
        self._count(account, 1, message.size)
        at_a_time = self.targets_at_a_time(len(message.content))
        for start in range(0, len(targets), at_a_time):
            some, is_last = tuple(targets[start : start + at_a_time]), start + at_a_time >= len(targets)
            departed = self._depart(
                message,
                Departure(
                    message.seq,
                    cause,
                    some,
                    source,
                    task=task,
                    service=service,
                    is_last=is_last,
                    account=account,
                    delay_ms=delay_ms,
                    insert_at=insert_at,
                    sent_for=sent_for,
                ),
            )
        return departed

    def _depart(self, message: Entry, departure: Departure) -> Departed:
        target = shard_of(departure.targets[0].queue, self._shards)
        changes, position = self.shard.changes, self.shard.next_number()
        data = encode_departure(departure)
        changes.logs.append(LogRow(LOG_KIND, str(target), position, data))
        row = EntryRow(
            message.seq, OUTBOX, message.position, message.group, message.enqueued_ms, 0, message.receives,
            message.receives_before, message.first_received_ms, message.source, None, message.size,
            message.version,
        )  # fmt: skip
        route = self._routes[target]
        size = message.size + len(data)
        route.decided(Leaving(position, departure, row, message.content, size), message)
        return Departed(position, route)

    # -- arrivals ----------------------------------------------------------------------------------------------

    def is_pending(self, departures: Mapping[int, int], anywhere: int) -> bool:
        """Whether messages that left durably are on their way: to some shards, each up to a position; and up to the
        position ``anywhere`` to any shard."""
        return any(
            route.running and route.taken < max(departures.get(target, 0), anywhere)
            for target, route in self._routes.items()
        )

    async def have_arrived(self, departures: Mapping[int, int]) -> bool:
        """Whether the messages up to a position for each shard have arrived or were refused. If not, this waits for
        them, for up to a second. Raises StoreClosed if nothing is handed over any more."""
        if self.stopped:
            raise StoreClosed("the shard is closed or changes its owner")
        routes = (
            (self._routes[target], upto) for target, upto in departures.items() if target in self._routes
        )
        waits = [route.arrival(upto) for route, upto in routes if route.is_behind(upto)]
        for wait in waits:
            await wait
        return not waits

    def take_back(self, leaving: Leaving, refusals: Sequence[TargetRefusal]) -> LiveQueue | None:
        """Queues do not take this message; the open commit removes it from the outbox. Returns the queue that it goes
        back to, if it does."""
        departure = leaving.departure
        for refusal in refusals:
            if refusal.reason == QueueMissing.__name__:
                self.remote.note(departure.targets[refusal.place].queue, exists=False)
        if departure.task is not None:
            self._notify(departure.task, refusals[0].reason)
        rule = RULES[departure.cause].if_refused
        if rule is IfRefused.RETURN:
            return self._put_back(leaving, is_unreadable=refusals[0].reason == UNREADABLE)
        self.remove(leaving)
        if rule is IfRefused.ASK:
            self._ask_service(leaving, refusals)
        return None

    def _put_back(self, leaving: Leaving, *, is_unreadable: bool) -> LiveQueue | None:
        """The message is again where it was."""
        departure, row = leaving.departure, leaving.row
        assert departure.leaving is not None
        queue = self._queues.get(departure.leaving)
        if queue is None or queue.id != departure.queue or row.position <= queue.record.purged_to:
            self.shard.changes.remove(OUTBOX, row)  # deleted or purged meanwhile, as if it had been there
            return None
        entry = entry_of(row)
        is_hidden = is_unreadable and row.receives
        entry.due_ms = self.shard.clock.now_ms() + _UNREADABLE_PAUSE_MS if is_hidden else departure.due_ms
        self.shard.changes.move(OUTBOX, queue.id, entry)
        self.shard.open_commit.noted.append((row.seq, MOVED, f"back from {departure.targets[0].queue.name}"))
        return queue

    def remove(self, leaving: Leaving) -> None:
        """The open commit removes a message from the outbox, unless it has more targets."""
        departure, row = leaving.departure, leaving.row
        if departure.is_last:
            self.shard.changes.remove(OUTBOX, row)
            self._count(departure.account, -1, -row.size)

    def on_the_way(self, account: str) -> OnTheWay:
        """What new messages for other shards the account has here, with those of the open commit."""
        return self._on_the_way.get(account) or _NOTHING

    def _count(self, account: str, messages: int, size: int) -> None:
        if account:
            before = self.on_the_way(account)
            if before.messages + messages > 0:
                self._on_the_way.put(account, OnTheWay(before.messages + messages, before.bytes + size))
            else:
                self._on_the_way.remove(account)

    def _notify(self, task: str, reason: str) -> None:
        for notify in self._on_returned:
            try:
                notify(task, reason)
            except Exception:
                # The messages behind this one must not wait for ever.
                log.exception("task %s failed to note a message that came back", task)

    def _ask_service(self, leaving: Leaving, refusals: Sequence[TargetRefusal]) -> None:
        departure = leaving.departure
        decide = self._on_refused.get(departure.service or "")
        if decide is None:
            log.warning("%d queues refused a message of %s", len(refusals), departure.source)
            return
        content, message = leaving.content, None
        if content is not None:
            message = outgoing_of(content, leaving.row.group, departure.delay_ms, departure.insert_at)
        for refusal in refusals:
            target = departure.targets[refusal.place]
            try:
                refused = None if message is None else message_for(target, message)
                decide(Refusal(target, refused, refusal.reason, was_on_its_way=True))
            except Exception:
                # The messages behind this one must not wait for ever.
                log.exception(
                    "nothing was decided about a message of %s for %s", departure.source, target.queue
                )


class Route:
    """The way to one other shard: hands over page after page while there is something in the log."""

    def __init__(self, outbox: Outbox, target: int) -> None:
        self._outbox = outbox
        self.target = target
        self._more = False  # something may have been added since the last page
        # With the number of its commit: decided, and not durable yet, in order.
        self._deciding: list[tuple[int, Leaving]] = []
        self._fresh: list[Leaving] = []  # durable, and not handed over yet: the end of the log
        self._fresh_bytes = 0
        self._behind = OUTBOX in outbox.shard.usage  # the log may have more than that
        self._waits: dict[int, tuple[int, Promise[None]]] = {}  # each for the arrival of a position
        self._waits_begun = 0
        self._arrived = 0  # everything up to this position arrived there or was refused
        self.running = False
        self.taken = 0  # the same, durably

    # -- what is on its way ----------------------------------------------------------------------------------

    def decided(self, leaving: Leaving, message: Entry) -> None:
        """The open commit has this message."""
        shard = self._outbox.shard
        self._deciding.append((shard.changes.number, leaving))
        shard.touch(self)
        shard.joining(self).append(message)

    def committed(self, arrived: list[Entry], now_ms: int) -> None:
        durable, deciding = self._outbox.shard.changes.durable, self._deciding
        settled = [leaving for number, leaving in deciding if number == durable]
        self._deciding = [each for each in deciding if each[0] > durable]
        if not self._behind:  # otherwise the log is read next, which has them
            self._fresh += settled
            self._fresh_bytes += sum(leaving.bytes for leaving in settled)
        too_much = len(self._fresh) > _DEPARTURES_PER_PAGE or self._fresh_bytes > _BYTES_PER_PAGE
        if too_much or len(settled) != len(arrived):
            self._fall_behind()
        self.wake()

    def refused(self) -> None:
        """Keeps nothing of the commit in memory. But it may have been made, with an answer that came too late."""
        self._deciding.clear()
        self._fall_behind()
        self.wake()

    def _fall_behind(self) -> None:
        """The next page is read from the store."""
        self._behind = True
        self._fresh, self._fresh_bytes = [], 0

    # -- arrivals --------------------------------------------------------------------------------------------

    def is_behind(self, position: int) -> bool:
        """Whether something up to this position has not arrived."""
        return self.running and self._arrived < position

    def arrival(self, position: int) -> Promise[None]:
        """Returns a promise that is resolved when everything up to this position has arrived or was refused, or after
        a second."""
        arrived: Promise[None] = Promise()
        shard = self._outbox.shard
        if position <= self._arrived or self._outbox.stopped:
            arrived.resolve(None)
        else:
            self._waits_begun += 1
            end = partial(self._end_wait, self._waits_begun)
            late = shard.runtime.at(shard.clock.now_ms() + ARRIVAL_MS_MAX, end)
            arrived.on_done(lambda _: late.cancel())
            self._waits[self._waits_begun] = position, arrived
        return arrived

    def _end_wait(self, wait: int) -> None:
        if wait in self._waits:
            _, arrived = self._waits.pop(wait)
            arrived.resolve(None)

    def end_waits(self, position: int = LAST) -> None:
        """End the waits up to this position: everything has arrived or was refused, or is not waited for any more."""
        for wait in [wait for wait, (waited, _) in self._waits.items() if waited <= position]:
            self._end_wait(wait)

    # -- handing over ----------------------------------------------------------------------------------------

    def wake(self) -> None:
        self._more = True
        if not self.running:
            self.running = True
            run_detached(self._run())

    async def _run(self) -> None:
        outbox, failed = self._outbox, 0  # times in a row
        try:
            while self._more and not outbox.stopped and outbox.shard.ended is None:
                self._more = False
                try:
                    await self._hand_over()
                    failed = 0
                except Exception as error:
                    self._more = True
                    self._fall_behind()
                    failed += 1
                    if not isinstance(error, PenstockError):
                        log.exception("handing messages over to shard %d failed", self.target)
                    elif failed == 1 and not outbox.stopped:
                        log.warning("messages for shard %d wait: %s", self.target, error)
                    await outbox.shard.pause(int(backoff(failed, _RETRY_MIN_MS, _RETRY_MAX_MS)))
        finally:
            self.running = False

    async def _hand_over(self) -> None:
        """Hand the first page over, and remove what arrived. Raises PenstockError: then it is to be tried again."""
        outbox = self._outbox
        await outbox.slots.acquire(self.target)
        try:
            page = await (self._page_of_log() if self._behind else self._fresh_page())
            if page.upto:
                self._more = True
                try:
                    refusals = await self.refusals_of(page)
                except PenstockError:
                    page = self._take_expired(page)
                    if not page.upto:
                        raise
                    refusals = _refused_by_all(page, _EXPIRED)
                if not refusals:
                    self._note_arrived(page)  # waiting receives may answer before the removal is durable
                await self.acknowledge(page, refusals)
                self._note_arrived(page)
        finally:
            outbox.slots.release(self.target)

    async def _fresh_page(self) -> OutboxPage:
        # A page of the log may have had what was durable before this process was told so.
        fresh = [leaving for leaving in self._fresh if leaving.position > self.taken]
        page = list(takewhile(PageRoom().take, fresh))
        self._keep_fresh(fresh[len(page) :])
        missing = [leaving.row.seq for leaving in page if leaving.content is None]
        if missing:
            shard = self._outbox.shard
            contents = await shard.read(partial(contents_or_errors, shard.store, missing))
            _fill(page, contents)
        return OutboxPage(page, page[-1].position if page else 0)

    async def _page_of_log(self) -> OutboxPage:
        shard = self._outbox.shard
        self._behind = False  # what is committed from now on comes behind the page
        page, is_all = await shard.read(partial(_read_page, shard.store, str(self.target), self.taken))
        if is_all:
            self._keep_fresh([leaving for leaving in self._fresh if leaving.position > page.upto])
        else:
            self._fall_behind()
        return page

    def _keep_fresh(self, fresh: list[Leaving]) -> None:
        self._fresh, self._fresh_bytes = fresh, sum(leaving.bytes for leaving in fresh)

    def _take_expired(self, page: OutboxPage) -> OutboxPage:
        """Take the messages of services with which a page begins and which have waited for too long. The rest is read
        again."""
        since_ms = self._outbox.shard.clock.now_ms() - _SERVICE_MS_MAX
        old = list(
            takewhile(
                lambda each: each.departure.cause is Cause.SERVICE and each.row.enqueued_ms <= since_ms,
                page.messages,
            )
        )
        self._fall_behind()  # the others of the page are still in the log
        return OutboxPage(old, old[-1].position if old else 0)

    async def refusals_of(self, page: OutboxPage) -> dict[int, list[TargetRefusal]]:
        """Hand a page over. Returns which targets refuse a message, by its position."""
        outbox, now_ms = self._outbox, self._outbox.shard.clock.now_ms()
        # The other shard would take those of release 0.2 for arrived.
        refusals = {
            leaving.position: [TargetRefusal(leaving.position, 0, UNREADABLE)]
            for leaving in page.messages
            if leaving.content is None and isinstance(leaving.departure, FirstDeparture)
        }
        handed = [leaving for leaving in page.messages if leaving.position not in refusals]
        messages = [_handed(leaving, now_ms, outbox.failures) for leaving in handed]
        if not messages:
            return refusals
        handover = Handover(outbox.shard.index, self.target, outbox.store_id, messages)
        taken = await outbox.others.ask(handover)
        assert taken.position >= messages[-1].position, "a page is taken whole or not at all"
        for refusal in taken.refusals:
            refusals.setdefault(refusal.position, []).append(refusal)
        return refusals

    async def acknowledge(self, page: OutboxPage, refusals: Mapping[int, list[TargetRefusal]]) -> None:
        """Remove what the other shard has taken, and take back what it refuses. Returns when that is durable here.
        Raises NotOwned if this shard was given back: then the next owner hands the page over again, and hears of the
        same refusals."""
        outbox, shard = self._outbox, self._outbox.shard
        shard.check_owned()
        returned_to: set[LiveQueue] = set()
        for leaving in page.messages:
            if (of_message := refusals.get(leaving.position)) is not None:
                queue = outbox.take_back(leaving, of_message)
                if queue is not None:
                    returned_to.add(queue)
            else:
                outbox.remove(leaving)
        shard.changes.truncated[LOG_KIND, str(self.target)] = page.upto
        for queue in returned_to:
            # Rare enough: no state of memory has to be patched.
            shard.touch(queue)
            queue.memory.forget()
            queue.memory.reload()
        await shard.settled()
        if refusals:
            # With the next page the other shard forgets them, and may sync that before this shard is synced.
            await shard.synced()
        self.taken = page.upto

    def _note_arrived(self, page: OutboxPage) -> None:
        self._arrived = page.upto
        self.end_waits(self._arrived)


def _refused_by_all(page: OutboxPage, reason: str) -> dict[int, list[TargetRefusal]]:
    return {
        leaving.position: [
            TargetRefusal(leaving.position, place, reason) for place in range(len(leaving.departure.targets))
        ]
        for leaving in page.messages
    }


def _handed(leaving: Leaving, now_ms: int, failures: Failures) -> HandedMessage:
    departure, row = leaving.departure, leaving.row
    rules = RULES[departure.cause]
    version = row.version + (departure.cause is Cause.MOVE) if rules.is_same else 1
    return HandedMessage(
        position=leaving.position,
        cause=departure.cause,
        targets=departure.targets,
        source=departure.source,
        source_arn="" if departure.leaving is None else departure.leaving.arn,
        group=row.group,
        age_ms=max(0, now_ms - row.enqueued_ms),
        receives=row.receives,
        first_received_ms=row.first_received_ms,
        content=leaving.content,
        failures=failures.of(row.seq) if rules.is_same else (),
        version=version,
        delay_ms=departure.delay_ms,
        insert_at=departure.insert_at,
        sent_for=departure.sent_for,
    )


def _fill(page: list[Leaving], contents: Mapping[int, bytes | KeyUnavailable]) -> None:
    """Put contents where they are missing. One that cannot be decrypted stays so."""
    for leaving in page:
        if leaving.content is None:
            content = contents.get(leaving.row.seq)
            leaving.content = content if isinstance(content, bytes) else None


# -- in the thread that reads --------------------------------------------------------------------------------


def _read_page(store: Store, key: str, after: int) -> tuple[OutboxPage, bool]:
    """The first messages of a log, and whether it has no others."""
    entries = store.log(LOG_KIND, key, after, _DEPARTURES_PER_PAGE)
    departures = [(entry, _readable(entry, key)) for entry in entries]
    seqs = [departure.seq for _, departure in departures if departure is not None]
    rows = {row.seq: row for row in store.lookup(OUTBOX, 0, seqs)}
    page: list[Leaving] = []
    room, upto = PageRoom(), 0
    for entry, departure in departures:
        row = None if departure is None else rows.get(departure.seq)
        # Those behind one that cannot be handed over must not wait for ever.
        if departure is None:
            pass  # its message stays a row of the outbox, for a repair
        elif row is None:
            log.error(
                "message %d for shard %s is not in the outbox: it counts as arrived", departure.seq, key
            )
        else:
            leaving = Leaving(entry.position, departure, row, None, row.size + len(entry.data))
            if not room.take(leaving):
                break
            page.append(leaving)
        upto = entry.position
    _fill(page, contents_or_errors(store, list(dict.fromkeys(leaving.row.seq for leaving in page))))
    is_all = len(entries) < _DEPARTURES_PER_PAGE and (not entries or upto == entries[-1].position)
    return OutboxPage(page, upto), is_all


def _readable(entry: LogRow, key: str) -> Departure | None:
    """Returns None if an entry of the log cannot be decoded. Then it counts as arrived."""
    try:
        return decode_departure(entry.data)
    except DepartureUnreadable as error:
        log.error(
            "the entry %d of the outbox log for shard %s cannot be read, and its message stays where it is, in the "
            "outbox: %s. It begins with %r",
            entry.position, key, error, entry.data[:_LOGGED_BYTES],
        )  # fmt: skip
        return None
