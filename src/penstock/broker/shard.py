"""A shard: one journal with its group commit, one counter, one secret, and what every part of the broker needs.

Group commit: decisions made while one commit is written share the next. A reply that rests on a change waits until
its commit is durable, and so does a reply that only leans on another's change.

What lives in memory and depends on commits is a participant of the journal. When a commit is durable, each of its
participants is notified with the messages that join it (a sent message joins its queue never before). When a commit
is refused, everything decided since fails with it: records go back to what they were, and participants forget what
they know and load it again from the store. So memory never runs ahead of the store.

When the store refuses the data of a commit, it is not known whose data that was. Its requests get DecideAgain and
are decided again (``wire/dispatch.py``), and for a while every request has a commit of its own: then only the request
whose data is refused fails. A commit that waits behind a refused one fails with it if it rests on it: if both concern
the same participant, or both change records. The others are written; an empty commit takes the place of the refused
one, because messages in memory know the numbers of their commits.

Answers leave after all participants were notified, never in between: an answer may start the next request, and that
must find memory as the commit left it.

The outcome of a commit is unknown after its answer was lost: nothing follows it until the store was asked. While the
store cannot be asked, requests wait for a few seconds, then they are refused until it can be.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from penstock.broker.history import EventKind
from penstock.broker.runtime import Runtime, Timer
from penstock.clock import Clock
from penstock.errors import (
    DataRefused,
    DecideAgain,
    NotOwned,
    StoreAway,
    StoreBroken,
    StoreBusy,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreLost,
    StoreUnknown,
)
from penstock.limits import MINUTE, SECOND, Limits
from penstock.promise import Promise
from penstock.queues.messages import Entry
from penstock.store.changes import POSITION_GAP, Changes, LaterUpdates, RecordKind
from penstock.store.port import JournalEnd, Mark, ShardState, Store, StoreStatus

log = logging.getLogger("penstock.broker")

T = TypeVar("T")

_ROWS_ENOUGH = 256
_TURNS_MAX = 4
_RETRY_MS = SECOND
_UNKNOWN_MS_MAX = 5 * SECOND  # requests wait at most this long for the outcome of a commit
_RECEIVES_WRITTEN_AFTER_MS = 100
_HELD_MS_MAX = 5 * SECOND  # commits wait at most this long for a read
# After the store has refused data, each request has a commit of its own for this long.
_ALONE_MS = 10 * SECOND
_MAINTAIN_ROWS, _MAINTAIN_TIMES = 256, 16
_TAKEN = "another process owns the shard"


class Participant(Hashable, Protocol):
    """Something in memory that depends on commits, such as a live queue."""

    def committed(self, arrived: list[Entry], now_ms: int) -> None:
        """A commit that concerns it is durable; these messages join it now."""

    def refused(self) -> None:
        """A commit that concerns it was refused: what memory knows is wrong. Forget it, and load it again."""


class Commit:
    """The changes of one commit, who waits for it, and what is to be done when it is durable or refused."""

    __slots__ = ("alone", "changes", "done", "joining", "noted", "skipped", "undo", "when_durable")

    def __init__(self, number: int, durable: int, later: LaterUpdates) -> None:
        self.changes = Changes(number, durable, later)
        self.done: Promise[None] = Promise()
        self.joining: dict[Participant, list[Entry]] = {}  # participant -> messages that join it
        # (table, key) -> the record before; None: there was none
        self.undo: dict[tuple[RecordTable[Any], str], Any] = {}
        # seq, event, detail: for the history, once it is durable
        self.noted: list[tuple[int, EventKind, str]] = []
        self.when_durable: list[Callable[[Commit], None]] = []  # such as counting what it sends
        self.skipped: Set[int] = frozenset()  # replacements of contents that were out of date
        self.alone = False  # whether it is of one request only

    def rests_on(self, other: Commit) -> bool:
        """Whether this one, decided later, may be wrong without the other."""
        return bool(self.undo and other.undo) or not self.joining.keys().isdisjoint(other.joining)


class Shard:
    def __init__(
        self,
        store: Store,
        runtime: Runtime,
        clock: Clock,
        limits: Limits,
        state: ShardState,
        on_ended: Callable[[StoreError], None],
        index: int = 0,
        may_have_new_owner: Callable[[], bool] = lambda: False,
    ) -> None:
        """``state``: what opening the store found. ``on_ended`` is called once when the shard is lost or its data can
        no longer be trusted: no commit is tried after that. ``index``: which of the shards of the site it is.
        ``may_have_new_owner``: whether another process may have taken the shard. After a pause of this one that is
        true before the shard is dropped: to be asked before anything is answered from memory without a commit."""
        self.store = store
        self.index = index
        self.runtime = runtime
        self.clock = clock
        self.limits = limits
        self.secret = state.secret
        self.last_ms = state.mark.now_ms  # when it was last written before it was opened; 0: never
        self.ended: StoreError | None = None
        self.released = False  # another process shall have it: nothing new is decided here
        self.may_have_new_owner = may_have_new_owner
        self.refuses: str | None = None  # why the store takes no new messages for the time being
        self.is_away = False  # the store cannot be reached, which is why
        self.commits = self.refused_commits = 0  # since the shard was opened
        # The last refused commit.
        self._refused_number, self._refused_why, self._refused_logged_ms = -1, "", 0
        # Why it cannot be known whether the commit under way was made.
        self._unsettled: StoreAway | None = None
        self._unknown_from_ms = 0  # when its answer was lost
        self._on_ended = on_ended
        self._owner = state.end.owner
        self.usage = state.usage  # of each queue that was not empty when the shard was opened
        self._records = state.records
        self._next_number = state.mark.next_number
        self._watchers: list[Callable[[Commit], None]] = []
        self._event_watchers: list[Callable[[Commit], None]] = []
        self._under_way: Commit | None = None
        self._closed: deque[Commit] = deque()  # those of one request each, to be written before the open one
        self._alone = False  # whether each request gets a commit of its own
        self._alone_until_ms = 0
        self._reads = 0  # under way
        self._reads_done: Promise[None] | None = None  # for the close that waits for them
        # No commit begins before these reads have ended, or their timers.
        self._held_by: dict[Promise[Any], Timer] = {}
        # They are given when all participants were notified.
        self._answers: list[tuple[Promise[Any], Any]] | None = None
        self._later: LaterUpdates = {}  # updates that wait for a later commit, by seq
        self._later_of: set[Participant] = set()  # whose they are
        self._scheduled = False
        self._again = False  # a flush was put off because a commit was under way, or because of a read
        self._turns = self._rows = 0  # how often we looked whether more comes, and how much there was
        self._commit_now_ms = 0  # when the commit under way began; 0 while another thread writes it
        self._begin(state.end.number + 1)

    def _begin(self, number: int) -> None:
        pending = len(self._closed) + (self._under_way is not None)
        self.open_commit = Commit(number, number - 1 - pending, self._later)
        self.changes = self.open_commit.changes

    changes: Changes
    """The changes that are gathered for the next commit. Fetch them again after every await."""

    def start(self) -> None:
        self._check_store()

    # -- numbers ---------------------------------------------------------------------------------------------

    def next_number(self) -> int:
        """A number that was never given before."""
        number = self._next_number
        self._next_number = number + 1
        return number

    @property
    def numbers_to(self) -> int:
        """A number that is greater than all that were given out so far."""
        return self._next_number

    def next_position(self) -> int:
        """A position behind all others."""
        return self.next_number() * POSITION_GAP

    @property
    def refused_commit(self) -> str | None:
        """Why the last commit was refused; None if it was durable."""
        return self._refused_why if self.changes.durable < self._refused_number else None

    # -- deciding --------------------------------------------------------------------------------------------

    def check_sends(self) -> None:
        """Raise if no new message can be accepted."""
        if self.refuses is not None:
            raise StoreAway(self.refuses) if self.is_away else StoreFull(self.refuses)
        waiting = self.changes.bytes
        if self._under_way is not None:
            waiting += self._under_way.changes.bytes
        if self._closed:
            waiting += sum(commit.changes.bytes for commit in self._closed)
        if waiting > self.limits.uncommitted_bytes_max:
            # Memory is not the place to keep what a slow disk has not written yet.
            raise StoreBusy("the disk is too slow for what is sent")

    def check_not_ended(self) -> None:
        if self.ended is not None:
            self.check_owned()
            raise self.ended
        if self._unsettled is not None:
            raise self._unsettled

    def check_owned(self) -> None:
        """Raises NotOwned if the shard was given back, or is about to be."""
        if self.released:
            raise NotOwned(self.index)

    def touch(self, participant: Participant) -> None:
        """The open commit holds changes that memory of this participant has made already."""
        if participant not in self.open_commit.joining:
            self.open_commit.joining[participant] = []
        if not self._scheduled:
            self._schedule()

    def touch_later(self, participant: Participant) -> None:
        """Updates of this participant were put off: they are written soon, by a commit with others or by one of their
        own. Until then a crash loses them."""
        if not self._later_of:
            self.runtime.at(self.clock.now_ms() + _RECEIVES_WRITTEN_AFTER_MS, self.write_later)
        self._later_of.add(participant)

    def write_later(self) -> None:
        """The open commit carries the updates that were put off."""
        if self._later:
            self.changes.write_later()
            for participant in self._later_of:
                self.touch(participant)
        self._later_of.clear()

    def joining(self, participant: Participant) -> list[Entry]:
        """Returns the list of messages that join the participant with the open commit; append before ``settled``."""
        joining = self.open_commit.joining.get(participant)
        if joining is None:
            joining = self.open_commit.joining[participant] = []
        return joining

    def coming(self, participant: Participant) -> Set[int]:
        """Messages that join with the commit under way: perhaps durable, not yet known to the participant."""
        if self._under_way is None:
            return frozenset()
        return {entry.seq for entry in self._under_way.joining.get(participant, ())}

    def settled(self, of: Participant | None = None) -> Promise[None]:
        """Returns a promise that is resolved when everything decided so far is durable; ``of``: at least what
        concerns this participant."""
        commit = self.open_commit
        if commit.joining or commit.changes or commit.when_durable:
            if not self._scheduled:
                self._schedule()
            if self._alone:
                commit.alone = True
                self._closed.append(commit)
                self._begin(commit.changes.number + 1)
            return commit.done
        for closed in reversed(self._closed):
            if of is None or of in closed.joining:
                return closed.done
        if self._under_way is not None:
            return self._under_way.done
        return SETTLED

    def table(
        self, kind: RecordKind[T], on_undone: Callable[[str, T | None], None] = lambda key, record: None
    ) -> RecordTable[T]:
        """The records of a kind. ``on_undone`` is called with what a record is again after a refused commit."""
        return RecordTable(self, kind, self._records.pop(kind.name, {}), on_undone)

    def undo_by(self, table: RecordTable[Any], key: str, before: object, *, can_wait: bool = False) -> None:
        """If the open commit is refused, this record of the table is again what it was before."""
        self.open_commit.undo.setdefault((table, key), before)
        if not self._scheduled and not can_wait:
            self._schedule()

    def watch(self, watcher: Callable[[Commit], None]) -> None:
        """Call back for every durable commit, after its participants were notified."""
        self._watchers.append(watcher)

    def watch_events(self, watcher: Callable[[Commit], None]) -> None:
        """Call back for every durable commit with events of messages that no request asked for."""
        self._event_watchers.append(watcher)

    def answer(self, promise: Promise[T], value: T) -> None:
        """Resolve a promise: now, or after the participants of a commit were notified."""
        if self._answers is not None:
            self._answers.append((promise, value))
        elif self._alone:
            # Who gets the answer may close the open commit, while the decision that serves it still adds to that.
            self.runtime.soon(lambda: None if promise.done else promise.resolve(value))
        else:
            promise.resolve(value)

    def uncommitted(self) -> list[Changes]:
        """What was decided and is not durable yet, in order."""
        under_way = [] if self._under_way is None else [self._under_way]
        return [commit.changes for commit in (*under_way, *self._closed, self.open_commit)]

    def pause(self, ms: int) -> Promise[None]:
        """Returns a promise that resolves after this many milliseconds."""
        ended: Promise[None] = Promise()
        self.runtime.at(self.clock.now_ms() + ms, lambda: ended.resolve(None))
        return ended

    def turn(self) -> Promise[None]:
        """Returns a promise that is resolved when the events at hand are done."""
        ended: Promise[None] = Promise()
        self.runtime.soon(lambda: ended.resolve(None))
        return ended

    # -- giving back -----------------------------------------------------------------------------------------

    async def drained(self) -> None:
        """Wait until everything decided is durable or was refused, and no read is under way that may lead to more."""
        while True:
            self.write_later()
            try:
                await self.settled()
            except StoreError:
                if self._unsettled is not None:
                    return  # all requests were answered, and the next owner will see what the store holds
                continue  # its requests were answered so
            if self._reads:
                self._reads_done = self._reads_done or Promise()
                await self._reads_done
            # Who waited for the same commit or read decides first.
            await self.turn()
            if self._reads or self._under_way is not None or self._closed or self.changes or self._later:
                continue
            return

    def finish(self, error: StoreError) -> None:
        """Try no commit any more."""
        self.ended = error
        self._later.clear()
        self._later_of.clear()

    # -- reading ---------------------------------------------------------------------------------------------

    def read(self, function: Callable[[], T]) -> Promise[T]:
        """Run a blocking read of the store in the thread that reads. Damage that it finds ends the shard."""
        self._reads += 1
        promise = self.runtime.read(function)
        promise.on_done(self._check_read)
        return promise

    def read_between_commits(self, function: Callable[[], T]) -> Promise[T]:
        """Do the same as :meth:`read`, and begin no commit before it has ended. If the store is slow or away, commits
        go on after some seconds."""
        read = self.read(function)
        until_ms = self.clock.now_ms() + _HELD_MS_MAX
        self._held_by[read] = self.runtime.at(until_ms, partial(self._end_hold, read))
        read.on_done(self._end_hold)
        return read

    def _end_hold(self, read: Promise[Any]) -> None:
        timer = self._held_by.pop(read, None)
        if timer is not None:
            timer.cancel()
            if self._again and not self._scheduled:
                self._schedule()

    def _check_read(self, promise: Promise[Any]) -> None:
        self._reads -= 1
        if not self._reads and self._reads_done is not None:
            done, self._reads_done = self._reads_done, None
            done.resolve(None)
        self._check_disk(promise)

    def _check_disk(self, promise: Promise[Any]) -> None:
        try:
            promise.result()
        except StoreBroken as error:
            self._end(error)
        except BaseException:
            return  # the caller handles it

    def synced(self) -> Promise[None]:
        """Returns a promise that is resolved when no failure of the machine can lose what is durable now. With full
        durability that is so already. A sync that fails ends the shard."""
        if not self.store.syncs_late:
            return SETTLED
        promise = self.runtime.write(self.store.sync)
        promise.on_done(self._check_disk)
        return promise

    # -- committing ------------------------------------------------------------------------------------------

    def _schedule(self) -> None:
        self._scheduled = True
        self._turns = 0
        self._rows = self.changes.rows
        self.runtime.soon(self._flush)

    def _flush(self) -> None:
        commit, under_way = self.open_commit, self._under_way
        if under_way is None and not self._closed and not self._held_by:
            # Are requests coming in just now? Then their changes come along: many cost one commit, as one does. A
            # lone request commits at once; none waits for more than a few turns of the loop.
            rows, self._rows = self._rows, commit.changes.rows
            self._turns += 1
            if rows < self._rows < _ROWS_ENOUGH and self._turns <= _TURNS_MAX:
                self.runtime.soon(self._flush)
                return
        self._scheduled = False
        self._again = under_way is not None or bool(self._held_by)
        if self._again:
            return
        closed = self._closed.popleft() if self._closed else None
        if closed is not None:
            commit, self._again = closed, True
        changes = commit.changes
        if closed is None and not self._rows and not changes:
            self._begin(changes.number)  # touched, but nothing changed
            self._call_back(commit, commit.when_durable)
            commit.done.resolve(None)
        elif self.ended is not None:
            self._refuse(commit, self.ended)
        else:
            self._under_way = commit
            if closed is None:
                self._begin(changes.number + 1)
            now_ms = self._commit_now_ms = self.clock.now_ms()
            mark = Mark(self._next_number, now_ms, self.clock.wall_ms())
            append = partial(self.store.append, changes, mark)
            self.runtime.commit(append, self._written, short=changes.is_short)
            self._commit_now_ms = 0

    def _written(self, skipped: Set[int] | None, error: BaseException | None) -> None:
        commit = self._under_way
        assert commit is not None
        if error is None:
            self._committed(commit, skipped or frozenset())
        elif isinstance(error, StoreUnknown):
            log.warning(
                "the outcome of commit %d is unknown, reading the journal: %s", commit.changes.number, error
            )
            self._unknown_from_ms = self.clock.now_ms()
            self._read_end()
        elif isinstance(error, DataRefused):
            self._refuse_data(commit, error)
        elif isinstance(error, StoreError):
            self._refuse(commit, error)
        else:
            log.error("a commit failed with an unexpected error", exc_info=error)
            self._refuse(commit, StoreError(str(error)))

    def _read_end(self) -> None:
        self.runtime.write(self.store.end).on_done(self._settle)

    def _settle(self, outcome: Promise[JournalEnd]) -> None:
        """Find out whether the commit of unknown outcome was made: the last number of the journal and its owner
        tell."""
        commit = self._under_way
        assert commit is not None
        number = commit.changes.number
        try:
            end = outcome.result()
        except Exception as error:
            self._end_unread(commit, error)
            return
        waited, self._unsettled = self._unsettled is None, None
        if not waited:
            self.refuses, self.is_away = None, False
            log.warning("requests are accepted again")
        if end == JournalEnd(number, self._owner):
            if waited:
                self._committed(commit, frozenset())
            else:
                self._committed_late(commit)
        elif end == JournalEnd(number - 1, self._owner):
            self._refuse(commit, StoreError("the commit was not made"))
        elif end.number < number:
            self._refuse(commit, StoreLost(_TAKEN))
        else:  # whose commit has this number cannot be seen: ours may have been made before the take-over
            self._refuse(commit, StoreLost(_TAKEN), StoreUnknown(_TAKEN))

    def _end_unread(self, commit: Commit, error: Exception) -> None:
        """The journal cannot be read. Try again while the shard may still be ours; then only the next owner knows
        whether the commit was made."""
        final = error if isinstance(error, (StoreBroken, StoreLost, StoreClosed)) else self.ended
        if final is not None:
            self._unsettled = None
            self._refuse(commit, final, StoreUnknown(str(final)))
        else:
            now_ms = self.clock.now_ms()
            if self._unsettled is None:
                log.debug("the journal cannot be read, trying again every second: %s", error)
                if now_ms - self._unknown_from_ms >= _UNKNOWN_MS_MAX:
                    self._stop_waiting(commit, str(error))
            self.runtime.at(now_ms + _RETRY_MS, self._read_end)

    def _stop_waiting(self, commit: Commit, why: str) -> None:
        """Answer those who wait for a commit that may have been made or not. Until that is known, requests are
        refused: what is decided on top of it is never written."""
        log.error("requests are refused for now: %s", why)
        self._unsettled = StoreAway(why)
        self.refuses, self.is_away = why, True
        for each in (*self._closed, self.open_commit):
            if not each.done.done:
                each.done.fail(self._unsettled)
        if not commit.done.done:
            commit.done.fail(StoreUnknown(why))

    def _committed_late(self, commit: Commit) -> None:
        """The commit was made, but its requests were refused and so was what followed: memory is loaded again."""
        self._under_way = None
        self._notify_watchers(commit)
        for participant in commit.joining:
            self.open_commit.joining.setdefault(participant, [])
        first = self._closed.popleft() if self._closed else self.open_commit
        self._refuse(first, StoreError("the outcome of the commit before was not known in time"))

    def _committed(self, commit: Commit, skipped: Set[int]) -> None:
        self._under_way = None
        self.commits += 1
        self.changes.durable = commit.changes.number
        commit.skipped = skipped
        now_ms = self._commit_now_ms or self.clock.now_ms()
        self._answers = answers = list[tuple[Promise[Any], Any]]()
        for participant, arrived in commit.joining.items():
            try:
                participant.committed(arrived, now_ms)
            except Exception:
                log.exception("applying a commit in memory failed, the queue is loaded again")
                participant.refused()
        self._notify_watchers(commit)
        self._answers = None
        # Last, because the many requests of the commit would delay the receives that wait for its messages.
        answers.append((commit.done, None))
        for promise, value in answers:
            if not promise.done:  # who waited for it may have been cancelled
                promise.resolve(value)
        if self._again and not self._scheduled:
            self._schedule()

    def _notify_watchers(self, commit: Commit) -> None:
        watchers = self._watchers
        if commit.noted or commit.changes.expired:
            watchers = [*self._event_watchers, *watchers]
        if commit.when_durable:
            watchers = [*commit.when_durable, *watchers]
        self._call_back(commit, watchers)

    @staticmethod
    def _call_back(commit: Commit, watchers: Sequence[Callable[[Commit], None]]) -> None:
        for watcher in watchers:
            try:
                watcher(commit)
            except Exception:
                # The commit is durable: whatever fails here, its requests are answered.
                log.exception("work after a commit failed")

    def _refuse(self, commit: Commit, error: StoreError, answer: StoreError | None = None) -> None:
        """``answer``: what the requests of the commit itself get, if that is another error."""
        # A stop, or a shard that was given back, is not a failure; data that was refused is noted already.
        if not isinstance(error, (StoreClosed, DecideAgain)):
            self._note_refused(commit.changes.number, str(error), "its requests get 503")
        failed = [commit] if commit is self.open_commit else [commit, *self._closed, self.open_commit]
        self._under_way = None
        self._closed.clear()
        self._begin(commit.changes.number)
        self._fail(failed, error, answer)

    def _refuse_data(self, commit: Commit, error: DataRefused) -> None:
        """The store cannot hold something in this commit: it fails with what rests on it, the others are written."""
        again = DecideAgain(str(error))
        answer = error if commit.alone else again
        outcome = "its request gets 400" if commit.alone else "its requests are decided again, one by one"
        self._note_refused(commit.changes.number, str(error), outcome)
        self._write_alone()
        self.write_later()
        failed, waiting = [commit], [*self._closed, self.open_commit]
        for each in waiting:
            if any(map(each.rests_on, failed)):
                failed.append(each)
        if not any((each.joining or each.changes) and each not in failed for each in waiting):
            self._refuse(commit, again, answer)
            return
        self._under_way = None
        self._closed = deque(
            Commit(each.changes.number, each.changes.durable, self._later) if each in failed else each
            for each in (commit, *self._closed)
        )
        if self.open_commit in failed:
            self._begin(self.changes.number)
        self._fail(failed, again, answer)
        if not self._scheduled:
            self._schedule()

    def _write_alone(self) -> None:
        """Give each request a commit of its own for a while."""
        self._alone_until_ms = self.clock.now_ms() + _ALONE_MS
        if not self._alone:
            self._alone = True
            self.runtime.at(self._alone_until_ms, self._write_together)

    def _write_together(self) -> None:
        if self.clock.now_ms() < self._alone_until_ms:
            self.runtime.at(self._alone_until_ms, self._write_together)
        else:
            self._alone = False

    def _fail(self, failed: Sequence[Commit], error: StoreError, answer: StoreError | None = None) -> None:
        """Undo commits that are not part of the journal. ``answer``: what the requests of the first get."""
        for each in reversed(failed):
            for (table, key), before in reversed(each.undo.items()):
                table.undo(key, before)
        if isinstance(error, (StoreBroken, StoreLost)):
            # An fsync that follows a failed one may report success for data that is lost.
            self._end(error)
        else:
            if isinstance(error, (StoreFull, StoreAway)) and self.refuses is None:
                self.is_away = isinstance(error, StoreAway)
                self._refuse_sends(str(error))
            concerned = dict.fromkeys(participant for each in failed for participant in each.joining)
            concerned |= dict.fromkeys(self._later_of)
            self._later.clear()
            self._later_of.clear()
            for participant in concerned:
                participant.refused()
        if answer is not None and not failed[0].done.done:
            failed[0].done.fail(answer)
        for each in failed:
            if not each.done.done:
                each.done.fail(error)

    def _note_refused(self, number: int, why: str, outcome: str) -> None:
        self.refused_commits += 1
        now_ms = self.clock.now_ms()
        if why != self._refused_why or now_ms >= self._refused_logged_ms + MINUTE:
            log.error("a commit failed, %s: %s", outcome, why)
            self._refused_logged_ms = now_ms
        self._refused_number, self._refused_why = number, why

    def _end(self, error: StoreError) -> None:
        if self.ended is None:
            self.finish(error)
            self._on_ended(error)

    # -- the state of the store ------------------------------------------------------------------------------

    def _check_store(self) -> None:
        """Ask the store whether it takes new messages, and keep asking while it does not."""
        self.runtime.write(self._make_room).on_done(self._store_checked)

    def _make_room(self) -> StoreStatus:
        status = self.store.status()
        if status.refuses is None or status.is_away:
            return status
        # In small pieces, because giving space back takes a little space itself.
        for _ in range(_MAINTAIN_TIMES):
            if not self.store.maintain(_MAINTAIN_ROWS):
                break
        return self.store.status()

    def _store_checked(self, outcome: Promise[StoreStatus]) -> None:
        if self._unsettled is not None:
            return  # requests are accepted again when the outcome of the last commit is known
        refused = self.refuses
        try:
            status = outcome.result()
            self.refuses, self.is_away = status.refuses, status.is_away
        except StoreClosed:
            return
        except Exception as error:
            if self.ended is not None:
                return
            log.warning("the state of the store cannot be read: %s", error)
            # An error of the operating system names paths, which the health page must not show.
            text = error.strerror if isinstance(error, OSError) else None
            self.refuses = self.refuses or text or str(error)
        if self.refuses is not None:
            self._refuse_sends(self.refuses, again=refused is not None)
        elif refused is not None:
            log.warning("sends are accepted again")

    def _refuse_sends(self, why: str, *, again: bool = False) -> None:
        if not again:
            log.error("sends are refused for now: %s", why)
        self.refuses = why
        self.runtime.at(self.clock.now_ms() + _RETRY_MS, self._check_store)


class RecordTable(Generic[T]):
    """The records of one kind. Changes join the open commit, and are undone if that is refused."""

    def __init__(
        self,
        shard: Shard,
        kind: RecordKind[T],
        stored: Mapping[str, bytes],
        on_undone: Callable[[str, T | None], None],
    ) -> None:
        self._shard = shard
        self._kind = kind
        self._on_undone = on_undone
        self._records: dict[str, T] = {key: kind.decode(data) for key, data in stored.items()}

    def __iter__(self) -> Iterator[tuple[str, T]]:
        return iter(list(self._records.items()))

    def __len__(self) -> int:
        return len(self._records)

    def get(self, key: str) -> T | None:
        return self._records.get(key)

    def put(self, key: str, record: T, *, can_wait: bool = False) -> None:
        """``can_wait``: no commit is made for its sake, it comes along with the next one."""
        self._shard.undo_by(self, key, self._records.get(key), can_wait=can_wait)
        self._records[key] = record
        self._shard.changes.records[self._kind.name, key] = self._kind.encode(record)

    def remove(self, key: str) -> None:
        self._shard.undo_by(self, key, self._records.pop(key, None))
        self._shard.changes.records[self._kind.name, key] = None

    def undo(self, key: str, before: T | None) -> None:
        if before is None:
            self._records.pop(key, None)
        else:
            self._records[key] = before
        self._on_undone(key, before)


SETTLED: Promise[None] = Promise()
"""A promise of what is done already."""
SETTLED.resolve(None)
