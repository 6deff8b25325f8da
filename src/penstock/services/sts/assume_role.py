"""AssumeRole: credentials of a role, for whoever the role trusts.

Rule 1: the role's trust policy must allow it. Within an account that is enough if it names the caller; if it names
the account, or the caller is of another one, the caller's own policies must allow it too.
Rule 2: a role that is not there and one that does not trust the caller give the same answer.
Rule 3: a session can only be narrowed: by a policy, and by tags that those before it in a chain have fixed.
Rule 4: whatever tags a session gets, those it inherits too, the role must let it be tagged: sts:TagSession.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from penstock.auth.identity.model import MAX_SESSION_S, Role, unique_id
from penstock.auth.identity.open_sessions import open_session
from penstock.auth.identity.principals import KnownRole, SessionPrincipal, assumed_role_arn
from penstock.auth.identity.sessions import Issued, Session, extended
from penstock.auth.policy import Policy, PolicyInvalid, Question, Verdict, compile_policy, decide
from penstock.auth.principal import Principal
from penstock.services.sts.desk import Desk, caller, handed_out
from penstock.services.sts.faults import (
    access_denied,
    invalid_parameter_value,
    malformed_policy,
    not_authorized,
    packed_too_large,
    validation_error,
)
from penstock.services.sts.operations import AssumedRoleUser, AssumeRoleRequest, AssumeRoleResult
from penstock.services.sts.validation import check_assume_role
from penstock.wire.call import Call

_DURATION_S = 3_600
_CHAINED_MAX_S = 3_600
_CHAIN_MAX = 16  # of different roles: the token names them all
_PACKED_BYTES_MAX = 4_096  # what a token may carry of policy and tags; a request's headers have room for it
_ROLE_ARN = re.compile(r"arn:aws:iam::([0-9]{12}):role/(?:[\x21-\x7e]+/)?([\w+=,.@-]{1,64})", re.ASCII)


async def assume_role(desk: Desk, request: AssumeRoleRequest, call: Call) -> AssumeRoleResult:
    check_assume_role(request, MAX_SESSION_S)
    assert request.RoleArn is not None and request.RoleSessionName is not None
    call.resource_arn = request.RoleArn
    named = _ROLE_ARN.fullmatch(request.RoleArn)
    if named is None:
        raise validation_error(f"{request.RoleArn} is invalid")
    if desk.credentials is None:
        session, issued = _open_session(desk, request, named[1], named[2])
    else:
        directory = desk.credentials.directory
        principal = caller(call)
        tagging = _tagging(principal, request)
        role = _trusted(directory.role(request.RoleArn), principal, request, tagging, call, desk.now_s)
        session = _session(role, principal, request, tagging, desk.now_s)
        issued = directory.sessions.issue(session)
    return AssumeRoleResult(
        Credentials=handed_out(issued, session.expires_s),
        AssumedRoleUser=AssumedRoleUser(
            AssumedRoleId=f"{session.owner_id}:{session.name}", Arn=assumed_role_arn(session)
        ),
        PackedPolicySize=_packed_percent(session),
    )


class _Tagging(NamedTuple):
    """The tags of the session to be: what it inherits in a chain, and what the request adds."""

    inherited: dict[str, str]
    added: dict[str, str]
    transitive: tuple[str, ...]  # keys of those that go on to the next session

    @property
    def all(self) -> dict[str, str]:
        return self.inherited | self.added


def _tagging(principal: Principal, request: AssumeRoleRequest) -> _Tagging:
    keys = principal.transitive if isinstance(principal, SessionPrincipal) else ()
    inherited = {key: principal.tags[key] for key in keys}
    added = _tags(request)
    handed_on = {key.lower() for key in request.TransitiveTagKeys or ()}
    return _Tagging(inherited, added, (*inherited, *(key for key in added if key.lower() in handed_on)))


def _trusted(
    role: KnownRole | None,
    principal: Principal,
    request: AssumeRoleRequest,
    tagging: _Tagging,
    call: Call,
    now_s: int,
) -> KnownRole:
    """The role, if this caller may assume it. Raises Fault."""
    if principal.kind == "root":
        raise access_denied("Roles may not be assumed by root accounts.")
    actions = ["sts:AssumeRole", "sts:TagSession"] if tagging.all else ["sts:AssumeRole"]
    for action in actions:
        if role is not None:
            question = _question(role, principal, action, request, tagging, call, now_s)
            call.verdict = _verdict(question, role.trust)
        if role is None or not call.verdict.allowed:
            raise not_authorized(principal.arn, action, request.RoleArn or "")
    assert role is not None
    return role


def _verdict(question: Question, trust: Policy) -> Verdict:
    """IAM: unlike a queue, a role is not opened by the caller's own policies alone, not even within the account."""
    action = question.action.lower()
    if not any(statement.level(question) for statement in trust.applicable(action, question.resource).allows):
        return Verdict(False, f"because no role trust policy allows the {action} action")
    return decide(question)


