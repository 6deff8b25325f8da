"""The limits of SQS that the client keeps to are those of the server."""

from __future__ import annotations

from penstock.client import limits
from penstock.services.sns import limits as topics
from penstock.services.sqs import limits as served


def test_the_client_has_the_limits_of_the_server() -> None:
    assert limits.ENTRIES_MAX == served.BATCH_ENTRIES_MAX == served.RECEIVE_COUNT_MAX
    assert limits.MESSAGE_BYTES_MAX == served.MESSAGE_BYTES_MAX == served.BATCH_BYTES_MAX
    assert limits.DELAY_S_MAX == served.DELAY_S_MAX
    assert limits.WAIT_S_MAX == served.WAIT_S_MAX
    assert limits.VISIBILITY_S_MAX == served.VISIBILITY_S_MAX
    assert limits.PUBLISHED_BYTES_MAX == topics.MESSAGE_BYTES_MAX
