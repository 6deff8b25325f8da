"""The Query protocol without sockets, on a made-up service that has every form of list and map.

What botocore's own serializer writes we read, and what we write its own parser reads.
"""

from __future__ import annotations

import json
from typing import Annotated, Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import msgspec
import pytest
from botocore.model import OperationModel, ServiceModel
from botocore.parsers import QueryParser
from botocore.serialize import QuerySerializer
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.faults import internal_error, missing_parameter
from penstock.wire.query import Form, FormDecoder, is_query, read_query
from penstock.wire.query_response import QueryJsonWriter, QueryProtocol
from penstock.wire.service import Action, Fault
from penstock.wire.shapes import AnyText, Flat, FromPath, Wrapped
from support.http_requests import FORM, PlainRequest
from support.rows import every_row


class Part(msgspec.Struct, kw_only=True, omit_defaults=True):
    Text: Annotated[str | None, AnyText()] = None
    Blob: bytes | None = None
    Words: list[str] | None = None


class Thing(msgspec.Struct, kw_only=True, omit_defaults=True):
    Name: str | None = None
    Count: Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)] | None = None
    Flag: bool | None = None
    Words: Annotated[list[str] | None, Flat("Word", also=("OldWord",))] = None
    Pairs: Annotated[dict[str, str] | None, Flat("Pair", key="Key", json="pairs")] = None
    Parts: Annotated[dict[str, Part] | None, Flat("Part")] = None
    Entries: Annotated[list[Part] | None, Flat("ThingEntry")] = None
    WrappedWords: list[str] | None = None
    WrappedPairs: dict[str, str] | None = None
    WrappedParts: Annotated[dict[str, Part] | None, Wrapped(key="Name", value="Value")] = None
    WrappedEntries: Annotated[list[Part] | None, Wrapped(item="item")] = None
    One: Part | None = None
    Grid: list[list[int]] | None = None


class AtPath(msgspec.Struct, kw_only=True, omit_defaults=True):
    Url: Annotated[str | None, FromPath()] = None


def _list(shape: str, name: str | None = None) -> dict[str, Any]:
    member = {"shape": shape, **({"locationName": name} if name else {})}
    return {"type": "list", "member": member}


def _map(value: str, key_name: str | None, value_name: str | None) -> dict[str, Any]:
    def side(shape: str, name: str | None) -> dict[str, str]:
        return {"shape": shape, **({"locationName": name} if name else {})}

    return {"type": "map", "key": side("S", key_name), "value": side(value, value_name)}


FLAT = {"flattened": True}
MODEL = ServiceModel(
    {
        "metadata": {"protocol": "query", "apiVersion": "2000-01-01", "xmlNamespace": "http://things.example/",
                     "endpointPrefix": "things", "serviceId": "Things", "signatureVersion": "v4"},
        "operations": {
            "Do": {"name": "Do", "http": {"method": "POST", "requestUri": "/"}, "input": {"shape": "Thing"},
                   "output": {"shape": "Thing", "resultWrapper": "DoResult"}},
        },
        "shapes": {
            "S": {"type": "string"}, "I": {"type": "integer"}, "B": {"type": "boolean"}, "Raw": {"type": "blob"},
            "Part": {"type": "structure", "members": {
                "Text": {"shape": "S"}, "Blob": {"shape": "Raw"}, "Words": {"shape": "Words"}}},
            "Words": _list("S"),
            "FlatWords": _list("S", "Word") | FLAT,
            "FlatPairs": _map("S", "Key", "Value") | FLAT,
            "FlatParts": _map("Part", "Name", "Value") | FLAT,
            "FlatEntries": _list("Part", "ThingEntry") | FLAT,
            "Pairs": _map("S", None, None),
            "Parts": _map("Part", "Name", "Value"),
            "Entries": _list("Part", "item"),
            "Row": _list("I"),
            "Grid": _list("Row"),
            "Thing": {"type": "structure", "members": {
                "Name": {"shape": "S"}, "Count": {"shape": "I"}, "Flag": {"shape": "B"},
                "Words": {"shape": "FlatWords", "locationName": "Word"},
                "Pairs": {"shape": "FlatPairs", "locationName": "Pair"},
                "Parts": {"shape": "FlatParts", "locationName": "Part"},
                "Entries": {"shape": "FlatEntries", "locationName": "ThingEntry"},
                "WrappedWords": {"shape": "Words"}, "WrappedPairs": {"shape": "Pairs"},
                "WrappedParts": {"shape": "Parts"}, "WrappedEntries": {"shape": "Entries"},
                "One": {"shape": "Part"}, "Grid": {"shape": "Grid"}}},
        },
    }
)  # fmt: skip
DO: OperationModel = MODEL.operation_model("Do")
ACTION = Action("Do", Thing, Thing, lambda context, request, call: None)  # type: ignore[arg-type,return-value]
VOID = Action("Stop", Thing, None, lambda context, request, call: None)  # type: ignore[arg-type,return-value]
XML = QueryProtocol("http://things.example/")

