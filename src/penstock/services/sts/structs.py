"""Requests and responses of STS. Names are those of the wire, and constraints are those of its model.

Every member of a request may be absent: what is required is checked with the other constraints. Members that are not
supported are here too, so that a request with one of them is refused.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from penstock.auth.identity.model import MAX_SESSION_S
from penstock.wire.constraints import Length, Pattern, Required, Within
from penstock.wire.shapes import AtRoot, Many

Text = str | None
Integer = int | None

_DURATION_S_MIN, _OWN_DURATION_S_MAX = 900, 129_600
_TAGS_MAX = 50
_TAG = r"[\p{L}\p{Z}\p{N}_.:/=+\-@]"
# Python's classes come only near to Java's; the length refuses an empty text.
_TAG_IN_PYTHON = r"[\w\s.:/=+\-@]*"

TagKey = Annotated[str, Length(1, 128), Pattern(f"{_TAG}+", _TAG_IN_PYTHON)]
TagValue = Annotated[Text, Required(), Length(0, 256), Pattern(f"{_TAG}*", _TAG_IN_PYTHON)]


class StsStruct(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Absent members are None and are not written."""


class Tag(StsStruct):
    Key: Annotated[TagKey | None, Required()] = None
    Value: TagValue = None


class PolicyDescriptorType(StsStruct):
    arn: Text = None


class ProvidedContext(StsStruct):
    ProviderArn: Text = None
    ContextAssertion: Text = None


class IssuedCredentials(StsStruct):
    AccessKeyId: str
    SecretAccessKey: str
    SessionToken: str
    Expiration: str


class AssumedRoleUser(StsStruct):
    AssumedRoleId: str
    Arn: str


class GetCallerIdentityRequest(StsStruct, AtRoot):
    pass


class GetCallerIdentityResult(StsStruct):
    UserId: str
    Account: str
    Arn: str


class GetSessionTokenRequest(StsStruct, AtRoot):
    DurationSeconds: Annotated[Integer, Within(_DURATION_S_MIN, _OWN_DURATION_S_MAX)] = None
    SerialNumber: Text = None
    TokenCode: Text = None
    MinimumSessionTokenSize: Integer = None


class GetSessionTokenResult(StsStruct):
    Credentials: IssuedCredentials


class AssumeRoleRequest(StsStruct, AtRoot):
    RoleArn: Annotated[Text, Required(), Length(20, 2048)] = None
    RoleSessionName: Annotated[Text, Required(), Pattern(r"[\w+=,.@-]*"), Length(2, 64)] = None
    PolicyArns: Many[PolicyDescriptorType] | None = None
    Policy: Annotated[Text, Pattern(r"[\u0009\u000A\u000D\u0020-\u00FF]+"), Length(1, 2048)] = None
    DurationSeconds: Annotated[Integer, Within(_DURATION_S_MIN, MAX_SESSION_S)] = None
    Tags: Annotated[Many[Tag] | None, Length(0, _TAGS_MAX)] = None
    TransitiveTagKeys: Annotated[Many[TagKey] | None, Length(0, _TAGS_MAX)] = None
    ExternalId: Annotated[Text, Pattern(r"[\w+=,.@:\/-]*"), Length(2, 1224)] = None
    SerialNumber: Text = None
    TokenCode: Text = None
    SourceIdentity: Text = None
    ProvidedContexts: Many[ProvidedContext] | None = None
    MinimumSessionTokenSize: Integer = None


class AssumeRoleResult(StsStruct):
    Credentials: IssuedCredentials
    AssumedRoleUser: AssumedRoleUser
    PackedPolicySize: Integer = None
