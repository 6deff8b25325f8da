"""Why a queue does not take a message, in words."""

from __future__ import annotations

import pytest

from penstock import errors
from penstock.publishing import reasons
from penstock.publishing.reasons import shown_reason


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("QueueMissing", "the queue does not exist"),
        (
            "DeliveryDenied; the dead-letter queue did not take it: QueueMissing",
            "the access policy of the queue does not allow it; the dead-letter queue did not take it:"
            " the queue does not exist",
        ),
        ("503 QueueMissingHere", "503 QueueMissingHere"),
        ("Connection refused", "Connection refused"),
    ],
)
def test_names_of_errors_are_explained(reason: str, shown: str) -> None:
    assert shown_reason(reason) == shown


def test_each_name_is_that_of_an_error() -> None:
    # TooManyAttributes is a reason of topics: no queue raises it.
    missing = [name for name in reasons._REASONS if not hasattr(errors, name)]
    assert missing == ["TooManyAttributes"]
