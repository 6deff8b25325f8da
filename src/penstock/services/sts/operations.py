"""The actions of STS that we have, as typed pairs: what a request holds and what its answer holds.

Names are those of the wire, to the letter. Every member of a request may be absent: what is required is for the
handler to say. Members that we cannot honour are here too, so that a request with one is refused, not half done.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from penstock.wire.shapes import MEMBERS_MAX, AtRoot

Text = str | None
Integer = int | None
AnyMember = TypeVar("AnyMember")
Many = Annotated[list[AnyMember], Meta(max_length=MEMBERS_MAX)]


class Wire(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Absent members are None and are not written."""


class Tag(Wire):
    Key: Text = None
    Value: Text = None


class PolicyDescriptorType(Wire):
    arn: Text = None


class ProvidedContext(Wire):
    ProviderArn: Text = None
    ContextAssertion: Text = None


class Credentials(Wire):
    AccessKeyId: str
    SecretAccessKey: str
    SessionToken: str
    Expiration: str


class AssumedRoleUser(Wire):
    AssumedRoleId: str
    Arn: str


class GetCallerIdentityRequest(Wire, AtRoot):
    pass


class GetCallerIdentityResult(Wire):
    UserId: str
    Account: str
    Arn: str


class GetSessionTokenRequest(Wire, AtRoot):
    DurationSeconds: Integer = None
    SerialNumber: Text = None
    TokenCode: Text = None
    MinimumSessionTokenSize: Integer = None


class GetSessionTokenResult(Wire):
    Credentials: Credentials


class AssumeRoleRequest(Wire, AtRoot):
    RoleArn: Text = None
    RoleSessionName: Text = None
    PolicyArns: Many[PolicyDescriptorType] | None = None
    Policy: Text = None
    DurationSeconds: Integer = None
    Tags: Many[Tag] | None = None
    TransitiveTagKeys: Many[str] | None = None
    ExternalId: Text = None
    SerialNumber: Text = None
    TokenCode: Text = None
    SourceIdentity: Text = None
    ProvidedContexts: Many[ProvidedContext] | None = None
    MinimumSessionTokenSize: Integer = None


class AssumeRoleResult(Wire):
    Credentials: Credentials
    AssumedRoleUser: AssumedRoleUser
    PackedPolicySize: Integer = None
