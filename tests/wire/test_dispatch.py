"""The path from an HTTP request to its response: which service, action and protocol; exactly one response in any
case."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import msgspec
import pytest

from penstock.errors import DataRefused, DecideAgain, QueueMissing, StoreError, StoreFull
from penstock.names import Space
from penstock.promise import Promise
from penstock.wire.dispatch import Dispatcher, refusal
from penstock.wire.faults import access_denied, missing_parameter, service_unavailable
from penstock.wire.service import Action, Call, Fault, Response, Service
from support.http_requests import PlainRequest, form_request, json_request
from support.rows import every_row


class Echo(msgspec.Struct, omit_defaults=True):
    Text: str | None = None


class Unwritable(msgspec.Struct):
    value: Any


waiting: Promise[str] = Promise()
tries: list[Call] = []


async def echo(context: None, request: Echo, call: Call) -> Echo | Unwritable | None:
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
        case "again":
            tries.append(call)
            if len(tries) < 3:
                raise DecideAgain("data of another request")
        case "always again":
            raise DecideAgain("data of another request")
        case "refused":
            raise DataRefused("invalid byte sequence")
        case "store":
            raise StoreError("secret path")
        case "bug 4711":
            raise RuntimeError(request.Text)
        case "sleep":
            await asyncio.sleep(0)
        case "unwritable":
            return Unwritable(object())
    return request


def to_fault(error: Exception) -> Fault | None:
    if isinstance(error, QueueMissing):
        return Fault("Gone", "Old.Gone", 404, "It is gone.", modelled=True, query_message="It went.")
    return None


def service(name: str, xml_namespace: str, **operations: type[msgspec.Struct] | None) -> Service:
    return Service(
        signing_name=name.lower(),
        target_prefix=name,
        shape_namespace="com.example",
        xml_namespace=xml_namespace,
        protocols=("json-1.0", "query") if xml_namespace else ("json-1.0",),
        actions={action: Action(action, Echo, result, echo) for action, result in operations.items()},
        to_fault=to_fault,
    )


dispatcher = Dispatcher(
    [
        service("Echo", "http://echo.example/doc/2001-01-01/", Say=Echo, Hush=None),
        service("Loud", "http://loud.example/doc/2002-02-02/", Say=Echo, Roar=Echo),
        service("Json", "", Whisper=Echo),
    ]
)


def call() -> Call:
    return Call(request_id="rid", space=Space("0", "r"), sender="AIDA", base_url="http://host")


def ask(target: str | None, body: bytes) -> Response:
    answers: list[Response] = []
    request = json_request(target, body) if target is not None else PlainRequest(body=body)
    dispatcher.answer(request, call(), answers.append)
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


@every_row(
    ("target", "body", "status", "type_", "code"),
    [
        ("Echo.Shout", b"{}", 400, "com.amazon.coral.service#UnknownOperationException", "InvalidAction;Sender"),
        ("Other.Say", b"{}", 400, "com.amazon.coral.service#UnknownOperationException", "InvalidAction;Sender"),
        ("\x80.\x80", b"{}", 400, "com.amazon.coral.service#UnknownOperationException", "InvalidAction;Sender"),
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


def test_an_unknown_action_is_named_in_the_response() -> None:
    assert json.loads(ask("Echo.Shout", b"").body)["message"] == (
        "The action Shout is not valid for this endpoint."
    )


def test_the_response_says_that_the_disk_is_full() -> None:
    assert b"full" in ask("Echo.Say", b'{"Text":"full"}').body


@pytest.mark.parametrize("text", ["bug 4711", "unwritable"])
def test_an_unexpected_error_is_logged_with_the_request_id_and_without_its_text(
    text: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "penstock.wire"):
        answer = ask("Echo.Say", json.dumps({"Text": text}).encode())
    assert answer.status == 500
    assert dict(answer.headers)[b"x-amzn-query-error"] == b"InternalError;Receiver"
    assert "rid" in caplog.text
    assert "Error" in caplog.text
    assert "4711" not in caplog.text


def test_the_response_comes_once_when_the_promise_is_resolved() -> None:
    answers: list[Response] = []
    dispatcher.answer(json_request("Echo.Say", b'{"Text":"wait"}'), call(), answers.append)
    assert answers == []
    waiting.resolve("later")
    assert [answer.body for answer in answers] == [b'{"Text":"later"}']


def query(form: bytes, accept: bytes = b"", method: bytes = b"POST") -> Response:
    answers: list[Response] = []
    url, body = (b"/", form) if method == b"POST" else (b"/?" + form, b"")
    dispatcher.answer(form_request(body, target=url, method=method, accept=accept), call(), answers.append)
    (answer,) = answers
    return answer


@pytest.mark.parametrize("method", [b"GET", b"POST"])
def test_a_form_is_answered_in_xml(method: bytes) -> None:
    answer = query(b"Action=Say&Text=hello", method=method)
    assert answer.status == 200
    assert answer.headers == [(b"Content-Type", b"text/xml"), (b"x-amzn-RequestId", b"rid")]
    assert answer.body == (
        b'<?xml version="1.0"?><SayResponse xmlns="http://echo.example/doc/2001-01-01/">'
        b"<SayResult><Text>hello</Text></SayResult>"
        b"<ResponseMetadata><RequestId>rid</RequestId></ResponseMetadata></SayResponse>"
    )


def test_a_form_is_answered_in_json_if_that_is_accepted() -> None:
    answer = query(b"Action=Say&Text=hello", accept=b"text/plain, Application/JSON")
    assert answer.headers[0] == (b"Content-Type", b"application/json")
    assert json.loads(answer.body)["SayResponse"]["SayResult"] == {"Text": "hello"}


@every_row(
    ("form", "namespace"),
    [
        (b"Action=Say&Version=2001-01-01", b"http://echo.example/"),
        (b"Action=Say&Version=2002-02-02", b"http://loud.example/"),
        (b"Action=Say&Version=1999-01-01", b"http://echo.example/"),
        (b"Action=Say", b"http://echo.example/"),
        (b"Action=Roar&Version=2002-02-02", b"http://loud.example/"),
        (b"Action=Nothing&Version=2002-02-02", b"http://loud.example/"),
        (b"Action=Nothing", b"http://echo.example/"),
        (b"Action=%", b"http://echo.example/"),
    ],
)
def test_the_version_decides_between_services(form: bytes, namespace: bytes) -> None:
    assert namespace in query(form).body


@every_row(
    ("form", "status", "code", "message"),
    [
        (b"Action=Shout", 400, "InvalidAction", "The action Shout is not valid for this endpoint."),
        (b"Action=Whisper", 400, "InvalidAction", "The action Whisper is not valid for this endpoint."),
        (b"Action=Say&Text=missing", 400, "MissingParameter", "The request must contain the parameter Text."),
        (b"Action=Say&Text=domain", 404, "Old.Gone", "It went."),
        (b"Action=Say&Text=full", 503, "ServiceUnavailable", None),
        (b"Action=Say&Text=bug 4711", 500, "InternalError", None),
        (b"Action=Say&Text=unwritable", 500, "InternalError", None),
        (b"Action=Say&Text=%ff", 400, "MalformedInput", None),
    ],
)
def test_errors_of_a_form(form: bytes, status: int, code: str, message: str | None) -> None:
    answer = query(form, accept=b"application/json")
    error = json.loads(answer.body)["Error"]
    assert (answer.status, error["Code"]) == (status, code)
    assert error["Type"] == ("Sender" if status < 500 else "Receiver")
    assert message is None or error["Message"] == message
    assert (b"Retry-After" in dict(answer.headers)) == (status == 503)
    document = query(form).body
    assert f"<Code>{code}</Code>".encode() in document
    assert message is None or f"<Message>{message}</Message>".encode() in document


def test_a_form_without_an_action_is_an_unknown_operation() -> None:
    for form in (b"", b"Version=2001-01-01", b"Action="):
        answer = query(form, accept=b"application/json", method=b"GET")
        assert (answer.status, answer.headers[0]) == (404, (b"Content-Type", b"text/xml"))
        assert answer.body.startswith(b"<UnknownOperationException")


def test_a_long_action_name_is_cut_in_the_response() -> None:
    assert len(query(b"Action=" + b"a" * 1_000_000).body) < 1000


def test_an_error_that_no_service_gave_is_in_the_protocol_of_the_request() -> None:
    fault = service_unavailable("Not ready.")
    for request, type_ in (
        (json_request("Echo.Say"), b"application/x-amz-json-1.0"),
        (PlainRequest(b"GET", b"/", {b"x-amz-target": b"Echo.Say"}), b"application/x-amz-json-1.0"),
        (PlainRequest(), b"application/x-amz-json-1.0"),
        (form_request(), b"text/xml"),
        (
            form_request(target=b"/?Action=Say", method=b"GET", accept=b"application/json"),
            b"application/json",
        ),
    ):
        headers = dict(refusal(fault, "rid", request).headers)
        assert (headers[b"Content-Type"], headers[b"Retry-After"]) == (type_, b"1")


def test_a_request_is_decided_again_after_data_of_another_was_refused() -> None:
    answer = ask("Echo.Say", b'{"Text":"again"}')
    assert (answer.status, len(tries)) == (200, 3)
    assert ask("Echo.Say", b'{"Text":"always again"}').status == 503
    refused = ask("Echo.Say", b'{"Text":"refused"}')
    assert refused.status == 400 and b"cannot be stored" in refused.body and b"byte" not in refused.body


def test_an_early_error_of_a_form_has_the_form_of_the_service_whose_version_it_names() -> None:
    fault = service_unavailable("Not ready.")
    detailed = msgspec.structs.replace(service("Loud", "http://loud/2001-01-01/"), xml_error_detail=True)
    both = Dispatcher([detailed, service("Calm", "http://calm/2002-02-02/")])
    for form, namespace, detail in (
        (b"Version=2001-01-01", b"http://loud/2001-01-01/", True),
        (b"a=b&Version=2002-02-02", b"http://calm/2002-02-02/", False),
        (b"", b"http://loud/2001-01-01/", True),
        (b"Version=%", b"http://loud/2001-01-01/", True),
    ):
        body = both.refusal(fault, "rid", form_request(form)).body
        assert (namespace in body, b"<Detail/>" in body) == (True, detail), form
    assert both.refusal(fault, "rid", json_request("Loud.Say")).body.startswith(b"{")


class FaultList:
    """A recorder that wants successful requests of one action only."""

    def __init__(self, wanted: str) -> None:
        self.wanted = wanted
        self.recorded: list[tuple[str, str | None]] = []

    def wants(self, action: Action) -> bool:
        return action.name == self.wanted

    def answered(
        self, service: Service, action: Action, request: Echo, call: Call, response: Any, fault: Fault | None
    ) -> None:
        self.recorded.append((action.name, None if fault is None else fault.code))


def test_failures_are_recorded_and_successes_where_they_are_wanted() -> None:
    recorder = FaultList("Roar")
    loud = Dispatcher([service("Loud", "", Say=Echo, Roar=Echo)], recorder)
    for target, body in (("Say", b"{}"), ("Roar", b"{}"), ("Say", b"["), ("Roar", b"[")):
        loud.answer(json_request(f"Loud.{target}", body), call(), lambda _: None)
    failures = [("Say", "MalformedInput"), ("Roar", "MalformedInput")]
    assert recorder.recorded == [("Roar", None), *failures]


class FailingRecorder(FaultList):
    def answered(self, service: Service, action: Action, request: Echo, *_: Any) -> None:
        raise RuntimeError(request.Text)


def test_an_error_of_the_recorder_does_not_change_the_response(caplog: pytest.LogCaptureFixture) -> None:
    failing = Dispatcher([service("Echo", "", Say=Echo)], FailingRecorder("Say"))
    answers: list[Response] = []
    failing.answer(json_request("Echo.Say", b'{"Text":"body 4711"}'), call(), answers.append)
    assert [(answer.status, answer.body) for answer in answers] == [(200, b'{"Text":"body 4711"}')]
    assert "request rid failed with RuntimeError" in caplog.text and "4711" not in caplog.text


def test_the_text_of_an_error_is_bounded() -> None:
    fault = Fault("InvalidAttributeValue", "InvalidAttributeValue", 400, "x" * 7_000_000, modelled=True)
    assert len(fault.message) == len(fault.query_message) == 4097


class Caller(msgspec.Struct):
    name: str
    kind: str = "user"


def secured(**flags: Any) -> tuple[Dispatcher, list[str]]:
    """A service with one action whose steps are recorded, and which only alice may call."""
    steps: list[str] = []

    def thing(context: str, request: Echo, call: Call) -> str:
        steps.append(f"resource {context}/{request.Text}")
        return f"{context}/{request.Text}"

    def authorize(call: Call, action: Action, resource: str) -> None:
        steps.append(f"authorize {action.permission} {resource}")
        if call.principal.name != "alice":
            raise QueueMissing

    async def handle(context: str, request: Echo, call: Call) -> Echo:
        steps.append(f"handle {call.resource}")
        return request

    action = Action("Say", Echo, Echo, handle, resource=thing, permission="echo:Say", **flags)
    echo = Service(
        signing_name="echo",
        target_prefix="Echo",
        shape_namespace="com.example",
        actions={"Say": action},
        to_fault=lambda error: Fault("Denied", type(error).__name__, 403, "no", modelled=True),
        context="things",
    )
    return Dispatcher([echo], authorize=authorize), steps


def test_the_resource_is_found_and_the_call_authorised_before_the_handler_runs() -> None:
    dispatcher, steps = secured()
    asking = call()
    asking.principal, asking.signed_for = Caller("alice"), "echo"
    answers: list[Response] = []
    dispatcher.answer(json_request("Echo.Say", b'{"Text":"x"}'), asking, answers.append)
    assert answers[0].status == 200
    assert steps == ["resource things/x", "authorize echo:Say things/x", "handle things/x"]


def test_a_denial_is_worded_by_the_service_and_the_handler_does_not_run() -> None:
    dispatcher, steps = secured()
    asking = call()
    asking.principal, asking.signed_for = Caller("bob"), "echo"
    answers: list[Response] = []
    dispatcher.answer(json_request("Echo.Say", b'{"Text":"x"}'), asking, answers.append)
    assert (answers[0].status, dict(answers[0].headers)[b"x-amzn-query-error"]) == (
        403,
        b"QueueMissing;Sender",
    )
    assert steps == ["resource things/x", "authorize echo:Say things/x"]


def test_an_unsigned_request_is_refused_before_it_is_decoded() -> None:
    dispatcher, steps = secured()
    asking = call()
    asking.principal = Caller("", "anonymous")
    answers: list[Response] = []
    dispatcher.answer(json_request("Echo.Say", b"not JSON"), asking, answers.append)
    assert dict(answers[0].headers)[b"x-amzn-query-error"] == b"SignatureMissing;Sender"
    assert steps == []


def test_an_unsigned_request_is_decoded_if_a_policy_could_allow_it() -> None:
    dispatcher, steps = secured(anonymous=True)
    asking = call()
    asking.principal = Caller("", "anonymous")
    answers: list[Response] = []
    dispatcher.answer(json_request("Echo.Say", b'{"Text":"x"}'), asking, answers.append)
    assert dict(answers[0].headers)[b"x-amzn-query-error"] == b"QueueMissing;Sender"
    assert steps == ["resource things/x", "authorize echo:Say things/x"]


def test_a_form_may_name_a_target_as_well() -> None:
    """Old Perl clients do that."""
    request = form_request(b"Action=Say&Text=hello")
    request.headers[b"x-amz-target"] = b"Echo.Say"
    answers: list[Response] = []
    dispatcher.answer(request, call(), answers.append)
    assert answers[0].headers[0] == (b"Content-Type", b"text/xml")
    assert b"<Text>hello</Text>" in answers[0].body
    assert refusal(service_unavailable("x"), "rid", request).headers[0] == (b"Content-Type", b"text/xml")


@pytest.mark.parametrize("body", [b' {"Text":"Action=Say"}', b""])
def test_a_target_is_json_although_the_client_calls_its_body_a_form(body: bytes) -> None:
    """curl and urllib do that."""
    request = form_request(body)
    request.headers[b"x-amz-target"] = b"Echo.Say"
    answers: list[Response] = []
    dispatcher.answer(request, call(), answers.append)
    assert answers[0].status == 200
    assert answers[0].headers[0] == (b"Content-Type", b"application/x-amz-json-1.0")
    assert answers[0].body == (body.strip() or b"{}")
    of_framework = refusal(service_unavailable("x"), "rid", request)
    assert of_framework.headers[0] == (b"Content-Type", b"application/x-amz-json-1.0")


@pytest.mark.parametrize(
    ("signed_for", "version", "host", "namespace"),
    [
        ("loud", b"2001-01-01", "echo.example", b"http://loud.example/"),
        ("other", b"2002-02-02", "echo.example", b"http://loud.example/"),
        (None, b"2002-02-02", "echo.example", b"http://loud.example/"),
        (None, b"1999-09-09", "loud.example", b"http://loud.example/"),
        (None, b"1999-09-09", "localhost", b"http://echo.example/"),
    ],
)
def test_which_of_two_services_with_the_same_action(
    signed_for: str | None, version: bytes, host: str, namespace: bytes
) -> None:
    asking = call()
    asking.signed_for, asking.base_url = signed_for, f"http://{host}:9324"
    answers: list[Response] = []
    dispatcher.answer(form_request(b"Action=Say&Version=" + version), asking, answers.append)
    assert namespace in answers[0].body


def test_a_request_that_may_only_read() -> None:
    """A link in a mail or a web page must not change anything on an open server."""
    for flags, status in (
        ({"read_only": True}, 200),
        ({}, 403),
        ({"read_only": True, "has_effects": True}, 403),
    ):
        dispatcher, steps = secured(**flags)
        asking = call()
        asking.principal, asking.signed_for = Caller("alice"), "echo"
        asking.write_refusal = access_denied("not from a page")
        answers: list[Response] = []
        dispatcher.answer(json_request("Echo.Say", b"{}"), asking, answers.append)
        assert answers[0].status == status
        assert bool(steps) == (status == 200)


def test_a_link_that_anyone_may_follow() -> None:
    """Its action needs no signature and no permission, and pages and mails may have the link."""
    anonymous = Caller("nobody")
    anonymous.kind = "anonymous"
    for flags, name, status in (
        ({"anonymous": True, "by_link": True}, "anonymous", 200),
        ({"anonymous": True}, "anonymous", 403),
        ({"anonymous": True, "by_link": True}, "bob", 403),
        ({"anonymous": True, "by_link": True}, "alice", 200),
        ({"anonymous": True}, "alice", 403),
    ):
        dispatcher, steps = secured(**flags)
        asking = call()
        asking.principal = anonymous if name == "anonymous" else Caller(name)
        asking.page_refusal = asking.write_refusal = access_denied("not from a page")
        answers: list[Response] = []
        dispatcher.answer(form_request(b"Action=Say"), asking, answers.append)
        assert answers[0].status == status, (flags, name)
        assert ("handle things/None" in steps) == (status == 200)


def test_a_page_may_not_even_read() -> None:
    dispatcher, steps = secured(read_only=True)
    asking = call()
    asking.principal, asking.page_refusal = Caller("alice"), access_denied("not from a page")
    answers: list[Response] = []
    dispatcher.answer(form_request(b"Action=Say"), asking, answers.append)
    assert (answers[0].status, steps) == (403, [])


def test_a_handler_may_await_a_future_after_a_promise() -> None:
    async def main() -> None:
        promise, future = Promise[str](), asyncio.get_running_loop().create_future()

        async def handle(context: None, request: Echo, call: Call) -> Echo:
            return Echo(Text=await promise + await future)

        answers: list[Response] = []
        one = Service(
            signing_name="echo",
            target_prefix="Echo",
            shape_namespace="com.example",
            actions={"Say": Action("Say", Echo, Echo, handle)},
            to_fault=to_fault,
        )
        Dispatcher([one]).answer(json_request("Echo.Say"), call(), answers.append)
        promise.resolve("a")
        assert answers == []
        future.set_result("b")
        await asyncio.sleep(0)
        assert [answer.body for answer in answers] == [b'{"Text":"ab"}']

    asyncio.run(main())


def test_a_handler_that_awaits_something_else_is_an_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    answer = ask("Echo.Say", b'{"Text":"sleep"}')
    assert answer.status == 500
    assert "request rid failed with TypeError" in caplog.text
