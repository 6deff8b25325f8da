"""What tests of the admin API share: requests, and the errors they get."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from penstock.client.api import ApiError, ApiSession

REGION = "eu-west-1"


def make(api: ApiSession, name: str, **attributes: str) -> str:
    url: str = api.sqs("CreateQueue", QueueName=name, Attributes=attributes)["QueueUrl"]
    return url


def make_with_dead_letters(api: ApiSession, name: str, receives: int = 3) -> str:
    """Also the queue ``NAME-dead``."""
    dead = make(api, f"{name}-dead")
    arn = api.sqs("GetQueueAttributes", QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
    return make(
        api, name, RedrivePolicy=json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": receives})
    )


def send(api: ApiSession, url: str, body: str, **members: object) -> str:
    sent: str = api.sqs("SendMessage", QueueUrl=url, MessageBody=body, **members)["MessageId"]
    return sent


def bodies(api: ApiSession, name: str, **query: object) -> list[str]:
    return [each["body"] for each in api.admin("GET", f"/queues/{name}/messages", query)["messages"]]


def refusal(call: Callable[..., Any], *arguments: Any, **named: Any) -> tuple[int, str]:
    """Status and code of the error that a call gets."""
    with pytest.raises(ApiError) as error:
        call(*arguments, **named)
    return error.value.status, error.value.code
