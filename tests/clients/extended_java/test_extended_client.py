"""Large messages between AWS's extended client for Java and ours, both ways."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from clients.java_tools import java
from penstock.client import LargePayloads, S3Store, SigningKeys, SyncClient
from support.fake_s3 import FakeS3

LARGE = "“large” " * 300_000


@pytest.fixture
def s3() -> Iterator[FakeS3]:
    with FakeS3() as running:
        yield running


@pytest.fixture
def ours(reach: dict[str, str], s3: FakeS3) -> Iterator[SyncClient]:
    keys = SigningKeys(reach["aws_access_key_id"], "any")
    payloads = LargePayloads(S3Store("bucket", client=s3.client()))
    with SyncClient(
        endpoint_url=reach["endpoint_url"], region="us-east-1", credentials=keys, large_payloads=payloads
    ) as client:
        yield client


@pytest.fixture
def queue(ours: SyncClient) -> str:
    return ours.create_queue("orders")


@pytest.mark.parametrize("attribute", ["current", "legacy"])
def test_we_read_theirs(
    ours: SyncClient, queue: str, reach: dict[str, str], s3: FakeS3, attribute: str
) -> None:
    java("ExtendedClient", "send", queue, attribute, reach=reach, s3_url=s3.url, said=LARGE)
    assert len(s3.objects) == 1
    (message,) = ours.receive_message(queue, wait_time_seconds=20, message_attribute_names=["All"])
    assert message.body == LARGE
    assert {name: value.value for name, value in message.message_attributes.items()} == {"n": 1}
    ours.delete_message(queue, message.receipt_handle)
    assert s3.objects == {}


@pytest.mark.parametrize("attribute", ["current", "legacy"])
def test_they_read_ours(
    ours: SyncClient, queue: str, reach: dict[str, str], s3: FakeS3, attribute: str
) -> None:
    ours.send_message(queue, LARGE, message_attributes={"n": 1})
    assert len(s3.objects) == 1
    said = java("ExtendedClient", "receive", queue, attribute, reach=reach, s3_url=s3.url)
    assert said == f"n {LARGE}\n"
    assert s3.objects == {}
    counts = ours.get_queue_attributes(queue)
    assert counts["ApproximateNumberOfMessagesNotVisible"] == "0"