decode = FormDecoder(Thing)


def read(form: bytes, resource: str = "") -> Any:
    return decode(Form((form,), resource))


_text = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=6)
_some = st.text("abcdé&<>\"'\r\n\t ]é€😀", min_size=1, max_size=6)
_part = st.builds(
    Part,
    Text=st.none() | _text,
    Blob=st.none() | st.binary(max_size=4),
    Words=st.none() | st.lists(_text, min_size=1, max_size=2),
)
_thing = st.builds(
    Thing,
    Name=st.none() | _some,
    Count=st.none() | st.integers(-(2**63), 2**63 - 1),
    Flag=st.none() | st.booleans(),
    Words=st.none() | st.lists(_some, min_size=1, max_size=12),
    Pairs=st.none() | st.dictionaries(_some, _text, min_size=1, max_size=3),
    Parts=st.none() | st.dictionaries(_some, _part, min_size=1, max_size=3),
    Entries=st.none() | st.lists(_part.filter(lambda part: part != Part()), min_size=1, max_size=3),
    WrappedWords=st.none() | st.lists(_text, min_size=1, max_size=3),
    WrappedPairs=st.none() | st.dictionaries(_some, _text, min_size=1, max_size=3),
    WrappedParts=st.none() | st.dictionaries(_some, _part, min_size=1, max_size=3),
    WrappedEntries=st.none() | st.lists(_part.filter(lambda part: part != Part()), min_size=1, max_size=3),
    One=st.none() | _part.filter(lambda part: part != Part()),
    Grid=st.none() | st.lists(st.lists(st.integers(-9, 9), min_size=1, max_size=2), min_size=1, max_size=2),
)


def plain(value: Any) -> Any:
    """A struct as botocore's users see it."""
    if isinstance(value, msgspec.Struct):
        members = {name: getattr(value, name) for name in value.__struct_fields__}
        return {name: plain(member) for name, member in members.items() if member is not None}
    if isinstance(value, list):
        return [plain(member) for member in value]
    if isinstance(value, dict):
        return {key: plain(member) for key, member in value.items()}
    return value


@given(_thing)
def test_what_botocore_writes_is_read(thing: Thing) -> None:
    serialized = QuerySerializer().serialize_to_request(plain(thing), DO)
    form = urlencode(serialized["body"]).encode()
    assert b"Action=Do" in form
    assert read(form) == thing


@given(_thing)
def test_what_is_written_botocore_reads(thing: Thing) -> None:
    answer = XML.success(ACTION, thing, "rid")
    response = {"status_code": 200, "headers": {}, "body": answer.body}
    parsed = QueryParser().parse(response, DO.output_shape)
    assert parsed.pop("ResponseMetadata")["RequestId"] == "rid"
    assert parsed == plain(thing)


@given(_thing)
def test_a_response_in_json_has_every_member(thing: Thing) -> None:
    answer = QueryJsonWriter().success(ACTION, thing, "rid")
    document = json.loads(answer.body)["DoResponse"]
    assert document["ResponseMetadata"] == {"RequestId": "rid"}
    assert document["DoResult"]["Name"] == thing.Name
    assert document["DoResult"]["pairs"] == (
        None if thing.Pairs is None else [{"Key": key, "Value": value} for key, value in thing.Pairs.items()]
    )


