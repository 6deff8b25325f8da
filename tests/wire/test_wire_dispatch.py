"""From target and bytes to an answer: exactly one, whatever happens."""

from __future__ import annotations

import json
import logging
from typing import Any

import msgspec
import pytest

from penstock.errors import QueueMissing, StoreError, StoreFull
from penstock.later import Later
from penstock.names import Space
from penstock.wire.call import Call
from penstock.wire.dispatch import Answer, Dispatcher
from penstock.wire.faults import missing_parameter
from penstock.wire.registry import Fault, Operation, Service


class Echo(msgspec.Struct, omit_defaults=True):
    Text: str | None = None


class Unwritable(msgspec.Struct):
    value: Any


waiting: Later[str] = Later()


async def echo(request: Echo, call: Call) -> Echo | Unwritable | None:
    match request.Text:
        case "void":
            return None
        case "wait":
            return Echo(Text=await waiting)
        case "missing":
            raise missing_parameter("Text")
        case "domain":
            raise QueueMissing
        case "full":
            raise StoreFull
        case "store":
            raise StoreError("secret path")
        case "bug 4711":
            raise RuntimeError(request.Text)
        case "unwritable":
            return Unwritable(object())
    return request


def to_fault(error: Exception) -> Fault | None:
    if isinstance(error, QueueMissing):
        return Fault("Gone", "Old.Gone", 404, "It is gone.", modelled=True)
    return None


dispatcher = Dispatcher(
    [
        Service(
            signing_name="echo",
            target_prefix="Echo",
            shape_namespace="com.example",
            xml_namespace="",
            operations={"Say": Operation("Say", Echo, Echo, echo)},
            to_fault=to_fault,
        )
    ]
)


def call() -> Call:
    return Call(request_id="rid", space=Space("0", "r"), sender="AIDA", base_url="http://host")


def ask(target: str | None, body: bytes) -> Answer:
    answers: list[Answer] = []
    dispatcher.answer(target, body, call(), answers.append)
    (answer,) = answers
    return answer


def test_success_has_the_content_type_and_the_request_id() -> None:
    answer = ask("Echo.Say", b'{"Text":"hello"}')
    assert (answer.status, answer.body) == (200, b'{"Text":"hello"}')
    assert answer.headers == [
        (b"Content-Type", b"application/x-amz-json-1.0"),
        (b"x-amzn-RequestId", b"rid"),
    ]


def test_a_void_action_has_zero_bytes_and_still_a_content_type() -> None:
    answer = ask("Echo.Say", b'{"Text":"void"}')
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers[0] == (b"Content-Type", b"application/x-amz-json-1.0")


@pytest.mark.parametrize(
    ("target", "body", "status", "type_", "code"),
    [
        ("Echo.Shout", b"{}", 400, "com.amazon.coral.service#UnknownOperationException", "InvalidAction;Sender"),
        ("Other.Say", b"{}", 400, "com.amazon.coral.service#UnknownOperationException", "InvalidAction;Sender"),
        ("\udc80.\udc80", b"{}", 400, "com.amazon.coral.service#UnknownOperationException", "InvalidAction;Sender"),
        ("", b"{}", 400, "com.amazon.coral.service#UnknownOperationException", "InvalidAction;Sender"),
        (None, b"{}", 400, "com.amazon.coral.service#UnknownOperationException", "InvalidAction;Sender"),
        ("Echo.Say", b"no", 400, "com.amazon.coral.service#SerializationException", "MalformedInput;Sender"),
        (
            "Echo.Say",
            b'{"Text":"missing"}',
            400,
            "com.amazon.coral.service#MissingRequiredParameterException",
            "MissingParameter;Sender",
        ),
        ("Echo.Say", b'{"Text":"domain"}', 404, "com.example#Gone", "Old.Gone;Sender"),
        (
            "Echo.Say",
            b'{"Text":"full"}',
            503,
            "com.amazon.coral.service#ServiceUnavailableException",
            "ServiceUnavailable;Receiver",
        ),
        (
            "Echo.Say",
            b'{"Text":"store"}',
            503,
            "com.amazon.coral.service#ServiceUnavailableException",
            "ServiceUnavailable;Receiver",
        ),
    ],
)  # fmt: skip
def test_errors_name_their_type_and_the_older_code(
    target: str | None, body: bytes, status: int, type_: str, code: str
) -> None:
    answer = ask(target, body)
    assert answer.status == status
    assert json.loads(answer.body)["__type"] == type_
    assert dict(answer.headers)[b"x-amzn-query-error"].decode() == code
    assert b"secret" not in answer.body


def test_an_unknown_action_is_named_in_the_answer() -> None:
    assert json.loads(ask("Echo.Shout", b"").body)["message"] == (
        "The action Shout is not valid for this endpoint."
    )


def test_a_full_disk_is_told() -> None:
    assert b"full" in ask("Echo.Say", b'{"Text":"full"}').body


@pytest.mark.parametrize("text", ["bug 4711", "unwritable"])
def test_the_unforeseen_is_logged_with_the_request_id_and_without_the_text(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "penstock.wire"):
        answer = ask("Echo.Say", json.dumps({"Text": text}).encode())
    assert answer.status == 500
    assert dict(answer.headers)[b"x-amzn-query-error"] == b"InternalError;Receiver"
    assert "rid" in caplog.text
    assert "Error" in caplog.text
    assert "4711" not in caplog.text


def test_an_answer_comes_once_and_when_its_value_comes() -> None:
    answers: list[Answer] = []
    dispatcher.answer("Echo.Say", b'{"Text":"wait"}', call(), answers.append)
    assert answers == []
    waiting.resolve("later")
    assert [answer.body for answer in answers] == [b'{"Text":"later"}']
