"""Delivery: the one way of a message into a queue that no client sends it to.

What causes a delivery decides what applies to it; :data:`RULES` has a row for each cause. A message that leaves a
queue (a dead letter, a moved message) takes its history along. A message of a service (an alarm, a topic) is new: it
is deduplicated, counted and limited like one that a client sends.

Queues of the same shard get the message with the open commit, unless they are too many for one. For the others, and
for queues of other shards, it joins the outbox with that commit (:mod:`penstock.broker.outbox`), and
:meth:`QueueDelivery.arrive` adds it there: so a message means the same wherever its queue is. A message of a service
is stored once for each shard that it is handed over to, however many queues of that shard get it.

A queue that does not take a message refuses it. Then a message that left a queue returns to it, a copy is forgotten,
and the service that caused the delivery decides about its message.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from penstock.broker.encryption import KeyGuard
from penstock.broker.failures import Failures
from penstock.broker.handover import UNREADABLE, Cause, Departed, HandedMessage, QueueTarget, SentFor
from penstock.broker.history import DEAD_LETTERED, MOVED, SENT, EventKind
from penstock.broker.quotas import QuotaRoom, Quotas
from penstock.broker.shard import SETTLED, Commit, Shard
from penstock.errors import (
    DeliveryDenied,
    NotOwned,
    NotPossible,
    PenstockError,
    QueueMissing,
    QuotaReached,
    StoreClosed,
    StoreError,
    Unreachable,
)
from penstock.names import QueueName
from penstock.promise import Promise, start
from penstock.queues.dead_letters import dead_letter, moved_message
from penstock.queues.messages import (
    Content,
    Entry,
    Outgoing,
    bytes_sent,
    decode_content,
    encode_content,
    entry_of,
    position_of,
)
from penstock.queues.settings import QueueSettings
from penstock.store.changes import EntryRow

if TYPE_CHECKING:
    from penstock.broker.live_queue import LiveQueue
    from penstock.broker.outbox import Outbox

log = logging.getLogger("penstock.broker")


class IfRefused(StrEnum):
    """What becomes of a message that its queue does not take."""

    RETURN = "return"  # it goes back to the queue that it left: same place, counts and delay
    FORGET = "forget"
    ASK = "ask"  # the service that caused the delivery is asked


class Rules(NamedTuple):
    """What applies to the messages of a cause."""

    if_refused: IfRefused
    event: EventKind  # in the history of the message
    from_where: str = "from {}"  # in the history, behind the event
    is_sent: bool = False  # deduplicated, and counted as sent
    is_limited: bool = False  # by the quota of the account
    is_same: bool = False  # the message keeps its id, and what consumers reported about their failures


RULES = {
    Cause.DEAD_LETTER: Rules(IfRefused.RETURN, DEAD_LETTERED, is_same=True),
    Cause.REDRIVE: Rules(IfRefused.RETURN, MOVED),
    Cause.MOVE: Rules(IfRefused.RETURN, MOVED, is_same=True),
    Cause.COPY: Rules(IfRefused.FORGET, SENT, "as a copy of a message of {}", is_limited=True),
    Cause.SERVICE: Rules(IfRefused.ASK, SENT, "by {}", is_sent=True, is_limited=True),
}
"""Times and counts follow :mod:`penstock.queues.dead_letters`. Jobs have no cause: see
:meth:`QueueDelivery.enqueue`."""


class Refusal(NamedTuple):
    """A queue did not take a message of a service."""

    target: QueueTarget
    message: Outgoing | None  # as the queue would have got it; None: it cannot be decrypted or decoded
    reason: str  # the name of the error
    was_on_its_way: bool = False  # it was in the outbox


class Destination(NamedTuple):
    """A queue that an operator sends messages to."""

    name: QueueName
    settings: QueueSettings
    queue: LiveQueue | None  # None: it belongs to another shard

    def check(self, row: EntryRow, content: bytes) -> None:
        """Raises NotPossible if the queue does not take this message, and ContentDamaged if no queue can."""
        stored = decode_content(content)
        if self.settings.fifo and row.group is None:
            raise NotPossible("a FIFO queue only takes messages with a group: give the message a group first")
        # What is stored is never smaller than what was sent.
        if len(content) > self.settings.message_bytes_max:
            _check_size(stored.bytes_sent, self.settings)


MayDeliver = Callable[["LiveQueue", SentFor], bool]
"""Whether the policy of a queue lets a service send to it."""


class Again(NamedTuple):
    """The part of a job that it keeps when it joins its queue again. A queue places every arriving message last, so
    the job gets a new position."""

    id: str
    enqueued_ms: int


class _Sends(NamedTuple):
    """A message of a service that joins queues of this shard, and what applies to all of them."""

    message: Outgoing
    now_ms: int
    quotas: QuotaRoom | None
    sent_for: SentFor | None
    cause: str  # for the history
    counts: list[Callable[[], None]]  # by queue

    def count_all(self, commit: Commit) -> None:
        """The message is durable in all queues that took it."""
        for count in self.counts:
            count()


class QueueDelivery:
    """The deliveries of one shard."""

    def __init__(
        self,
        shard: Shard,
        queues: Mapping[QueueName, LiveQueue],
        outbox: Outbox,
        keys: KeyGuard,
        quotas: Quotas,
        failures: Failures,
        may_deliver: MayDeliver | None = None,
    ) -> None:
        """``queues``: those of all shards of this process. ``may_deliver``: None: no policies are enforced."""
        self._shard = shard
        self._queues = queues
        self._outbox = outbox
        self._keys = keys
        self._quotas = quotas
        self._failures = failures
        self._may_deliver = may_deliver

    # -- where to --------------------------------------------------------------------------------------------

    def exists(self, name: QueueName) -> bool:
        """Whether messages can be delivered there. For queues of other shards, this is what is known at once."""
        if self._outbox.other_shard(name) is None:
            return name in self._queues
        return self._outbox.remote.may_exist(name)

    def is_elsewhere(self, name: QueueName) -> bool:
        """Whether the queue of this name belongs to another shard."""
        return self._outbox.other_shard(name) is not None

    async def find(self, name: QueueName) -> Destination:
        """A queue that can take messages. Raises QueueMissing or KeyUnavailable; NotOwned if this shard was given
        back; StoreError, such as Unreachable, if the shard of the queue cannot say now whether it exists."""
        self._shard.check_owned()  # its queues are not found any more
        if self._outbox.other_shard(name) is None:
            queue = self._find_here(name)
            queue.check_key()
            return Destination(name, queue.settings, queue)
        try:
            record = await self._outbox.remote.find(name)
        except (NotOwned, StoreClosed) as error:
            # The other shard changes its owner. To the caller these errors mean that this shard does.
            raise Unreachable(f"the shard of the queue {name.name} is not open: {error}") from None
        if record is None:
            raise QueueMissing
        if record.settings.encryption_key is not None:
            self._keys.check(name.space, record.settings.encryption_key)
        return Destination(name, record.settings, None)

    async def find_all(self, names: Iterable[QueueName]) -> dict[QueueName, Destination | PenstockError]:
        """Each of these queues, or why it takes no messages. Raises NotOwned and StoreError as :meth:`find`: then
        that is not known."""
        found: dict[QueueName, Destination | PenstockError] = {}
        asked = {name: start(self.find(name)) for name in names}  # at a time, not one after the other
        for name, destination in asked.items():
            try:
                found[name] = await destination
            except (StoreError, NotOwned):
                raise
            except PenstockError as error:
                found[name] = error
        return found

    def _find_here(self, name: QueueName) -> LiveQueue:
        """A queue of this shard. Raises QueueMissing."""
        queue = self._queues.get(name)
        if queue is None or queue.shard is not self._shard:
            raise QueueMissing
        return queue

    # -- messages that leave a queue, in the open commit -----------------------------------------------------
    #
    # ``task``: the move task or bulk task that wants it. It is notified if a queue of another shard refuses the
    # message.

    def dead_letter(
        self, message: Entry, leaving: LiveQueue, to: QueueName, now_ms: int, task: str | None = None
    ) -> Departed:
        if self.is_elsewhere(to):
            return self._hand_over(message, leaving, to, Cause.DEAD_LETTER, task)
        number = self._shard.next_number()
        letter = dead_letter(message, number, leaving.arn, leaving.settings, now_ms)
        self._join(self._find_here(to), letter, leaving)
        return Departed(number, None)

    def redrive(
        self, message: Entry, content: bytes, leaving: LiveQueue, to: QueueName, task: str, now_ms: int
    ) -> Departed:
        """A move task takes a message that its queue has let go to another one, where it is a new message. Raises
        ContentDamaged: then nothing of it is in the open commit."""
        if self.is_elsewhere(to):
            return self._hand_over(message, leaving, to, Cause.REDRIVE, task)
        shard, number, queue = self._shard, self._shard.next_number(), self._find_here(to)
        id, wall_ms = _new_id(Cause.REDRIVE, queue, number), shard.clock.wall_ms()
        moved = moved_message(message, content, number, id, queue.settings, now_ms, wall_ms)
        shard.changes.remove(leaving.id, message)
        self._join(queue, moved)
        self._note(number, Cause.REDRIVE, leaving.name.name)
        return Departed(number, None)

    def move(
        self,
        row: EntryRow,
        content: bytes,
        leaving: LiveQueue,
        to: Destination,
        task: str | None,
        now_ms: int,
    ) -> Departed:
        """An operator moves a message. It keeps its id, and starts again otherwise."""
        entry = entry_of(row)
        if to.queue is None:
            return self._hand_over(entry, leaving, to.name, Cause.MOVE, task)
        shard, number = self._shard, self._shard.next_number()
        id, wall_ms = _new_id(Cause.MOVE, to.queue, number), shard.clock.wall_ms()
        moved = moved_message(entry, content, number, id, to.settings, now_ms, wall_ms)
        content = moved.content or content
        moved = msgspec.structs.replace(moved, seq=row.seq, size=row.size, version=row.version + 1)
        self._join(to.queue, moved, leaving)
        # The content is written again: under the key of the queue that it is in now.
        shard.changes.replace(row._replace(queue=to.queue.id), content, moved.version)
        moved.size = len(content)
        return Departed(number, None)

    def check_quota(self, cause: Cause, to: Destination, content: bytes) -> None:
        """Raises QuotaReached if the account cannot have one more message of this cause."""
        if RULES[cause].is_limited and self._quotas.bounds_messages:
            messages, size = 1, len(content)
            if to.queue is None:
                on_the_way = self._outbox.on_the_way(to.name.account)
                messages, size = messages + on_the_way.messages, size + on_the_way.bytes
            self._quotas.check(to.name.account, messages, size)

    def copy(
        self,
        row: EntryRow,
        content: bytes,
        source: LiveQueue,
        to: Destination,
        task: str | None,
        now_ms: int,
    ) -> Departed:
        shard, number = self._shard, self._shard.next_number()
        id = _new_id(Cause.COPY, source, number)
        copy = moved_message(entry_of(row), content, number, id, to.settings, now_ms, shard.clock.wall_ms())
        if to.queue is None:
            targets, account = [QueueTarget(to.name)], to.name.account
            return self._outbox.add(copy, Cause.COPY, targets, source.name.name, task, account=account)
        self._join(to.queue, copy)
        self._note(number, Cause.COPY, source.name.name)
        return Departed(number, None)

    def _hand_over(
        self, message: Entry, leaving: LiveQueue, to: QueueName, cause: Cause, task: str | None
    ) -> Departed:
        return self._outbox.take(message, leaving, to, cause, task)

    def _join(self, queue: LiveQueue, message: Entry, leaving: LiveQueue | None = None) -> None:
        """``leaving``: the queue that this very message leaves; None: it is a new one."""
        changes = self._shard.changes
        if leaving is None:
            changes.add(queue.id, message)
        else:
            changes.move(leaving.id, queue.id, message)
        self._shard.joining(queue).append(message)

    def _note(self, number: int, cause: Cause, source: str) -> None:
        rules = RULES[cause]
        self._shard.open_commit.noted.append((number, rules.event, rules.from_where.format(source)))

    def arrived(self, left: Departed) -> Promise[None]:
        """Returns a promise that is resolved when this message and those that left for its shard before are in their
        queues, or after a second."""
        position, route = left
        return SETTLED if route is None else route.arrival(position)

    def is_pending(self, departures: Mapping[int, int], anywhere: int = 0) -> bool:
        """Whether messages that left durably are on their way. ``departures``: the position of the last one for each
        other shard. ``anywhere``: a position for which the shard is not known."""
        return self._outbox.is_pending(departures, anywhere)

    async def has_room(self, departures: Mapping[int, int]) -> bool:
        """Whether what a task has sent to other shards has arrived. If it has not, this waits for it, for up to a
        second. A task sends nothing more before: what others send takes the same way, and would come behind it.
        Raises StoreClosed if nothing is handed over any more."""
        return await self._outbox.have_arrived(departures)

    def on_returned(self, notify: Callable[[str, str], None]) -> None:
        """Call back for each message of a task that a queue of another shard refuses, with the task's id and the name
        of the error. The commit that takes the message back is open."""
        self._outbox.on_returned(notify)

    def check_jobs(self, account: str, jobs: int, size: int) -> None:
        """Raises QuotaReached if so many more jobs with so many bytes are too many for an account."""
        if self._quotas.bounds_messages:
            self._quotas.check(account, jobs, size)

    # -- messages of services --------------------------------------------------------------------------------

    def on_refused(self, service: str, decide: Callable[[Refusal], None]) -> None:
        """Call back for each message of a service that a queue refuses later, with the commit that takes it out of
        the outbox open. To deliver it elsewhere, add a job to that commit, whose handler calls
        :meth:`deliver`: a FIFO queue whose memory is not loaded would refuse it again, and memory cannot be waited
        for here."""
        self._outbox.on_refused(service, decide)

    async def deliver(
        self,
        message: Outgoing,
        targets: Collection[QueueTarget],
        service: str,
        source: str,
        in_commit: Callable[[list[Refusal]], None] | None = None,
        check: Callable[[], None] | None = None,
        account: str = "",
        sent_for: SentFor | None = None,
    ) -> None:
        """Deliver a new message to queues of whichever shards. Returns when it is durable: in the queues of this
        shard, unless these are very many, and in the outbox for the others.

        ``service``: who is asked if a queue of another shard refuses the message (:meth:`on_refused`).
        ``source``: what caused it, for the history of the message. ``in_commit`` is called with the refusals of
        queues of this shard while the commit is open, and may add to it. ``check`` is called right before the
        message is decided on, and may raise. ``account``: whose quota bounds what waits for other shards; without,
        that of the account of the queues. ``sent_for``: the policies of the queues have to allow this; without, they
        are not asked. Raises StoreError or NotOwned: then nothing is delivered, or it cannot be known."""
        await self.prepare(targets)
        shard = self._shard
        shard.check_not_ended()
        shard.check_owned()
        shard.check_sends()
        if check is not None:
            check()
        refusals = self.decide(message, targets, service, source, account, sent_for)
        if in_commit is not None:
            in_commit(refusals)
        await shard.settled()

    async def prepare(self, targets: Iterable[QueueTarget]) -> None:
        """Load the memory of those queues that belong to this shard, as far as they exist."""
        found = (self._queues.get(target.queue) for target in targets)
        queues = [queue for queue in found if queue is not None and queue.shard is self._shard]
        while unloaded := [each for each in queues if not each.memory.loaded and not each.deleted]:
            loads = [start(queue.memory.load()) for queue in unloaded]  # at a time, not one after the other
            for load in loads:
                try:
                    await load
                except QueueMissing:
                    continue

    def decide(
        self,
        message: Outgoing,
        targets: Iterable[QueueTarget],
        service: str,
        source: str,
        account: str = "",
        sent_for: SentFor | None = None,
    ) -> list[Refusal]:
        """The part of :meth:`deliver` that joins the open commit. Returns which queues of this shard refuse the
        message, and those of other shards if the account has too much on the way. A FIFO queue that was not prepared
        refuses it. Of very many queues of this shard some get it through the outbox, so that no commit is too large:
        they refuse it as those of other shards do."""
        message = msgspec.structs.replace(message, size=bytes_sent(message.body, message.attributes))
        quotas = self._quotas.room()
        here, elsewhere = self._by_shard(targets, message.size)
        refusals = [
            Refusal(here[place], message_for(here[place], message), reason)
            for place, reason in self._send_all(here, message, source, quotas, sent_for)
        ]
        for of_shard in elsewhere.values():
            payer = account or of_shard[0].queue.account
            refused = self._refused_departures(message, of_shard, payer, quotas)
            if refused:
                refusals += refused
                gone = {each.target for each in refused}
                of_shard = [target for target in of_shard if target not in gone]
            if not of_shard:
                continue
            self._outbox.add(
                self._stored(message),
                Cause.SERVICE,
                of_shard,
                source,
                service=service,
                account=payer,
                delay_ms=message.delay_ms,
                insert_at=message.insert_at,
                sent_for=sent_for,
            )
        return refusals

    def _by_shard(
        self, targets: Iterable[QueueTarget], size: int
    ) -> tuple[list[QueueTarget], dict[int, list[QueueTarget]]]:
        """Returns the targets that get a message with the open commit, and by their shard those that get it through
        the outbox: all of other shards, and of this one what is too much for one commit."""
        here, elsewhere = list[QueueTarget](), dict[int, list[QueueTarget]]()
        for target in targets:
            index = self._outbox.other_shard(target.queue)
            (here if index is None else elsewhere.setdefault(index, [])).append(target)
        room = self._outbox.targets_at_a_time(size)
        if len(here) > room:
            # FIFO queues stay: what comes through the outbox arrives behind what is sent directly after it.
            ordered = [target for target in here if target.queue.name.endswith(".fifo")]
            others = [target for target in here if not target.queue.name.endswith(".fifo")]
            room = max(0, room - len(ordered))
            here = ordered + others[:room]
            if others[room:]:
                elsewhere[self._shard.index] = others[room:]
        return here, elsewhere

    def _refused_departures(
        self, message: Outgoing, targets: Sequence[QueueTarget], payer: str, quotas: QuotaRoom | None
    ) -> list[Refusal]:
        """The targets of another shard that a message does not leave for, because of a quota. What accounts have in
        queues is checked again when it arrives, and only then if the shard is of another node."""
        if quotas is None:
            return []
        on_the_way = self._outbox.on_the_way(payer)
        is_counted = self._quotas.counts_processes or targets[0].queue in self._queues
        reasons: dict[str, str] = {}  # by account
        for account in {each.queue.account for each in targets}:
            try:
                quotas.check_departure(message, (on_the_way.messages, on_the_way.bytes))
                if is_counted:
                    quotas.check_messages(account, [message])
            except QuotaReached as error:
                reasons[account] = type(error).__name__
        return [
            Refusal(each, message_for(each, message), reasons[each.queue.account])
            for each in targets
            if each.queue.account in reasons
        ]

    def _try_join(self, target: QueueTarget, join: Callable[[LiveQueue], None]) -> str | None:
        """A message joins a queue of this shard, with the open commit. Returns the name of the error if the queue
        refuses it: then nothing of it is in the commit, which others share."""
        added = self._shard.changes.added
        before = len(added)
        try:
            queue = self._find_here(target.queue)
            join(queue)
        except PenstockError as error:
            return type(error).__name__
        except Exception as error:
            # Whoever sent it would send it again for ever, and with it what joined other queues before.
            log.exception("a message cannot join the queue %s", target.queue.name)
            for row in added[before:]:
                self._shard.changes.remove(row.queue, row)
                joining = self._shard.joining(queue)
                joining[:] = [entry for entry in joining if entry.seq != row.seq]
            return type(error).__name__
        return None

    def _send_all(
        self,
        targets: Sequence[QueueTarget],
        message: Outgoing,
        source: str,
        quotas: QuotaRoom | None,
        sent_for: SentFor | None,
    ) -> list[tuple[int, str]]:
        """A message of a service joins queues of this shard. Returns the targets that refuse it, by their place, each
        with the name of the error."""
        cause = RULES[Cause.SERVICE].from_where.format(source)
        sends = _Sends(message, self._shard.clock.now_ms(), quotas, sent_for, cause, [])
        reasons = [self._try_join(target, partial(self._send, target, sends)) for target in targets]
        if sends.counts:
            self._shard.open_commit.when_durable.append(sends.count_all)
        return [(place, reason) for place, reason in enumerate(reasons) if reason is not None]

    def _send(self, target: QueueTarget, sends: _Sends, queue: LiveQueue) -> None:
        """Decide a send of a service, with the open commit. Raises PenstockError."""
        may_deliver, sent_for, quotas = self._may_deliver, sends.sent_for, sends.quotas
        if sent_for is not None and may_deliver is not None and not may_deliver(queue, sent_for):
            raise DeliveryDenied
        message, settings = message_for(target, sends.message), queue.settings
        queue.check_key()
        if settings.fifo and message.group is None:
            raise NotPossible("a FIFO queue only takes messages with a group")
        if settings.fifo and not queue.memory.loaded:
            raise NotPossible("the memory of the queue is not loaded")
        _check_size(message.size, settings)
        if quotas is None:
            answers, entries = queue.decide_send([message], sends.now_ms)
        else:
            answers, entries = queue.decide_send([message], sends.now_ms, quotas.check_messages)
            quotas.take(queue.name.account, entries)
        count = partial(queue.count_sent, [message], answers, entries, sends.now_ms, None, sends.cause)
        sends.counts.append(count)

    def _stored(self, message: Outgoing) -> Entry:
        """The row of a message in the outbox. The other shard gives it an id; its delay is in the departure."""
        clock, number = self._shard.clock, self._shard.next_number()
        content = Content(
            "", message.body, message.sender, clock.wall_ms(), message.attributes, message.trace,
            message.dedup_id,
        )  # fmt: skip
        return Entry(
            number, position_of(number), message.group, clock.now_ms(), content=encode_content(content)
        )

    def enqueue(
        self, queue: LiveQueue, body: str, group: str | None, delay_ms: int = 0, again: Again | None = None
    ) -> None:
        """A job joins an internal queue of this shard, with the open commit. It is never a duplicate. ``again``: it
        was there before."""
        shard, number = self._shard, self._shard.next_number()
        id = queue.rules.message_id(number) if again is None else again.id
        content = Content(id, body, "", shard.clock.wall_ms(), dedup_id=str(number))
        now_ms = shard.clock.now_ms()
        entry = Entry(
            number,
            position_of(number),
            group,
            now_ms if again is None else again.enqueued_ms,
            now_ms + delay_ms if delay_ms else 0,
            content=encode_content(content),
        )
        self._join(queue, entry)
        shard.touch(queue)

    # -- messages from other shards --------------------------------------------------------------------------

    async def prepare_arrival(self, messages: Iterable[HandedMessage]) -> None:
        """Wait until these can arrive."""
        await self.prepare(
            target for each in messages if RULES[each.cause].is_sent for target in each.targets
        )

    def arrive(self, message: HandedMessage, quotas: QuotaRoom | None) -> list[tuple[int, str]]:
        """A message of another shard joins its queues, with the open commit. Returns the targets that refuse it, by
        their place, each with the name of the error. ``quotas``: of the page that the message is in."""
        content = message.content
        if content is None:
            # This shard alone decides what arrives, since the message may have been readable when it was handed over
            # before.
            return [(place, UNREADABLE) for place in range(len(message.targets))]
        if RULES[message.cause].is_sent:
            delay_ms = message.delay_ms
            left_ms = None if delay_ms is None else max(0, delay_ms - message.age_ms)
            sent = outgoing_of(content, message.group, left_ms, message.insert_at)
            if sent is None:
                return [(place, UNREADABLE) for place in range(len(message.targets))]
            return self._send_all(message.targets, sent, message.source, quotas, message.sent_for)
        join = partial(self._add, message=message, content=content)
        reasons = [self._try_join(target, join) for target in message.targets]
        return [(place, reason) for place, reason in enumerate(reasons) if reason is not None]

    def quota_room(self) -> QuotaRoom | None:
        """Returns the room that accounts have left, for what arrives in one turn; None if there are no quotas."""
        return self._quotas.room()

    def _add(self, queue: LiveQueue, message: HandedMessage, content: bytes) -> None:
        """A message that left a queue of another shard, or a copy of one, joins a queue of this one."""
        shard = self._shard
        now_ms, number = shard.clock.now_ms(), shard.next_number()
        entry = Entry(
            number, position_of(number), message.group, now_ms - message.age_ms, 0, message.receives,
            first_received_ms=message.first_received_ms, content=content, version=message.version,
        )  # fmt: skip
        if message.cause is Cause.DEAD_LETTER:
            entry = dead_letter(entry, number, message.source_arn, queue.settings, now_ms)
        else:
            id, wall_ms = _new_id(message.cause, queue, number), shard.clock.wall_ms()
            entry = moved_message(entry, content, number, id, queue.settings, now_ms, wall_ms)
            entry.version = message.version
        self._join(queue, entry)
        if message.failures:
            self._failures.add(queue.id, number, message.failures)
        self._note(number, message.cause, message.source)


def _new_id(cause: Cause, queue: LiveQueue, number: int) -> str | None:
    """Returns None if a message keeps the id that it has."""
    return None if RULES[cause].is_same else queue.rules.message_id(number)


def _check_size(size: int, settings: QueueSettings) -> None:
    most = settings.message_bytes_max
    if size > most:
        raise NotPossible(f"the message is larger than the {most} bytes that the queue accepts")


def message_for(target: QueueTarget, message: Outgoing) -> Outgoing:
    """The message of a service as this queue gets it."""
    return message if message.insert_at is None else message.with_insertion(target.insertion)


def outgoing_of(
    content: bytes, group: str | None, delay_ms: int | None, insert_at: int | None
) -> Outgoing | None:
    """A message of a service as it was before it was stored; None if its content is damaged."""
    try:
        stored = decode_content(content)
    except Exception:
        log.exception("the content of a message of a service cannot be decoded")
        return None
    return Outgoing(
        body=stored.body,
        sender=stored.sender,
        attributes=stored.attributes,
        trace=stored.trace,
        delay_ms=delay_ms,
        group=group,
        dedup_id=stored.dedup_id,
        size=stored.bytes_sent,
        insert_at=insert_at,
    )
