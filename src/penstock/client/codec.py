"""Values of a program as bodies of messages, and back.

The annotation decides how a body is read. ``str`` is the body as it is and ``bytes`` are Base64, since a body is
text. Everything else is JSON: msgspec structs, dataclasses, TypedDicts, pydantic models, plain dicts and lists, and
what these contain.
"""

from __future__ import annotations

import base64
import re
import sys
from collections.abc import Mapping
from functools import lru_cache
from types import UnionType
from typing import Any, NamedTuple, Protocol, TypeVar, Union, get_args, get_origin, overload

import msgspec

_REASON_CHARACTERS = 300
_QUOTED = re.compile(r"""'.*'|".*\"""")

T = TypeVar("T")


class EncodeError(TypeError):
    """A value that cannot be the body of a message."""


class DecodeError(ValueError):
    """A body that is not what was expected.

    The text names the expected type and the place in the body, never values from it: it can be logged, and stored
    beside the message.
    """

    def __init__(self, expected: str, reason: str) -> None:
        """Say what was expected and why it was not found.

        :param expected: The name of the expected type.
        :param reason: What is wrong, and where in the body.
        """
        super().__init__(expected, reason)
        self.expected = expected
        self.reason = reason

    def __str__(self) -> str:
        return f"the body cannot be read as {self.expected}: {self.reason}"


class Encoded(NamedTuple):
    body: str
    attributes: dict[str, str]
    """Message attributes of type String."""


class Codec(Protocol):
    """Converts values to bodies and back. Another format is another class with these two methods."""

    def encode(self, value: Any) -> Encoded:
        """Raises EncodeError."""

    def decode(self, body: str, expected: Any, attributes: Mapping[str, str] | None = None) -> Any:
        """``expected`` is an annotation, ``attributes`` are those of type String. Raises DecodeError."""


class JsonCodec:
    """Converts values to JSON and back: what msgspec and pydantic can convert.

    A text is its own body, and bytes are base64.

        producer = Producer(client, "orders", codec=JsonCodec(type_attribute="type"))
    """

    def __init__(self, *, type_attribute: str | None = None) -> None:
        """Choose whether messages carry the names of their classes.

        :param type_attribute: The message attribute that carries the name of the value's class; None (the default):
            there is none. The name selects the class where the annotation is a union, and a message of another class
            is refused.
        """
        self._type_attribute = type_attribute

    def encode(self, value: Any) -> Encoded:
        """Convert a value to a body.

            body, attributes = codec.encode({"drink": "latte"})

        :param value: The value.
        :returns: The body, and the message attributes to send with it.
        :raises EncodeError: The value cannot be JSON.
        """
        attributes = {self._type_attribute: type(value).__name__} if self._type_attribute else {}
        return Encoded(_encode(value), attributes)

    @overload
    def decode(self, body: str, expected: type[T], attributes: Mapping[str, str] | None = None) -> T: ...
    @overload
    def decode(self, body: str, expected: Any, attributes: Mapping[str, str] | None = None) -> Any: ...
    def decode(self, body: str, expected: Any, attributes: Mapping[str, str] | None = None) -> Any:
        """Convert a body to a value.

            drinks = codec.decode('["latte", "espresso"]', list[str])

        :param body: The body of a message.
        :param expected: The type to read it as.
        :param attributes: The message attributes of type String. None by default.
        :returns: The value.
        :raises DecodeError: The body is not of that type.
        """
        name = (attributes or {}).get(self._type_attribute) if self._type_attribute else None
        return _decode(body, expected if name is None else _selected(expected, name))


def _encode(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if _is_pydantic(type(value)):
        return str(value.model_dump_json())
    try:
        return msgspec.json.encode(value, enc_hook=_to_json).decode()
    except (TypeError, ValueError, RecursionError) as error:
        raise EncodeError(f"{type(value).__name__} cannot be a message body: {error}") from error


def _decode(body: str, expected: Any) -> Any:
    if expected is str:
        return body
    try:
        if expected is bytes:
            return base64.b64decode(body, validate=True)
        if _is_pydantic(expected):
            return expected.model_validate_json(body)
        return _decoder(expected).decode(body)
    except (ValueError, RecursionError) as error:  # also the errors of msgspec, of pydantic and of base64
        raise DecodeError(_name(expected), _reason(error)) from error


@lru_cache(256)
def _decoder(expected: Any) -> msgspec.json.Decoder[Any]:
    """Raises TypeError for an annotation that JSON cannot be read as: a bug of the program, not of a message."""
    return msgspec.json.Decoder(expected, dec_hook=_from_json)


def _selected(expected: Any, name: str) -> Any:
    """The member of the annotation with the name that the message carries."""
    if expected in (Any, object):
        return {"str": str, "bytes": bytes}.get(name, expected)
    is_union = get_origin(expected) in (Union, UnionType)
    members = {_name(member): member for member in (get_args(expected) if is_union else (expected,))}
    if name in members:
        return members[name]
    raise DecodeError(_name(expected), f'it is "{name[:_REASON_CHARACTERS]}"')


def _name(expected: Any) -> str:
    # list[int] has the name "list", too.
    return expected.__name__ if isinstance(expected, type) and not get_args(expected) else str(expected)


def _reason(error: Exception) -> str:
    if describe := getattr(error, "errors", None):  # of pydantic, whose text repeats the input
        first = describe(include_url=False, include_context=False, include_input=False)[0]
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        text = f"{first['msg']} - at `${path}`"
    else:
        text = str(error)
    # Names of fields and types stand in `backquotes`, values of the body in 'quotes'.
    return _QUOTED.sub("'…'", text)[:_REASON_CHARACTERS]


def _is_pydantic(kind: Any) -> bool:
    """A class of it exists only if the program has imported it."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def _to_json(value: Any) -> Any:
    if _is_pydantic(type(value)):
        return value.model_dump(mode="json")
    raise TypeError(f"objects of type {type(value).__name__} are not supported")


def _from_json(kind: type, value: Any) -> Any:
    if _is_pydantic(kind):
        try:
            return kind.model_validate_json(msgspec.json.encode(value))  # type: ignore[attr-defined]
        except ValueError as error:
            raise ValueError(_reason(error)) from None  # becomes a part of the error of msgspec
    raise TypeError(f"objects of type {kind.__name__} are not supported")
