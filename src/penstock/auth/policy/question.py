"""The question that policies are asked, and their answer."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from penstock.auth.principal import Principal

if TYPE_CHECKING:  # statements read questions
    from penstock.auth.policy.compiler import Policy

_NOTHING: Mapping[str, str] = MappingProxyType({})


class Question(NamedTuple):
    """Asks whether a principal may perform an action on a resource, with everything that a condition can look at."""

    principal: Principal
    action: str  # "sqs:SendMessage"
    resource: str  # an ARN
    resource_account: str
    resource_policy: Policy | None = None
    resource_tags: Mapping[str, str] = _NOTHING
    request_tags: Mapping[str, str] = _NOTHING  # tags that the request sets
    tag_keys: tuple[str, ...] = ()  # tags that the request sets or removes
    source_ip: str = ""
    secure: bool = False
    now_s: float = 0.0
    source_arn: str = ""  # on whose behalf a service calls
    source_account: str = ""
    # Further keys of one service, in lower case: {"sts:externalid": "..."}. See PolicyService.condition_keys.
    keys: Mapping[str, str | tuple[str, ...]] = _NOTHING
    # What holds for the action whatever the policies say.
    grantable: bool = True  # a policy of the resource may grant it to other accounts and to anonymous callers
    root_always: bool = False  # no policy of the resource denies it to the root of its account


class Verdict(NamedTuple):
    allowed: bool
    reason: str  # for people; if refused, the end of the sentence that `refusal` makes
    policy: str | None = None  # which one decided: "identity", "resource:NAME", ...; None for none of them
    statement: str | None = None  # its Sid, or "#2" for the second
