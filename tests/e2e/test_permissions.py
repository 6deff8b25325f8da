"""AddPermission and RemovePermission write statements of the queue's policy."""

from __future__ import annotations

import json
from typing import Any

import pytest
from botocore.exceptions import ClientError


def policy(sqs: Any, url: str) -> Any:
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["Policy"]).get("Attributes", {})
    return json.loads(shown["Policy"]) if "Policy" in shown else None


def test_permissions_become_statements_and_removing_the_last_one_removes_the_policy(
    sqs: Any, account: str
) -> None:
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    queue = f"arn:aws:sqs:us-east-1:{account}:q"
    sqs.add_permission(QueueUrl=url, Label="one", AWSAccountIds=["111111111111"], Actions=["ReceiveMessage"])
    one = {
        "Sid": "one",
        "Effect": "Allow",
        "Principal": {"AWS": "arn:aws:iam::111111111111:root"},
        "Action": "SQS:ReceiveMessage",
        "Resource": queue,
    }
    assert policy(sqs, url) == {
        "Version": "2008-10-17", "Id": f"{queue}/SQSDefaultPolicy", "Statement": [one],
    }  # fmt: skip
    sqs.add_permission(
        QueueUrl=url, Label="two", Actions=["SendMessage", "*"],
        AWSAccountIds=["111111111111", "222222222222", "not-an-account"],
    )  # fmt: skip
    two = policy(sqs, url)["Statement"][1]
    assert set(two["Principal"]["AWS"]) == {f"arn:aws:iam::{n * 12}:root" for n in "12"}
    assert two["Action"] == ["SQS:SendMessage", "SQS:*"]
    with pytest.raises(ClientError, match="Value one for parameter Label is invalid"):
        sqs.add_permission(QueueUrl=url, Label="one", AWSAccountIds=["333333333333"], Actions=["*"])
    sqs.remove_permission(QueueUrl=url, Label="one")
    assert policy(sqs, url)["Statement"] == [two]
    with pytest.raises(ClientError, match="can't find label on existing policy"):
        sqs.remove_permission(QueueUrl=url, Label="one")
    sqs.remove_permission(QueueUrl=url, Label="two")
    assert policy(sqs, url) is None


def test_twenty_statements_at_most(sqs: Any) -> None:
    url = sqs.create_queue(QueueName="q")["QueueUrl"]
    for i in range(20):
        sqs.add_permission(
            QueueUrl=url, Label=f"l{i}", AWSAccountIds=["111111111111"], Actions=["SendMessage"]
        )
    with pytest.raises(sqs.exceptions.OverLimit) as refused:
        sqs.add_permission(
            QueueUrl=url, Label="more", AWSAccountIds=["111111111111"], Actions=["SendMessage"]
        )
    assert refused.value.response["Error"]["Message"] == "21 Statements were found, maximum allowed is 20."
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
