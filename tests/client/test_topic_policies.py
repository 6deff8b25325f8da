"""The statement that lets a topic send to a queue."""

from __future__ import annotations

import json

import pytest

from penstock.client.topic_policies import with_topic

TOPIC = "arn:aws:sns:eu-central-1:123456789012:orders"
QUEUE = "arn:aws:sqs:eu-central-1:123456789012:kitchen"
OTHER = {"Sid": "x", "Effect": "Deny", "Principal": "*", "Action": "*", "Resource": "*"}


def statements(policy: str | None) -> list[dict[str, object]]:
    assert policy is not None
    found: list[dict[str, object]] = json.loads(policy)["Statement"]
    return found


def test_a_queue_without_a_policy_gets_one() -> None:
    (statement,) = statements(with_topic("", QUEUE, TOPIC))
    assert statement["Principal"] == {"Service": "sns.amazonaws.com"}
    assert statement["Condition"] == {"ArnEquals": {"aws:SourceArn": TOPIC}}
    assert (statement["Action"], statement["Resource"]) == ("sqs:SendMessage", QUEUE)


@pytest.mark.parametrize("given", [OTHER, [OTHER]])
def test_what_was_there_stays(given: object) -> None:
    policy = with_topic(json.dumps({"Version": "2008-10-17", "Id": "mine", "Statement": given}), QUEUE, TOPIC)
    assert policy is not None and json.loads(policy)["Id"] == "mine"
    assert statements(policy)[0] == OTHER and len(statements(policy)) == 2


def test_nothing_is_added_twice_and_each_topic_has_a_statement() -> None:
    policy = with_topic("", QUEUE, TOPIC)
    assert policy is not None
    assert with_topic(policy, QUEUE, TOPIC) is None
    assert len(statements(with_topic(policy, QUEUE, f"{TOPIC}-2"))) == 2


def test_a_statement_for_another_queue_is_replaced() -> None:
    policy = with_topic("", f"{QUEUE}-old", TOPIC)
    assert policy is not None
    (statement,) = statements(with_topic(policy, QUEUE, TOPIC))
    assert statement["Resource"] == QUEUE


def test_what_is_no_policy_is_refused() -> None:
    for text in ("[]", "{"):
        with pytest.raises(ValueError):
            with_topic(text, QUEUE, TOPIC)