@every_row(
    ("form", "expected"),
    [
        (b"", Thing()),
        (b"Name=a&Other=b&X-Amz-Signature=c&Version=1", Thing(Name="a")),
        (b"Count=-5&Flag=TRUE", Thing(Count=-5, Flag=True)),
        (b"Count=%2B5&Flag=false", Thing(Count=5, Flag=False)),
        # Numbers say the order, whatever they are.
        (b"Word.10=c&Word.2=b&Word.0=a&Word.999999999=d", Thing(Words=["a", "b", "c", "d"])),
        (b"Word.x=c&Word.=b&Word.9999999999=z&Word.1a=z&Word.-1=z&Word.\xd9\xa1=z", Thing()),
        (b"Word=a", Thing(Words=["a"])),
        (b"Word=", Thing()),
        (b"Word.1=a&OldWord.1=b", Thing(Words=["a", "b"])),
        (b"OldWord.1=b", Thing(Words=["b"])),
        (b"Pair.Key=k&Pair.Value=v", Thing(Pairs={"k": "v"})),
        (b"Pair.1.Key=k&Pair.1.Value=&Pair.7.Key=l&Pair.7.Value=w", Thing(Pairs={"k": "", "l": "w"})),
        (b"Part.1.Name=p", Thing(Parts={"p": Part()})),
        (b"Part.1.Name=p&Part.1.Value.Blob=aGk%3D", Thing(Parts={"p": Part(Blob=b"hi")})),
        (b"ThingEntry.3.Text=c&ThingEntry.1.Words.member.1=a",
         Thing(Entries=[Part(Words=["a"]), Part(Text="c")])),
        (b"WrappedWords.member.2=b&WrappedWords.member.1=a&WrappedWords.1=z", Thing(WrappedWords=["a", "b"])),
        (b"WrappedPairs.entry.1.key=k&WrappedPairs.entry.1.value=v", Thing(WrappedPairs={"k": "v"})),
        (b"WrappedWords=", Thing()),
        (b"One.Text=%ED%A0%80", Thing(One=Part(Text="\ud800"))),
    ],
)  # fmt: skip
def test_tolerant_reading(form: bytes, expected: Thing) -> None:
    assert read(form) == expected


@every_row(
    ("form", "message"),
    [
        (b"Count=many", "STRING_VALUE can not be converted to an Integer"),
        (b"Count=", "STRING_VALUE can not be converted to an Integer"),
        (b"Count=1.0", "STRING_VALUE can not be converted to an Integer"),
        (b"Count=9223372036854775808", "STRING_VALUE can not be converted to an Integer"),
        (b"Count=" + b"9" * 100_000, "STRING_VALUE can not be converted to an Integer"),
        (b"Count=%D9%A3", "STRING_VALUE can not be converted to an Integer"),
        (b"Flag=yes", "STRING_VALUE can not be converted to a Boolean"),
        (b"One.Blob=no%20base64", "Invalid base64 in a binary value"),
        (b"Name=%ED%A0%80", "The request body holds text that is not Unicode."),
        (b"Pair.1.Key=%ED%A0%80&Pair.1.Value=v", "The request body holds text that is not Unicode."),
    ],
)
def test_what_is_not_of_its_type(form: bytes, message: str) -> None:
    with pytest.raises(Fault) as caught:
        read(form)
    assert (caught.value.code, caught.value.message) == ("MalformedInput", message)


@pytest.mark.parametrize(
    ("form", "name"),
    [
        (b"Pair.2.Value=v", "Pair.2.Key"),
        (b"Pair.2.Key=v", "Pair.2.Value"),
        (b"Pair.Key=v", "Pair.Value"),
        (b"WrappedPairs.entry.4.key=k", "WrappedPairs.entry.4.value"),
        (b"ThingEntry.1.Words.member.1=a&Part.3.Value.Text=t", "Part.3.Name"),
    ],
)
def test_half_an_entry_is_a_missing_parameter(form: bytes, name: str) -> None:
    with pytest.raises(Fault) as caught:
        read(form)
    assert caught.value.message == f"The request must contain the parameter {name}."


