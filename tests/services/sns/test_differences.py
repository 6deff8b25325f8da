"""docs/compatibility.md is true: each request that it says is refused is refused with that code and text."""

from __future__ import annotations

from services.sns.differences import REFUSED, TOPIC, Refused
from services.sns.world import SnsWorld
from support.rows import every_row


@every_row("row", REFUSED)
def test_a_request_is_refused_as_documented(sns: SnsWorld, row: Refused) -> None:
    sns("CreateTopic", Name=TOPIC.rpartition(":")[2])
    assert sns.refused(row.action, **row.members) == (row.code, row.text)
