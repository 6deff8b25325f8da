"""GetCallerIdentity, GetSessionToken and AssumeRole.

A session can only be narrowed: by a policy, and by tags that the sessions before it in a chain have fixed.
"""

from __future__ import annotations

import re

import msgspec

from penstock.auth.authorize import Resource, authorize
from penstock.auth.identity import Credentials
from penstock.auth.identity.model import Role, root_arn, unique_id
from penstock.auth.identity.principals import KnownRole, SessionPrincipal, assumed_role_arn
from penstock.auth.identity.sessions import Issued, Session, extended, open_session
from penstock.auth.policy import Policy, PolicyInvalid, compile_policy
from penstock.auth.principal import Principal
from penstock.clock import Clock, iso_time
from penstock.names import PARTITION, in_partition, partition_of, without_partition
from penstock.services.sts import structs as st
from penstock.services.sts.faults import (
    access_denied,
    invalid_parameter_value,
    malformed_policy,
    packed_too_large,
    validation_error,
)
from penstock.services.sts.validation import check_assume_role, check_get_session_token
from penstock.wire.service import Call

_ROLE_DURATION_S = 3_600
_CHAINED_DURATION_MAX_S = 3_600
_OWN_DURATION_S = 43_200
_ROOT_DURATION_MAX_S = 3_600
_CHAIN_MAX = 16  # of different roles: the token names them all
_PACKED_BYTES_MAX = 4_096  # of policy and tags: the token carries them, and headers are limited
_ROLE_ARN = re.compile(r"iam::([0-9]{12}):role/(?:[\x21-\x7e]+/)?([\w+=,.@-]{1,64})", re.ASCII)
_NO_TRUST = Policy("trust", "", ())


class Sts(msgspec.Struct, frozen=True):
    """What the handlers of STS need."""

    credentials: Credentials | None  # None: the server is open, every caller is root and may assume any role
    clock: Clock

    @property
    def now_s(self) -> int:
        """The time by the wall clock: clients see it as a date, and it must mean the same after a restart."""
        return self.clock.wall_ms() // 1000


class _TagSession(msgspec.Struct, frozen=True):
    """A permission without an action of its own: whatever tags a session gets, the role must allow them."""

    permission: str = "sts:TagSession"
    grantable: bool = True
    root_always: bool = False


_TAG_SESSION = _TagSession()


def _partition(sts: Sts, call: Call) -> str:
    """The partition of identities is that of the server's own region, and on an open server that of the request."""
    return partition_of(call.space.region) if sts.credentials is None else sts.credentials.directory.partition


async def get_caller_identity(
    sts: Sts, request: st.GetCallerIdentityRequest, call: Call
) -> st.GetCallerIdentityResult:
    if sts.credentials is None:
        account = call.space.account
        return st.GetCallerIdentityResult(
            UserId=account, Account=account, Arn=in_partition(_partition(sts, call), root_arn(account))
        )
    principal: Principal = call.principal
    return st.GetCallerIdentityResult(UserId=principal.id, Account=principal.account, Arn=principal.arn)


async def get_session_token(
    sts: Sts, request: st.GetSessionTokenRequest, call: Call
) -> st.GetSessionTokenResult:
    check_get_session_token(request)
    duration_s = request.DurationSeconds or _OWN_DURATION_S
    if sts.credentials is None:
        issued = open_session(call.space.account)
        return st.GetSessionTokenResult(Credentials=_written(issued, sts.now_s + duration_s))
    principal: Principal = call.principal
    if isinstance(principal, SessionPrincipal):
        raise access_denied("Cannot call GetSessionToken with session credentials")
    if principal.kind == "root":
        duration_s = min(duration_s, _ROOT_DURATION_MAX_S)  # AWS: an hour, whatever was asked for
    session = Session(
        kind="root" if principal.kind == "root" else "user",
        account=principal.account,
        owner=principal.name or "",
        owner_id=principal.id,
        parent_key=principal.access_key,
        parent_id=principal.id,
        issued_s=sts.now_s,
        expires_s=sts.now_s + duration_s,
    )
    issued = sts.credentials.directory.sessions.issue(session)
    return st.GetSessionTokenResult(Credentials=_written(issued, session.expires_s))


class RoleResource(Resource, kw_only=True):
    """The role to assume, and what the conditions of its trust policy can compare.

    AWS: a role that does not exist is denied like one that does not trust the caller.
    """

    name: str
    role: KnownRole | None
    inherited: dict[str, str]  # tags from the session before in a chain
    added: dict[str, str]
    transitive: tuple[str, ...]  # keys of the tags that the next session inherits