def test_the_path_names_the_resource_unless_a_parameter_does() -> None:
    at_path = FormDecoder(AtPath)
    assert at_path(Form((b"",), "/1/q")) == AtPath(Url="/1/q")
    assert at_path(Form((b"Url=u",), "/1/q")) == AtPath(Url="u")
    assert at_path(Form((b"",), "")) == AtPath()


def asked(
    method: bytes = b"POST", target: bytes = b"/", type_: bytes = FORM, body: bytes = b""
) -> PlainRequest:
    return PlainRequest(method, target, {b"content-type": type_}, body)


def test_which_requests_use_the_query_protocol() -> None:
    assert is_query(asked())
    assert is_query(asked(type_=b"application/X-WWW-form-urlencoded; charset=utf-8"))
    assert is_query(asked(b"GET", type_=b""))
    assert is_query(asked(target=b"/?Action=A", type_=b""))
    assert not is_query(asked(type_=b""))
    assert not is_query(asked(type_=b"application/x-amz-json-1.0"))


def test_parameters_come_from_the_url_and_from_a_form() -> None:
    assert read_query(asked(target=b"/?Version=2", body=b"Action=A")).action == "A"
    assert read_query(asked(target=b"/?Version=2", body=b"Action=A")).version == "2"
    assert read_query(asked(b"GET", b"/?Action=A", body=b"Action=B")).action == "A"
    assert read_query(asked(b"HEAD", b"/?Action=A")).action == ""
    assert read_query(asked(target=b"/")).resource == ""
    assert read_query(asked(target=b"/1/a%20b/")).resource == "/1/a b"
    assert "\ufffd" in read_query(asked(target=b"/%FF")).resource


def test_a_void_action_has_no_result_and_an_empty_result_is_one_element() -> None:
    assert XML.success(VOID, None, "rid").body == (
        b'<?xml version="1.0"?><StopResponse xmlns="http://things.example/">'
        b"<ResponseMetadata><RequestId>rid</RequestId></ResponseMetadata></StopResponse>"
    )
    assert XML.success(ACTION, Thing(), "rid").body == (
        b'<?xml version="1.0"?><DoResponse xmlns="http://things.example/"><DoResult/>'
        b"<ResponseMetadata><RequestId>rid</RequestId></ResponseMetadata></DoResponse>"
    )
    assert json.loads(QueryJsonWriter().success(VOID, None, "rid").body) == {
        "StopResponse": {"ResponseMetadata": {"RequestId": "rid"}}
    }


def test_text_is_escaped() -> None:
    body = XML.success(ACTION, Thing(Name="\"\r\n\t<&>]]>'é😀\ufffd", Flag=True), "rid").body.decode()
    assert "<Name>&quot;&#xD;\n\t&lt;&amp;&gt;]]&gt;'é😀\ufffd</Name><Flag>true</Flag>" in body


def test_an_indented_document() -> None:
    indented = QueryProtocol("http://things.example/", is_indented=True)
    thing = Thing(
        Name="",
        Count=0,
        Words=["a", ""],
        WrappedWords=[],
        WrappedPairs={"k": "<v>"},
        One=Part(),
        Parts={"p": Part()},
    )
    assert (
        indented.success(ACTION, thing, "rid").body.decode()
        == """\
<DoResponse xmlns="http://things.example/">
  <DoResult>
    <Name/>
    <Count>0</Count>
    <Word>a</Word>
    <Word/>
    <Part>
      <Name>p</Name>
      <Value/>
    </Part>
    <WrappedWords/>
    <WrappedPairs>
      <entry>
        <key>k</key>
        <value>&lt;v&gt;</value>
      </entry>
    </WrappedPairs>
    <One/>
  </DoResult>
  <ResponseMetadata>
    <RequestId>rid</RequestId>
  </ResponseMetadata>
</DoResponse>
"""
    )
    fault = Fault("Gone", "Gone", 404, "", modelled=True)
    assert (
        indented.error(fault, "rid").body.decode()
        == """\
<ErrorResponse xmlns="http://things.example/">
  <Error>
    <Type>Sender</Type>
    <Code>Gone</Code>
  </Error>
  <RequestId>rid</RequestId>
</ErrorResponse>
"""
    )


