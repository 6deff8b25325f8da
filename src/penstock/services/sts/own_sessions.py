"""GetCallerIdentity and GetSessionToken: what every caller may do, whatever policies say."""

from __future__ import annotations

from penstock.auth.identity.model import root_arn
from penstock.auth.identity.open_sessions import open_session
from penstock.auth.identity.principals import SessionPrincipal
from penstock.auth.identity.sessions import Session
from penstock.services.sts.desk import Desk, caller, handed_out
from penstock.services.sts.faults import access_denied
from penstock.services.sts.operations import (
    GetCallerIdentityRequest,
    GetCallerIdentityResult,
    GetSessionTokenRequest,
    GetSessionTokenResult,
)
from penstock.services.sts.validation import check_get_session_token
from penstock.wire.call import Call

_DURATION_S = 43_200
_DURATION_MAX_S = 129_600
_ROOT_DURATION_MAX_S = 3_600


async def get_caller_identity(
    desk: Desk, request: GetCallerIdentityRequest, call: Call
) -> GetCallerIdentityResult:
    if desk.credentials is None:
        account = call.space.account
        return GetCallerIdentityResult(UserId=account, Account=account, Arn=root_arn(account))
    principal = caller(call)
    return GetCallerIdentityResult(UserId=principal.id, Account=principal.account, Arn=principal.arn)


async def get_session_token(desk: Desk, request: GetSessionTokenRequest, call: Call) -> GetSessionTokenResult:
    check_get_session_token(request, _DURATION_MAX_S)
    duration_s = request.DurationSeconds or _DURATION_S
    if desk.credentials is None:
        issued = open_session(call.space.account)
        return GetSessionTokenResult(Credentials=handed_out(issued, desk.now_s + duration_s))
    principal = caller(call)
    if isinstance(principal, SessionPrincipal):
        raise access_denied("Cannot call GetSessionToken with session credentials")
    if principal.kind == "root":
        duration_s = min(duration_s, _ROOT_DURATION_MAX_S)  # AWS: an hour, however long it was asked for
    session = Session(
        kind="root" if principal.kind == "root" else "user",
        account=principal.account,
        owner=principal.name or "",
        owner_id=principal.id,
        parent_key=principal.access_key,
        parent_id=principal.id,
        issued_s=desk.now_s,
        expires_s=desk.now_s + duration_s,
    )
    issued = desk.credentials.directory.sessions.issue(session)
    return GetSessionTokenResult(Credentials=handed_out(issued, session.expires_s))
