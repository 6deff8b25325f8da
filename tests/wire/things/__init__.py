"""A service that speaks every protocol: it stores named things in a dictionary."""

from __future__ import annotations

from penstock.wire.service import ProtocolName, Service

from .actions import ACTIONS
from .faults import to_fault


def things_service(*protocols: ProtocolName) -> Service:
    return Service(
        signing_name="things",
        target_prefix="ThingService",
        shape_namespace="com.example.things",
        xml_namespace="http://things.example/doc/2020-02-02/",
        protocols=protocols,
        actions=ACTIONS,
        to_fault=to_fault,
        unsupported=frozenset({"PaintThing"}),
        context={},
    )
