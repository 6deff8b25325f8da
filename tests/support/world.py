"""A broker on a real store under a clock that tests turn, with every fault at hand.

Queues are called by their short name, because after :meth:`World.crash` they are other objects. What is asked of the
world is done when it returns (:meth:`World.do`), unless it was only started (:meth:`World.start`): then a later
:meth:`World.run` goes on with it.
"""

from __future__ import annotations

import logging
import shutil
import sqlite3
import tempfile
from collections import deque
from collections.abc import Callable, Coroutine, Set
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from penstock.broker.broker import Broker
from penstock.broker.encryption import KeyGuard
from penstock.broker.live_queue import LiveQueue
from penstock.broker.move_tasks import MoveTaskRecord
from penstock.broker.shard import Shard
from penstock.broker.waiting import Ask
from penstock.errors import PenstockError, StoreError, StoreFull, StoreUnknown
from penstock.limits import DAY, MINUTE, SECOND, Limits
from penstock.names import QueueName, Requester
from penstock.promise import Promise, start
from penstock.queues.messages import Outgoing, Received, Sent
from penstock.queues.receipts import MessageIds, ReceiptSigner
from penstock.queues.settings import QueueSettings, Redrive
from penstock.store.changes import Changes, EntryRow, LogRow
from penstock.store.port import LAST, Mark, Selection, StoreStatus
from penstock.store.sqlite.store import SqliteStore
from penstock.testing.clock import ManualClock
from penstock.testing.runtime import SimulatedRuntime
from penstock.wire.service import Fault

T = TypeVar("T")

ROOMY = Limits()
UNMETERED = Limits(metrics_bytes_max=0)
"""No metrics are kept: nothing is looked at every second."""
TINY = Limits(
    memory_budget_bytes=2_000,
    lane_window_max=4,
    lane_floor=1,
    refill_rows=4,
    refill_lanes=2,
    listed_rows=3,
    delayed_window_max=4,
    lanes_max=3,
    dead_letters_per_turn=2,
)
"""Limits with so little memory that a dozen messages are a backlog: everything is paged."""

__all__ = [
    "DAY",
    "MINUTE",
    "ROOMY",
    "SECOND",
    "TINY",
    "UNMETERED",
    "Caller",
    "FaultyStore",
    "Poll",
    "World",
    "name_of",
]


def name_of(short: str) -> QueueName:
    return QueueName("000000000000", "eu-west-1", short)


class AnswerLost(StoreError):
    """Told to a store: a commit is made or not, and the broker does not hear which."""

    def __init__(self, *, is_made: bool) -> None:
        super().__init__("the answer of the store is lost")
        self.is_made = is_made