@given(
    st.builds(
        Thing,
        Name=st.none() | st.text(st.characters(), max_size=8),
        WrappedWords=st.none() | st.lists(st.text(max_size=3), max_size=3),
        WrappedPairs=st.none() | st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=3),
        Words=st.none() | st.lists(st.sampled_from(["", "a", "</a>", "/>", "></"]), max_size=3),
        One=st.none() | st.builds(Part, Words=st.none() | st.lists(st.just(""), max_size=2)),
    )
)
def test_an_indented_document_says_the_same(thing: Thing) -> None:
    """Spaces between elements are all that differs."""
    compact = XML.success(ACTION, thing, "rid").body
    indented = QueryProtocol("http://things.example/", is_indented=True).success(ACTION, thing, "rid").body
    assert _elements(ElementTree.fromstring(indented)) == _elements(ElementTree.fromstring(compact))


def _elements(element: ElementTree.Element) -> tuple[str, str, list[Any]]:
    below = [_elements(each) for each in element]
    return element.tag, "" if below else element.text or "", below


@given(st.text(st.characters(), max_size=8))
def test_any_text_makes_a_well_formed_document(text: str) -> None:
    for answer in (
        XML.success(ACTION, Thing(Name=text, Pairs={text: text}), "rid"),
        XML.error(missing_parameter(text), "rid"),
    ):
        ElementTree.fromstring(answer.body)


def test_an_error_without_a_message_has_no_element_for_it() -> None:
    fault = Fault("Gone", "Gone", 404, "", modelled=True)
    assert b"<Error><Type>Sender</Type><Code>Gone</Code></Error>" in XML.error(fault, "rid").body
    assert json.loads(QueryJsonWriter().error(fault, "rid").body)["Error"]["Message"] is None


def test_an_error_document() -> None:
    fault = Fault("Gone", "Old.Gone", 404, "It is gone.", modelled=True, query_message="It <went>.")
    answer = XML.error(fault, "rid")
    assert answer.status == 404
    assert dict(answer.headers) == {b"Content-Type": b"text/xml", b"x-amzn-RequestId": b"rid"}
    document = (
        b'<?xml version="1.0"?><ErrorResponse xmlns="http://things.example/"><Error><Type>Sender</Type>'
        b"<Code>Old.Gone</Code><Message>It &lt;went&gt;.</Message></Error>"
        b"<RequestId>rid</RequestId></ErrorResponse>"
    )
    assert answer.body == document
    detailed = QueryProtocol("http://things.example/", error_detail=True).error(fault, "rid")
    assert detailed.body == document.replace(b"</Error>", b"<Detail/></Error>")
    assert b"<Type>Receiver</Type>" in XML.error(internal_error(), "rid").body
    rendered = QueryJsonWriter().error(fault, "rid")
    assert json.loads(rendered.body) == {
        "Error": {"Code": "Old.Gone", "Message": "It <went>.", "Type": "Sender"},
        "RequestId": "rid",
    }


_names = st.text("NameCountWordPairPartThingEntryKeyValue.0123456789member", max_size=20) | st.from_regex(
    r"(Word|Pair|Part|ThingEntry|WrappedPairs\.entry|One)(\.[0-9]{1,3})?(\.(Key|Name|Value|Text|Blob))*",
    fullmatch=True,
)


@given(
    st.lists(st.tuples(_names, st.text(max_size=5) | st.binary(max_size=5)), max_size=8)
    | st.binary(max_size=60)
)
def test_no_form_raises_anything_but_a_fault(form: list[tuple[str, str | bytes]] | bytes) -> None:
    encoded = form if isinstance(form, bytes) else urlencode(form, errors="surrogatepass").encode()
    try:
        read(encoded)
    except Fault as fault:
        assert fault.code in ("MalformedInput", "MissingParameter")