def role_to_assume(sts: Sts, request: st.AssumeRoleRequest, call: Call) -> RoleResource:
    check_assume_role(request)
    assert request.RoleArn is not None and request.RoleSessionName is not None
    call.resource_arn = request.RoleArn
    named = _ROLE_ARN.fullmatch(without_partition(request.RoleArn))
    if named is None:
        raise validation_error(f"{request.RoleArn} is invalid")
    principal: Principal | None = call.principal
    if principal is not None and principal.kind == "root":
        raise access_denied("Roles may not be assumed by root accounts.")
    inherited = {}
    if isinstance(principal, SessionPrincipal):
        inherited = {key: principal.tags[key] for key in principal.transitive}
    added = {tag.Key or "": tag.Value or "" for tag in request.Tags or ()}
    handed_on = {key.lower() for key in request.TransitiveTagKeys or ()}
    transitive = (*inherited, *(key for key in added if key.lower() in handed_on))
    keys: dict[str, str | tuple[str, ...]] = {"sts:rolesessionname": request.RoleSessionName}
    if transitive:
        keys["sts:transitivetagkeys"] = transitive
    if request.ExternalId is not None:
        keys["sts:externalid"] = request.ExternalId
    role = None if sts.credentials is None else sts.credentials.directory.role(request.RoleArn)
    # Policies see the role in the same partition however the caller names it, so that none can be evaded.
    arn = in_partition(_partition(sts, call), request.RoleArn)
    trust, tags = (_NO_TRUST, {}) if role is None else (role.trust, role.tags)
    all_tags = inherited | added
    return RoleResource(
        arn, named[1], trust, tags, all_tags, tuple(all_tags), keys,
        name=named[2], role=role, inherited=inherited, added=added, transitive=transitive,
    )  # fmt: skip


async def assume_role(sts: Sts, request: st.AssumeRoleRequest, call: Call) -> st.AssumeRoleResult:
    resource: RoleResource = call.resource
    if sts.credentials is None:
        session, issued = _open_session(sts, request, resource)
    else:
        if resource.request_tags:
            authorize(call, _TAG_SESSION, resource)
        session = _session(resource, call.principal, request, sts.now_s)
        issued = sts.credentials.directory.sessions.issue(session)
    return st.AssumeRoleResult(
        Credentials=_written(issued, session.expires_s),
        AssumedRoleUser=st.AssumedRoleUser(
            AssumedRoleId=f"{session.owner_id}:{session.name}",
            Arn=in_partition(_partition(sts, call), assumed_role_arn(session)),
        ),
        PackedPolicySize=_packed_percent(session),
    )


def _session(
    resource: RoleResource, principal: Principal, request: st.AssumeRoleRequest, now_s: int
) -> Session:
    role = resource.role
    assert role is not None, "authorize allows nothing on a role that does not exist"
    before = principal if isinstance(principal, SessionPrincipal) else None
    _check_not_overridden(resource)
    duration_s = request.DurationSeconds or _ROLE_DURATION_S
    if principal.role_arn is not None and duration_s > _CHAINED_DURATION_MAX_S:
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
        tags=dict(resource.request_tags),
        transitive=resource.transitive,
        chain=() if before is None else before.chain,
    )
    if len(extended(session.chain, session.hop)) > _CHAIN_MAX:
        raise validation_error(f"A chain of sessions has at most {_CHAIN_MAX} roles.")
    return session


def _open_session(sts: Sts, request: st.AssumeRoleRequest, resource: RoleResource) -> tuple[Session, Issued]:
    """On an open server every role exists and trusts every caller."""
    session = Session(
        kind="role",
        account=resource.account,
        owner=resource.name,
        owner_id=unique_id(Role(trust=""), in_partition(PARTITION, resource.arn)),
        parent_key="",
        parent_id="",
        issued_s=sts.now_s,
        expires_s=sts.now_s + (request.DurationSeconds or _ROLE_DURATION_S),
        name=request.RoleSessionName or "",
        policy=_checked_policy(request.Policy),
        tags=resource.added,
    )
    return session, open_session(resource.account)


def _checked_policy(policy: str | None) -> str | None:
    if policy is not None:
        try:
            compile_policy(policy, kind="session")
        except PolicyInvalid as error:
            raise malformed_policy(str(error)) from None
    return policy


def _check_not_overridden(resource: RoleResource) -> None:
    fixed = {key.lower() for key in resource.inherited}
    if any(key.lower() in fixed for key in resource.added):
        raise invalid_parameter_value(
            "One of the specified transitive tag keys can't be set because it conflicts with a transitive tag key "
            f"from the calling session. Transitive Tag Keys:[{', '.join(resource.inherited)}]"
        )


def _packed_percent(session: Session) -> int | None:
    """The size of policy and tags, in percent of what is allowed; None if there are none."""
    size = len((session.policy or "").encode())
    size += sum(len(f"{key}{value}".encode()) for key, value in session.tags.items())
    percent = -(-100 * size // _PACKED_BYTES_MAX)
    if percent > 100:
        raise packed_too_large(f"The session policy and tags have {percent}% of the allowed size.")
    return percent or None


def _written(issued: Issued, expires_s: int) -> st.IssuedCredentials:
    return st.IssuedCredentials(
        AccessKeyId=issued.access_key,
        SecretAccessKey=issued.secret,
        SessionToken=issued.token,
        Expiration=iso_time(expires_s),
    )
