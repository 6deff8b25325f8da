"""Constraints in the hints of a struct: what is found, in which order, and how much of a request is looked at."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import pytest

from penstock.wire.cbor import CborDecoder, encode
from penstock.wire.constraints import Constraints, Length, OneOf, Pattern, Required, Within
from penstock.wire.json import JsonDecoder
from penstock.wire.query import Form, FormDecoder
from penstock.wire.shapes import Many, Named


class Coloured(msgspec.Struct, kw_only=True):
    Key: Annotated[str | None, Required(), Pattern(r"[a-z ]+"), Length(1, 5)] = None
    Colour: Annotated[str | None, OneOf(("RED", "BLUE"))] = None


class Gallery(msgspec.Struct, kw_only=True):
    Rooms: Annotated[Named[Coloured] | None, Length(0, 2)] = None
    Halls: Named[Annotated[str, Length(2, 3)]] | None = None


class Painting(msgspec.Struct, kw_only=True):
    PaintingName: Annotated[str | None, Required(), Length(1, 10)] = None
    Layers: Annotated[int | None, Within(1, 3)] = None
    Free: str | None = None
    Parts: Annotated[Many[Coloured] | None, Length(0, 3)] = None
    Words: Many[Annotated[str, Length(2, 3)]] | None = None
    Main: Coloured | None = None


class Refused(Exception):
    pass


CONSTRAINTS = Constraints(Refused, shown_list=lambda members: f"[{len(members)}]")
RED = {"Key": "a", "Colour": "RED"}


def violations(request: msgspec.Struct, *members: str) -> list[str]:
    try:
        CONSTRAINTS.check(request, *members)
    except Refused as error:
        count, _, listed = str(error).partition(" detected: ")
        found = listed.split("; ")
        assert count == f"{len(found)} validation error{'' if len(found) == 1 else 's'}"
        return [each.replace(" failed to satisfy constraint: Member must", ":") for each in found]
    return []


def test_members_of_maps() -> None:
    gallery = msgspec.convert({"Rooms": {"left": {}, "a.b": RED}, "Halls": {"x": "a", "y": "abc"}}, Gallery)
    assert violations(gallery) == [
        "Value null at 'rooms.left.member.key': not be null",
        "Value 'a' at 'halls.x.member': have length greater than or equal to 2",
    ]
    crowded = msgspec.convert({"Rooms": {str(number): {} for number in range(3)}}, Gallery)
    assert len(violations(crowded)) == 3, "those beyond the length are not looked at"


def painting(**members: Any) -> msgspec.Struct:
    return msgspec.convert({"PaintingName": "p", **members}, Painting)


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, []),
        ({"Layers": 3, "Parts": [RED], "Words": ["ab"], "Main": RED, "Free": "x" * 99}, []),
        ({"PaintingName": None}, ["Value null at 'paintingName': not be null"]),
        ({"PaintingName": ""}, ["Value '' at 'paintingName': have length greater than or equal to 1"]),
        (
            {"PaintingName": "x" * 200},
            [f"Value '{'x' * 200}' at 'paintingName': have length less than or equal to 10"],
        ),
        ({"Layers": 0}, ["Value '0' at 'layers': have value greater than or equal to 1"]),
        ({"Layers": 4}, ["Value '4' at 'layers': have value less than or equal to 3"]),
        (
            {"Parts": [RED, {"Key": "UPPERCASE", "Colour": "X"}]},
            [
                "Value 'UPPERCASE' at 'parts.2.member.key': satisfy regular expression pattern: [a-z ]+",
                "Value 'UPPERCASE' at 'parts.2.member.key': have length less than or equal to 5",
                "Value 'X' at 'parts.2.member.colour': satisfy enum value set: [RED, BLUE]",
            ],
        ),
        ({"Parts": [RED] * 3 + [{}]}, ["Value '[4]' at 'parts': have length less than or equal to 3"]),
        ({"Words": ["ab", "a"]}, ["Value 'a' at 'words.2.member': have length greater than or equal to 2"]),
        (
            {"Main": {}, "Layers": 0},
            [
                "Value '0' at 'layers': have value greater than or equal to 1",
                "Value null at 'main.key': not be null",
            ],
        ),
    ],
)
def test_what_is_found_and_in_which_order(members: dict[str, Any], expected: list[str]) -> None:
    assert violations(painting(**members)) == expected


def test_it_ends_after_ten() -> None:
    found = violations(painting(Words=["x"] * 2000))
    assert len(found) == 10 and "'words.10.member'" in found[-1]


def test_only_the_members_that_are_named_are_checked() -> None:
    request = painting(Layers=0, Words=["x"])
    assert violations(request, "PaintingName") == []
    assert [each.split("'")[3] for each in violations(request, "Words")] == ["words.1.member"]


def test_long_lists_are_checked_in_pieces() -> None:
    steps = CONSTRAINTS.steps(painting(Parts=[RED] * 3, Words=["ab"] * 500))
    assert len(list(steps)) == 503


def test_a_request_is_checked_alike_whatever_protocol_it_came_in() -> None:
    """Decoders ignore the marks: they have other words for what is not of its type."""
    expected = [
        "Value '' at 'paintingName': have length greater than or equal to 1",
        "Value null at 'parts.1.member.key': not be null",
        "Value 'X' at 'parts.1.member.colour': satisfy enum value set: [RED, BLUE]",
    ]
    body = {"PaintingName": "", "Parts": [{"Colour": "X"}]}
    form = Form((b"PaintingName=&Parts.member.1.Colour=X",), "")
    assert violations(JsonDecoder(Painting)(msgspec.json.encode(body))) == expected
    assert violations(CborDecoder(Painting)(encode(body))) == expected
    assert violations(FormDecoder(Painting)(form)) == expected