class FaultyStore(SqliteStore):
    """A store that refuses on demand."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, synchronous="off")
        self.refusals: deque[StoreError] = deque()
        self.full = False
        self.reserve_left = True
        self.appended: list[Changes] = []
        self.logs_read = 0

    def log(self, kind: str, key: str, after: int, rows_max: int) -> list[LogRow]:
        self.logs_read += 1
        return super().log(kind, key, after, rows_max)

    def append(self, changes: Changes, mark: Mark) -> Set[int]:
        if self.refusals:
            error = self.refusals.popleft()
            if isinstance(error, AnswerLost):
                if error.is_made:
                    super().append(changes, mark)
                    self.appended.append(changes)
                raise StoreUnknown(str(error))
            raise error
        if self.full and (self.reserve_left or changes.added):
            self.reserve_left = False
            raise StoreFull("no space left")
        skipped = super().append(changes, mark)
        self.appended.append(changes)
        return skipped

    def maintain(self, rows_max: int) -> bool:
        more = super().maintain(rows_max)
        self.reserve_left = not self.full
        return more

    def status(self) -> StoreStatus:
        return super().status()._replace(refuses=None if self.reserve_left else "no space left")


class Caller:
    """A client. ``hang_up`` is what the server does when it sees the connection closed."""

    def __init__(self) -> None:
        self.gone = False
        self.on_gone: Callable[[], None] | None = None
        self.if_unread: Callable[[], None] | None = None

    def hang_up(self) -> None:
        self.gone = True
        if self.on_gone is not None:
            self.on_gone()


class Poll:
    """A receive that was started."""

    def __init__(self, ask: Ask, caller: Caller, answer: Promise[list[Received]]) -> None:
        self.ask = ask
        self.caller = caller
        self.answer = answer

    @property
    def done(self) -> bool:
        return self.answer.done

    @property
    def bodies(self) -> list[str]:
        assert self.answer.done, "the receive still waits"
        return [message.content.body for message in self.answer.result()]


class World:
    index = 0  # of its shard

    def __init__(
        self,
        limits: Limits = ROOMY,
        choose: Callable[[int], int] = lambda choices: 0,
        keys: KeyGuard | None = None,
    ) -> None:
        self.limits = limits
        self._keys = keys
        self.clock = ManualClock()
        self.fatal: list[StoreError] = []
        self.bugs: list[BaseException] = []
        self._choose = choose
        self._directory = Path(tempfile.mkdtemp(prefix="penstock-world-", dir=_fast_directory()))
        self._fail = Promise.fail
        self._log = logging.getLogger("penstock")
        self._log_state = self._log.handlers, self._log.propagate
        self._watch_for_bugs()
        self._open()

    def _open(self) -> None:
        self.store = FaultyStore(self._directory)
        state = self.store.open()
        self._receipts = ReceiptSigner(state.secret, self.index)
        self.runtime = SimulatedRuntime(self.clock, self._choose)
        self.shard = Shard(
            self.store, self.runtime, self.clock, self.limits, state, self.fatal.append, self.index
        )
        self.broker = self._new_broker()
        self.broker.open_shard(self.shard)

    def _new_broker(self) -> Broker:
        return Broker(self.limits, keys=self._keys)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.store.close()
        Promise.fail = self._fail  # type: ignore[method-assign]
        self._log.handlers, self._log.propagate = self._log_state
        self._check_counters()
        shutil.rmtree(self._directory)

    def _check_counters(self) -> None:
        with closing(sqlite3.connect(self._directory / "penstock.db")) as database:
            self._check_counters_of(database)

    @staticmethod
    def _check_counters_of(database: sqlite3.Connection) -> None:
        """What queues hold is kept with every commit and never counted; here it is counted."""
        counted = database.execute(
            "SELECT queue, count(*), sum(size) FROM entries "
            "WHERE position > coalesce((SELECT position FROM voids WHERE queue = entries.queue), -1) "
            "GROUP BY queue ORDER BY queue"
        ).fetchall()
        kept = database.execute(
            "SELECT queue, messages, bytes FROM usage WHERE messages <> 0 OR bytes <> 0 ORDER BY queue"
        ).fetchall()
        assert kept == counted, (kept, counted)

    def _watch_for_bugs(self) -> None:
        """An error that no client is meant to get is a bug, even if nothing waits for what it failed."""
        fail, bugs = self._fail, self.bugs

        def watched_fail(later: Promise[Any], error: BaseException) -> None:
            if not isinstance(error, PenstockError | Fault):
                bugs.append(error)
            fail(later, error)

        Promise.fail = watched_fail  # type: ignore[method-assign, assignment]
        self._log.handlers, self._log.propagate = [_BugWatch(bugs)], False

    # -- running ---------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Run until nothing is left to do at this time."""
        self.runtime.run_until_idle()
        self._no_bugs()

    def advance(self, ms: int) -> None:
        self.runtime.advance(ms)
        self.run()

    def _no_bugs(self) -> None:
        if self.bugs:
            raise self.bugs[0]

    def start(self, coroutine: Coroutine[Promise[Any], None, T]) -> Promise[T]:
        return start(coroutine)

    def do(self, coroutine: Coroutine[Promise[Any], None, T]) -> T:
        outcome = start(coroutine)
        self.run()
        assert outcome.done, "it waits for something that does not come by itself"
        return outcome.result()

    # -- faults ----------------------------------------------------------------------------------------------

    def crash(self) -> None:
        """The power goes: what is not in the store never happened, and no client gets an answer."""
        self.store.close()
        self._open()
        self.run()

    def restart(self) -> None:
        """A clean stop, and a start."""
        self.do(self.broker.stop())
        self.crash()

    def damage(self, seq: int) -> None:
        """Damage the stored content of a message."""
        with closing(sqlite3.connect(self._directory / "penstock.db")) as database, database:
            database.execute("UPDATE entries SET content = substr(content, 1, 4) WHERE seq = ?", (seq,))

    def refuse_next_commit(self, error: StoreError | None = None) -> None:
        self.store.refusals.append(error or StoreError("refused by the test"))

    def hold_commits(self) -> None:
        self.runtime.writer.paused = True

    def release_commits(self) -> None:
        self.runtime.writer.paused = False
        self.run()

    # -- queues ----------------------------------------------------------------------------------------------

    def create(
        self, short: str, *, dead_letters: tuple[str, int] | None = None, **settings: Any
    ) -> LiveQueue:
        return self.do(self.broker.create(name_of(short), self._settings(short, dead_letters, settings), {}))

    def _settings(
        self, short: str, dead_letters: tuple[str, int] | None, settings: dict[str, Any]
    ) -> QueueSettings:
        redrive = None if dead_letters is None else Redrive(name_of(dead_letters[0]), dead_letters[1])
        return QueueSettings(fifo=short.endswith(".fifo"), redrive=redrive, **settings)

    def configure(self, short: str, **changed: Any) -> None:
        settings = msgspec.structs.replace(self.queue(short).settings, **changed)
        self.do(self.broker.configure(self.queue(short), settings))

    def queue(self, short: str) -> LiveQueue:
        return self.broker.find(name_of(short))

    def drop(self, short: str) -> None:
        self.do(self.broker.drop(self.queue(short)))

    def stored(self, short: str) -> list[EntryRow]:
        """The messages of a queue that the store has, in order, without their contents."""
        return self.store.select(Selection(self.queue(short).id), rows_max=LAST)

    def unwritten_ids(self) -> set[str]:
        """Messages whose last receive is not in the store yet."""
        shard = self.shard
        seqs = set(shard.changes.later)
        for changes in shard.uncommitted():
            seqs |= {*changes.updated, *changes.removed}
        return {MessageIds(shard.secret)(seq) for seq in seqs}

    def purge(self, short: str) -> None:
        self.do(self.broker.purge(self.queue(short)))

    def counts(self, short: str) -> tuple[int, int, int]:
        """Visible, in flight, delayed."""
        counts = self.do(self.queue(short).counts())
        return counts.visible, counts.in_flight, counts.delayed

    # -- messages --------------------------------------------------------------------------------------------

    def stored_number(self, short: str, handle: str) -> int:
        """Under which number the store has the message that this handle was given for."""
        return self._receipts.read(handle, self.queue(short).id).seq

    def sending(self, short: str, *messages: Outgoing) -> Promise[list[Sent]]:
        return self.start(self.queue(short).send(list(messages)))

    def send(self, short: str, body: str, **more: Any) -> Sent:
        return self.do(self.queue(short).send([outgoing(body, **more)]))[0]

    def send_all(self, short: str, *bodies: str, **more: Any) -> list[Sent]:
        messages = [outgoing(body, **more) for body in bodies]
        return self.do(self.queue(short).send(messages))

    def poll(
        self,
        short: str,
        count: int = 10,
        *,
        wait_ms: int | None = 20 * SECOND,
        visibility_ms: int | None = None,
        attempt_id: str | None = None,
        requester: Requester | None = None,
    ) -> Poll:
        """Start a receive and run as far as it goes."""
        poll = self.begin_poll(
            short,
            count,
            wait_ms=wait_ms,
            visibility_ms=visibility_ms,
            attempt_id=attempt_id,
            requester=requester,
        )
        self.run()
        return poll

    def begin_poll(
        self,
        short: str,
        count: int = 10,
        *,
        wait_ms: int | None = 0,
        visibility_ms: int | None = None,
        attempt_id: str | None = None,
        requester: Requester | None = None,
    ) -> Poll:
        caller, ask = Caller(), Ask(count, visibility_ms, attempt_id, requester)
        return Poll(ask, caller, self.start(self.queue(short).receive(ask, caller, wait_ms)))

    def receive(self, short: str, count: int = 10, **more: Any) -> list[Received]:
        """A short poll, unless ``wait_ms`` says otherwise."""
        poll = self.poll(short, count, **{"wait_ms": 0, **more})
        assert poll.done, "a short poll does not wait"
        return poll.answer.result()

    def bodies(self, short: str, count: int = 10, **more: Any) -> list[str]:
        return [message.content.body for message in self.receive(short, count, **more)]

    def drain(self, short: str, **more: Any) -> list[str]:
        """All that can be received, in the order in which it comes."""
        bodies: list[str] = []
        while found := self.bodies(short, **more):
            bodies += found
        return bodies

    def drain_up_to(self, short: str, count: int, **more: Any) -> list[Received]:
        """Receives up to this many messages, in as many receives as it takes."""
        received: list[Received] = []
        while len(received) < count and (found := self.receive(short, count - len(received), **more)):
            received += found
        return received

    def delete(self, short: str, *messages: Received) -> None:
        """Delete by receipt; raises what the broker answers for the first that it refuses."""
        handles = [message.handle for message in messages]
        _raise_first(self.do(self.queue(short).delete(handles)))

    def change(self, short: str, message: Received, visibility_ms: int) -> None:
        asked = [(message.handle, visibility_ms)]
        _raise_first(self.do(self.queue(short).change_visibility(asked)))

    # -- moves -----------------------------------------------------------------------------------------------

    def start_move(
        self,
        source: str,
        destination: str | None = None,
        rate: int | None = None,
        only_to: frozenset[QueueName] | None = None,
    ) -> MoveTaskRecord:
        to = None if destination is None else name_of(destination)
        return self.do(
            self.broker.partition_of(self.queue(source)).moves.begin(self.queue(source), to, rate, only_to)
        )

    def move_task(self, source: str) -> MoveTaskRecord:
        """The latest of a queue."""
        return self.broker.partition_of(self.queue(source)).moves.of(self.queue(source))[0]

    def cancel_move(self, source: str, task_id: str) -> MoveTaskRecord:
        return self.do(self.broker.partition_of(self.queue(source)).moves.cancel(self.queue(source), task_id))


class _BugWatch(logging.Handler):
    """What is logged with a trace, and was none of the store's refusals, is a bug."""

    def __init__(self, bugs: list[BaseException]) -> None:
        super().__init__()
        self._bugs = bugs

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is not None and not isinstance(error, PenstockError):
            self._bugs.append(error)


def outgoing(body: str, **more: Any) -> Outgoing:
    return Outgoing(body=body, sender="AIDATEST", **more)


def _raise_first(outcomes: list[PenstockError | None]) -> None:
    for outcome in outcomes:
        if outcome is not None:
            raise outcome


def _fast_directory() -> str | None:
    shared_memory = Path("/dev/shm")
    return str(shared_memory) if shared_memory.is_dir() else None
