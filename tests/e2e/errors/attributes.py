"""Attributes of messages."""

from __future__ import annotations

from typing import Any

from e2e.errors.row import parameter, sending, sqs


def _attribute(name: str, value: dict[str, Any]) -> dict[str, Any]:
    return sending(MessageAttributes={name: value})


_TEXT = {"DataType": "String", "StringValue": "x"}
_WRONG_TYPE = (
    "You can't use message attribute names beginning with 'AWS.' or 'Amazon'. "
    "These strings are reserved for internal use."
)

ATTRIBUTES = [
    sqs("UnsupportedOperation", "list values", "SendMessage",
        _attribute("a", {"DataType": "String", "StringListValues": ["x"]}),
        "Message attribute list values in SendMessage operation are not supported."),
    parameter("ten attributes at most", "SendMessage",
              sending(MessageAttributes={f"a{i}": _TEXT for i in range(11)}),
              "Number of message attributes [11] exceeds the allowed maximum [10]."),
    parameter("a name", "SendMessage", _attribute("", _TEXT),
              "The request must contain non-empty message (user) attribute names."),
    parameter("256 characters", "SendMessage", _attribute("n" * 257, _TEXT),
              "Message (user) attribute name must be shorter than 256 bytes."),
    *(parameter("reserved names", "SendMessage", _attribute(name, _TEXT), _WRONG_TYPE)
      for name in ("AWS.x", "aws.x", "Amazon.x", "AMAZON.x")),
    parameter("a dot in front", "SendMessage", _attribute(".a", _TEXT),
              "Message (user) attribute name must not begin with character '.'."),
    parameter("a dot behind", "SendMessage", _attribute("a.", _TEXT),
              "Message (user) attribute name must not end with character '.'."),
    parameter("two dots", "SendMessage", _attribute("a..b", _TEXT),
              "Message (user) attribute name must not have successive '.' characters."),
    *(parameter("characters of a name", "SendMessage", _attribute(f"a{character}", _TEXT),
                f"Invalid non-alphanumeric character '#x{ord(character):X}' was found in the message attribute "
                "name. Can only include alphanumeric characters, hyphens, underscores, or dots.")
      for character in '!"§(?'),
    parameter("an empty value", "SendMessage", _attribute("N", {}),
              "The message (user) attribute 'N' must contain a non-empty message attribute value."),
    parameter("no type", "SendMessage", _attribute("N", {"StringValue": "x"}),
              "The message (user) attribute 'N' must contain a non-empty message attribute type."),
    *(parameter("three types", "SendMessage", _attribute("N", {"DataType": kind, "StringValue": "x"}),
                "The type of message (user) attribute 'N' is invalid. You must use only the following supported "
                "type prefixes: Binary, Number, String.")
      for kind in ("string", "Stringy", "Float", "String.")),
    parameter("256 characters", "SendMessage",
              _attribute("N", {"DataType": "String." + "x" * 250, "StringValue": "x"}),
              "Message (user) attribute type must be shorter than 256 bytes."),
    *(parameter("no value", "SendMessage", _attribute("N", {"DataType": "String", **value}),
                "Message (user) attribute 'N' must contain a non-empty value of type 'String'.")
      for value in ({}, {"StringValue": ""})),
    parameter("two values", "SendMessage", _attribute("N", {**_TEXT, "BinaryValue": "eA=="}),
              "Message (user) attribute 'N' must have a single value."),
    parameter("the wrong field", "SendMessage", _attribute("N", {"DataType": "String", "BinaryValue": "eA=="}),
              "Message (user) attribute 'N' with type 'String' must use field 'String'."),
    parameter("the wrong field", "SendMessage", _attribute("N", {"DataType": "Binary", "StringValue": "x"}),
              "Message (user) attribute 'N' with type 'Binary' must use field 'Binary'."),
    *(parameter("a number is one", "SendMessage", _attribute("N", {"DataType": "Number", "StringValue": text}),
                "Can't cast the value of message (user) attribute 'N' to a number.")
      for text in ("x", "1e127", "-1e129", "1" * 39)),
    parameter("control characters", "SendMessage", _attribute("N", {**_TEXT, "StringValue": "\x01"}), None),
    parameter("one system attribute", "SendMessage", sending(MessageSystemAttributes={"X": _TEXT}),
              "Message system attribute name 'X' is invalid."),
    parameter("a value of the system attribute", "SendMessage",
              sending(MessageSystemAttributes={"AWSTraceHeader": {"DataType": "String", "StringValue": ""}}),
              "Message system attribute 'AWSTraceHeader' must contain a non-empty value of type 'String'."),
]  # fmt: skip
