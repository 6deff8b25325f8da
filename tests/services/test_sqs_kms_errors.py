"""Queues whose KMS key cannot be used: SQS passes the error of KMS on."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import KeyDisabled, KeyMissing, PenstockError

KEY = "arn:aws:kms:eu-west-1:123456789012:key/1234abcd-12ab-34cd-56ef-1234567890ab"
ALIAS = "arn:aws:kms:eu-west-1:123456789012:alias/orders"


@pytest.mark.parametrize(
    ("error", "shape", "code", "message"),
    [
        (KeyDisabled(KEY), "KmsDisabled", "KMS.DisabledException", f"{KEY} is disabled."),
        (KeyMissing(KEY), "KmsNotFound", "KMS.NotFoundException", f"Key '{KEY}' does not exist"),
        (KeyMissing(ALIAS), "KmsNotFound", "KMS.NotFoundException", f"Alias {ALIAS} is not found."),
    ],
)
@pytest.mark.parametrize(
    ("action", "members"),
    [
        ("SendMessage", {"MessageBody": "hello"}),
        ("SendMessageBatch", {"Entries": [{"Id": "a", "MessageBody": "hello"}]}),
        ("ReceiveMessage", {}),
    ],
)
def test_the_request_is_refused(
    sqs: Any, error: PenstockError, shape: str, code: str, message: str, action: str, members: dict[str, Any]
) -> None:
    sqs.make("q", KmsMasterKeyId="alias/orders")
    sqs.broker.raises = error
    reply = sqs(action, QueueUrl="q", **members)
    assert (reply.status, reply.error) == (400, (code, message))
    assert reply.body["__type"] == f"com.amazonaws.sqs#{shape}"


def test_a_key_is_not_looked_up_when_it_is_set(sqs: Any) -> None:
    sqs.make("q", KmsMasterKeyId="alias/missing")
    assert sqs.attributes("q")["KmsMasterKeyId"] == "alias/missing"
