"""Amazon SQS, on top of the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock.services.sqs.actions import ACTIONS
from penstock.services.sqs.faults import to_fault
from penstock.services.sqs.resources import Sqs
from penstock.wire.service import Service

if TYPE_CHECKING:
    from penstock.broker.broker import Broker

__all__ = ["ACTIONS", "SERVICE", "Sqs", "sqs_service"]

SERVICE = Service(
    signing_name="sqs",
    target_prefix="AmazonSQS",
    shape_namespace="com.amazonaws.sqs",
    xml_namespace="http://queue.amazonaws.com/doc/2012-11-05/",
    actions=ACTIONS,
    to_fault=to_fault,
)


def sqs_service(broker: Broker, *, host: str = "") -> Service:
    """``host`` is that of queue URLs if it names the region: ``sqs.{region}.localhost``."""
    service: Service = msgspec.structs.replace(SERVICE, context=Sqs(broker, ACTIONS, host))
    return service
