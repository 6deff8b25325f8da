"""What alarms do when their state changes: a message to a queue or a topic, a request to a web hook.

A commit after the change of the state makes a job of each action; until then the record of the alarm says that this
is to be done. A job is removed when it was carried out or has failed, with an item of the history that says so. So no
action is lost by a crash. A message to a queue is sent once: it joins the queue, or the outbox to another shard, with
the commit that removes the job. A message may be published to a topic again after a crash, and a web hook called.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from hashlib import sha256
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from penstock.backoff import backoff
from penstock.broker.delivery import Refusal
from penstock.broker.handover import QueueTarget
from penstock.broker.internal_queues import Job, JobKind, JobQueues
from penstock.broker.parts import Part
from penstock.errors import (
    DedupFull,
    JobFailed,
    NotOwned,
    PenstockError,
    QueueMissing,
    QuotaReached,
    StoreError,
    Unreachable,
)
from penstock.limits import MINUTE, SECOND
from penstock.monitoring.alarm_history import AlarmHistory
from penstock.monitoring.alarm_records import (
    PENDING,
    Alarm,
    AlarmStatus,
    HistoryItem,
    PendingAction,
    alarms_home,
)
from penstock.names import Arn, QueueName, without_partition
from penstock.queues.messages import Outgoing

if TYPE_CHECKING:
    from penstock.broker.partition import Partition
    from penstock.queues.settings import QueueSettings

log = logging.getLogger("penstock.monitoring")

_WEBHOOK_PREFIX = "penstock:::webhook/"
_GROUP_MAX = 128

ALARM_ACTIONS = JobKind(
    "alarm-actions",
    PendingAction,
    pauses_ms=(1 * SECOND, 5 * SECOND, 30 * SECOND),
    visibility_ms=30 * SECOND,
    tries_max=60,  # four hours, where a queue takes no messages for the time being
)
_PAUSE_MS_MAX = 5 * MINUTE
_FOR_NOW = {QuotaReached.__name__, DedupFull.__name__}  # why a queue may refuse a message, and take it later


def webhook_url(action: str) -> str | None:
    """The URL of an action that is a web hook: a URL, or one in the form of an ARN; None if it is something else."""
    url = without_partition(action).removeprefix(_WEBHOOK_PREFIX)
    return url if url.startswith(("https://", "http://")) else None


def is_topic(action: str) -> bool:
    arn = Arn.parse(action)
    return arn is not None and arn.service == "sns" and ":" not in arn.resource


class AlarmTexts(Protocol):
    """How a service speaks of alarms, and what it allows them."""

    sender: str  # of messages to queues

    def notification(self, alarm: Alarm, before: AlarmStatus) -> str:
        """What a queue, a topic or a web hook gets."""

    def subject(self, alarm: Alarm) -> str:
        """The subject under which it is published to a topic."""

    def refusal(self, alarm: Alarm, queue: QueueName, settings: QueueSettings) -> str | None:
        """Why the policy of a queue does not let the alarm send to it; None if it does."""


PostWebhook = Callable[[str, str, str], Coroutine[Any, None, None]]
"""(account, URL, body): raises JobFailed."""

PublishTo = Callable[[str, str, str, str, str], Coroutine[Any, None, None]]
"""(ARN of the topic, ARN of the alarm, its account, subject, message): raises JobFailed."""


class AlarmActions(Part):
    def __init__(
        self,
        partition: Partition,
        history: AlarmHistory,
        texts: AlarmTexts,
        post: PostWebhook,
        publish: PublishTo,
    ) -> None:
        self._shard = partition.shard
        self._delivery = partition.delivery
        self._history = history
        self._texts = texts
        self._post = post
        self._publish = publish
        self._delivery.on_refused(ALARM_ACTIONS.name, self._refused)
        self.jobs = JobQueues(partition, ALARM_ACTIONS, self._carry_out, self._give_up)
        self._of_earlier_release = self._shard.table(PENDING, self._not_adopted)

    @property
    def job_queues(self) -> Sequence[JobQueues[Any]]:
        return (self.jobs,)

    def start(self) -> None:
        """Continue with what was not carried out when the shard was closed."""
        self._adopt()
        self.jobs.start()

    def stop(self) -> None:
        self.jobs.stop()

    def _adopt(self) -> None:
        """Make jobs of the actions that an earlier release stored, in the order of their keys."""
        if not self.jobs.stopped:
            for key, pending in sorted(self._of_earlier_release, key=itemgetter(0)):
                self._of_earlier_release.remove(key)
                self._add(pending)

    def _not_adopted(self, key: str, pending: PendingAction | None) -> None:
        """The commit that made a job of this action was refused."""
        self._shard.runtime.at(self._shard.clock.now_ms() + SECOND, self._adopt)

    def add(self, alarm: Alarm, before: AlarmStatus) -> None:
        """Add the actions of an alarm whose state has changed, with the open commit; they are carried out when that
        is durable."""
        if alarm.config.actions_enabled:
            for action in alarm.config.actions(alarm.status.state):
                self._add(PendingAction(alarm=alarm, before=before, action=action))

    def _add(self, pending: PendingAction) -> None:
        space = pending.alarm.space
        # The same action of one alarm is carried out in the order of the changes.
        group = sha256(f"{pending.alarm.name}\n{pending.action}".encode()).hexdigest()
        if not self.jobs.add(alarms_home(space), space, group, pending):
            self._note(pending, "too many actions of alarms wait to be carried out")

    async def _carry_out(self, job: Job[PendingAction]) -> None:
        """Raises JobFailed, or StoreError if it may have been carried out."""
        pending = job.payload
        queue, url = QueueName.of_arn(pending.action), webhook_url(pending.action)
        if queue is not None:
            await self._send(job, queue)
        elif url is not None:
            body = self._texts.notification(pending.alarm, pending.before)
            await self._post(pending.alarm.space.account, url, body)
            await job.confirm()
            self._end(job)
        elif is_topic(pending.action):
            alarm, before = pending.alarm, pending.before
            subject, body = self._texts.subject(alarm), self._texts.notification(alarm, before)
            try:
                await self._publish(pending.action, alarm.arn, alarm.space.account, subject, body)
            except JobFailed as failure:
                raise _failed_for_now(job, str(failure)) if failure.can_repeat else failure from None
            await job.confirm()
            self._end(job)
        else:
            raise JobFailed("no service of this server takes it")

    async def _send(self, job: Job[PendingAction], to: QueueName) -> None:
        pending, alarm = job.payload, job.payload.alarm
        if to.account != alarm.space.account:
            raise JobFailed("the queue belongs to another account")
        try:
            found = await self._delivery.find(to)
        except QueueMissing:
            raise JobFailed("the queue does not exist") from None
        except Unreachable as error:
            raise _failed_for_now(job, str(error)) from None
        except (StoreError, NotOwned):
            raise
        except PenstockError as error:
            raise JobFailed(f"the queue takes no messages: {type(error).__name__}") from None
        refusal = self._texts.refusal(alarm, to, found.settings)
        if refusal is not None:
            raise JobFailed(refusal)
        message = Outgoing(
            body=self._texts.notification(alarm, pending.before),
            sender=self._texts.sender,
            group=alarm.name[:_GROUP_MAX] if found.settings.fifo else None,
            dedup_id=job.id if found.settings.fifo else None,
        )
        if len(message.body.encode()) > found.settings.message_bytes_max:
            raise JobFailed(
                f"the message is larger than the {found.settings.message_bytes_max} bytes it accepts"
            )
        refused: list[Refusal] = []

        def in_commit(refusals: list[Refusal]) -> None:
            refused.extend(refusals)
            if not refusals:
                self._end(job)

        # A queue of another shard may refuse the message later: then the history gets this item with the reason.
        target = QueueTarget(to, msgspec.json.encode(self._item(pending, None)).decode())
        await job.confirm()
        await self._delivery.deliver(
            message, [target], ALARM_ACTIONS.name, f"the alarm {alarm.name}", in_commit, job.check_held
        )
        if refused:
            text = _refused_text(refused[0])
            raise _failed_for_now(job, text) if refused[0].reason in _FOR_NOW else JobFailed(text)

    def _end(self, job: Job[PendingAction]) -> None:
        """End a job, with the open commit."""
        job.done()
        self._note(job.payload, None)

    def _give_up(self, job: Job[PendingAction], reason: str) -> None:
        self._note(job.payload, reason)

    def _refused(self, refusal: Refusal) -> None:
        """The queue of another shard did not take a message after all: it has changed since it was found."""
        sent = msgspec.json.decode(refusal.target.token, type=HistoryItem)
        log.warning(
            "queue %s refused a message of alarm %s: %s",
            refusal.target.queue.name,
            sent.alarm,
            refusal.reason,
        )
        at_ms, error = self._shard.clock.wall_ms(), _refused_text(refusal)
        self._history.add(msgspec.structs.replace(sent, at_ms=at_ms, error=error))

    def _note(self, pending: PendingAction, error: str | None) -> None:
        self._history.add(self._item(pending, error))

    def _item(self, pending: PendingAction, error: str | None) -> HistoryItem:
        alarm = pending.alarm
        return HistoryItem(
            space=alarm.space,
            alarm=alarm.name,
            is_composite=alarm.config.is_composite,
            at_ms=self._shard.clock.wall_ms(),
            kind="action",
            after=alarm.status,
            action=pending.action,
            error=error,
        )


def _failed_for_now(job: Job[PendingAction], reason: str) -> JobFailed:
    """The queue may take the message later, for as long as it takes to repair a node or to make room."""
    return JobFailed(reason, can_repeat=True, pause_ms=int(backoff(job.attempt, SECOND, _PAUSE_MS_MAX)))


def _refused_text(refusal: Refusal) -> str:
    return f"the queue takes no messages: {refusal.reason}"
