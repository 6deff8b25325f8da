"""A large body: text of any kind passes, and members by the million are refused before they are made."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire import json as wire_json
from penstock.wire.json import JsonDecoder
from penstock.wire.service import Fault
from support.cpu import cost
from support.rows import every_row


class Part(msgspec.Struct, kw_only=True):
    Text: str | None = None


class Request(msgspec.Struct, kw_only=True):
    Body: str | None = None
    Parts: list[Part] | None = None
    Map: dict[str, str] | None = None


decode = JsonDecoder(Request)
MEGABYTE = 1024 * 1024


@every_row("unit", [",", '{"a":"b,c"},', '\\",', "\\\\,", '"', '\\"\\', "ä,\n", '",[{}],"'])
def test_text_may_hold_any_characters(unit: str) -> None:
    text = unit * (MEGABYTE // len(unit))
    for body in (json.dumps({"Body": text}), json.dumps({"Body": text}, ensure_ascii=False)):
        assert decode(body.encode()) == Request(Body=text)


def filled(before: bytes, unit: bytes, after: bytes) -> bytes:
    return before + unit * (8 * MEGABYTE // len(unit)) + after


@every_row(
    "body",
    [
        filled(b'{"Parts":[', b"{},", b"{}]}"),
        filled(b'{"Parts":[', b'{"Text":""},', b"{}]}"),
        filled(b'{"Map":{', b'"":"",', b'"":""}}'),
        filled(b'{"Unknown":[', b"[],", b"[]]}"),
        filled(b'{"Body":"\\ud800","Unknown":[', b"[],", b"[]]}"),
        filled(b'{"Body":5,"Unknown":{', b'"\\\\":{},', b'"":0}}'),
        filled(b"{", b'"":"\\\\",', b'"":0}'),
        filled(b"[", b"0,", b"0]"),
        filled(b'{"Body":"', b'",', b'"}'),
        filled(b"", b",", b""),
    ],
)
def test_members_by_the_million_are_refused_quickly(body: bytes) -> None:
    def refused() -> None:
        with pytest.raises(Fault) as caught:
            decode(body)
        assert caught.value.shape == "SerializationException"

    assert cost(refused) < 250, "made one by one they take several times that"


VALUES = st.recursive(
    st.none() | st.integers() | st.text(alphabet='a,"\\{}[]:é\ud7ff', max_size=12),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.text(alphabet='b,"\\', max_size=4), inner, max_size=5)
    ),
    max_leaves=25,
)


def commas(value: object) -> int:
    """Those that separate members."""
    if isinstance(value, (list, dict)):
        members = value.values() if isinstance(value, dict) else value
        return max(0, len(value) - 1) + sum(commas(member) for member in members)
    return 0


@given(VALUES, st.booleans())
def test_only_commas_outside_of_text_count(value: object, ascii_only: bool) -> None:
    body = json.dumps(value, ensure_ascii=ascii_only).encode()
    wire_json._check_members(body, 1000)
    with pytest.raises(Fault):
        wire_json._check_members(body, commas(value) - 1)


def test_a_body_of_encoded_surrogates_costs_little_more_than_text() -> None:
    body = b'{"Body":"%b"}' % (b"\xed\xa0\x80" * (8 * MEGABYTE // 3))

    def refused() -> None:
        with pytest.raises(Fault):
            decode(body)

    assert cost(refused) < 200
