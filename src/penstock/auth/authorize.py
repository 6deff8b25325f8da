"""Authorization: whether the policies allow a caller to perform an action on a resource.

    authorize(call, action, resource)  # raises AccessDenied, which the service words

``action`` is the row of the service's table, ``resource`` what the row found in the request. The dispatcher
calls it before every handler; a handler calls it again for further permissions, such as sending to the
destination of a move task.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol

import msgspec

from penstock.auth.policy import (
    Policy,
    PolicyInvalid,
    Question,
    Verdict,
    compile_policy,
    decide,
    is_fixed,
    refusal,
)
from penstock.auth.policy.vocabulary import builtin_policies
from penstock.auth.principal import Principal, service_principal
from penstock.cache import BoundedCache
from penstock.errors import PenstockError

_log = logging.getLogger("penstock.auth")
_NOTHING: Mapping[str, Any] = MappingProxyType({})

_DENY_ALL = compile_policy(
    '{"Statement":{"Effect":"Deny","Principal":"*","Action":"*","Resource":"*"}}', kind="resource"
)


def policy_that_allows(action: str) -> str:
    """The name of the built-in policy that allows an action, and little else."""
    names = (
        name
        for name, text in builtin_policies().items()
        if compile_policy(text, kind="identity", name=name).applicable(action.lower(), "*").allows
    )
    return next(names)


class CallContext(Protocol):
    """The part of a call that policies can look at, and where the decision is recorded for the audit log."""

    principal: Any  # a Principal; None on an open server
    base_url: str
    source_ip: str
    secure: bool
    source_arn: str  # the resource for which a service calls
    source_account: str
    resource_arn: str
    verdict: Any


class Permission(Protocol):
    """What is known about an action whatever the policies say."""

    @property
    def permission(self) -> str: ...  # "sqs:SendMessage"

    @property
    def grantable(self) -> bool: ...

    @property
    def root_always(self) -> bool: ...


class ProtectedResource(Protocol):
    """What the action acts on. It need not exist: a caller without permission does not learn whether it does."""

    @property
    def arn(self) -> str: ...

    @property
    def account(self) -> str: ...

    @property
    def policy(self) -> Policy | str | None: ...

    @property
    def tags(self) -> Mapping[str, str]: ...

    @property
    def request_tags(self) -> Mapping[str, str]: ...  # tags that the request sets

    @property
    def tag_keys(self) -> tuple[str, ...]: ...  # tags that the request sets or removes

    @property
    def keys(self) -> Mapping[str, str | tuple[str, ...]]: ...  # condition keys of the service itself


class Resource(msgspec.Struct):
    """A :class:`ProtectedResource` of which everything is known beforehand. Services add what their handlers need."""

    arn: str
    account: str
    policy: Policy | str | None = None
    tags: Mapping[str, str] = _NOTHING
    request_tags: Mapping[str, str] = _NOTHING
    tag_keys: tuple[str, ...] = ()
    keys: Mapping[str, str | tuple[str, ...]] = _NOTHING


class AccessDenied(PenstockError):
    """The policies do not allow it. Each service has its own words for that."""

    def __init__(
        self, question: Question, verdict: Verdict, resource: ProtectedResource, address: str
    ) -> None:
        super().__init__(question.action)
        self.question = question
        self.verdict = verdict
        self.resource = resource
        self.address = address  # the URL under which the caller reached the server

    def __str__(self) -> str:
        return refusal(self.question, self.verdict, address=self.address)

    @property
    def remedy(self) -> str | None:
        """The command that allows it; None if attaching a policy to the caller would not."""
        principal, question = self.question.principal, self.question
        is_own = principal.account == question.resource_account
        is_denied = self.verdict.policy is not None or principal.session_policy is not None
        if not is_own or is_denied or not (principal.name or principal.role_arn):
            return None
        role = (principal.role_arn or "").rpartition("/")[2]
        holder = f"--role {role}" if role else f"--user {principal.name}"
        return f"penstock policy attach {policy_that_allows(question.action)} {holder}"


class _Allowed(NamedTuple):
    """A verdict that depends only on its key. It holds the principal so that no other one gets the same id."""

    principal: Principal
    verdict: Verdict


# The id of the principal, the permission, the ARN, and the policy of the resource.
_Key = tuple[int, str, str, Policy | str | None]


def _size(key: _Key) -> int:
    """Returns how many bytes an entry takes: callers choose the policies of their queues, and replace them as often
    as they like."""
    policy = key[3]
    return _ENTRY_BYTES + (len(policy) if isinstance(policy, str) else 0)


_ENTRY_BYTES, _ALLOWED_BYTES = 512, 8 * 1024 * 1024
_allowed: BoundedCache[_Key, _Allowed] = BoundedCache(_ALLOWED_BYTES, _size)
_unreadable: BoundedCache[str, Policy] = BoundedCache(64)  # each is logged once


def authorize(call: CallContext, action: Permission, resource: ProtectedResource) -> None:
    principal = call.principal
    if principal is None:
        return
    arn, policy = resource.arn, resource.policy
    key = (id(principal), action.permission, arn, policy)
    known = _allowed.get(key)
    if known is not None:
        call.resource_arn, call.verdict = arn, known.verdict
        return
    question = Question(
        principal=principal,
        action=action.permission,
        resource=arn,
        resource_account=resource.account,
        resource_policy=_compiled(policy) if isinstance(policy, str) else policy,
        resource_tags=resource.tags,
        request_tags=resource.request_tags,
        tag_keys=resource.tag_keys,
        source_ip=call.source_ip,
        secure=call.secure,
        now_s=time.time(),
        source_arn=call.source_arn,
        source_account=call.source_account,
        keys=resource.keys,
        grantable=action.grantable,
        root_always=action.root_always,
    )
    verdict = decide(question)
    call.resource_arn, call.verdict = arn, verdict
    if not verdict.allowed:
        raise AccessDenied(question, verdict, resource, f"{call.base_url}/")
    # The policy of a session is chosen by its caller and cached in one place only, which is bounded by size.
    if is_fixed(question) and principal.session_policy is None:
        _allowed.put(key, _Allowed(principal, verdict))


class _SendMessage(NamedTuple):
    permission: str = "sqs:SendMessage"
    grantable: bool = True
    root_always: bool = False


_SEND_MESSAGE = _SendMessage()


def authorize_send(call: CallContext, queue: ProtectedResource) -> None:
    """The caller lets messages get into a queue in another way than SendMessage: by a task, or by an alarm. Raises
    AccessDenied. The audit log is about the resource of the action, and about the queue only if it refuses."""
    asked, verdict = call.resource_arn, call.verdict
    authorize(call, _SEND_MESSAGE, queue)
    call.resource_arn, call.verdict = asked, verdict


def may_send(
    service: str, queue: ProtectedResource, source_arn: str, source_account: str, *, needs_allow: bool = True
) -> bool:
    """Whether the policy of a queue lets a service, such as sns.amazonaws.com, send to it on behalf of a resource.

    ``needs_allow``: the policy has to allow it. Otherwise it is enough, for a resource of the queue's own account,
    that the policy does not deny it: then who created the resource was asked for the permission to send.
    """
    verdict = _service_verdict(service, _SEND_MESSAGE.permission, queue, source_arn, source_account)
    is_denied = verdict.policy is not None
    return verdict.allowed or not (needs_allow or is_denied or source_account != queue.account)


def _service_verdict(
    service: str, permission: str, resource: ProtectedResource, source_arn: str, source_account: str
) -> Verdict:
    policy = resource.policy
    question = Question(
        principal=service_principal(service),
        action=permission,
        resource=resource.arn,
        resource_account=resource.account,
        resource_policy=_compiled(policy) if isinstance(policy, str) else policy,
        resource_tags=resource.tags,
        secure=True,
        now_s=time.time(),
        source_arn=source_arn,
        source_account=source_account,
    )
    return decide(question)


class _Sender(NamedTuple):
    """A service that does something with a resource, and the policy of that."""

    service: str
    permission: str
    source_arn: str
    resource: str
    policy: str


_SENDER_S = 1.0  # conditions of a policy may be about the time
_services_may: BoundedCache[_Sender, tuple[bool, float]] = BoundedCache(
    _ALLOWED_BYTES, lambda sender: _ENTRY_BYTES + len(sender.policy)
)


def service_may(
    service: str,
    permission: str,
    arn: str,
    account: str,
    policy: str | None,
    source_arn: str,
    source_account: str,
) -> bool:
    """Whether the policy of a resource allows an action to a service that does it on behalf of another resource: a
    topic sends to a queue, an alarm publishes to a topic. The answer is good for a second, as long as the policy is
    the same, because a topic may send to many queues."""
    if policy is None:
        return False
    key, now_s = _Sender(service, permission, source_arn, arn, policy), time.time()
    known = _services_may.get(key)
    if known is not None and 0 < known[1] - now_s <= _SENDER_S:  # the clock may have been set back
        return known[0]
    resource = Resource(arn, account, policy)
    allowed = _service_verdict(service, permission, resource, source_arn, source_account).allowed
    _services_may.put(key, (allowed, now_s + _SENDER_S))
    return allowed


def _compiled(text: str) -> Policy:
    try:
        return compile_policy(text, kind="resource")
    except PolicyInvalid as error:
        # It was stored by an earlier version, and may forbid anything. The account's root can still replace it.
        if _unreadable.get(text) is None:
            _log.error("a stored resource policy cannot be read and denies all access: %s", error)
        return _unreadable.put(text, _DENY_ALL)
