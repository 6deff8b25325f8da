"""Requests and responses of STS. Names are those of the wire.

Every member of a request may be absent: handlers check what is required. Members that are not supported are
here too, so that a request with one of them is refused.
"""

from __future__ import annotations

import msgspec

from penstock.wire.shapes import AtRoot, Many

Text = str | None
Integer = int | None


class StsStruct(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Absent members are None and are not written."""


class Tag(StsStruct):
    Key: Text = None
    Value: Text = None


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
    DurationSeconds: Integer = None
    SerialNumber: Text = None
    TokenCode: Text = None
    MinimumSessionTokenSize: Integer = None


class GetSessionTokenResult(StsStruct):
    Credentials: IssuedCredentials


class AssumeRoleRequest(StsStruct, AtRoot):
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


class AssumeRoleResult(StsStruct):
    Credentials: IssuedCredentials
    AssumedRoleUser: AssumedRoleUser
    PackedPolicySize: Integer = None
