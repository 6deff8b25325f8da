"""What a request without a signature may cost on a server with credentials: little, whatever it holds.

The rows are those of SQS and STS; every policy refuses. CPU time is compared with that of a plain loop on the same
machine, so that a slow one changes nothing.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import msgspec
import pytest

from penstock.names import Space
from penstock.services import cloudwatch, sqs, sts
from penstock.wire.dispatch import Dispatcher
from penstock.wire.service import Action, Call, Fault, Response, Service
from support.cpu import cost
from support.http_requests import FORM, PlainRequest, json_request

URL = b"http://queues.test/000000000000/orders"
FORM_HEAD = b"Version=2012-11-05&QueueUrl=" + URL + b"&MessageBody=x"
UNITS_MAX = 5


class Anonymous(msgspec.Struct):
    kind: str = "anonymous"


def denied(*_: Any) -> None:
    raise Fault("AccessDeniedException", "AccessDenied", 403, "no", modelled=False)


def rows(service: Service) -> dict[str, Action]:
    """The actions of a service, on resources that are only named."""

    def named(context: Any, request: Any, call: Call) -> Any:
        return request

    return {
        name: msgspec.structs.replace(row, resource=None if row.resource is None else named)
        for name, row in service.actions.items()
    }


@pytest.fixture(scope="module")
def ask() -> Callable[[PlainRequest], Response]:
    services = [
        msgspec.structs.replace(service, actions=rows(service))
        for service in (sqs.SERVICE, cloudwatch.SERVICE, sts.SERVICE)
    ]
    dispatcher = Dispatcher(services, authorize=denied)

    def ask(request: PlainRequest) -> Response:
        call = Call(
            request_id="rid", space=Space("000000000000", "us-east-1"), sender="anonymous",
            base_url="http://queues.test", principal=Anonymous(),
        )  # fmt: skip
        answers: list[Response] = []
        dispatcher.answer(request, call, answers.append)
        return answers[0]

    return ask


def form(body: bytes, **headers: bytes) -> PlainRequest:
    return PlainRequest(
        headers={b"content-type": FORM, **{k.encode(): v for k, v in headers.items()}}, body=body
    )


def hostile() -> Iterator[tuple[str, PlainRequest]]:
    attributes = b"".join(b"&MessageAttribute.%d.Name=a" % number for number in range(1, 1990))
    deep = b"".join(b"&MessageAttribute.%d%b=a" % (number, b".a" * 200) for number in range(1, 480))
    escaped = b"".join(b"&MessageAttribute.%d.%b=a" % (number, b"%61" * 100) for number in range(1, 480))
    data = b"".join(b"&MetricData.member.%d.Value=1" % number for number in range(1, 60_000))
    tokens = b"".join(b"&PolicyArns.member.%d.arn=a" % number for number in range(1, 480))
    for name, body in {
        "attributes": b"Action=SendMessage&" + FORM_HEAD + attributes,
        "allowed attributes": b"Action=SendMessage&" + FORM_HEAD + attributes[:12_000],
        "action last": FORM_HEAD + attributes[:12_000] + b"&Action=SendMessage",
        "deep names": b"Action=SendMessage&" + FORM_HEAD + deep,
        "escaped names": b"Action=SendMessage&" + FORM_HEAD + escaped,
        "metric data": b"Action=PutMetricData&Version=2010-08-01" + data,
        "web identity": b"Action=AssumeRoleWithWebIdentity&Version=2011-06-15" + tokens,
        "no action": attributes,
    }.items():
        yield name, form(body)
    wrong = b",".join(b'"a%d":{"DataType":1}' % number for number in range(2000))
    for name, members in {
        "wrong attributes": b'"MessageAttributes":{' + wrong + b"}",
        "numbers": b'"MessageBody":5,"x":[' + b"1," * 28_000 + b"1]",
        "cut numbers": b'"MessageBody":"x","x":[' + b"1," * 28_000,
        "surrogates": b'"MessageBody":"\\ud800","x":[' + b"1," * 28_000 + b"1]",
        "nested": b'"x":' + b"[" * 28_000 + b"]" * 28_000,
        "texts": b'"MessageBody":5,"x":[' + b'"",' * 19_000 + b'""]',
    }.items():
        yield name, json_request("AmazonSQS.SendMessage", b'{"QueueUrl":"%b",%b}' % (URL, members))
    bomb = gzip.compress(b"Action=SendMessage&" + FORM_HEAD + b"a" * 4_000_000)
    yield "compressed", form(bomb, **{"content-encoding": b"gzip"})
    tagged = b"\xbf\x61x\x9f" + (b"\xc1" * 30 + b"\x01") * 19_999 + b"\xff\xff"
    path = b"/service/GraniteServiceVersion20100801/operation/PutMetricData"
    yield "CBOR", PlainRequest(b"POST", path, {b"smithy-protocol": b"rpc-v2-cbor"}, tagged)


def test_an_unsigned_request_takes_little_time_whatever_it_holds(
    ask: Callable[[PlainRequest], Response],
) -> None:
    costs = {name: cost(partial(ask, request)) for name, request in hostile()}
    assert {name: round(took, 1) for name, took in costs.items() if took > UNITS_MAX} == {}


def test_an_unsigned_request_is_refused_whatever_it_holds(ask: Callable[[PlainRequest], Response]) -> None:
    statuses = {name: ask(request).status for name, request in hostile()}
    assert {name: status for name, status in statuses.items() if status not in (400, 403, 404)} == {}


def test_the_policy_is_asked_before_the_rest_is_decoded(ask: Callable[[PlainRequest], Response]) -> None:
    for request in (
        form(b"Action=SendMessage&" + FORM_HEAD + b"&DelaySeconds=soon"),
        form(b"DelaySeconds=%&" + FORM_HEAD + b"&Action=SendMessage"),
        json_request("AmazonSQS.SendMessage", b'{"QueueUrl":"%b","DelaySeconds":"soon"}' % URL),
    ):
        assert ask(request).status == 403, request
