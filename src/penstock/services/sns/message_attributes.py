"""Message attributes of what is published: validated, in the words of SNS."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation

from penstock.queues.messages import Attribute
from penstock.services.sns.faults import invalid, invalid_message_attribute
from penstock.services.sns.limits import ATTRIBUTE_NAME_BYTES_MAX, NUMBER_DIGITS_MAX, NUMBER_LENGTH_MAX
from penstock.services.sns.structs import MessageAttributeValue
from penstock.services.sns.validation import utf8_length

Values = Mapping[str, MessageAttributeValue]

_FOREIGN_IN_NAME = re.compile(r"[^\w.\-]")
# The label behind a type cannot be empty.
_TYPE = re.compile(r"(String|Number|Binary)(?:\.[^\x00-\x1f\x7f]+)?")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,6})?")
_SMALLEST, _LARGEST = -128, 126  # powers of ten
_TYPE_LENGTH_MAX = 256
_BEYOND_BMP = re.compile("[\U00010000-\U0010ffff]")


def user_attributes(values: Values | None) -> dict[str, Attribute] | None:
    """Raises Fault."""
    if not values:
        return None
    return {name: _attribute(name, value) for name, value in values.items()}


def wire_size(values: Values | None) -> int:
    """Returns how many bytes attributes have, valid or not."""
    return sum(
        utf8_length(name)
        + utf8_length(value.DataType or "")
        + utf8_length(value.StringValue or "")
        + len(value.BinaryValue or b"")
        for name, value in (values or {}).items()
    )


def _attribute(name: str, value: MessageAttributeValue) -> Attribute:
    _check_name(name)
    data_type = value.DataType or ""
    found = _TYPE.fullmatch(data_type) if len(data_type) <= _TYPE_LENGTH_MAX else None
    if found is None:
        raise invalid_message_attribute(
            f"The message attribute '{name}' has an invalid message attribute type, "
            "the set of supported type prefixes is Binary, Number, and String."
        )
    base = found[1]
    if not value.StringValue and not value.BinaryValue:
        raise invalid_message_attribute(
            f"The message attribute '{name}' must contain non-empty message attribute value "
            f"for message attribute type '{data_type}'."
        )
    field = "Binary" if base == "Binary" else "String"
    given, other = (
        (value.BinaryValue, value.StringValue) if base == "Binary" else (value.StringValue, value.BinaryValue)
    )
    if not given or other:
        raise invalid_message_attribute(
            f"The message attribute '{name}' with type '{data_type}' must use field '{field}'."
        )
    if isinstance(given, str):
        _check_text(name, base, given)
    return Attribute(data_type, given)


def _check_name(name: str) -> None:
    if utf8_length(name) > ATTRIBUTE_NAME_BYTES_MAX:
        raise invalid_message_attribute(
            f"Length of message attribute name must be less than {ATTRIBUTE_NAME_BYTES_MAX} bytes."
        )
    if not name:
        raise invalid_message_attribute("The request must contain non-empty message attribute names.")
    foreign = _FOREIGN_IN_NAME.search(name)
    if foreign:
        raise invalid_message_attribute(
            f"Invalid non-alphanumeric character '#x{ord(foreign[0]):X}' was found in the message attribute name. "
            "Can only include alphanumeric characters, hyphens, underscores, or dots."
        )
    if name.startswith("."):
        raise invalid_message_attribute(
            "Invalid message attribute name starting with character '.' was found."
        )
    if name.endswith("."):
        raise invalid_message_attribute("Invalid message attribute name ending with character '.' was found.")
    if ".." in name:
        raise invalid_message_attribute("Message attribute name can not have successive '.' character.")


def _check_text(name: str, base: str, text: str) -> None:
    if base == "Number":
        _check_number(name, text)
    elif _BEYOND_BMP.search(text):
        raise invalid(f"Invalid attribute value was passed in for message attribute {name}")


def _check_number(name: str, text: str) -> None:
    try:
        number = Decimal(text) if len(text) <= NUMBER_LENGTH_MAX and _NUMBER.fullmatch(text) else None
    except InvalidOperation:
        number = None
    if number is None:
        raise invalid_message_attribute(f"Could not cast message attribute '{name}' value to number.")
    if number and not _SMALLEST <= number.adjusted() <= _LARGEST:
        raise invalid_message_attribute(
            f"Message attribute '{name}' number value [{text}] scale must be "
            f"10^{_SMALLEST} and 10^{_LARGEST}."
        )
    digits = "".join(map(str, number.as_tuple().digits)).strip("0")
    if len(digits) > NUMBER_DIGITS_MAX:
        raise invalid_message_attribute(
            f"Message attribute '{name}' number value [{text}] must have less than "
            f"{NUMBER_DIGITS_MAX} precision digits."
        )