def _question(
    role: KnownRole,
    principal: Principal,
    action: str,
    request: AssumeRoleRequest,
    tagging: _Tagging,
    call: Call,
    now_s: int,
) -> Question:
    keys: dict[str, str | tuple[str, ...]] = {"sts:rolesessionname": request.RoleSessionName or ""}
    if tagging.transitive:
        keys["sts:transitivetagkeys"] = tagging.transitive
    if request.ExternalId is not None:
        keys["sts:externalid"] = request.ExternalId
    return Question(
        principal=principal,
        action=action,
        resource=role.arn,
        resource_account=role.account,
        resource_policy=role.trust,
        resource_tags=role.tags,
        request_tags=tagging.all,
        tag_keys=tuple(tagging.all),
        source_ip=call.source_ip,
        secure=call.secure,
        now_s=now_s,
        keys=keys,
    )


def _session(
    role: KnownRole, principal: Principal, request: AssumeRoleRequest, tagging: _Tagging, now_s: int
) -> Session:
    before = principal if isinstance(principal, SessionPrincipal) else None
    _check_not_overridden(tagging)
    duration_s = request.DurationSeconds or _DURATION_S
    if principal.role_arn is not None and duration_s > _CHAINED_MAX_S:
        raise validation_error(
            "The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining."
        )
    if duration_s > role.max_session_s:
        raise validation_error(
            "The requested DurationSeconds exceeds the MaxSessionDuration set for this role."
        )
    session = Session(
        kind="role",
        account=role.account,
        owner=role.name,
        owner_id=role.id,
        parent_key=principal.access_key if before is None else before.parent_key,
        parent_id=principal.id if before is None else before.parent_id,
        issued_s=now_s,
        expires_s=now_s + duration_s,
        name=request.RoleSessionName or "",
        policy=_checked_policy(request.Policy),
        tags=tagging.all,
        transitive=tagging.transitive,
        chain=() if before is None else before.chain,
    )
    if len(extended(session.chain, session.hop)) > _CHAIN_MAX:
        raise validation_error(f"A chain of sessions goes through {_CHAIN_MAX} of them at most.")
    return session


def _open_session(desk: Desk, request: AssumeRoleRequest, account: str, role: str) -> tuple[Session, Issued]:
    """On an open server every role is there, and trusts everybody."""
    session = Session(
        kind="role",
        account=account,
        owner=role,
        owner_id=unique_id(Role(trust=""), request.RoleArn or ""),
        parent_key="",
        parent_id="",
        issued_s=desk.now_s,
        expires_s=desk.now_s + (request.DurationSeconds or _DURATION_S),
        name=request.RoleSessionName or "",
        policy=_checked_policy(request.Policy),
        tags=_tags(request),
    )
    return session, open_session(account)


def _checked_policy(policy: str | None) -> str | None:
    if policy is not None:
        try:
            compile_policy(policy, kind="session")
        except PolicyInvalid as error:
            raise malformed_policy(str(error)) from None
    return policy


def _tags(request: AssumeRoleRequest) -> dict[str, str]:
    return {tag.Key or "": tag.Value or "" for tag in request.Tags or ()}


def _check_not_overridden(tagging: _Tagging) -> None:
    fixed = {key.lower() for key in tagging.inherited}
    if any(key.lower() in fixed for key in tagging.added):
        raise invalid_parameter_value(
            "One of the specified transitive tag keys can't be set because it conflicts with a transitive tag key "
            f"from the calling session. Transitive Tag Keys:[{', '.join(tagging.inherited)}]"
        )


def _packed_percent(session: Session) -> int | None:
    """How much of the room for them policy and tags take; None if there are none. Raises Fault if it is too much."""
    size = len((session.policy or "").encode())
    size += sum(len(f"{key}{value}".encode()) for key, value in session.tags.items())
    percent = -(-100 * size // _PACKED_BYTES_MAX)
    if percent > 100:
        raise packed_too_large(
            f"The session policy and tags take {percent}% of the room there is for them: make them smaller."
        )
    return percent or None
