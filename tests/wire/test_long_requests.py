"""A long request that is decoded in steps gives the same struct or the same fault as one that is decoded at once.

The dispatcher decodes one of each account at a time, and keeps the request until then.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from typing import Any
from unittest.mock import patch
from urllib.parse import urlencode

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.errors import NotOwned
from penstock.names import Space
from penstock.promise import Promise
from penstock.server.http.request import Peer, Request
from penstock.services.cloudwatch import SERVICE as CLOUDWATCH
from penstock.services.cloudwatch.actions import ACTIONS
from penstock.services.cloudwatch.structs import PutMetricDataRequest
from penstock.turns import Steps, Turns, finished
from penstock.wire import cbor, query
from penstock.wire.dispatch import Dispatcher
from penstock.wire.json import JsonDecoder, object_steps, read_object
from penstock.wire.query import Form, FormDecoder
from penstock.wire.service import Call, Fault, Response
from penstock.wire.shapes import MEMBERS_MAX, struct_shape
from support.generated import examples
from support.http_requests import form_parameters, form_request

LONG = [action for action in ACTIONS.values() if action.members_max]
NAMES = [
    "MetricData", "EntityMetricData", "MetricDataQueries", "MetricStat", "Metric", "Metrics", "Dimensions", "Name",
    "Value", "Values", "Counts", "Timestamp", "StatisticValues", "Sum", "Namespace", "MetricName", "Unit", "Tags",
    "OKActions", "StartTime", "StrictEntityValidation", "LabelOptions", "Period", "Unknown",
]  # fmt: skip
LISTS = ["MetricData", "EntityMetricData", "MetricDataQueries", "Dimensions", "Metrics", "Tags"]

_scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64 - 1)
    | st.floats(0, 1e9)
    | st.sampled_from(["", "a", "1", "true", "NaN", "2026-01-01T00:00:00Z", "é\ud800"])
)
_numbers = st.lists(st.floats(0, 9) | st.integers(0, 9), max_size=5)
_values = st.recursive(
    _scalars | _numbers,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=5),
    max_leaves=30,
)
_objects = st.dictionaries(st.sampled_from(NAMES), _values, max_size=5)
_nested = st.fixed_dictionaries(
    {}, optional={name: st.lists(_objects, max_size=4) for name in LISTS} | {"Namespace": st.just("n")}
)
_requests = _objects | _nested | _nested.map(lambda inner: {"EntityMetricData": [inner, inner]})


class Change(msgspec.Struct):
    """Bytes of a request that are replaced by others."""

    at: int
    length: int
    by: bytes

    def __call__(self, body: bytes) -> bytes:
        at = self.at % (len(body) + 1)
        return body[:at] + self.by + body[at + self.length :]


_changes = st.none() | st.builds(
    Change,
    st.integers(0, 5000),
    st.integers(0, 3),
    st.sampled_from(
        [b"", b",", b" ", b"]", b"}", b"[", b'"', b":", b"&", b"%", b"=", b".", b"\xff", b"\x9f", b"\xc1"]
    ),
)


def outcome(decode: Callable[[], Any]) -> str:
    try:
        return repr(decode())
    except Fault as fault:
        return f"{fault.shape}: {fault.message}"


@settings(max_examples=examples(200), deadline=None)
@given(_requests, _changes, st.sampled_from(LONG))
def test_the_outcome_is_the_same_in_every_protocol(
    request: dict[str, Any], change: Change | None, action: Any
) -> None:
    body = json.dumps(request).encode()
    form = urlencode(list(form_parameters(request)), errors="surrogatepass").encode()
    packed = cbor.encode(msgspec.json.decode(body.replace(b"\\ud800", b"")))
    if change is not None:
        body, form, packed = change(body), change(form), change(packed)
    asked: list[tuple[Any, Any]] = [
        (JsonDecoder(action.request, action.members_max), body),
        (cbor.CborDecoder(action.request, action.members_max), packed),
        (FormDecoder(action.request, action.members_max), Form((b"", form), "")),
    ]
    with patch.multiple(query, _PARAMETERS_PER_STEP=0, _BYTES_PER_STEP=7, _SPREAD_PER_STEP=2):
        for decoder, sent in asked:
            assert outcome(lambda: finished(decoder.steps(sent))) == outcome(lambda: decoder(sent))  # noqa: B023
    assert outcome(lambda: finished(object_steps(body))) == outcome(lambda: read_object(body))


@given(st.text('[]{},:"1a \n', max_size=12))
@settings(max_examples=examples(1000), deadline=None)
def test_what_is_not_json_is_refused_in_steps_as_well(text: str) -> None:
    for body in (text.encode(), b'{"a":[' + text.encode() + b"]}"):
        assert outcome(lambda: finished(object_steps(body))) == outcome(lambda: read_object(body))  # noqa: B023


def longest_step(steps: Steps[Any], count: Callable[[], int]) -> int:
    """The most that is counted between two pauses."""
    longest, before = 0, count()
    while True:
        try:
            next(steps)
        except (StopIteration, Fault):
            return max(longest, count() - before)
        longest, before = max(longest, count() - before), count()


def test_every_part_of_a_long_form_is_read_in_short_steps() -> None:
    """However the parameters are named: between two pauses a few hundred names or values are decoded."""
    action = ACTIONS["PutMetricData"]
    data = "MetricData.member"
    forms = {
        "many data": [
            f"{data}.{at}.{name}=1" for at in range(1000) for name in ("MetricName", "Value", "Unit")
        ],
        "values": [f"{data}.1.Values.member.{at}=1" for at in range(MEMBERS_MAX)],
        "values of entities": [
            f"EntityMetricData.member.1.{data}.{at}.Values.member.{number}=1"
            for at in range(100)
            for number in range(100)
        ],
        "unknown": [f"unknown{at}=1" for at in range(20_000)],
        "empty": ["a"] * 20_000,
        "too many values": [f"{data}.1.Values.member.{at}=1" for at in range(20_000)],
    }
    decoder = FormDecoder(action.request, action.members_max)
    for name, lines in forms.items():
        with patch.object(query, "decode_parameter", wraps=query.decode_parameter) as decoded:
            steps = decoder.steps(Form((b"&".join(line.encode() for line in lines),), ""))
            assert longest_step(steps, lambda: decoded.call_count) <= 2000, name


def test_no_long_request_has_maps() -> None:
    """Maps of a form are not read in steps."""
    assert "MapOf" not in repr([struct_shape(action.request) for action in LONG])


# -- the dispatcher ------------------------------------------------------------------------------------------


class Endpoint:
    """A dispatcher whose long work is done when a test lets it. Long requests are decoded when ``is_open`` is set."""

    def __init__(self, *, pass_on: Any = None, not_owned: bool = False) -> None:
        self.due: list[Callable[[], None]] = []
        self.begun: list[str] = []
        self.responses: list[Response] = []
        self.is_open = False
        actions = CLOUDWATCH.actions
        if not_owned:
            actions = {"PutMetricData": msgspec.structs.replace(actions["PutMetricData"], resource=elsewhere)}
        service = msgspec.structs.replace(CLOUDWATCH, actions=actions)
        with patch.object(FormDecoder, "steps", lambda decoder, form: self._steps(form)):
            self.dispatcher = Dispatcher([service], pass_on=pass_on, turns=Turns(self.due.append))

    def send(self, account: str, bytes_count: int = 5000) -> None:
        body = b"Action=PutMetricData&Of=%b&Namespace=%b" % (account.encode(), b"n" * bytes_count)
        self.dispatcher.answer(form_request(body), call_of(account), self.responses.append)

    def _steps(self, form: Form) -> Steps[PutMetricDataRequest]:
        self.begun.append(form.sources[1].partition(b"Of=")[2][:1].decode())
        while not self.is_open:
            yield
        return PutMetricDataRequest()

    def turn(self, count: int = 50) -> None:
        for _ in range(count):
            if self.due:
                self.due.pop(0)()


def call_of(account: str) -> Call:
    return Call(request_id="r", space=Space(account, "r"), sender="s", base_url="http://host")


def elsewhere(context: Any, request: Any, call: Call) -> Any:
    raise NotOwned(7)


def test_one_long_request_of_an_account_is_decoded_at_a_time() -> None:
    endpoint = Endpoint()
    for account in ("a", "a", "a", "b"):
        endpoint.send(account)
    endpoint.turn()
    assert endpoint.begun == ["a", "b"] and endpoint.responses == []
    endpoint.is_open = True
    endpoint.turn()
    assert endpoint.begun == ["a", "b", "a", "a"]
    assert [response.status for response in endpoint.responses] == [400] * 4
    assert all(b"Namespace is required" in response.body for response in endpoint.responses)


def test_more_small_requests_than_large_ones_may_wait() -> None:
    for bytes_count, refused in ((5000, 0), (2 * 1024 * 1024, 9)):
        endpoint = Endpoint()
        for _ in range(30):
            endpoint.send("a", bytes_count)
        assert [response.status for response in endpoint.responses] == [400] * refused
        assert all(b"<Code>Throttling</Code>" in response.body for response in endpoint.responses)
        endpoint.is_open = True
        endpoint.turn()
        assert len(endpoint.responses) == 30


def test_a_long_request_of_another_process_is_passed_on_when_it_was_decoded() -> None:
    passed: list[Any] = []
    endpoint = Endpoint(
        pass_on=lambda request, done, shard: passed.append((request.body[:6], shard)), not_owned=True
    )
    endpoint.send("a")
    assert passed == []
    endpoint.is_open = True
    endpoint.turn()
    assert passed == [(b"Action", 7)]


def test_a_request_is_kept_until_it_was_decoded() -> None:
    decoding = Promise[None]()
    call = call_of("a")
    call.decoding = decoding
    request = Request(Peer("127.0.0.1", "http", "h:1"), target=b"/", body=b"body", call=call)
    request.release()
    assert (request.target, request.body) == (b"/", b"body")
    decoding.resolve(None)
    assert (request.target, request.body) == (b"", b"")


def test_without_a_loop_a_long_request_is_answered_at_once() -> None:
    for form in (b"MetricData.member.1.Value=" + b"x" * 5000, b"a=1&" * 5000):
        responses: list[Response] = []
        plain = form_request(b"Action=PutMetricData&" + form)
        packed = form_request(gzip.compress(plain.body))
        packed.headers[b"content-encoding"] = b"gzip"
        for request in (plain, packed):
            Dispatcher([CLOUDWATCH]).answer(request, call_of("a"), responses.append)
        assert [response.status for response in responses] == [responses[0].status] * 2
        assert responses[0].body == responses[1].body
