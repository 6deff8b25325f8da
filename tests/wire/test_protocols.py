"""One service in JSON 1.1, REST-JSON and CBOR: requests as botocore writes them, responses as botocore reads them."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

import msgspec
import pytest
from botocore.awsrequest import HeadersDict
from botocore.model import ServiceModel
from botocore.parsers import create_parser
from botocore.serialize import create_serializer

from penstock.names import Space
from penstock.wire.cbor import encode
from penstock.wire.compression import UNCOMPRESSED_BYTES_MAX
from penstock.wire.dispatch import Dispatcher, refusal
from penstock.wire.faults import service_unavailable
from penstock.wire.service import Call, ProtocolName, Response
from support.http_requests import FORM, PlainRequest, json_request
from wire.things import things_service

_SCALARS = {"S": "string", "I": "integer", "B": "boolean", "F": "double", "Raw": "blob", "T": "timestamp"}


def _members(**members: str) -> dict[str, Any]:
    return {"type": "structure", "members": {name: {"shape": shape} for name, shape in members.items()}}


_PUT = _members(
    Name="S",
    Trace="S",
    Colours="Texts",
    Count="I",
    Fresh="B",
    Weight="F",
    Note="S",
    Tags="Tags",
    Parts="Parts",
    Made="T",
    Changed="Times",
)
_PUT["members"]["Name"] |= {"location": "uri", "locationName": "Name"}
_PUT["members"]["Trace"] |= {"location": "header", "locationName": "X-Trace"}
_PUT["members"]["Colours"] |= {"location": "querystring", "locationName": "colour"}
_PUT["members"]["Count"] |= {"location": "querystring", "locationName": "count"}
_PUT["members"]["Fresh"] |= {"location": "querystring", "locationName": "fresh"}
_THING = _members(
    Name="S",
    Trace="S",
    Colours="Texts",
    Count="I",
    Fresh="B",
    Weight="F",
    Note="S",
    Tags="Tags",
    Parts="Parts",
    Made="T",
    Changed="Times",
)
_THING["members"]["Trace"] |= {"location": "header", "locationName": "X-Trace"}
_NAME = _members(Name="S")
_NAME["members"]["Name"] |= {"location": "uri", "locationName": "Name"}
_KEY = _members(Key="S")
_KEY["members"]["Key"] |= {"location": "uri", "locationName": "Key"}
_UPLOAD = _members(Key="S", Content="Raw") | {"payload": "Content"}
_UPLOAD["members"]["Key"] |= {"location": "uri", "locationName": "Key"}
_FILE = _members(Type="S", Content="Raw") | {"payload": "Content"}
_FILE["members"]["Type"] |= {"location": "header", "locationName": "X-Type"}

SHAPES: dict[str, dict[str, Any]] = {
    **{name: {"type": kind} for name, kind in _SCALARS.items()},
    "Texts": {"type": "list", "member": {"shape": "S"}},
    "Times": {"type": "list", "member": {"shape": "T"}},
    "Tags": {"type": "map", "key": {"shape": "S"}, "value": {"shape": "S"}},
    "Part": _members(Label="S", Data="Raw"),
    "Parts": {"type": "list", "member": {"shape": "Part"}},
    "Put": _PUT, "Thing": _THING, "Named": _NAME, "Keyed": _KEY, "UploadIn": _UPLOAD, "UploadOut": _members(Size="I"),
    "File": _FILE,
    "ThingNotFound": {"type": "structure", "members": {"message": {"shape": "S"}}, "exception": True},
}  # fmt: skip
OPERATIONS = {
    "PutThing": ("PUT", "/things/{Name}", "Put", "Thing"),
    "GetThing": ("GET", "/things/{Name}", "Named", "Thing"),
    "DeleteThing": ("DELETE", "/things/{Name}", "Named", None),
    "Upload": ("POST", "/files/{Key+}", "UploadIn", "UploadOut"),
    "ReadFile": ("GET", "/whole/{Key+}", "Keyed", "File"),
}
PROTOCOLS: dict[ProtocolName, dict[str, str]] = {
    "query": {"protocol": "query"},
    "json-1.0": {"protocol": "json", "jsonVersion": "1.0"},
    "json-1.1": {"protocol": "json", "jsonVersion": "1.1"},
    "rest-json": {"protocol": "rest-json"},
    "rpc-v2-cbor": {"protocol": "smithy-rpc-v2-cbor"},
}


def model(protocol: ProtocolName) -> ServiceModel:
    at_root = protocol != "rest-json"
    operations = {
        name: {
            "name": name,
            "http": {"method": "POST" if at_root else method, "requestUri": "/" if at_root else uri},
            "input": {"shape": given},
            "errors": [{"shape": "ThingNotFound"}],
            **({"output": {"shape": result, "resultWrapper": f"{name}Result"}} if result else {}),
        }
        for name, (method, uri, given, result) in OPERATIONS.items()
    }
    metadata = {
        **PROTOCOLS[protocol],
        "apiVersion": "2020-02-02",
        "endpointPrefix": "things",
        "serviceId": "Things",
        "signatureVersion": "v4",
        "targetPrefix": "ThingService",
    }
    shapes = {name: _all_in_body(shape) for name, shape in SHAPES.items()} if at_root else SHAPES
    return ServiceModel({"metadata": metadata, "operations": operations, "shapes": shapes}, "ThingService")


def _all_in_body(shape: dict[str, Any]) -> dict[str, Any]:
    """Only REST-JSON puts members elsewhere."""
    members = {name: {"shape": member["shape"]} for name, member in shape.get("members", {}).items()}
    kept = {key: value for key, value in shape.items() if key not in ("members", "payload")}
    return kept | ({"members": members} if "members" in shape else {})


class Client:
    """``client("PutThing", Name="a")`` gives what boto3 would."""

    def __init__(self, protocol: ProtocolName, *, has_query_mode: bool = False) -> None:
        service = msgspec.structs.replace(things_service(protocol), has_query_mode=has_query_mode)
        self.dispatcher = Dispatcher([service])
        self.last: Response
        self._kind = PROTOCOLS[protocol]["protocol"]
        self._model = model(protocol)

    def __call__(self, action: str, **members: Any) -> dict[str, Any]:
        operation = self._model.operation_model(action)
        request = create_serializer(self._kind, include_validation=False).serialize_to_request(
            members, operation
        )
        query = request["query_string"]
        target = request["url_path"] + ("?" + urlencode(query, doseq=True) if query else "")
        headers = {name.lower().encode(): str(value).encode() for name, value in request["headers"].items()}
        sent = urlencode(request["body"]) if self._kind == "query" else request["body"]
        body = sent.encode() if isinstance(sent, str) else bytes(sent)
        self.send(PlainRequest(request["method"].encode(), target.encode(), headers, body))
        response = {
            "status_code": self.last.status,
            "headers": HeadersDict({name.decode(): value.decode() for name, value in self.last.headers}),
            "body": self.last.body,
        }
        return dict(create_parser(self._kind).parse(response, operation.output_shape))

    def send(self, request: PlainRequest, signed_for: str | None = None) -> Response:
        call = Call(request_id="rid", space=Space("0", "r"), sender="S", base_url="http://host")
        call.signed_for = signed_for
        responses: list[Response] = []
        self.dispatcher.answer(request, call, responses.append)
        (self.last,) = responses
        return self.last


THING = {
    "Name": "a b/ü",
    "Trace": "t-1",
    "Colours": ["red", "blue & green"],
    "Count": -5,
    "Fresh": True,
    "Weight": 2.5,
    "Note": "line\r\nline é😀",
    "Tags": {"k": "v", "empty": ""},
    "Parts": [{"Label": "x", "Data": b"\x00\xff"}, {"Label": "y"}],
    "Made": datetime(2025, 12, 17, 13, 23, tzinfo=UTC),
    "Changed": [datetime(1970, 1, 1, tzinfo=UTC), datetime(2026, 2, 28, 23, 59, 59, tzinfo=UTC)],
}


@pytest.fixture(params=PROTOCOLS)
def client(request: pytest.FixtureRequest) -> Client:
    return Client(request.param)


def test_members_of_every_kind_come_back(client: Client) -> None:
    stored = client("PutThing", **THING)
    stored.pop("ResponseMetadata")
    assert stored == THING
    found = client("GetThing", Name="a b/ü")
    found.pop("ResponseMetadata")
    assert found == THING


def test_absent_members_stay_absent(client: Client) -> None:
    stored = client("PutThing", Name="bare")
    assert stored.pop("ResponseMetadata")["HTTPHeaders"]["x-amzn-requestid"] == "rid"
    assert stored == {"Name": "bare"}


def test_an_action_without_a_result(client: Client) -> None:
    reply = client("DeleteThing", Name="x")
    assert reply["ResponseMetadata"]["HTTPStatusCode"] in (200, 204)
    assert client.last.body == b"" or client._kind == "query"


def test_an_error_of_the_service(client: Client) -> None:
    reply = client("GetThing", Name="nothing")
    assert reply["ResponseMetadata"]["HTTPStatusCode"] == 404
    assert reply["Error"]["Code"] in ("ThingNotFound", "Things.NotFound")
    assert reply["Error"]["Message"] == "No thing nothing."


def test_an_unexpected_error(client: Client) -> None:
    reply = client("ReadFile", Key="nothing")
    assert reply["ResponseMetadata"]["HTTPStatusCode"] == 500
    assert reply["Error"]["Code"] in ("InternalFailure", "InternalError")


def test_a_body_that_cannot_be_decoded(client: Client) -> None:
    if client._kind == "query":
        response = client.send(PlainRequest(headers={b"content-type": FORM}, body=b"Action=PutThing&Name=%"))
        assert response.status == 400 and b"MalformedInput" in response.body
        return
    client("PutThing", Name="x", Note="y")
    paths = {"PutThing": b"/service/ThingService/operation/PutThing"}
    headers = {b"smithy-protocol": b"rpc-v2-cbor"} if client._kind == "smithy-rpc-v2-cbor" else {}
    headers |= {b"x-amz-target": b"ThingService.PutThing"} if client._kind == "json" else {}
    method, path = (b"PUT", b"/things/x") if client._kind == "rest-json" else (b"POST", paths["PutThing"])
    response = client.send(PlainRequest(method, path, headers, b"\xff{"))
    assert response.status == 400
    named = (response.body, *(value for _, value in response.headers))
    assert any(b"SerializationException" in each for each in named)


@pytest.mark.parametrize(
    ("protocol", "content_type"),
    [
        ("json-1.0", b"application/x-amz-json-1.0"),
        ("json-1.1", b"application/x-amz-json-1.1"),
        ("rest-json", b"application/json"),
        ("rpc-v2-cbor", b"application/cbor"),
        ("query", b"text/xml"),
    ],
)
def test_the_content_type_is_that_of_the_protocol(protocol: ProtocolName, content_type: bytes) -> None:
    client = Client(protocol)
    for name in ("there", "not there"):
        client("PutThing", Name="there")
        client("GetThing", Name=name)
        assert dict(client.last.headers)[b"Content-Type"] == content_type


def test_a_time_that_is_none(client: Client) -> None:
    """JSON and CBOR have numbers for times, of which few are times."""
    kind = {"json": json_request, "smithy-rpc-v2-cbor": cbor_request}.get(client._kind)
    if kind is None:
        return
    for body in (b'{"Name":"x","Made":-1}', b'{"Name":"x","Made":1e300}', b'{"Name":"x","Made":"NaN"}'):
        response = client.send(kind("ThingService.PutThing", body))
        assert (response.status, b"SerializationException" in response.body) == (400, True)


def cbor_request(target: str, body: bytes) -> PlainRequest:
    path = "/service/" + target.replace(".", "/operation/")
    content = encode(json.loads(body))
    return PlainRequest(b"POST", path.encode(), {b"smithy-protocol": b"rpc-v2-cbor"}, content)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2025-12-17T13:23:00Z", 1_765_977_780.0),
        ("2025-12-17T13:23:00.250Z", 1_765_977_780.25),
        ("2025-12-17T14:23:00+01:00", 1_765_977_780.0),
        ("2025-12-17T13:23:00", 1_765_977_780.0),
        ("2025-12-17", 1_765_929_600.0),
    ],
)
def test_a_time_of_the_query_protocol(text: str, seconds: float) -> None:
    body = f"Action=PutThing&Name=x&Made={quote(text)}".encode()
    client = Client("query")
    client.send(PlainRequest(headers={b"content-type": FORM}, body=body))
    shown = re.search(b"<Made>(.*)</Made>", client.last.body)
    assert shown is not None
    assert datetime.fromisoformat(shown[1].decode()).timestamp() == seconds


@pytest.mark.parametrize("text", ["", "yesterday", "0000-01-01T00:00:00Z", "1969-12-31T23:59:59Z", "9" * 400])
def test_a_wrong_time_of_the_query_protocol(text: str) -> None:
    body = f"Action=PutThing&Name=x&Made={text}".encode()
    response = Client("query").send(PlainRequest(headers={b"content-type": FORM}, body=body))
    assert response.status == 400, response.body


# Compressed bodies.


def compressed(target: str, body: bytes, encoding: bytes = b"gzip") -> PlainRequest:
    request = cbor_request(target, b"{}")
    request.body = body
    request.headers[b"content-encoding"] = encoding
    return request


def test_a_compressed_body() -> None:
    client = Client("rpc-v2-cbor")
    content = encode({"Name": "x", "Note": "long " * 10_000})
    assert client.send(compressed("ThingService.PutThing", gzip.compress(content))).status == 200
    assert client("GetThing", Name="x")["Note"] == "long " * 10_000
    assert client.send(compressed("ThingService.PutThing", content, b"identity")).status == 200


@pytest.mark.parametrize(
    ("body", "encoding", "message"),
    [
        (b"no gzip", b"gzip", b"not valid gzip"),
        (gzip.compress(b"cut short")[:-3], b"gzip", b"not valid gzip"),
        (gzip.compress(b"x") + b"more", b"gzip", b"not valid gzip"),
        (b"x", b"br", b"expected gzip"),
        (gzip.compress(bytes(UNCOMPRESSED_BYTES_MAX + 1)), b"gzip", b"more than"),
    ],
    ids=["not gzip", "cut short", "something behind it", "another encoding", "too large"],
)
def test_a_wrong_compressed_body(body: bytes, encoding: bytes, message: bytes) -> None:
    response = Client("rpc-v2-cbor").send(compressed("ThingService.PutThing", body, encoding))
    assert response.status == 400
    assert message in response.body


# Statuses of newer and of older clients; actions that are not there.


@pytest.mark.parametrize("protocol", ["json-1.0", "rpc-v2-cbor"])
def test_a_status_of_the_query_protocol_is_for_clients_that_ask_for_it(protocol: ProtocolName) -> None:
    client = Client(protocol, has_query_mode=True)
    request = json_request if protocol == "json-1.0" else cbor_request
    asked = request("ThingService.GetThing", b'{"Name":"nothing"}')
    assert client.send(asked).status == 400
    for mode, status in ((b"true", 404), (b"True", 404), (b"false", 400), (b"", 400), (b"1", 400)):
        asked.headers[b"x-amzn-query-mode"] = mode
        assert client.send(asked).status == status, mode


def test_an_action_that_is_not_supported_is_named(client: Client) -> None:
    wanted = {
        "query": PlainRequest(headers={b"content-type": FORM}, body=b"Action=PaintThing"),
        "json": json_request("ThingService.PaintThing", b"{}"),
        "smithy-rpc-v2-cbor": cbor_request("ThingService.PaintThing", b"{}"),
    }.get(client._kind)
    if wanted is not None:
        response = client.send(wanted)
        assert response.status == 400
        assert b"The action PaintThing of things is not supported by this server." in response.body


# REST-JSON


def rest(method: bytes, target: bytes, body: bytes = b"", **headers: bytes) -> PlainRequest:
    named = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    return PlainRequest(method, target, named, body)


def test_a_payload_is_the_body_as_it_is() -> None:
    client = Client("rest-json")
    assert client("Upload", Key="dir/ü/file", Content=b"\x00\x01bytes")["Size"] == 7
    client("ReadFile", Key="dir/ü/file")
    assert client.last.body == b"\x00\x01bytes"
    assert dict(client.last.headers)[b"Content-Type"] == b"application/x-things"


def test_a_response_may_be_a_stream() -> None:
    client = Client("rest-json")
    client("Upload", Key="file", Content=b"0123456789")
    response = client.send(rest(b"GET", b"/files/file"))

    async def collect() -> list[bytes]:
        assert response.stream is not None
        return [piece async for piece in response.stream]

    assert (response.status, response.body) == (200, b"")
    assert (b"X-Type", b"file") in response.headers
    assert asyncio.run(collect()) == [b"0123", b"4567", b"89"]


def test_a_literal_path_wins_over_a_label() -> None:
    client = Client("rest-json")
    client("PutThing", Name="first")
    client("PutThing", Name="second")
    assert b'"Name":"second"' in client.send(rest(b"GET", b"/things/newest")).body
    assert b'"Name":"first"' in client.send(rest(b"GET", b"/things/first/")).body


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (rest(b"PUT", b"/things/x?count=many"), b"STRING_VALUE can not be converted to an Integer"),
        (rest(b"PUT", b"/things/x?fresh=2"), b"STRING_VALUE can not be converted to a Boolean"),
        (rest(b"PUT", b"/things/x?count=%"), b"broken percent escape"),
        (rest(b"PUT", b"/things/x", b"[]"), b"must be a JSON object"),
        (rest(b"PUT", b"/things/x", b'{"Weight":"heavy"}'), b"can not be converted to a Double"),
        (rest(b"PUT", b"/things/x", b'{"Tags":{"k":null}}'), b"Null value found"),
        (rest(b"PUT", b"/things/x?" + b"a=b&" * 500), b"more than 500 parameters"),
    ],
)  # fmt: skip
def test_what_is_not_of_its_type(request_: PlainRequest, message: bytes) -> None:
    response = Client("rest-json").send(request_)
    assert response.status == 400
    assert message in response.body
    assert (b"X-Amzn-Errortype", b"SerializationException") in response.headers


@pytest.mark.parametrize(
    "request_",
    [
        rest(b"GET", b"/nothing"),
        rest(b"POST", b"/things/x"),
        rest(b"GET", b"/things/a/b"),
        rest(b"GET", b"/things/%ff"),
        rest(b"GET", b"/"),
    ],
)
def test_a_uri_of_no_action(request_: PlainRequest) -> None:
    assert Client("rest-json").send(request_).status in (400, 404)


def test_a_path_that_a_service_does_not_have_is_refused_in_its_protocol() -> None:
    response = Client("rest-json").send(rest(b"POST", b"/things/" + b"x" * 1000 + b"?a=b"))
    assert response.status == 404
    assert (b"X-Amzn-Errortype", b"UnknownOperationException") in response.headers
    assert response.body.startswith(b'{"message":"There is no POST /things/xxx')
    assert len(response.body) < 400


def test_a_refusal_of_a_request_signed_for_another_service_names_the_right_one() -> None:
    client = Client("rest-json")
    client("PutThing", Name="x")
    assert client.send(rest(b"GET", b"/things/x"), signed_for="things").status == 200
    response = client.send(rest(b"GET", b"/things/x"), signed_for="sqs")
    assert response.status == 403
    assert b"scoped to correct service: 'things'" in response.body


def test_a_header_holds_no_line_break() -> None:
    client = Client("rest-json")
    client.send(rest(b"PUT", b"/things/x", x_trace=b"a\r\nb"))
    assert (b"X-Trace", b"a  b") in client.last.headers


# CBOR


def test_an_unknown_operation() -> None:
    client = Client("rpc-v2-cbor")
    for path in (b"/service/ThingService/operation/Nothing", b"/service/Other/operation/GetThing", b"/"):
        response = client.send(PlainRequest(b"POST", path, {b"smithy-protocol": b"rpc-v2-cbor"}))
        assert response.status == 400
        assert b"UnknownOperationException" in response.body


def test_an_error_before_the_service_is_known_is_cbor_too() -> None:
    request = PlainRequest(b"POST", b"/", {b"smithy-protocol": b"rpc-v2-cbor"})
    response = refusal(service_unavailable("Not ready."), "rid", request)
    assert dict(response.headers)[b"Content-Type"] == b"application/cbor"
    assert response.status == 503 and b"Not ready." in response.body
