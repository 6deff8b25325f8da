"""Values become bodies and come back as what the annotation says."""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any, TypedDict

import msgspec
import pydantic
import pytest

from penstock.client.codec import DecodeError, EncodeError, JsonCodec
from support.rows import every_row
from support.texts import says

CODEC = JsonCodec()
NAMED = JsonCodec(type_attribute="Type")


class Colour(Enum):
    RED = "red"


class Order(msgspec.Struct):
    drink: str
    count: int = 1


class Refund(msgspec.Struct):
    reason: str


@dataclass
class Point:
    x: int
    y: int


class Person(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)
    name: str
    born: datetime
    wage: Decimal = Decimal(0)


class Pet(TypedDict):
    name: str


class Family(msgspec.Struct):
    members: list[Person]
    colour: Colour = Colour.RED


PERSON = Person(name="Ada", born=datetime(1815, 12, 10, tzinfo=UTC), wage=Decimal("0.10"))


@every_row(
    ("value", "kind"),
    [
        (Order("tea", 2), Order),
        (Point(1, 2), Point),
        (PERSON, Person),
        ([PERSON], list[Person]),
        (Family([PERSON]), Family),
        ({"name": "Rex"}, Pet),
        ({"a": [1, None, True]}, dict),
        ({"a": [1, None, True]}, Any),
        ([1, 2], list[int]),
        (None, Order | None),
        (Order("tea"), Order | None),
        ("plain text, “quoted”\n", str),
        ("", str),
        (b"\x00\xff", bytes),
    ],
)
def test_a_value_comes_back(value: Any, kind: Any) -> None:
    body, attributes = CODEC.encode(value)
    assert attributes == {}
    assert CODEC.decode(body, kind) == value


def test_bodies_are_what_other_programs_expect() -> None:
    assert CODEC.encode(Order("tea")).body == '{"drink":"tea","count":1}'
    assert CODEC.encode("tea").body == "tea"
    assert CODEC.encode(b"tea").body == "dGVh"
    assert CODEC.encode({"a": 1}).body == '{"a":1}'


def test_a_body_may_have_more_fields_than_the_class() -> None:
    assert CODEC.decode('{"drink": "tea", "to": "go"}', Order) == Order("tea")


@every_row(
    ("body", "kind", "text"),
    [
        ("not json", Order, "Order: JSON is malformed: invalid character (byte 4)"),
        ("", Order, "Order: Input data was truncated"),
        ('{"count": 1}', Order, "Order: Object missing required field `drink`"),
        ('{"drink": 1}', Order, "Order: Expected `str`, got `int` - at `$.drink`"),
        (
            '{"members": [], "colour": "hunter2"}', Family,
            "Family: Invalid enum value '…' - at `$.colour`",
        ),
        (
            """{"members": [], "colour": "'hunter2' is my \\"password\\""}""", Family,
            "Family: Invalid enum value '…' - at `$.colour`",
        ),
        (
            '{"name": "hunter2", "born": "hunter2"}', Person,
            "Person: Input should be a valid datetime, input is too short - at `$.born`",
        ),
        ("hunter2?", bytes, "bytes: Only base64 data is allowed"),
        ("[" * 100_000, Any, "Any: "),
        ('["hunter2"]', list[int], "list[int]: Expected `int`, got `str` - at `$[0]`"),
    ],
)  # fmt: skip
def test_a_body_of_another_shape_is_refused_without_repeating_it(body: str, kind: Any, text: str) -> None:
    with pytest.raises(DecodeError) as refused:
        CODEC.decode(body, kind)
    says(str(refused.value), text)
    assert "hunter2" not in str(refused.value)
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)


def test_a_nested_model_is_refused_like_any_other_value() -> None:
    with pytest.raises(DecodeError) as refused:
        CODEC.decode('{"members": [{"name": 4711}]}', Family)
    text = "Input should be a valid string - at `$.name` - at `$.members[0]`"
    assert str(refused.value).endswith(f"Family: {text}")


@pytest.mark.parametrize("value", [object(), {"a": object()}, {("a", "b"): 1}, ["\ud800"]])
def test_a_value_that_has_no_json_is_refused(value: Any) -> None:
    with pytest.raises(EncodeError, match="message body"):
        CODEC.encode(value)


def test_an_annotation_that_json_cannot_be_read_as_is_an_error_of_the_program() -> None:
    with pytest.raises(TypeError):
        CODEC.decode("{}", Order | Refund)


@pytest.mark.parametrize("value", [Order("tea"), Refund("cold")])
def test_the_name_of_the_class_selects_a_member_of_a_union(value: Any) -> None:
    body, attributes = NAMED.encode(value)
    assert attributes == {"Type": type(value).__name__}
    assert NAMED.decode(body, Order | Refund, attributes) == value


def test_a_message_of_another_class_is_refused() -> None:
    body, attributes = NAMED.encode(Refund("cold"))
    with pytest.raises(DecodeError, match=r'Order: .*"Refund"'):
        NAMED.decode(body, Order, attributes)


@pytest.mark.parametrize("value", ["text", b"\xff", {"a": 1}])
def test_the_name_of_the_class_is_enough_for_plain_values(value: Any) -> None:
    body, attributes = NAMED.encode(value)
    assert NAMED.decode(body, Any, attributes) == value


def test_a_message_without_the_name_is_read_by_its_annotation() -> None:
    assert NAMED.decode('{"drink": "tea"}', Order, {}) == Order("tea")
    assert NAMED.decode('{"drink": "tea"}', Order) == Order("tea")
