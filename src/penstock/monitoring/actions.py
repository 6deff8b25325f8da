"""What alarms do when their state changes: a message to a queue, a request to a web hook.

An action is stored with the change of the state, in the same commit, and removed when it was carried out or has
failed, with an item of the history that says so. So none is lost by a crash. A message to a queue is sent once: it
joins the queue, or the outbox to another shard, with the commit that removes the action. A web hook may be called
again after a crash.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from penstock.broker.delivery import Refusal
from penstock.broker.handover import QueueTarget
from penstock.errors import ActionFailed, PenstockError, QueueMissing, StoreClosed, StoreError, Unreachable
from penstock.limits import SECOND
from penstock.monitoring.alarm_history import AlarmHistory
from penstock.monitoring.alarm_records import (
    PENDING,
    Alarm,
    AlarmStatus,
    HistoryItem,
    PendingAction,
    alarms_home,
)
from penstock.names import Arn, QueueName, Space, without_partition
from penstock.promise import run_detached
from penstock.queues.messages import Outgoing

if TYPE_CHECKING:
    from penstock.broker.partition import Partition
    from penstock.queues.settings import QueueSettings

log = logging.getLogger("penstock.monitoring")

_WEBHOOK_PREFIX = "penstock:::webhook/"
_TRIES_MAX = 4
_PAUSE_MS = (1 * SECOND, 5 * SECOND, 30 * SECOND)
_RUNNING_MAX = 8  # of one account
_PENDING_MAX = 10_000  # of all accounts; with more, one that has more than its share gets no further ones
_GROUP_MAX = 128


def webhook_url(action: str) -> str | None:
    """The URL of an action that is a web hook: a URL, or one in the form of an ARN; None: it is something else."""
    url = without_partition(action).removeprefix(_WEBHOOK_PREFIX)
    return url if url.startswith(("https://", "http://")) else None


def queue_of_action(action: str) -> QueueName | None:
    """The queue, if the action is the ARN of one."""
    arn = Arn.parse(action)
    return arn.queue if arn is not None and arn.service == "sqs" else None


def _count_down(counts: Counter[str], account: str) -> None:
    counts[account] -= 1
    if not counts[account]:
        del counts[account]


class AlarmTexts(Protocol):
    """How a service speaks of alarms, and what it allows them."""

    sender: str  # of messages to queues

    def notification(self, alarm: Alarm, before: AlarmStatus) -> str:
        """What a queue or a web hook gets."""

    def refusal(self, alarm: Alarm, queue: QueueName, settings: QueueSettings) -> str | None:
        """Why the policy of a queue does not let the alarm send to it; None: it does."""


ActionOf = tuple[Space, str, str]
"""Of which alarm it is, and what: an ARN or a URL."""

PostWebhook = Callable[[str, str, str], Coroutine[Any, None, None]]
"""(account, URL, body): raises ActionFailed."""


class AlarmActions:
    def __init__(
        self, partition: Partition, history: AlarmHistory, texts: AlarmTexts, post: PostWebhook
    ) -> None:
        self._partition = partition
        self._shard = shard = partition.shard
        self._history = history
        self._texts = texts
        self._post = post
        self._pending = shard.table(PENDING)
        # The same action of one alarm is carried out in the order of the changes: keys by alarm and action.
        self._waiting: dict[ActionOf, deque[str]] = {}
        self._ready: defaultdict[str, deque[ActionOf]] = defaultdict(deque)  # by account: none of them runs
        self._running: Counter[str] = Counter()  # by account
        self._accounts: Counter[str] = Counter()  # how many of each account wait or run
        self._stopped = False
        for key, pending in sorted(self._pending, key=lambda each: each[0]):
            self._put(key, pending)

    def start(self) -> None:
        """Go on with what was not carried out when the shard was closed."""
        self.run()

    def stop(self) -> None:
        self._stopped = True

    def add(self, alarm: Alarm, before: AlarmStatus) -> None:
        """The state of an alarm has changed. Part of the open commit; then :meth:`run`."""
        if not alarm.config.actions_enabled:
            return
        for action in alarm.config.actions(alarm.status.state):
            pending = PendingAction(alarm=alarm, before=before, action=action)
            if self._has_too_many(alarm.space.account):
                self._note(pending, "too many actions of alarms wait to be carried out")
                continue
            key = alarms_home(alarm.space).key(f"{self._shard.next_number():020d}")
            self._pending.put(key, pending)
            self._put(key, pending)

    def _has_too_many(self, account: str) -> bool:
        share = _PENDING_MAX // max(1, len(self._accounts))
        return self._accounts.total() >= _PENDING_MAX and self._accounts[account] >= share

    def _put(self, key: str, pending: PendingAction) -> None:
        action = pending.alarm.space, pending.alarm.name, pending.action
        if action not in self._waiting:
            self._waiting[action] = deque()
            self._ready[action[0].account].append(action)
        self._waiting[action].append(key)
        self._accounts[action[0].account] += 1

    def run(self) -> None:
        """Carry out what waits, once the open commit is durable: some at a time."""
        if self._ready and not self._stopped:
            run_detached(self._run_when_durable())

    async def _run_when_durable(self) -> None:
        with suppress(
            StoreError
        ):  # what was to be done because of the refused commit is not pending any more
            await self._shard.settled()
        # Each account by itself: web hooks of one that do not answer must not delay the others.
        for account, ready in list(self._ready.items()):
            while ready and self._running[account] < _RUNNING_MAX and not self._stopped:
                self._running[account] += 1
                run_detached(self._carry_out_next(account, ready.popleft()))
            if not ready:
                self._ready.pop(account, None)

    async def _carry_out_next(self, account: str, action: ActionOf) -> None:
        keys = self._waiting[action]
        pending = self._pending.get(keys[0])
        try:
            if pending is not None:
                await self._carry_out(keys[0], pending)
            keys.popleft()
            _count_down(self._accounts, account)
        except StoreError as error:
            if not self._stopped:
                log.warning("an action of the alarm %s is carried out again later: %s", action[1], error)
                await self._shard.pause(_PAUSE_MS[-1])
        finally:
            _count_down(self._running, account)
            if keys:
                self._ready[account].append(action)
            else:
                del self._waiting[action]
            if not self._stopped:
                self._shard.runtime.soon(self.run)

    async def _carry_out(self, key: str, pending: PendingAction) -> None:
        """Raises StoreError: then it has to be done again."""
        for tries in range(_TRIES_MAX):
            try:
                await self._try(key, pending)
                return
            except ActionFailed as failure:
                self._check_not_stopped()
                if not failure.can_repeat or tries == _TRIES_MAX - 1:
                    self._end(key, pending, str(failure))
                    await self._shard.settled()
                    return
            await self._shard.pause(_PAUSE_MS[tries])
            self._check_not_stopped()

    def _check_not_stopped(self) -> None:
        """Nothing is decided after a stop: the action is still stored, and is carried out at the next start or by the
        next owner of the shard."""
        if self._stopped:
            raise StoreClosed("the shard is closed")

    async def _try(self, key: str, pending: PendingAction) -> None:
        """Raises ActionFailed, or StoreError if it may have been carried out."""
        queue, url = queue_of_action(pending.action), webhook_url(pending.action)
        if queue is not None:
            await self._send(key, pending, queue)
        elif url is not None:
            account, body = (
                pending.alarm.space.account,
                self._texts.notification(pending.alarm, pending.before),
            )
            await self._post(account, url, body)
            self._check_not_stopped()
            self._end(key, pending, None)
            await self._shard.settled()
        else:
            raise ActionFailed("no service of this server takes it")

    async def _send(self, key: str, pending: PendingAction, to: QueueName) -> None:
        alarm = pending.alarm
        if to.account != alarm.space.account:
            raise ActionFailed("the queue belongs to another account")
        try:
            found = await self._partition.delivery.find(to)
        except QueueMissing:
            raise ActionFailed("the queue does not exist") from None
        except Unreachable as error:
            raise ActionFailed(str(error), can_repeat=True) from None
        except PenstockError as error:
            raise ActionFailed(f"the queue takes no messages: {type(error).__name__}") from None
        refusal = self._texts.refusal(alarm, to, found.settings)
        if refusal is not None:
            raise ActionFailed(refusal)
        message = Outgoing(
            body=self._texts.notification(alarm, pending.before),
            sender=self._texts.sender,
            group=alarm.name[:_GROUP_MAX] if found.settings.fifo else None,
            dedup_id=key if found.settings.fifo else None,
        )
        if len(message.body) > found.settings.message_bytes_max:
            raise ActionFailed(
                f"the message is larger than the {found.settings.message_bytes_max} bytes it accepts"
            )
        refused: list[Refusal] = []

        def in_commit(refusals: list[Refusal]) -> None:
            refused.extend(refusals)
            if not refusals:
                self._end(key, pending, None)

        await self._partition.delivery.deliver(
            message, [QueueTarget(to)], "alarms", f"the alarm {alarm.name}", in_commit
        )
        if refused:
            raise ActionFailed(f"the queue takes no messages: {refused[0].reason}")

    def _end(self, key: str, pending: PendingAction, error: str | None) -> None:
        """Part of the open commit."""
        self._pending.remove(key)
        self._note(pending, error)

    def _note(self, pending: PendingAction, error: str | None) -> None:
        alarm = pending.alarm
        self._history.add(
            HistoryItem(
                space=alarm.space,
                alarm=alarm.name,
                is_composite=alarm.config.is_composite,
                at_ms=self._shard.clock.wall_ms(),
                kind="action",
                after=alarm.status,
                action=pending.action,
                error=error,
            )
        )
