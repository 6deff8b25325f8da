"""What a client reads when a change could not be stored."""

from __future__ import annotations

import pytest

from penstock.errors import NotOwned, StoreAway, StoreBroken, StoreError, StoreFull, StoreLost, StoreUnknown
from penstock.wire.faults import store_fault


@pytest.mark.parametrize(
    ("error", "may_be_stored"),
    [
        (NotOwned(3), False),
        (StoreAway("no connection"), False),
        (StoreFull("no space"), False),
        (StoreLost("another process owns the shard"), False),
        (StoreError("refused"), False),
        (StoreUnknown("the connection was lost"), True),
        (StoreBroken("fsync failed"), True),  # the commit may be on the disk all the same
    ],
)
def test_the_words_say_whether_anything_was_changed(
    error: StoreError | NotOwned, may_be_stored: bool
) -> None:
    fault = store_fault(error)
    assert fault.status == 503
    assert ("Nothing was changed." in fault.message, "it may have been" in fault.message) == (
        not may_be_stored,
        may_be_stored,
    )
