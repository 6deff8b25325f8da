"""Batches refused as a whole."""

from __future__ import annotations

from e2e.errors.row import NEEDS_DEDUP_ID, Row, batch, entry, missing, parameter, sqs

_BATCHES = {
    "SendMessageBatch": "SendMessageBatchRequestEntry",
    "DeleteMessageBatch": "DeleteMessageBatchRequestEntry",
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibilityBatchRequestEntry",
}
_ENTRY_ID = (
    "A batch entry id can only contain alphanumeric characters, hyphens and underscores. "
    "It can be at most 80 letters long."
)


def _every_batch(action: str, kind: str) -> list[Row]:
    return [
        sqs("EmptyBatchRequest", "some entries", action, batch(),
            f"There should be at least one {kind} in the request."),
        sqs("TooManyEntriesInBatchRequest", "ten entries at most", action,
            batch(*[entry(f"i{n}") for n in range(11)]),
            "Maximum number of entries per request are 10. You have sent 11."),
        missing("an id", action, batch(entry(), {"MessageBody": "b", "ReceiptHandle": "x"}), f"{kind}.2.Id"),
        *(sqs("InvalidBatchEntryId", "characters of an id", action, batch(entry(id)), _ENTRY_ID)
          for id in ("", "a b", "x" * 81, "ä")),
        sqs("BatchEntryIdsNotDistinct", "ids differ; the first met again is named", action,
            batch(*map(entry, ("id_1", "id_2", "id_2", "id_1"))), "Id id_2 repeated."),
    ]  # fmt: skip


def _batch_too_long(size: int) -> str:
    return f"Batch requests cannot be longer than 1048576 bytes. You have sent {size} bytes."


BATCHES = [
    *(row for action, kind in _BATCHES.items() for row in _every_batch(action, kind)),
    sqs("BatchRequestTooLong", "1 MiB in sum", "SendMessageBatch",
        batch(entry("a", MessageBody="x" * 1_000_000), entry("b", MessageBody="x" * 48_577)),
        _batch_too_long(1_048_577)),
    sqs("BatchRequestTooLong", "whatever the queue's own limit", "SendMessageBatch",
        batch(entry(MessageBody="x" * 1_048_577), queue="small"), _batch_too_long(1_048_577)),
    parameter("a group for every FIFO entry", "SendMessageBatch",
              batch(entry("a", MessageGroupId="g"), entry("b"), queue="content.fifo"),
              "The request must contain the parameter MessageGroupId."),
    parameter("a deduplication id for every FIFO entry", "SendMessageBatch",
              batch(entry(MessageGroupId="g"), queue="f.fifo"), NEEDS_DEDUP_ID),
]  # fmt: skip
