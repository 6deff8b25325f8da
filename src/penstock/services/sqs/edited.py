"""What SQS accepts of a message, for one that is edited after it was sent."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.limits import SECOND
from penstock.queues.messages import Attribute
from penstock.services.sqs.limits import DELAY_S_MAX
from penstock.services.sqs.message_attributes import to_wire, user_attributes
from penstock.services.sqs.validation import check_id, is_legal
from penstock.wire.faults import invalid_parameter


def check_edited(
    body: str | None, attributes: Mapping[str, Attribute] | None, group: str | None, delay_ms: int | None
) -> None:
    """Raises Fault if SQS would not have accepted this. None and an empty group are always right."""
    if body == "":
        raise invalid_parameter("A message has a body of at least one character.")
    if body is not None and not is_legal(body):
        raise invalid_parameter("The body contains a character that is not allowed in messages.")
    if attributes:
        user_attributes(to_wire(attributes))
    if group:
        check_id(group, "group")
    if delay_ms is not None and not 0 <= delay_ms <= DELAY_S_MAX * SECOND:
        raise invalid_parameter(f"A message is delayed for 0 to {DELAY_S_MAX} seconds.")
