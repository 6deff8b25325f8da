"""AWS JSON without sockets or services: what is read, what is refused, what is written."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.faults import invalid_parameter
from penstock.wire.json import JsonDecoder, JsonProtocol
from penstock.wire.service import Action, Fault
from penstock.wire.shapes import MEMBERS_MAX, AnyText, Flat, MapOf, struct_shape
from support.rows import every_row


class Part(msgspec.Struct, kw_only=True, omit_defaults=True):
    Text: str | None = None
    Blob: bytes | None = None


class Request(msgspec.Struct, kw_only=True, omit_defaults=True):
    Name: str | None = None
    Body: Annotated[str | None, AnyText()] = None
    Count: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    Flag: bool | None = None
    Names: Annotated[list[str] | None, Flat("Name")] = None
    Map: Annotated[dict[str, str] | None, Flat("Entry")] = None
    Parts: Annotated[dict[str, Part] | None, Flat("Part")] = None
    Many: Annotated[list[str], msgspec.Meta(max_length=MEMBERS_MAX)] | None = None
    Named: Annotated[dict[str, str], msgspec.Meta(max_length=MEMBERS_MAX)] | None = None
    Groups: list[list[str]] | None = None


decode = JsonDecoder(Request)


@every_row(
    ("body", "expected"),
    [
        (b"", Request()),
        (b"{}", Request()),
        (b' {"Name":"a","Count":3} ', Request(Name="a", Count=3)),
        (b'{"Unknown":[{"deep":1}],"Name":"a"}', Request(Name="a")),
        (b'{"Name":null,"Count":null,"Names":null,"Map":null}', Request()),
        (
            b'{"Parts":{"a":{"Text":null},"b":{"Text":"x","Other":1}}}',
            Request(Parts={"a": Part(), "b": Part(Text="x")}),
        ),
        (b'{"Name":12}', Request(Name="12")),
        (b'{"Name":1.5}', Request(Name="1.5")),
        (b'{"Name":true,"Map":{"a":30,"b":false}}', Request(Name="true", Map={"a": "30", "b": "false"})),
        (b'{"Count":2.0}', Request(Count=2)),
        (b'{"Parts":{"a":{"Blob":"aGk="}}}', Request(Parts={"a": Part(Blob=b"hi")})),
        (b'{"Body":"\\ud83d\\ude00"}', Request(Body="\U0001f600")),
        (b'{"Body":"\\ud800"}', Request(Body="\ud800")),
    ],
)
def test_reading_is_as_tolerant_as_aws(body: bytes, expected: Request) -> None:
    assert decode(body) == expected


@every_row(
    ("body", "message"),
    [
        (b'{"Map":{"a":null,"b":"c"}}', "Null value found where not expected"),
        (b'{"Names":["a",null]}', "Null value found where not expected"),
        (b'{"Parts":{"a":null}}', "Null value found where not expected"),
        (b'{"Groups":[["a"],[null]]}', "Null value found where not expected"),
        (b'{"Count":"3"}', "STRING_VALUE can not be converted to an Integer"),
        (b'{"Count":true}', "TRUE_VALUE can not be converted to an Integer"),
        (b'{"Count":false}', "FALSE_VALUE can not be converted to an Integer"),
        (b'{"Count":1.5}', "NUMBER_VALUE can not be converted to an Integer"),
        (b'{"Count":9223372036854775808}', "NUMBER_VALUE can not be converted to an Integer"),
        (b'{"Count":[1]}', "Start of list found where not expected"),
        (b'{"Count":{}}', "Start of structure or map found where not expected."),
        (b'{"Name":[]}', "Start of list found where not expected"),
        (b'{"Name":{"a":1}}', "Start of structure or map found where not expected."),
        (b'{"Names":{"a":1}}', "Start of structure or map found where not expected."),
        (b'{"Map":["a"]}', "Start of list found where not expected"),
        (b'{"Map":{"a":["b"]}}', "Unrecognized collection type class java.lang.String"),
        (b'{"Map":{"a":{"b":"c"}}}', "Start of structure or map found where not expected."),
    ],
)
def test_wrong_types_get_the_texts_of_aws(body: bytes, message: str) -> None:
    with pytest.raises(Fault) as caught:
        decode(body)
    assert caught.value.message == message
    assert (caught.value.shape, caught.value.code, caught.value.status) == (
        "SerializationException",
        "MalformedInput",
        400,
    )


@every_row(
    "body",
    [
        b"{",
        b"nonsense",
        b"[]",
        b'"text"',
        b"null",
        b"1",
        b'{"Name":"\xff"}',
        b'{"Name":"\\ud800"}',
        b'{"Map":{"\\udfff":"a"}}',
        b'{"Name":NaN}',
        b'{"Name":"a\x01"}',
        b'{"Name":"a"}{}',
        b"\xef\xbb\xbf{}",
        b'{"Parts":{"a":{"Blob":"no base64!"}}}',
        b'{"Parts":{"a":{"Blob":7}}}',
        b'{"Other":' + b"[" * 200_000,
        b'{"Name":' + b'{"a":' * 200_000,
        b'{"Count":' + b"9" * 100_000 + b"}",
        b'{"Name":5,"Other":' + b"9" * 41 + b"}",
    ],
)
def test_a_body_that_is_not_a_request_is_malformed_input(body: bytes) -> None:
    with pytest.raises(Fault) as caught:
        decode(body)
    assert caught.value.code == "MalformedInput"


def test_a_long_number_of_an_unknown_member_is_ignored_up_to_a_limit() -> None:
    decoded = decode(b'{"Name":5,"Other":' + b"9" * 40 + b"}")
    assert isinstance(decoded, Request) and decoded.Name == "5"


@pytest.mark.parametrize("stray", [{}, {"Name": 5}], ids=["read in one go", "read by hand"])
@pytest.mark.parametrize("field", ["Many", "Named"])
def test_a_list_or_map_may_have_as_many_members_as_the_limit(field: str, stray: dict[str, int]) -> None:
    def body(members: int) -> bytes:
        names = [str(number) for number in range(members)]
        return msgspec.json.encode({field: names if field == "Many" else dict.fromkeys(names, ""), **stray})

    assert len(getattr(decode(body(MEMBERS_MAX)), field)) == MEMBERS_MAX
    with pytest.raises(Fault) as caught:
        decode(body(MEMBERS_MAX + 1))
    assert caught.value.code == "MalformedInput"
    assert caught.value.message == "The request has a list or map, or several, of more than 2000 members."


def test_all_lists_that_are_read_member_by_member_have_a_limit_together() -> None:
    groups = [[""] * 100] * 19
    assert decode(msgspec.json.encode({"Groups": groups, "Name": 5})) == Request(Groups=groups, Name="5")
    with pytest.raises(Fault) as caught:
        decode(msgspec.json.encode({"Groups": groups * 2, "Name": 5}))
    assert caught.value.message == "The request has a list or map, or several, of more than 2000 members."


def test_a_list_that_is_too_long_is_refused_before_its_members_are_read() -> None:
    body = b'{"Parts":{' + b",".join(b'"%d":{}' % number for number in range(MEMBERS_MAX + 1)) + b',"x":5}}'
    with pytest.raises(Fault, match="more than 2000 members"):
        decode(body)


def test_commas_and_braces_in_a_text_are_not_members() -> None:
    text = ',{"a":[],' * 100_000
    assert decode(msgspec.json.encode({"Body": text, "Many": [text]})) == Request(Body=text, Many=[text])


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(Request.__struct_fields__), _JSON) | _JSON)
def test_no_json_raises_anything_but_a_fault(value: object) -> None:
    try:
        body = msgspec.json.encode(value)
    except OverflowError:
        return  # an integer that msgspec does not write
    try:
        decode(body)
    except Fault as fault:
        assert fault.code == "MalformedInput"


@given(st.binary(max_size=60))
def test_no_bytes_raise_anything_but_a_fault(body: bytes) -> None:
    try:
        decode(body)
    except Fault as fault:
        assert fault.code == "MalformedInput"


def test_absent_members_are_not_written_and_no_result_has_no_bytes() -> None:
    operation = Action("Do", Request, Request, lambda context, request, call: None)  # type: ignore[arg-type,return-value]

    def written(response: Request | None) -> bytes:
        return JsonProtocol("com.example").success(operation, response, "rid").body

    assert written(None) == b""
    assert written(Request()) == b"{}"
    assert written(Request(Name="é", Names=["a"])) == '{"Name":"é","Names":["a"]}'.encode()


def test_the_smallest_and_the_largest_number_are_accepted_by_both_readers() -> None:
    for number in (-(2**63), 2**63 - 1):
        # msgspec does not take a number for text, so all of this is read member by member.
        assert decode(b'{"Count":%d}' % number) == Request(Count=number)
        assert decode(b'{"Count":%d,"Names":["a",1]}' % number) == Request(Count=number, Names=["a", "1"])


def test_an_error_is_two_members_in_order_without_whitespace() -> None:
    fault = Fault(
        "InvalidAttributeValue",
        "InvalidAttributeValue",
        400,
        "Invalid value for the parameter Policy.",
        modelled=True,
    )
    body = JsonProtocol("com.amazonaws.sqs").error(fault, "rid").body
    assert (
        body == b'{"__type":"com.amazonaws.sqs#InvalidAttributeValue",'
        b'"message":"Invalid value for the parameter Policy."}'
    )
    assert len(body) == 104
    of_framework = JsonProtocol("com.amazonaws.sqs").error(invalid_parameter("x"), "rid").body
    assert b"com.amazon.coral.service#InvalidParameterValueException" in of_framework


def test_the_shape_of_a_struct() -> None:
    fields = {field.name: field for field in struct_shape(Request).fields}
    assert (fields["Map"].spelling.name, fields["Map"].spelling.item) == ("Entry", None)
    assert isinstance(fields["Parts"].shape, MapOf)
    assert fields["Parts"].shape.value == struct_shape(Part)
    assert fields["Body"].any_text and not fields["Name"].any_text
