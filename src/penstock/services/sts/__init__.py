"""The face of AWS STS: who am I, and temporary credentials for me or for a role that I may assume."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from penstock.auth.identity import Credentials
from penstock.clock import Clock
from penstock.services.sts import operations as op
from penstock.services.sts.assume_role import assume_role
from penstock.services.sts.desk import Desk
from penstock.services.sts.faults import to_fault
from penstock.services.sts.own_sessions import get_caller_identity, get_session_token
from penstock.wire.service import Action, Service

__all__ = ["ACTIONS", "sts_service"]

_Handler = Callable[[Any, Any, Any], Coroutine[Any, None, Any]]
_Action = tuple[type[msgspec.Struct], type[msgspec.Struct], _Handler]

ACTIONS: dict[str, _Action] = {
    "AssumeRole": (op.AssumeRoleRequest, op.AssumeRoleResult, assume_role),
    "GetCallerIdentity": (op.GetCallerIdentityRequest, op.GetCallerIdentityResult, get_caller_identity),
    "GetSessionToken": (op.GetSessionTokenRequest, op.GetSessionTokenResult, get_session_token),
}


def sts_service(credentials: Credentials | None, clock: Clock) -> Service:
    """Without credentials the server is open: everybody is whom they say, and may be any role."""
    desk = Desk(credentials, clock)
    return Service(
        signing_name="sts",
        target_prefix="AWSSecurityTokenServiceV20110615",
        shape_namespace="com.amazonaws.sts",
        xml_namespace="https://sts.amazonaws.com/doc/2011-06-15/",
        actions={
            name: Action(name, request, response, handler)
            for name, (request, response, handler) in ACTIONS.items()
        },
        to_fault=to_fault,
        context=desk,
    )
