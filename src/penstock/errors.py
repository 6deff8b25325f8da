"""What can go wrong, as values of the domain.

No code, status or wire text here: each face maps these to its own words in one table.
"""

from __future__ import annotations


class PenstockError(Exception):
    """Anything a caller can be told about."""


class SignatureMissing(PenstockError):
    """The caller did not sign, and no policy can allow this action to such callers."""

    def __init__(self, address: str) -> None:
        super().__init__(address)
        self.address = address  # the URL under which the caller reached the server


class QueueMissing(PenstockError):
    """No such queue in this account and region."""


class QueueDeletedRecently(PenstockError):
    """The name rests for a while after its queue was deleted."""


class PurgedRecently(PenstockError):
    def __init__(self, queue: str) -> None:
        super().__init__(queue)
        self.queue = queue


class TooManyInFlight(PenstockError):
    """Too many messages of the queue are received and not yet deleted."""


class HandleInvalid(PenstockError):
    """Not a receipt handle of this queue."""


class HandleExpired(PenstockError):
    """A FIFO queue takes a delete only while the message is still hidden for this receive."""


class MessageNotAvailable(PenstockError):
    """The message is gone, or no longer held by this receive: its visibility cannot be changed."""


class VisibilityTooLong(PenstockError):
    """Hidden longer in all than a message may be."""


class DedupFull(PenstockError):
    """More FIFO messages within the deduplication window than the account may have remembered."""


class MoveTaskRunning(PenstockError):
    """A queue has one running move task at most."""


class MoveTaskMissing(PenstockError):
    """No such move task."""


class MoveTaskNotRunning(PenstockError):
    """Only a running task can be cancelled."""


class SourceNotDeadLetterQueue(PenstockError):
    """Messages are moved only out of a queue that some other queue names as its dead-letter queue."""


class KeyUnavailable(PenstockError):
    """An encryption key cannot be used, and so neither can what is encrypted under it."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key  # its ARN, or that of the alias which leads nowhere


class KeyMissing(KeyUnavailable):
    """No such key in the keyring."""


class KeyDisabled(KeyUnavailable):
    """The operator has disabled the key."""


class DecryptionFailed(PenstockError):
    """What is stored is not what was once encrypted: damaged, changed, or another message's."""


class QuotaReached(PenstockError):
    """The account has as much as it may have."""

    def __init__(self, what: str, most: int) -> None:
        super().__init__(what, most)
        self.what = what  # "queues", "messages" or "bytes"
        self.most = most


class StoreError(PenstockError):
    """The store did not take a change; nothing of it was done."""


class StoreFull(StoreError):
    """No space left where the data lives."""


class StoreBusy(StoreError):
    """More waits to be written than may; the disk does not keep up."""


class StoreLost(StoreError):
    """The shard is no longer ours: someone else wrote at our position."""


class StoreUnknown(StoreError):
    """It cannot be known yet whether the commit was made: the journal must be read."""


class StoreBroken(StoreError):
    """An fsync failed, or the file is damaged: what is on the disk can no longer be known. The process stops."""


class StoreRefused(PenstockError):
    """The data directory cannot be used: foreign, damaged, newer, or in use. The text says what to do."""
