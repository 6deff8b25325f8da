"""Messages are looked at without receiving them: listed in any state and order, filtered, or found by their id.

Looking changes nothing. Rows come from the store, a slice at a time, after what memory decided was written; what
memory has decided since then is laid over them. Contents are read only where the filter or the caller needs them, and
decoded and matched in the thread that reads. A call looks at a bounded number of messages and bytes; its cursor says
where it ended in the order of the listing, so that the next one starts there whatever has come or gone since.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from functools import partial
from time import thread_time
from typing import Annotated, NamedTuple

import msgspec

from penstock.broker.encryption import contents_or_errors
from penstock.broker.history import History
from penstock.broker.live_queue import LiveQueue
from penstock.broker.shard import Shard
from penstock.errors import (
    ContentDamaged,
    FilterInvalid,
    KeyUnavailable,
    MessageNotAvailable,
    QueueMissing,
    SearchUnfinished,
)
from penstock.limits import SECOND
from penstock.promise import Promise
from penstock.queues.filters import MessageFilter, RegexBudget
from penstock.queues.messages import Content, State, as_in_memory, decode_content
from penstock.queues.receipts import MessageIds, is_message_id
from penstock.queues.settings import QueueSettings
from penstock.store.changes import EntryRow
from penstock.store.port import LAST, Cursor, Selection, Store
from penstock.store.port import Order as Order  # services choose one

LOOKED_MAX = 2000
CONTENT_BYTES_MAX = 4 * 1024 * 1024

_SLICE_ROWS = 200
_SLICE_BYTES = 512 * 1024  # or one message
_REGEX_SECONDS = 0.5
_SEARCH_MS_MAX = 10 * SECOND  # for a message of which only the id is known; some 100,000 are read in a second


class MessageView(NamedTuple):
    """A message as it is now."""

    row: EntryRow  # without the encoded content
    content: Content | None  # None: it was not asked for, or cannot be read
    state: State
    unreadable: bool = False  # its key is disabled, or it is damaged


class MessagePage(NamedTuple):
    messages: list[MessageView]
    next: str | None  # where to continue; None: that was all
    looked_at: int


class ListingPlace(msgspec.Struct, frozen=True, array_like=True):
    """The last message of a listing that was looked at. In order of due time, those never hidden come first."""

    order: Order
    time_ms: Annotated[int, msgspec.Meta(ge=0, le=LAST)] = 0
    position: Annotated[int, msgspec.Meta(ge=0, le=LAST)] = 0

    @classmethod
    def after(cls, order: Order, row: EntryRow) -> ListingPlace:
        times = {Order.POSITION: 0, Order.AGE: row.enqueued_ms, Order.DUE: row.due_ms}
        return cls(order, times[order], row.position)

    @classmethod
    def parse(cls, text: str, order: Order) -> ListingPlace:
        try:
            place = msgspec.msgpack.decode(urlsafe_b64decode(text.encode("ascii")), type=cls)
        except (ValueError, msgspec.MsgspecError):
            raise FilterInvalid("after: write what an answer gave as next") from None
        if place.order is not order:
            raise FilterInvalid(
                f"after: it is from a listing in another order; write order={place.order.value}"
            )
        return place

    def __str__(self) -> str:
        return urlsafe_b64encode(msgspec.msgpack.encode(self)).decode("ascii")


class Inspection:
    def __init__(self, shard: Shard, ids: MessageIds) -> None:
        self._shard = shard
        self._ids = ids
        self._search: Promise[None] | None = None  # done when the search under way is

    async def list(
        self,
        queue: LiveQueue,
        filter: MessageFilter,
        *,
        order: Order = Order.POSITION,
        after: str | None = None,
        limit: int = 100,
        size_max: int = LAST,
        looked_max: int = LOOKED_MAX,
        upto: int = LAST,
        with_content: bool = True,
    ) -> MessagePage:
        """The first messages that match behind a place. Raises FilterInvalid or FilterTooSlow.

        A page may be short, or empty, and still have a next one. ``size_max``: of the messages of a page together,
        or one message. ``upto``: a position at which a listing in order of position ends."""
        filter.check()
        place = ListingPlace(order) if after is None else ListingPlace.parse(after, order)
        listing = Listing(queue, filter, place, limit, size_max, looked_max, upto, with_content)
        await self._written()
        while listing.goes_on:
            await (self._in_turn(listing) if filter.regex is not None or filter.id else listing.next_slice())
        self._check(queue)
        after = None if listing.at_end else str(listing.place)
        return MessagePage(listing.found, after, looked_max - listing.looked_left)

    async def get(self, queue: LiveQueue, id: str) -> MessageView:
        """Raises MessageNotAvailable."""
        shard, seq = self._shard, self._ids.number_of(id)
        if seq is not None:
            await self._written()
            rows = await shard.read(partial(shard.store.lookup, queue.id, queue.record.purged_to, [seq]))
            for view in await Listing(queue, MessageFilter(), ListingPlace(Order.POSITION)).matching(rows):
                if view.content is None or view.content.id == id:
                    self._check(queue)
                    return view
        return await self._look_for(queue, id)

    async def find(self, queue: LiveQueue, id: str) -> int:
        """The number of a message. Raises MessageNotAvailable."""
        return (await self.get(queue, id)).row.seq

    async def history(self, queue: LiveQueue, id: str) -> History:
        """The history of a message that is or was in the queue. Raises MessageNotAvailable if it is unknown."""
        try:
            return queue.history(await self.find(queue, id))
        except MessageNotAvailable:
            number = self._ids.number_of(id)
            if number is None:
                raise
            return queue.history(number, gone=True)

    async def _look_for(self, queue: LiveQueue, id: str) -> MessageView:
        """A message that has another number than its id says: it came from another shard, or was sent to an earlier
        release."""
        clock, after, wanted = self._shard.clock, None, MessageFilter(id=(id,))
        until_ms = clock.now_ms() + _SEARCH_MS_MAX
        while is_message_id(id):
            page = await self.list(queue, wanted, after=after, limit=1)
            if page.messages:
                return page.messages[0]
            if page.next is None:
                break
            if clock.now_ms() >= until_ms:
                raise SearchUnfinished
            after = page.next
        raise MessageNotAvailable

    async def _in_turn(self, listing: Listing) -> None:
        """One search at a time: it can keep the thread that reads busy for long, and receives wait for it, too."""
        while self._search is not None:
            await self._search
        self._search = search = Promise[None]()
        try:
            await listing.next_slice()
        finally:
            self._search = None
            search.resolve(None)

    async def _written(self) -> None:
        """Brings the store up to date with memory. If the store refuses changes, it is read as it is."""
        if self._shard.refuses is None:
            self._shard.write_later()
            await self._shard.settled()

    def _check(self, queue: LiveQueue) -> None:
        """Check that the queue still exists and that this process owns it: only then what was read counts."""
        self._shard.check_owned()
        if queue.deleted:
            raise QueueMissing


class Listing:
    """One listing under way: what it wants, and how far it has come."""

    def __init__(
        self,
        queue: LiveQueue,
        filter: MessageFilter,
        place: ListingPlace,
        limit: int = 1,
        size_max: int = LAST,
        looked_max: int = LOOKED_MAX,
        upto: int = LAST,
        with_content: bool = True,
    ) -> None:
        self._queue = queue
        self._shard = queue.shard
        self._filter = filter
        self._reads_content = with_content or filter.needs_content
        self._budget = RegexBudget(_REGEX_SECONDS, thread_time)
        self._limit = limit
        self._size_left = size_max
        self._bytes_left = CONTENT_BYTES_MAX  # that may still be read
        self._upto = upto
        self.looked_left = looked_max
        self.found: list[MessageView] = []
        self.place = place
        self.at_end = False

    @property
    def goes_on(self) -> bool:
        may_look = self.looked_left > 0 and self._bytes_left > 0
        return may_look and self._wants_more and not self.at_end

    @property
    def _wants_more(self) -> bool:
        return len(self.found) < self._limit and self._size_left > 0

    async def next_slice(self) -> None:
        """Look at some more messages, and keep those that match."""
        shard, order = self._shard, self.place.order
        wanted = self._limit - len(self.found) if self._filter.is_empty else LAST
        rows_max = min(_SLICE_ROWS, self.looked_left, wanted)
        rows = await shard.read(partial(_read_rows, shard.store, self._selection(), self.place, rows_max))
        rows = [row for row in rows if row.position <= self._upto]
        looked_at = 0
        while looked_at < len(rows) and self.goes_on:
            part = _within(rows[looked_at:], min(_SLICE_BYTES, self._bytes_left))
            matching = {view.row.seq: view for view in await self.matching(part)}
            for row in part:
                if not self._wants_more:
                    break
                looked_at += 1
                if row.seq in matching:
                    self.found.append(matching[row.seq])
                    self._size_left -= row.size
        if looked_at:
            self.looked_left -= looked_at
            self.place = ListingPlace.after(order, rows[looked_at - 1])
        self.at_end = looked_at == len(rows) < rows_max

    async def matching(self, rows: list[EntryRow]) -> list[MessageView]:
        """Returns those messages of these rows that match, as they are now."""
        views = self._present(rows)
        if not views or not self._reads_content:
            return views
        queue, shard, filter = self._queue, self._shard, self._filter
        try:
            queue.check_key()
        except KeyUnavailable:
            return [] if filter.needs_content else [view._replace(unreadable=True) for view in views]
        self._bytes_left -= sum(view.row.size for view in views)
        seqs = [view.row.seq for view in views]
        contents = await shard.read(
            partial(_read_contents, shard.store, queue.id, seqs, filter, self._budget)
        )
        found = []
        for view in self._present([view.row for view in views]):  # it may be received or gone by now
            if view.row.seq in contents:
                content = contents[view.row.seq]
                found.append(view._replace(content=content, unreadable=content is None))
        return found

    def _present(self, rows: list[EntryRow]) -> list[MessageView]:
        """Messages as memory knows them, without those that are gone or whose row does not match."""
        queue, shard = self._queue, self._shard
        now_ms, backlog = shard.clock.now_ms(), queue.rules.backlog
        coming, loaded = shard.coming(queue), queue.memory.loaded
        expired_ms, purged_to = backlog.expiry_cutoff_ms(now_ms), queue.record.purged_to
        views = []
        for row in rows:
            entry = backlog.index.get(row.seq) if loaded else None
            if entry is not None:
                row = as_in_memory(row, entry)
            elif loaded and backlog.knows(row.seq) and row.seq not in coming:
                continue  # removed, which is not durable yet
            if row.position <= purged_to or row.enqueued_ms <= expired_ms:
                continue
            state = _state(row, queue.settings, now_ms)
            if entry is not None and entry.state is State.IN_FLIGHT and row.due_ms > now_ms:
                state = State.IN_FLIGHT  # also what a move task has withdrawn, which is not received
            if self._filter.matches_row(row, state, now_ms):
                views.append(MessageView(row, None, state))
        return views

    def _selection(self) -> Selection:
        """Returns the conditions that the store can check cheaply, because an index of the order leads past what does
        not match."""
        queue, filter, order = self._queue, self._filter, self.place.order
        now_ms = self._shard.clock.now_ms()
        which = Selection(queue.id, queue.record.purged_to)
        if filter.older_than_s is not None and order is not Order.DUE:
            which = which._replace(enqueued_ms_max=now_ms - int(filter.older_than_s * SECOND))
        if order is Order.AGE:
            first_ms = queue.rules.backlog.expiry_cutoff_ms(now_ms) + 1
            if filter.younger_than_s is not None:
                first_ms = max(first_ms, now_ms - int(filter.younger_than_s * SECOND) - 1)
            which = which._replace(enqueued_ms_min=max(0, first_ms))
        elif filter.state == "in_flight":
            which = which._replace(due_ms_min=now_ms + 1, received=True)
        elif filter.state == "delayed" and order is Order.DUE and not queue.settings.fifo:
            which = which._replace(due_ms_min=now_ms + 1, received=False)
        return which


def _state(row: EntryRow, settings: QueueSettings, now_ms: int) -> State:
    if row.due_ms > now_ms:
        return State.IN_FLIGHT if row.receives else State.DELAYED
    # SQS: the delay of a FIFO queue is the queue's, never the message's.
    if settings.fifo and row.enqueued_ms + settings.delay_ms > now_ms:
        return State.DELAYED
    return State.READY


def _within(rows: list[EntryRow], bytes_max: int) -> list[EntryRow]:
    """The first of them, up to this many bytes of content; at least one."""
    for i, row in enumerate(rows):
        bytes_max -= row.size
        if bytes_max < 0:
            return rows[: max(1, i)]
    return rows


# -- in the thread that reads --------------------------------------------------------------------------------


def _read_rows(store: Store, which: Selection, place: ListingPlace, rows_max: int) -> list[EntryRow]:
    order = place.order
    behind = which._replace(after=max(which.after, place.position))
    if order is Order.POSITION:
        return store.select(behind, rows_max=rows_max)
    if order is Order.AGE:
        return store.select(which, order, after=Cursor(place.time_ms, place.position), rows_max=rows_max)
    rows = []
    if place.time_ms == 0 and which.due_ms_min == 0:
        rows = store.select(behind._replace(due_ms_max=0), rows_max=rows_max)
    if len(rows) < rows_max:
        hidden = which._replace(due_ms_min=max(1, which.due_ms_min))
        start = Cursor(place.time_ms, place.position) if place.time_ms else None
        rows += store.select(hidden, order, after=start, rows_max=rows_max - len(rows))
    return rows


def _read_contents(
    store: Store, queue: int, seqs: list[int], filter: MessageFilter, budget: RegexBudget
) -> dict[int, Content | None]:
    """The contents of those that match; None where it cannot be decrypted or decoded."""
    found: dict[int, Content | None] = {}
    encoded = contents_or_errors(store, seqs)
    for seq, data in encoded.items():
        try:
            content = decode_content(data) if isinstance(data, bytes) else None
        except ContentDamaged:
            content = None
        if not filter.needs_content or (content is not None and filter.matches_content(content, budget)):
            found[seq] = content
    missing = [seq for seq in seqs if seq not in encoded]
    if missing and not filter.needs_content:
        # Messages that still have a row are damaged; the others are gone by now.
        found |= {row.seq: None for row in store.lookup(queue, 0, missing)}
    return found
