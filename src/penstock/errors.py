"""Errors as values of the domain.

They have no code, status or text for a client: each service maps them to its own in one table.
"""

from __future__ import annotations


class PenstockError(Exception):
    """An error that a service can report to its client."""


class SignatureMissing(PenstockError):
    """The caller did not sign, and no policy can allow this action to such callers."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address  # the URL under which the caller reached the server


class QueueMissing(PenstockError):
    """There is no such queue in this account and region."""


class NotOwned(PenstockError):
    """The shard of this queue belongs to another process. Nothing was decided: the request can be passed on."""

    def __init__(self, shard: int) -> None:
        super().__init__(shard)
        self.shard = shard


class QueueDeletedRecently(PenstockError):
    """The name of a deleted queue cannot be used again yet."""


class PurgedRecently(PenstockError):
    def __init__(self, queue: str) -> None:
        super().__init__(queue)
        self.queue = queue


class TooManyInFlight(PenstockError):
    """Too many messages of the queue are received and not yet deleted."""


class HandleInvalid(PenstockError):
    """The text is not a receipt handle of this queue."""


class HandleExpired(PenstockError):
    """A FIFO queue accepts a delete only while the message is hidden by the receive that the handle is from."""


class MessageNotAvailable(PenstockError):
    """The message is gone, or on a FIFO queue no longer hidden by this receive: its visibility cannot be changed."""


class SearchUnfinished(MessageNotAvailable):
    """The message was searched for by its id, and may be behind the many that were searched."""


class MessageInFlight(PenstockError):
    """The message was received and is hidden: it cannot be edited."""

    def __init__(self, visible_in_ms: int) -> None:
        super().__init__("the message is in flight")
        self.visible_in_ms = visible_in_ms  # unless it is deleted or hidden for longer


class ContentOutdated(PenstockError):
    """The message was edited in the meantime."""

    def __init__(self, version: int) -> None:
        super().__init__(f"the message has version {version} by now")
        self.version = version


class NotPossible(PenstockError):
    """A message cannot be changed so. The text says why, and what to do first."""


class DeliveryDenied(PenstockError):
    """The policy of a queue does not let a service send to it."""


class NoRoomBetween(PenstockError):
    """There is no free position between two messages."""


class VisibilityTooLong(PenstockError):
    """The message would be hidden for longer than the maximum since its receive."""


class DedupFull(PenstockError):
    """More FIFO messages within the deduplication window than the account may have remembered."""


class MoveTaskRunning(PenstockError):
    """A queue has at most one running move task."""


class MoveTaskMissing(PenstockError):
    """There is no such move task."""


class MoveTaskNotRunning(PenstockError):
    """Only a running task can be cancelled."""


class SourceNotDeadLetterQueue(PenstockError):
    """Only messages of a queue that is the dead-letter queue of another can be moved."""


class KeyUnavailable(PenstockError):
    """An encryption key cannot be used, so messages under it can be neither encrypted nor decrypted."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key  # its ARN, or that of an alias without a key


class KeyMissing(KeyUnavailable):
    """There is no such key in the keyring."""


class KeyDisabled(KeyUnavailable):
    """The key is disabled."""


class DecryptionFailed(PenstockError):
    """Stored data is not what was encrypted: it is damaged, was changed, or belongs to another message."""


class ContentDamaged(PenstockError):
    """The content of a message can be neither delivered nor moved: no key decrypts it, or it cannot be decoded."""


class DepartureUnreadable(PenstockError):
    """An entry of the log of an outbox is damaged, or of a later version: it does not say which message is for which
    queue."""


class QuotaReached(PenstockError):
    """The account has reached a quota."""

    def __init__(self, what: str, most: int) -> None:
        super().__init__(what, most)
        self.what = what  # "queues", "messages" or "bytes"
        self.most = most


class TooMuchWork(PenstockError):
    """The request took longer to compute than any may."""


class TooManyWaiting(PenstockError):
    """Too many requests of the account wait for the one that computes."""


class ClientGone(PenstockError):
    """The client has disconnected, and does not wait for what the request computes."""


class StoreError(PenstockError):
    """The store refused a change; nothing of it was done."""


class StoreFull(StoreError):
    """There is no space left on the disk of the data directory."""


class StoreBusy(StoreError):
    """Too much waits to be written: the disk is slower than what is sent."""


class StoreAway(StoreError):
    """The database cannot be reached for the time being."""


class DataRefused(StoreError):
    """The store cannot hold something in a commit, such as a text with NUL. Raised for one request, it means that
    request's own data."""


class DecideAgain(StoreError):
    """The store refused data of another request in the same commit. Nothing was changed: decide again, at once."""


class StoreLost(StoreError):
    """The shard is no longer ours: another process wrote at our position."""


class StoreClosed(StoreError):
    """The store was closed because the server stops."""


class StoreUnknown(StoreError):
    """It cannot be known yet whether the commit was made: the journal must be read."""


class StoreBroken(StoreError):
    """An fsync failed, or the file is damaged: what is on the disk can no longer be known. The process stops."""


class StoreRefused(PenstockError):
    """The data directory cannot be used: damaged, in use, or of another program or version.

    The text says what to do."""


class Unreachable(StoreError):
    """The process that owns a shard is unknown or does not answer. The request may be repeated."""


class FilterInvalid(PenstockError):
    """A filter of messages cannot be understood. The text says what to write."""


class FilterTooSlow(PenstockError):
    """A regular expression took too long. The text says what to do."""


class TaskInvalid(PenstockError):
    """A bulk task cannot be done so. The text says what to write."""


class TaskRunning(PenstockError):
    """A queue already runs as many bulk tasks as it may."""


class TaskMissing(PenstockError):
    """There is no such bulk task."""


class TaskNotRunning(PenstockError):
    """Only a running bulk task can be cancelled."""


class RuleInvalid(PenstockError):
    """The rule of a composite alarm cannot be understood. The text says what is wrong."""


class ExpressionInvalid(PenstockError):
    """An expression of metrics cannot be understood or computed. The text says what is wrong."""


class AlarmMissing(PenstockError):
    """There is no such alarm in this account and region."""


class DashboardMissing(PenstockError):
    """There is no such dashboard in this account."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class JobFailed(PenstockError):
    """A job of an internal queue, such as an action of an alarm, cannot be done. The text says why."""

    def __init__(self, reason: str, *, can_repeat: bool = False, pause_ms: int | None = None) -> None:
        """``pause_ms``: before the next try; None: as the kind of job has it."""
        super().__init__(reason)
        self.can_repeat = can_repeat
        self.pause_ms = pause_ms


class JobLost(PenstockError):
    """A job is not this try's any more: its time has ended, and another try has it or will have it."""
