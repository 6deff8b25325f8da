"""Message attributes: validated when they are sent, and written for a receiver.

A user attribute counts into the size of its message: name, type and value. A system attribute does not; the
only one that can be sent is AWSTraceHeader, and so it has a limit of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

from penstock.queues.messages import Attribute
from penstock.services.sqs.faults import sqs_fault
from penstock.services.sqs.limits import (
    ATTRIBUTE_NAME_LENGTH_MAX,
    ATTRIBUTE_TYPE_LENGTH_MAX,
    ATTRIBUTES_MAX,
    NUMBER_DIGITS_MAX,
    NUMBER_LENGTH_MAX,
)
from penstock.services.sqs.structs import MessageAttributeValue
from penstock.services.sqs.validation import is_legal, utf8_length
from penstock.wire.faults import invalid_parameter
from penstock.wire.service import TRACE_BYTES_MAX

Values = Mapping[str, MessageAttributeValue]
TRACE_HEADER = "AWSTraceHeader"

_NUMBER_MIN, _NUMBER_MAX = Decimal("-1e128"), Decimal("1e126")

_FOREIGN_IN_NAME = re.compile(r"[^\w.\-]")
_RESERVED = re.compile(r"(?:aws|amazon)\.", re.IGNORECASE)
_TYPE = re.compile(r"(String|Number|Binary)(?:\..+)?", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,6})?", re.ASCII)


def user_attributes(values: Values) -> dict[str, Attribute]:
    if len(values) > ATTRIBUTES_MAX:
        raise invalid_parameter(
            f"Number of message attributes [{len(values)}] exceeds the allowed maximum [{ATTRIBUTES_MAX}]."
        )
    for name in values:
        _check_name(name)
    return {name: _attribute(name, value, "(user)") for name, value in values.items()}


def system_attributes(values: Values) -> dict[str, Attribute]:
    for name in values:
        if name != TRACE_HEADER:
            raise invalid_parameter(f"Message system attribute name '{name}' is invalid.")
    attributes = {name: _attribute(name, value, "system") for name, value in values.items()}
    for name, attribute in attributes.items():
        value = attribute.value
        if (utf8_length(value) if isinstance(value, str) else len(value)) > TRACE_BYTES_MAX:
            raise invalid_parameter(
                f"Message system attribute '{name}' must not be longer than {TRACE_BYTES_MAX} bytes."
            )
    return attributes


def wire_size(values: Values | None) -> int:
    """Returns how many bytes user attributes have, valid or not: a batch is measured before its entries are
    validated."""
    if not values:
        return 0
    return sum(
        utf8_length(name)
        + utf8_length(value.DataType or "")
        + utf8_length(value.StringValue or "")
        + len(value.BinaryValue or b"")
        for name, value in values.items()
    )


def _check_name(name: str) -> None:
    if not name:
        raise invalid_parameter("The request must contain non-empty message (user) attribute names.")
    if len(name) > ATTRIBUTE_NAME_LENGTH_MAX:
        raise invalid_parameter(
            f"Message (user) attribute name must be shorter than {ATTRIBUTE_NAME_LENGTH_MAX} bytes."
        )
    if _RESERVED.match(name):
        raise invalid_parameter(
            "You can't use message attribute names beginning with 'AWS.' or 'Amazon'. "
            "These strings are reserved for internal use."
        )
    if name.startswith("."):
        raise invalid_parameter("Message (user) attribute name must not begin with character '.'.")
    if name.endswith("."):
        raise invalid_parameter("Message (user) attribute name must not end with character '.'.")
    if ".." in name:
        raise invalid_parameter("Message (user) attribute name must not have successive '.' characters.")
    foreign = _FOREIGN_IN_NAME.search(name)
    if foreign:
        raise invalid_parameter(
            f"Invalid non-alphanumeric character '#x{ord(foreign[0]):X}' was found in the message attribute "
            "name. Can only include alphanumeric characters, hyphens, underscores, or dots."
        )


def _attribute(name: str, value: MessageAttributeValue, kind: str) -> Attribute:
    if value.StringListValues or value.BinaryListValues:
        raise sqs_fault(
            "UnsupportedOperation",
            "Message attribute list values in SendMessage operation are not supported.",
        )
    if not value.DataType and value.StringValue is None and value.BinaryValue is None:
        raise invalid_parameter(
            f"The message {kind} attribute '{name}' must contain a non-empty message attribute value."
        )
    base = _base_type(name, value.DataType, kind)
    label = f"Message {kind} attribute '{name}'"
    if value.StringValue is not None and value.BinaryValue is not None:
        raise invalid_parameter(f"{label} must have a single value.")
    if base == "Binary":
        return Attribute(_known(value.DataType), _binary(value, label))
    text = _text(value, label, base)
    if base == "Number" and not _is_number(text):
        raise invalid_parameter(f"Can't cast the value of message {kind} attribute '{name}' to a number.")
    return Attribute(_known(value.DataType), text)


def _known(data_type: str | None) -> str:
    assert data_type is not None, "see _base_type"
    return data_type


def _base_type(name: str, data_type: str | None, kind: str) -> str:
    if not data_type:
        raise invalid_parameter(
            f"The message {kind} attribute '{name}' must contain a non-empty message attribute type."
        )
    if len(data_type) > ATTRIBUTE_TYPE_LENGTH_MAX:
        raise invalid_parameter(
            f"Message {kind} attribute type must be shorter than {ATTRIBUTE_TYPE_LENGTH_MAX} bytes."
        )
    found = _TYPE.fullmatch(data_type)
    if found is None or not is_legal(data_type):
        raise invalid_parameter(
            f"The type of message {kind} attribute '{name}' is invalid. You must use only the following "
            "supported type prefixes: Binary, Number, String."
        )
    return found[1]


def _binary(value: MessageAttributeValue, label: str) -> bytes:
    if value.StringValue is not None:
        raise invalid_parameter(f"{label} with type 'Binary' must use field 'Binary'.")
    if not value.BinaryValue:
        raise invalid_parameter(f"{label} must contain a non-empty value of type 'Binary'.")
    return value.BinaryValue


def _text(value: MessageAttributeValue, label: str, base: str) -> str:
    if value.BinaryValue is not None:
        raise invalid_parameter(f"{label} with type '{base}' must use field 'String'.")
    if not value.StringValue:
        raise invalid_parameter(f"{label} must contain a non-empty value of type 'String'.")
    if not is_legal(value.StringValue):
        # SQS: InvalidParameterValue here, though the same character in a body is InvalidMessageContents.
        raise invalid_parameter(f"{label} contains a character that is not allowed.")
    return value.StringValue


def _is_number(text: str) -> bool:
    if len(text) > NUMBER_LENGTH_MAX or not _NUMBER.fullmatch(text):
        return False
    try:
        number = Decimal(text)
    except InvalidOperation:
        return False
    digits = len("".join(map(str, number.as_tuple().digits)).strip("0"))
    return digits <= NUMBER_DIGITS_MAX and _NUMBER_MIN <= number <= _NUMBER_MAX


def to_wire(attributes: Mapping[str, Attribute]) -> dict[str, MessageAttributeValue]:
    return {
        name: MessageAttributeValue(StringValue=attribute.value, DataType=attribute.type)
        if isinstance(attribute.value, str)
        else MessageAttributeValue(BinaryValue=attribute.value, DataType=attribute.type)
        for name, attribute in attributes.items()
    }
